from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from omnidc.errors import OmnidcError
from omnidc.geometry.transforms import OPENGL_AXES
from omnidc.io.trajectory import read_trajectory

NAMES = ["1.0", "2.0", "3.0"]
POSES = [np.eye(4) + np.array([[0, 0, 0, x], *[[0.0] * 4] * 3]) for x in (0.0, 0.5, 1.0)]


def write(folder: Path, kind: str) -> Path:
    path = folder / {"transforms": "transforms.json", "table": "poses.json", "log": "a.log"}.get(kind, "a.txt")
    flat = [" ".join(f"{value:g}" for value in pose.ravel()) for pose in POSES]
    if kind == "tum":
        path.write_text("# stamp\n" + "\n".join(f"{t} {p[0, 3]} 0 0 0 0 0 1" for t, p in zip(NAMES, POSES)))
    elif kind == "4x4":
        path.write_text("\n".join(flat))
    elif kind == "3x4":
        path.write_text("\n".join(" ".join(line.split()[:12]) for line in flat))
    elif kind == "log":
        path.write_text("\n".join(f"{i} {i} 3\n" + _rows(pose) for i, pose in enumerate(POSES)))
    elif kind == "transforms":
        frames = [
            {"file_path": f"images/{name}.png", "transform_matrix": (pose @ OPENGL_AXES).tolist()}
            for name, pose in zip(NAMES, POSES)
        ]
        path.write_text(json.dumps({"frames": frames}))
    elif kind == "table":
        path.write_text(json.dumps({name: pose.tolist() for name, pose in zip(NAMES, POSES)}))
    else:
        path = folder / "poses"
        path.mkdir()
        for name, pose in zip(NAMES, POSES):
            (path / f"{name}.txt").write_text(_rows(pose))
    return path


def _rows(pose: np.ndarray) -> str:
    return "\n".join(" ".join(f"{value:g}" for value in row) for row in pose)


@pytest.mark.parametrize("kind", ["tum", "4x4", "3x4", "log", "transforms", "table", "folder"])
def test_trajectory_every_form_gives_the_same_poses(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, kind)
    poses = read_trajectory(path).poses(NAMES, 0.02, path)
    assert np.allclose(np.array(poses), np.array(POSES))


def test_trajectory_frames_without_a_pose_have_none(tmp_path: Path) -> None:
    path = write(tmp_path, "tum")
    poses = read_trajectory(path).poses(["1.01", "1.5"], 0.02, path)
    assert poses[0] is not None
    assert poses[1] is None


@pytest.mark.parametrize(
    ("kind", "names", "words"),
    [
        ("4x4", NAMES[:2], "3 poses for 2 frames"),
        ("table", ["a", "b"], "names no frame"),
        ("tum", ["a", "b"], "has time stamps"),
        ("tum", ["7.5"], "closest: 4.5 s"),
    ],
)
def test_trajectory_of_other_frames_is_refused(kind: str, names: list[str], words: str, tmp_path: Path) -> None:
    path = write(tmp_path, kind)
    with pytest.raises(OmnidcError, match=words):
        read_trajectory(path).poses(names, 0.02, path)


@pytest.mark.parametrize("text", ["", "1 2 3 4 5\n", "a b c\n", "2 0 0 0 0 1 0 0 0 0 1 0\n"])
def test_trajectory_bad_text_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(OmnidcError, match=r"a\.txt"):
        read_trajectory(tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.txt", "0 0 1\n", "of 3 numbers"),  # the line before a matrix, and no matrix
        ("a.json", "{}", "has no poses"),
        ("a.json", '{"frames": []}', "has no poses"),
        ("a.txt", "nan 0 0 0 0 0 0 1\n", "No pose of"),
    ],
)
def test_trajectory_without_poses_is_refused(name: str, text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(OmnidcError, match=words):
        read_trajectory(path).poses(["1"], 0.02, path)


def test_trajectory_that_was_lost_everywhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("-inf -inf -inf -inf\n" * 4)
    with pytest.raises(OmnidcError, match="tracking was lost in all"):
        read_trajectory(tmp_path).poses(["1"], 0.02, tmp_path)
