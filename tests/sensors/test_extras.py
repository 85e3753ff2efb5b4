from __future__ import annotations

import sys
from pathlib import Path

import pytest

from omnidc.errors import MissingExtraError
from omnidc.io.calibration import read_calibration
from omnidc.io.pointcloud import read_cloud
from omnidc.sensors.colmap import open_model
from omnidc.sensors.rosbag import bag_source, write_depth_bag


def test_missing_packages_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pycolmap", "rosbags", "rosbags.highlevel", "rosbags.rosbag1", "laspy", "yaml"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "a.laz").write_bytes(b"LASF")
    (tmp_path / "c.yaml").write_text("K: 1\n")
    for job, extra in (
        (lambda: open_model(tmp_path, tmp_path), "colmap"),
        (lambda: bag_source(tmp_path / "a.bag"), "ros"),
        (lambda: write_depth_bag(tmp_path / "a.bag", []), "ros"),
        (lambda: read_cloud(tmp_path / "a.laz"), "lidar"),
        (lambda: read_calibration(tmp_path / "c.yaml"), "lidar"),
    ):
        with pytest.raises(MissingExtraError, match=rf'pip install "omnidc\[{extra}\]"'):
            job()
