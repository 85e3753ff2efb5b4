"""TUM RGB-D recordings."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from omnidc.errors import InputError
from omnidc.geometry.camera import intrinsics_matrix
from omnidc.geometry.transforms import pose_from_quaternion
from omnidc.io.calibration import Calibration
from omnidc.io.untrusted import read_text, untrusted
from omnidc.sensors.rgbd.record import Layout, RgbdOptions, RgbdRecord, Rig
from omnidc.sensors.stamps import closest_gap, nearest_stamps

# Published calibrations of the three TUM cameras (fx, fy, cx, cy); 0 = the driver's default.
TUM_CAMERAS = {
    1: (517.3, 516.5, 318.6, 255.3),
    2: (520.9, 521.0, 325.1, 249.7),
    3: (535.4, 539.2, 320.1, 247.6),
    0: (525.0, 525.0, 319.5, 239.5),
}


def _stamped(path: Path) -> list[tuple[float, list[str]]]:
    rows = [line.split() for line in read_text(path).splitlines() if line.strip() and not line.startswith("#")]
    with untrusted(path, "a list of time stamps and values", "correct the line"):
        for row in rows:
            if len(row) < 2:
                raise ValueError(f"the line {row[0][:40]!r} has a stamp only")
        return [(float(row[0]), row[1:]) for row in rows]


def read(folder: Path, options: RgbdOptions) -> Layout:
    """Read TUM RGB-D: rgb.txt, depth.txt, groundtruth.txt; depth ÷ 5000, registered to color by the driver."""
    # A download is often cut down: files that the lists name but that are not there are left out.
    colors = [(t, words[0]) for t, words in _stamped(folder / "rgb.txt") if (folder / words[0]).is_file()]
    depths = [(t, words[0]) for t, words in _stamped(folder / "depth.txt") if (folder / words[0]).is_file()]
    if not colors or not depths:
        raise InputError(f"None of the files that rgb.txt and depth.txt name is in {folder}.")
    pairs = nearest_stamps([t for t, _ in colors], [t for t, _ in depths], options.max_time_diff)
    if not pairs:
        gap = closest_gap([t for t, _ in colors], [t for t, _ in depths])
        raise InputError(
            f"No depth map of {folder} is within {options.max_time_diff:g} s of a color image (closest: {gap:.3g} s); "
            "raise --max-time-diff or check the clocks."
        )
    poses: list[tuple[float, list[str]]] = []
    if (folder / "groundtruth.txt").is_file():
        poses = _stamped(folder / "groundtruth.txt")
    match = re.search(r"(?:freiburg|fr)_?([123])", folder.name)
    camera = int(match[1]) if match else 0
    rig = Rig(color=Calibration(intrinsics_matrix(TUM_CAMERAS[camera], "TUM")), depth_scale=5000.0)
    times = np.array([t for t, _ in poses])
    records = []
    for i, j in pairs:
        stamp, name = colors[i]
        pose = None
        if len(times):
            k = int(np.abs(times - stamp).argmin())
            if abs(times[k] - stamp) <= options.max_time_diff:
                with untrusted(folder / "groundtruth.txt", "a list of poses (stamp x y z qx qy qz qw)", "correct it"):
                    x, y, z, *quaternion = (float(word) for word in poses[k][1][:7])
                    pose = pose_from_quaternion((x, y, z), quaternion)
        records.append(RgbdRecord(Path(name).stem, folder / name, folder / depths[j][1], pose=pose, rig=rig))
    which = f"freiburg{camera}" if camera else "the driver's default (the folder's name has no freiburg number)"
    return records, f"TUM RGB-D: depth ÷ 5000, intrinsics of {which}, images as recorded"
