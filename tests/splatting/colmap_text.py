"""The test world as a COLMAP text model with photographs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from scipy.spatial.transform import Rotation
from worlds import SIZE, points, views


def write_project(folder: Path, count: int = 9, with_points: bool = True) -> tuple[Path, Path]:
    """Write sparse/ and images/ of `count` views; return both folders."""
    model, images = folder / "sparse", folder / "images"
    model.mkdir(parents=True)
    images.mkdir()
    cloud, colors = points(noise=0.01)
    height, width = SIZE
    model.joinpath("cameras.txt").write_text(f"1 PINHOLE {width} {height} 40 40 20 15\n")
    tracks: dict[int, list[tuple[int, int]]] = {k: [] for k in range(len(cloud))}
    lines = []
    for number, view in enumerate(views(count), start=1):
        Image.fromarray(view.image).save(images / f"{view.name}.png")
        local = cloud @ view.camera.view[:3, :3].T + view.camera.view[:3, 3]
        pixels = local @ view.camera.intrinsics.T
        u, v = pixels[:, 0] / pixels[:, 2] + 0.5, pixels[:, 1] / pixels[:, 2] + 0.5
        seen = np.flatnonzero((u > 0) & (u < width) & (v > 0) & (v < height)) if with_points else []
        x, y, z, w = Rotation.from_matrix(view.camera.view[:3, :3]).as_quat()
        t = view.camera.view[:3, 3]
        lines.append(f"{number} {w} {x} {y} {z} {t[0]} {t[1]} {t[2]} 1 {view.name}.png")
        lines.append(" ".join(f"{u[k]} {v[k]} {k + 1}" for k in seen))
        for place, k in enumerate(seen):
            tracks[k].append((number, place))
    model.joinpath("images.txt").write_text("\n".join(lines) + "\n")
    rows = [
        f"{k + 1} {cloud[k, 0]} {cloud[k, 1]} {cloud[k, 2]} {colors[k, 0]} {colors[k, 1]} {colors[k, 2]} 0.5 "
        + " ".join(f"{image} {place}" for image, place in track)
        for k, track in tracks.items()
        if len(track) >= 2
    ]
    model.joinpath("points3D.txt").write_text("\n".join(rows) + "\n")
    return model, images
