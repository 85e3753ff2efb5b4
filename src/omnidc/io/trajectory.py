"""Camera trajectories: TUM text, nerfstudio's transforms.json, a matrix per line, Open3D's .log, or a folder.

Poses are camera to world with OpenCV axes; transforms.json has OpenGL's and is converted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from omnidc.errors import FileError, InputError
from omnidc.geometry.transforms import Array, from_opengl, pose_from_quaternion, rigid
from omnidc.io.calibration import read_matrix
from omnidc.io.untrusted import is_number, read_text, untrusted

REMEDY = "docs/bridges.md shows the forms of a trajectory"


@dataclass(frozen=True)
class Trajectory:
    """Poses [4, 4] that are found by name, by time stamp (seconds) or by order; one of the three is filled."""

    by_name: dict[str, Array] = field(default_factory=dict)  # name without suffix
    stamped: Sequence[tuple[float, Array]] = ()
    ordered: Sequence[Array] = ()

    def poses(self, names: Sequence[str], max_time_diff: float, path: Path) -> list[Array | None]:
        """Return the pose of each frame, None where there is none; refuse where no frame has one."""
        if self.ordered:
            if len(self.ordered) != len(names):
                raise InputError(f"{path} has {len(self.ordered)} poses for {len(names)} frames: give one for each.")
            return list(self.ordered)
        if self.by_name:
            found = [self.by_name.get(name) for name in names]
            if not any(pose is not None for pose in found):
                raise InputError(f"{path} names no frame: it has {next(iter(self.by_name))}, the frames {names[0]}.")
            return found
        if not self.stamped:
            raise InputError(f"{path} has no poses, or tracking was lost in all of them: {REMEDY}.")
        if not all(is_number(name) for name in names):
            raise InputError(
                f"{path} has time stamps, but the frame {names[0]} is not named by one: give 4x4 matrices."
            )
        times = np.array([time for time, _ in self.stamped])
        nearest = [int(np.abs(times - float(name)).argmin()) for name in names]
        gaps = [abs(times[index] - float(name)) for index, name in zip(nearest, names)]
        if not min(gaps) <= max_time_diff:  # a stamp that is no number is close to none
            raise InputError(
                f"No pose of {path} is within {max_time_diff:g} s of a frame (closest: {min(gaps):.3g} s); "
                "raise --max-time-diff or check the clocks."
            )
        return [self.stamped[i][1] if gap <= max_time_diff else None for i, gap in zip(nearest, gaps)]


def read_trajectory(path: Path) -> Trajectory:
    """Read a trajectory of any form; see the module's docstring."""
    if path.is_dir():
        poses = {file.stem.removesuffix(".pose"): read_pose(file) for file in sorted(path.glob("*.txt"))}
        if not poses:
            raise FileError(f"The folder {path} has no poses: it should hold a 4x4 matrix in NAME.txt for each frame.")
        return Trajectory(by_name={name: pose for name, pose in poses.items() if pose is not None})
    with untrusted(path, "a trajectory", REMEDY):
        if path.suffix.lower() == ".json":
            return _transforms(json.loads(read_text(path)), path)
        rows = [line.replace(",", " ").split() for line in read_text(path).splitlines() if line.strip()]
        return _lines([[float(word) for word in row] for row in rows if not row[0].startswith("#")], path)


def poses_by_name(table: dict[str, Any], what: str) -> Trajectory:
    """Return the trajectory of a table from names to 4×4 matrices (OpenCV axes)."""
    return Trajectory(by_name={_stem(name): rigid(matrix, f"{what} {name}") for name, matrix in table.items()})


def _transforms(table: Any, path: Path) -> Trajectory:
    if not isinstance(table, dict):
        raise ValueError("no table")
    if "frames" not in table:
        return poses_by_name(table, f"The pose in {path} of")
    poses = {_stem(str(frame["file_path"])): transforms_pose(frame, path) for frame in table["frames"]}
    return Trajectory(by_name=poses)


def transforms_pose(frame: dict[str, Any], path: Path) -> Array:
    """Return the pose of a frame of a transforms.json, camera to world with OpenCV axes."""
    return from_opengl(frame["transform_matrix"], f"The pose in {path} of {frame['file_path']}")


def _lines(rows: list[list[float]], path: Path) -> Trajectory:
    lengths = {len(row) for row in rows}
    what = f"A pose of {path}"
    if lengths == {8}:
        return Trajectory(stamped=[(row[0], pose_from_quaternion(row[1:4], row[4:])) for row in rows])
    if lengths and lengths <= {12, 16}:
        return Trajectory(ordered=[rigid(row, what) for row in rows])
    blocks = [row for row in rows if len(row) == 4]
    if blocks and lengths <= {3, 4} and len(blocks) % 4 == 0:  # Open3D's .log has a line of three numbers before each
        matrices = np.array(blocks).reshape(-1, 4, 4)
        return Trajectory(ordered=[rigid(matrix, what) for matrix in matrices])
    raise ValueError(f"lines of {', '.join(map(str, sorted(lengths))) or 'no'} numbers, not of 8, 12 or 16")


def _stem(name: str) -> str:
    return Path(name).name if not Path(name).suffix[1:].isalpha() else Path(name).stem


def read_pose(file: Path) -> Array | None:
    """Return the 4×4 matrix of a text file; None where tracking was lost (-inf)."""
    matrix = read_matrix(file)
    return rigid(matrix, f"The pose in {file}") if np.isfinite(matrix).all() else None
