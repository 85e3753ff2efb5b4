"""A COLMAP model to a folder for Gaussian splatting, with dense depth for every photograph.

python examples/colmap_to_splat.py [MODEL IMAGES OUTPUT]      without arguments: three views of the bundled room

Needs pycolmap: pip install "omnidc[colmap]".
"""

import importlib.util
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import omnidc
from omnidc.interop.sinks import export_sink
from omnidc.io.depth import read_depth
from omnidc.pipeline import FolderSink, complete_source
from omnidc.sensors import open_model

DATA = Path(omnidc.__file__).parent / "examples"
FOCAL, CX, CY = 247.888, 160.0, 120.0  # of the bundled room; COLMAP counts pixel centers at +0.5
NAMES = ("a.jpg", "b.jpg", "c.jpg")  # points that fewer than three photographs show are dropped


def simulate(folder: Path) -> tuple[Path, Path]:
    """Write a COLMAP text model: the bundled photograph as three cameras at one place, and its points."""
    model, images = folder / "sparse", folder / "images"
    model.mkdir()
    images.mkdir()
    for name in NAMES:
        (images / name).write_bytes((DATA / "room.jpg").read_bytes())
    depth = read_depth(DATA / "room_sparse.npz").depth
    v, u = np.nonzero(depth)
    z = depth[v, u]
    x, y = u + 0.5, v + 0.5
    points = np.stack([(x - CX) / FOCAL * z, (y - CY) / FOCAL * z, z], axis=1)
    (model / "cameras.txt").write_text(f"1 PINHOLE 320 240 {FOCAL} {FOCAL} {CX} {CY}\n")
    seen = " ".join(f"{a} {b} {k}" for k, (a, b) in enumerate(zip(x, y, strict=True), start=1))
    views = (f"{number} 1 0 0 0 0 0 0 1 {name}\n{seen}\n" for number, name in enumerate(NAMES, start=1))
    (model / "images.txt").write_text("".join(views))
    rows = (f"{k + 1} {p[0]} {p[1]} {p[2]} 128 128 128 0.5 1 {k} 2 {k} 3 {k}" for k, p in enumerate(points))
    (model / "points3D.txt").write_text("\n".join(rows) + "\n")
    return model, images


def run(model: Path, images: Path, output: Path, network: str) -> None:
    opened = open_model(model, images)
    completer = omnidc.load(network)
    results = FolderSink(output / "depth", model=completer.name, keep_images=True)
    sink = export_sink(results, "inria", output / "inria", opened)
    complete_source(opened.source(), sink, completer)
    print(f"{output / 'inria'}: {len(list((output / 'inria').rglob('*.png')))} depth maps")


def main(*paths: str, network: str = "compact") -> None:
    if importlib.util.find_spec("pycolmap") is None:
        print('Skipped: this example needs pycolmap, pip install "omnidc[colmap]".')
        return
    with TemporaryDirectory() as folder:
        model, images, output = map(Path, paths) if paths else (*simulate(Path(folder)), Path("splat_folder"))
        run(model, images, output, network)


if __name__ == "__main__":
    main(*sys.argv[1:])
