"""The commands of deploy and ros: what they print, and one sentence with exit code 2 for what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

import omnidc

EXAMPLES = Path(omnidc.__file__).parent / "examples"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "omnidc", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ros2"], "either a depth image topic"),
        (["ros2", "--depth-topic", "/d", "--sky-depth", "blue"], 'The sky is "inf" or "depth"'),
        (["ros2", "--depth-topic", "/d", "--domain", "999"], "number from 0 to 232"),
        (["export", "-o", "model.txt"], "ends in .onnx"),
        (["export", "--size", "big"], "HEIGHTxWIDTH"),
        (["push", "none.safetensors", "me/model"], "hf://OWNER/NAME"),
        (["push", "none.safetensors", "hf://me/model"], "no checkpoint none.safetensors"),
        (["live", "nothing.mp4", "-m", "interpolate"], "no camera number"),
        (["complete", "a.tar", "b.tar", "-o", "c.tar"], "same .tar pattern"),
        (["complete", "memory://a", "memory://b", "-o", "memory://c"], "No image below memory://a"),
    ],
)
def test_wrong_input_ends_in_one_sentence(arguments: list[str], sentence: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_live_writes_depth_and_prints_the_stages(tmp_path: Path) -> None:
    images, depths = tmp_path / "images", tmp_path / "depths"
    images.mkdir()
    depths.mkdir()
    sparse = np.zeros((24, 32), np.float32)
    sparse[::6, ::6] = 2.0
    for k in range(3):
        cv2.imwrite(str(images / f"{k}.png"), np.full((24, 32, 3), 80, np.uint8))
        np.save(depths / f"{k}.npy", sparse)
    timing = tmp_path / "t.json"
    done = run(
        "live", str(images), str(depths), "-o", str(tmp_path / "out"), "-m", "interpolate", "--timing", str(timing)
    )
    assert done.returncode == 0, done.stderr
    assert "3 frames" in done.stdout
    assert "complete" in done.stdout
    assert timing.is_file()
    assert np.allclose(np.load(tmp_path / "out" / "2.npy"), 2.0, rtol=1e-3)


def test_complete_with_urls_resumes(tmp_path: Path) -> None:
    for name, file in {"images": "room.jpg", "sparse": "room_sparse.npz"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / f"a{Path(file).suffix}").write_bytes((EXAMPLES / file).read_bytes())
    command = (
        "complete", f"file://{tmp_path}/images", f"file://{tmp_path}/sparse", "-o", f"file://{tmp_path}/out",
        "-m", "interpolate", "-f", "npy", "--resume",
    )  # fmt: skip
    assert run(*command).returncode == 0
    assert np.load(tmp_path / "out" / "a.npy").shape == (240, 320)
    again = run(*command)
    assert "1 of 1 are done already" in again.stdout
