"""DrivingStereo, the 2000 frames in different weathers (500 each), 1762x800 or half of it.

    ROOT/rainy/left-image-full-size/2018-08-17-09-45-58_2018-08-17-10-11-18-951.png    (.jpg at half size)
    ROOT/rainy/depth-map-full-size/2018-08-17-09-45-58_2018-08-17-10-11-18-951.png     16 bit, depth * 256
    ROOT/full-image-calib/2018-08-17-09-45-58.txt      P_rect_101: 12 numbers (optional; also in ROOT/calib)

Archives also unpack to ROOT/rainy/rainy/... and ROOT/rainy/left-image-full-size/left-image-full-size; both work.
weather: sunny, cloudy, foggy, rainy or all; size: full or half. Truth is accumulated, filtered laser; no sparse input.
Checked: names and scale against the dataset's page and several public readers; not against the data (none at hand).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from omnidc.datasets.decode import read_depth, read_image, read_lines, valid
from omnidc.datasets.source import Frames, choose, first_folder, need_entries
from omnidc.errors import FileError
from omnidc.frame import Frame
from omnidc.io.untrusted import untrusted

WEATHERS = ("sunny", "cloudy", "foggy", "rainy")


def open_frames(root: Path, *, weather: str = "all", size: str = "full") -> Frames:
    """Open the frames. weather: sunny, cloudy, foggy, rainy or all; size: full or half."""
    choose("weather", weather, ("all", *WEATHERS))
    choose("size", size, ("full", "half"))
    entries: list[tuple[str, Path, Path]] = []
    for kind in WEATHERS if weather == "all" else (weather,):
        if weather == "all" and not (root / kind).is_dir():
            continue
        images = _folder(root / kind, f"left-image-{size}-size", kind)
        depths = _folder(root / kind, f"depth-map-{size}-size", kind)
        for image in sorted(path for path in images.iterdir() if path.suffix in (".png", ".jpg")):
            entries.append((kind, image, depths / f"{image.stem}.png"))
    layout = f"rainy/left-image-{size}-size/2018-08-17-09-45-58_2018-08-17-10-11-18-951.png"
    return Frames(need_entries(entries, root, layout), partial(read_frame, root, size))


def _folder(root: Path, name: str, weather: str) -> Path:
    places = (f"{name}/{name}", f"{weather}/{name}", f"{name}/{weather}/{name}", name)
    return first_folder(root, places, f"DrivingStereo's {weather} frames")


def read_camera(path: Path) -> npt.NDArray[np.float64]:
    """Read intrinsics of the left camera (101) after rectification."""
    for line in read_lines(path, "DrivingStereo's calibration"):
        key, _, values = line.partition(":")
        if key.strip() == "P_rect_101":
            with untrusted(path, "a calibration file"):
                return np.array([float(value) for value in values.split()]).reshape(3, 4)[:, :3].copy()
    raise FileError(f"{path} has no line P_rect_101: it is not DrivingStereo's calibration.")


def read_frame(root: Path, size: str, entry: tuple[str, Path, Path]) -> Frame:
    weather, image_path, depth_path = entry
    session = f"{image_path.stem.split('_')[0]}.txt"
    places = (root / place / f"{size}-image-calib" / session for place in ("", "calib", "test-calib"))
    calibration = next((path for path in places if path.is_file()), None)
    return Frame(
        read_image(image_path), depth=valid(read_depth(depth_path, 256.0)),
        intrinsics=None if calibration is None else read_camera(calibration),
        name=f"{weather}/{image_path.stem}", source=str(image_path),
    )  # fmt: skip
