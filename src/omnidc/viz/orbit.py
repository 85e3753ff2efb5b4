"""A cloud seen from several sides: the quickest way to find flying pixels, bent walls and a wrong focal length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError, InputError
from omnidc.io.files import atomic_path

Picture = npt.NDArray[np.uint8]
GROUND = 255


def render(
    points: npt.NDArray[np.floating],  # [N, 3], camera frame (x right, y down, z forward)
    colors: npt.NDArray[np.uint8],  # [N, 3]
    size: tuple[int, int],  # height, width
    focal: float,  # pixels
    dot: int = 2,  # side of a point, pixels
) -> Picture:
    """Draw points with a z-buffer, nearest on top."""
    height, width = size
    picture = np.full((height, width, 3), GROUND, dtype=np.uint8)
    z = points[:, 2]
    front = z > 1e-9
    u = focal * points[front, 0] / z[front] + (width - 1) / 2
    v = focal * points[front, 1] / z[front] + (height - 1) / 2
    inside = (u > -dot) & (u < width + dot) & (v > -dot) & (v < height + dot)
    order = np.argsort(-z[front][inside], kind="stable")
    columns = np.rint(u[inside][order]).astype(np.int64)
    rows = np.rint(v[inside][order]).astype(np.int64)
    ordered = colors[front][inside][order]
    # Far to near over all offsets at once: the index of a point is its rank, and the largest rank wins a pixel.
    rank = np.full((height, width), -1, dtype=np.int64)
    for dy in range(dot):
        for dx in range(dot):
            y, x = rows + dy - dot // 2, columns + dx - dot // 2
            good = (y >= 0) & (y < height) & (x >= 0) & (x < width)
            np.maximum.at(rank, (y[good], x[good]), np.nonzero(good)[0])
    hit = rank >= 0
    picture[hit] = ordered[rank[hit]]
    return picture


def turntable(
    points: npt.NDArray[np.floating],  # [N, 3], OpenCV axes: y down
    colors: npt.NDArray[np.uint8],  # [N, 3]
    steps: int = 8,
    swing: float | None = 30.0,  # degrees to either side and half as many up and down; None = all around
    size: tuple[int, int] = (360, 480),
    focal: float | None = None,  # pixels of the rendered picture; None = 60 degrees across
    max_points: int = 400_000,
) -> list[Picture]:
    """Return pictures of the cloud from different sides: on a circle about one view's eye, or all around."""
    if not len(points):
        raise InputError("There are no points to draw.")
    every = max(1, len(points) // max_points)
    points, colors = np.asarray(points[::every], dtype=np.float64), colors[::every]
    middle = np.median(points, axis=0)
    local = points - middle
    reach = float(np.quantile(np.linalg.norm(local, axis=1), 0.9)) or 1.0
    focal = size[1] / (2 * np.tan(np.pi / 6)) if focal is None else focal
    turns = np.arange(steps) * 2 * np.pi / steps
    if swing is None:
        # Seen from a little above, as one looks at a model on a table.
        angles, tilts, distance = turns, np.full(steps, np.radians(20.0)), 2.2 * reach
    else:
        # A circle, since a swing to and fro passes each place twice.
        angles, tilts = np.radians(swing) * np.cos(turns), np.radians(swing / 2) * np.sin(turns)
        distance = float(middle[2]) if middle[2] > 0 else 2.2 * reach
    pictures = []
    for angle, tilt in zip(angles, tilts):
        c, s = np.cos(angle), np.sin(angle)
        about_y = np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
        ct, st = np.cos(tilt), np.sin(tilt)
        about_x = np.array([[1.0, 0.0, 0.0], [0.0, ct, st], [0.0, -st, ct]])
        turned = local @ about_y.T @ about_x.T + [0.0, 0.0, distance]
        pictures.append(render(turned, colors, size, focal))
    return pictures


def write_turntable(path: Path, pictures: list[Picture]) -> None:
    """Write a contact sheet (.png, .jpg) or an animation (.gif, .webp)."""
    from PIL import Image

    images = [Image.fromarray(picture) for picture in pictures]
    suffix = path.suffix.lower()
    if suffix not in (".png", ".jpg", ".jpeg", ".gif", ".webp"):
        raise FileError(f"{path}: a turntable is written as .png or .jpg (sheet), or .gif or .webp (animation).")
    with atomic_path(path) as temporary:
        if suffix in (".gif", ".webp"):
            images[0].save(temporary, save_all=True, append_images=images[1:], duration=120, loop=0)
            return
        across = int(np.ceil((len(images) * 4 / 3) ** 0.5))
        down = int(np.ceil(len(images) / across))
        width, height = images[0].size
        sheet = Image.new("RGB", (across * width, down * height), (GROUND,) * 3)
        for k, image in enumerate(images):
            sheet.paste(image, (k % across * width, k // across * height))
        sheet.save(temporary)
