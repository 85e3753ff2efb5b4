"""The scripts of examples/ run as they are, on small data."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "sensors"))
from makers import HEIGHT, WIDTH, colmap_model, photo, wall  # noqa: E402


def run_example(name: str, *arguments: object) -> None:
    runpy.run_path(str(ROOT / "examples" / name))["main"](*map(str, arguments), network="harmonic")


def test_example_colmap_to_splat_writes_the_folder(tmp_path: Path) -> None:
    pytest.importorskip("pycolmap")
    points = wall(np.random.default_rng(0), 200, 3.0)
    colmap_model(tmp_path / "sparse", tmp_path / "images", points, [range(4)] * 200)
    run_example("colmap_to_splat.py", tmp_path / "sparse", tmp_path / "images", tmp_path / "out")
    folder = tmp_path / "out" / "inria"
    assert (folder / "sparse/0/depth_params.json").is_file()
    assert len(list(folder.rglob("view*.png"))) >= 4


def test_example_robot_loop_prints_every_frame(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    K = [[60.0, 0, WIDTH / 2], [0, 60.0, HEIGHT / 2], [0, 0, 1]]
    table = {"K": K, "camera_from_lidar": np.eye(4).tolist()}
    (tmp_path / "calib.json").write_text(json.dumps(table))
    (tmp_path / "images").mkdir()
    (tmp_path / "scans").mkdir()
    for k in range(3):
        photo(tmp_path / f"images/{k}.png", seed=k)
        np.save(tmp_path / f"scans/{k}.npy", wall(np.random.default_rng(k), 300, 3.0))
    run_example("robot_loop.py", tmp_path / "scans", tmp_path / "images", tmp_path / "calib.json")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2"]
    assert "depth 3 / 3 / 3" in lines[-1]
