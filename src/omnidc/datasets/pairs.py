"""Any folder of pairs: pictures and depth maps with equal names.

    ROOT/image/a.jpg          also images/, rgb/, color/, or image_dir="..."
    ROOT/depth/a.png          also depths/, gt/, groundtruth/, or depth_dir="..."; .png .npy .npz .exr .pfm .tiff
    ROOT/sparse/a.png         optional, or sparse_dir="..."
    ROOT/K.txt                optional: 3x3, for all pictures (also camera-intrinsics.txt, intrinsics.txt)

scale: stored steps per meter of integer files (1000 for millimeters, 256 for KITTI). Without it the scale is guessed
and `unit_reason` says how, as everywhere in omnidc.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from omnidc.datasets.decode import read_image, read_numbers
from omnidc.datasets.source import Frames, first_folder, need_entries, positive, safe_name
from omnidc.errors import FileError
from omnidc.frame import Frame, Unit
from omnidc.io.depth import CODECS, read_depth
from omnidc.io.untrusted import untrusted

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".ppm", ".bmp", ".webp", ".tif", ".tiff")
Entry = tuple[Path, Path, "Path | None"]


def open_frames(
    root: Path,
    *,
    image_dir: str | None = None,
    depth_dir: str | None = None,
    sparse_dir: str | None = None,
    scale: float | None = None,
) -> Frames:
    """Open the frames. image_dir, depth_dir, sparse_dir: folder names below ROOT; scale: stored steps per meter."""
    scale = None if scale is None else positive("scale", scale)
    images = first_folder(root, [image_dir] if image_dir else ["image", "images", "rgb", "color"], "the pictures")
    depths = first_folder(root, [depth_dir] if depth_dir else ["depth", "depths", "gt", "groundtruth"], "depth maps")
    sparse = root / (sparse_dir or "sparse")
    if sparse_dir is not None and not sparse.is_dir():
        raise FileError(f"The folder {sparse} is missing: it should hold the sparse depth maps.")
    depth_of, sparse_of = _by_stem(depths), _by_stem(sparse)
    entries: list[Entry] = []
    for image in sorted(path for path in images.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES):
        stem = safe_name(image, images)
        if stem in depth_of:
            entries.append((image, depth_of[stem], sparse_of.get(stem)))
    need_entries(entries, root, f"{images.name}/a.png with {depths.name}/a.png")
    cameras = (root / name for name in ("K.txt", "camera-intrinsics.txt", "intrinsics.txt"))
    K = next((_read_camera(path) for path in cameras if path.is_file()), None)
    return Frames(entries, partial(read_frame, images, scale, K))


def _by_stem(folder: Path) -> dict[str, Path]:
    """Return the depth files by their path below `folder` without suffix."""
    if not folder.is_dir():
        return {}
    return {safe_name(path, folder): path for path in sorted(folder.rglob("*")) if path.suffix.lower() in CODECS}


def _read_camera(path: Path) -> npt.NDArray[np.float64]:
    with untrusted(path, "a 3x3 camera matrix"):
        return read_numbers(path, "a camera matrix").reshape(3, 3)


def read_frame(images: Path, scale: float | None, K: npt.NDArray[np.float64] | None, entry: Entry) -> Frame:
    image_path, depth_path, sparse_path = entry
    file = read_depth(depth_path, scale)
    return Frame(
        read_image(image_path),
        sparse=None if sparse_path is None else read_depth(sparse_path, scale).depth,
        depth=file.depth,
        intrinsics=None if K is None else K.copy(),
        unit=Unit.METERS if file.unit == Unit.METERS else Unit.SCENE,
        name=safe_name(image_path, images),
        source=str(image_path),
        # The codec's advice names a flag of another command.
        unit_reason=file.note.partition("; give ")[0],
    )
