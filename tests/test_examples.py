"""The scripts and notebooks of examples/ run as they are."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from makers import HEIGHT, WIDTH, colmap_model, photo, wall

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))


def run_example(name: str, *arguments: object, **keywords: str) -> None:
    runpy.run_path(str(EXAMPLES / name))["main"](*map(str, arguments), **keywords)


@pytest.mark.parametrize("name", SCRIPTS)
def test_example_without_arguments_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_example(name)
    assert capsys.readouterr().out


def test_example_many_frames_second_run_has_nothing_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        run_example("many_frames.py", tmp_path / "out", network="interpolate")
    first, second = (line for line in capsys.readouterr().out.splitlines() if line.startswith("to do"))
    assert first == "to do: room1, room2"
    assert second == "to do: nothing"


def test_example_colmap_to_splat_writes_the_folder(tmp_path: Path) -> None:
    pytest.importorskip("pycolmap")
    points = wall(np.random.default_rng(0), 200, 3.0)
    colmap_model(tmp_path / "sparse", tmp_path / "images", points, [range(4)] * 200)
    run_example("colmap_to_splat.py", tmp_path / "sparse", tmp_path / "images", tmp_path / "out", network="interpolate")
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
    run_example(
        "robot_loop.py", tmp_path / "scans", tmp_path / "images", tmp_path / "calib.json", network="interpolate"
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2"]
    assert "depth 3 / 3 / 3" in lines[-1]


def test_example_colmap_to_splat_without_pycolmap_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    run_example("colmap_to_splat.py")
    assert "omnidc[colmap]" in capsys.readouterr().out


def test_examples_page_lists_every_file() -> None:
    listed = set(re.findall(r"^\| `([\w.]+)`", (EXAMPLES / "README.md").read_text(encoding="utf-8"), flags=re.M))
    present = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert present == listed


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.ipynb")))
def test_notebook_runs_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before you commit"
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
