from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rerun")

from omnidc.errors import FileError
from omnidc.frame import Frame
from omnidc.interop.rerun import RerunSink
from omnidc.pipeline.completion import Completion


def test_recording_has_every_entity_of_each_frame(tmp_path: Path) -> None:
    sparse = np.zeros((12, 16), np.float32)
    sparse[::4, ::4] = 2.0
    K = np.array([[20.0, 0, 7.5], [0, 20.0, 5.5], [0, 0, 1.0]])
    image = np.full((12, 16, 3), 90, np.uint8)
    frame = Frame(image, sparse, intrinsics=K, pose=np.eye(4), name="a", timestamp=12.5)
    completion = Completion(np.full((12, 16), 2.0, np.float32), None, sparse * np.nan, sparse, image, K)
    sink = RerunSink(tmp_path / "sub" / "run.rrd")
    assert sink.missing(["a", "b"]) == []
    sink.write(frame, completion)
    sink.write(frame, completion)
    sink.close()
    command = [sys.executable, "-m", "rerun", "rrd", "print", "-v", str(tmp_path / "sub" / "run.rrd")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for entity in ("/camera", "/camera/image", "/camera/image/depth", "/camera/image/measurements", "/camera/points"):
        assert entity in printed, entity


def test_recording_of_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"ends in \.rrd"):
        RerunSink(tmp_path / "run.txt")
