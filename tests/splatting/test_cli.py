"""`omnidc splat` on a small COLMAP model: what it writes, resuming, and bad input as one sentence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("numba")
pytest.importorskip("pycolmap")
from colmap_text import write_project
from omnidc.cli import app
from omnidc.errors import OmnidcError
from omnidc.splatting.ply import read_splat
from worlds import views

SHORT = ["--steps", "40", "--size", "40", "--gaussians", "400", "--holdout", "4"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_project(tmp_path_factory.mktemp("project"))


def run(project: tuple[Path, Path], output: Path, *options: str) -> str:
    result = CliRunner().invoke(app, ["splat", *map(str, project), "-o", str(output), *SHORT, *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_splat_small_model_writes_everything(project: tuple[Path, Path], tmp_path: Path) -> None:
    truth = tmp_path / "truth"
    truth.mkdir()
    for view in views(9):
        np.save(truth / f"{view.name}.npy", view.gt_depth)
    out = tmp_path / "out"
    text = run(project, out, "--depth", "linear", "--gt-depth", str(truth), "--start", "dense")
    assert "6 photographs for training, 3 held out" in text
    record = json.loads((out / "metrics.json").read_text())
    assert record["mean"]["psnr"] > 12
    assert record["mean"]["depth_rmse"] < 1.0
    assert set(record["views"]) == {"view0", "view4", "view8"}
    assert record["options"]["steps"] == 40
    assert len(read_splat(out / "splat.ply")) == record["gaussians"]
    for name in ("viewer.html", "turntable.webp", "renders/view4.png", "renders/view4_depth.npy"):
        assert (out / name).is_file(), name


def test_splat_depth_sources_all_train(project: tuple[Path, Path], tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.mkdir()
    for view in views(9):
        np.save(maps / f"{view.name}.npy", view.gt_depth)
    for source in ("none", "sparse", "compact", str(maps)):
        out = tmp_path / Path(source).name
        run(project, out, "--depth", source, "--steps", "3")
        assert json.loads((out / "metrics.json").read_text())["depth"] == source
    assert (tmp_path / "compact" / "depth" / "view1.npy").is_file()


def test_splat_interrupted_run_resumes_to_the_same_splat(project: tuple[Path, Path], tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    options = ["--depth", "linear", "--steps", "400"]
    run(project, whole, *options)
    command = [sys.executable, "-m", "omnidc", "splat", *map(str, project), "-o", str(broken), *SHORT, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=dict(os.environ))
    assert process.stderr is not None
    seen = b""
    while b"/400 [" not in seen.replace(b" 0/400", b""):
        piece = process.stderr.read1(4096)
        assert piece, seen.decode()
        seen += piece
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read().decode()
    assert process.wait(60) == 130
    assert "--resume goes on" in rest
    assert (broken / "checkpoint.pt").is_file()
    assert not (broken / "splat.ply").exists()
    assert "going on at step" in run(project, broken, *options, "--resume")
    assert (whole / "splat.ply").read_bytes() == (broken / "splat.ply").read_bytes()


def test_splat_resume_with_other_settings_is_a_sentence(project: tuple[Path, Path], tmp_path: Path) -> None:
    run(project, tmp_path / "out", "--depth", "none", "--steps", "2")
    with pytest.raises(OmnidcError, match="begun with depth none, not linear"):
        run(project, tmp_path / "out", "--depth", "linear", "--steps", "2", "--resume")


def test_splat_resume_with_other_sky_masks_is_a_sentence(project: tuple[Path, Path], tmp_path: Path) -> None:
    run(project, tmp_path / "out", "--depth", "none", "--steps", "2")
    with pytest.raises(OmnidcError, match="begun with sky masks None"):
        run(project, tmp_path / "out", "--depth", "none", "--steps", "2", "--resume", "--sky-masks", str(tmp_path))


def test_splat_lpips_of_small_photographs_is_refused_before_training(
    project: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnidc.splatting.lpips.load_lpips", lambda path, net: lambda a, b: 0.0)
    with pytest.raises(OmnidcError, match="at least 32 pixels a side, not 40x30"):
        run(project, tmp_path / "out", "--depth", "none", "--lpips", "weights")
    assert not (tmp_path / "out").exists()


def test_splat_half_of_the_photographs_placed_says_so(tmp_path: Path) -> None:
    model, images = write_project(tmp_path / "project")
    for k in range(9):
        (images / f"other{k}.png").write_bytes((images / "view0.png").read_bytes())
    text = run((model, images), tmp_path / "out", "--depth", "none", "--steps", "2")
    assert "placed 9 of the 18 photographs" in text


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("no points", "holds no 3D points.*`omnidc colmap NEW IMAGES --run-sfm --poses MODEL"),
        ("missing", "are not in"),
        ("few views", "2 of 3 are left after holding some out"),
        ("two views", "but the model has 2; take more photographs.$"),
        ("no model", "no COLMAP model"),
        ("start", "needs dense depth"),
        ("depth", "neither compact"),
        ("holdout", "n of 2 or more"),
        ("views", "at least 3 views"),
        ("maps", "no depth of view1"),
        ("unit", "times that of the model's points"),
    ],
)
def test_splat_bad_input_is_a_sentence(tmp_path: Path, change: str, sentence: str) -> None:
    count = {"few views": 3, "two views": 2}.get(change, 9)
    project = write_project(tmp_path / "p", count, with_points=change != "no points")
    if change == "missing":
        (project[1] / "view3.png").unlink()
    if change == "no model":
        (project[0] / "cameras.txt").unlink()
    (tmp_path / "empty").mkdir()
    (tmp_path / "millimeters").mkdir()
    for view in views(9):
        assert view.gt_depth is not None
        np.save(tmp_path / "millimeters" / f"{view.name}.npy", 1000 * view.gt_depth)
    options = {
        "start": ["--depth", "none", "--start", "dense"], "depth": ["--depth", "nowhere"],
        "holdout": ["--holdout", "1"], "two views": ["--holdout", "0"],
        "views": ["--views", "2"], "maps": ["--depth", str(tmp_path / "empty")],
        "unit": ["--depth", str(tmp_path / "millimeters")],
    }.get(change, [])  # fmt: skip
    with pytest.raises(OmnidcError, match=sentence):
        run(project, tmp_path / "out", *options)
    assert not (tmp_path / "out" / "splat.ply").exists()


def test_help_does_not_import_numba_or_torch() -> None:
    code = "import sys; from omnidc.cli import app; print('numba' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
