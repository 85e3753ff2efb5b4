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
    pictures = views(count)
    local = np.stack([cloud @ view.camera.view[:3, :3].T + view.camera.view[:3, 3] for view in pictures])
    pixels = local @ pictures[0].camera.intrinsics.T
    places = pixels[..., :2] / pixels[..., 2:] + 0.5  # [V, P, 2], COLMAP's pixels
    inside = ((places > 0) & (places < [width, height])).all(axis=2)
    inside &= (inside.sum(axis=0) >= 2) & with_points  # a point has a track of two images at least
    for number, view in enumerate(pictures, start=1):
        Image.fromarray(view.image).save(images / f"{view.name}.png")
        u, v = places[number - 1].T
        seen = np.flatnonzero(inside[number - 1])
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
        if track
    ]
    model.joinpath("points3D.txt").write_text("\n".join(rows) + "\n")
    return model, images
