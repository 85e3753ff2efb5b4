"""benchmarks/nvs.py: loading of scenes, its table on made-up runs, and a run on tiny data."""

from __future__ import annotations

import dataclasses
import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("pycolmap")
from colmap_text import write_project
from omnidc.errors import OmnidcError
from worlds import SIZE, views

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FEW = ["--set", "steps=3", "--gaussians", "300", "--seeds", "0"]


@pytest.fixture
def nvs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("nvs")


@pytest.fixture
def scenes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("nvs_scenes")


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("nvs_table")


def run_of(arm: str, scene: str, psnr: float, **more: Any) -> dict[str, Any]:
    record = {"regime": "real", "scene": scene, "arm": arm, "seed": 0, "options": {}, "gaussians": 10, "ssim": 0.5}
    return {**record, "seconds": 3.0, "cpu_seconds": 2.0, "psnr": psnr, **more}


def runs(gains: list[float], **more: Any) -> list[dict[str, Any]]:
    """Runs of omnidc that differ from those without depth by these gains of PSNR."""
    pairs = [(arm, k, gain if arm == "omnidc" else 0.0) for k, gain in enumerate(gains) for arm in ("none", "linear")]
    pairs += [("omnidc", k, gain) for k, gain in enumerate(gains)]
    return [run_of(arm, f"s{k}", 20.0 + (gain if arm == "omnidc" else 0.0), **more) for arm, k, gain in pairs]


def test_simulated_sfm_observed_points_lie_on_the_surface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    sfm = importlib.import_module("simulated_sfm")
    shown = views(6)
    model = sfm.simulate(shown)
    assert len(model.cloud) > 20
    assert model.is_observed.shape == (len(model.cloud), 6)
    assert (model.is_visible | ~model.is_observed).all()
    for view, sparse in zip(shown, model.sparse):
        used = (sparse > 0) & (view.gt_depth > 0)
        assert np.median(np.abs(sparse[used] / view.gt_depth[used] - 1)) < 0.05


def test_real_scene_without_truth_loads(scenes: ModuleType, tmp_path: Path) -> None:
    write_project(tmp_path)
    scene = scenes.load_scene(tmp_path, "real")
    assert [view.name for view in scene.test] == ["view0", "view8"]
    assert len(scene.train) == len(scene.model.sparse) == 7
    assert all((sparse > 0).any() for sparse in scene.model.sparse)
    assert scene.test[0].gt_depth is None
    assert scene.meters == 1.0


def write_7scenes(folder: Path, scale: float) -> None:
    """The test world with sensor depth that is `scale` times the model's, registered to the photographs."""
    from PIL import Image

    write_project(folder)
    (folder / "depth").mkdir()
    for name in ("images", "sparse"):
        for path in [*(folder / name).iterdir()]:
            if path.suffix == ".png":
                path.rename(path.with_name(path.name.replace("view", "frame-00000").replace(".png", ".color.png")))
    text = (folder / "sparse" / "images.txt").read_text()
    (folder / "sparse" / "images.txt").write_text(text.replace("view", "frame-00000").replace(".png", ".color.png"))
    for k, view in enumerate(views(9)):
        assert view.gt_depth is not None
        depth = np.rint(1000 * scale * view.gt_depth).astype(np.uint16)
        Image.fromarray(depth).save(folder / "depth" / f"frame-00000{k}.depth.png")


def test_real_scene_sensor_depth_is_the_truth_at_one_scale(
    scenes: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_7scenes(tmp_path, 0.25)

    class Recording(dict[str, Any]):
        def __missing__(self, name: str) -> Any:
            from omnidc.io.depth import read_depth

            depth = read_depth(tmp_path / "depth" / f"{name}.depth.png").depth
            return type("Registered", (), {"measurements": lambda self: depth})()

    monkeypatch.setattr(scenes, "open_recording", lambda folder, layout: Recording())
    scene = scenes.load_scene(tmp_path, "real")
    assert scene.meters == pytest.approx(0.25, rel=0.02)
    truth = {view.name.replace("view", "frame-00000") + ".color": view.gt_depth for view in views(9)}
    for view in scene.test:
        known = view.gt_depth > 0
        assert known.mean() > 0.8
        assert np.abs(view.gt_depth / np.where(known, truth[view.name], 1.0) - 1)[known].max() < 0.03


def test_undistorted_depth_follows_the_lens(scenes: ModuleType) -> None:
    pycolmap = pytest.importorskip("pycolmap")
    lens = pycolmap.Camera(model="SIMPLE_RADIAL", width=400, height=300, params=[400.0, 200.0, 150.0, 0.1])
    camera = dataclasses.replace(views(1)[0].camera, fx=40.0, fy=40.0, cx=19.5, cy=14.5)
    columns = np.tile(np.arange(400, dtype=np.float32) + 1, (300, 1))
    found = scenes.undistorted_depth(columns, lens, camera)
    assert found.shape == SIZE
    x = np.array([(30 - 19.5) / 40.0, (10 - 14.5) / 40.0])
    radial = 1 + 0.1 * float(x @ x)
    assert found[10, 30] == np.floor(400 * radial * x[0] + 200) + 1


def write_eth3d(folder: Path, count: int = 16) -> dict[str, np.ndarray]:
    """The test world in the layout of ETH3D; return the raw depth by name. Unknown depth is infinite."""
    model, _ = write_project(folder, count)
    model.rename(folder / "dslr_calibration_jpg")
    model = folder / "dslr_calibration_jpg"
    (folder / "images").rename(folder / "photographs")
    (folder / "images").mkdir()
    (folder / "photographs").rename(folder / "images" / "dslr_images")
    text = (model / "images.txt").read_text()
    (model / "images.txt").write_text(text.replace("view", "dslr_images/view"))
    truth = folder / "ground_truth_depth" / "dslr_images"
    truth.mkdir(parents=True)
    maps = {}
    for view in views(count):
        assert view.gt_depth is not None
        depth = np.where(view.gt_depth > 0, view.gt_depth, np.inf).astype("<f4")
        depth[0, 0] = np.inf
        depth.tofile(truth / f"{view.name}.png")
        maps[f"dslr_images/{view.name}"] = depth
    return maps


def test_eth3d_holds_out_a_random_eighth_with_laser_truth(scenes: ModuleType, tmp_path: Path) -> None:
    maps = write_eth3d(tmp_path)
    splits = []
    for seed in range(4):
        scene = scenes.load_scene(tmp_path, "eth3d", None, seed)
        assert len(scene.test) == 2
        assert len(scene.train) == len(scene.model.sparse) == 14
        splits.append(tuple(view.name for view in scene.test))
    assert len(set(splits)) > 1
    assert splits[1] == tuple(view.name for view in scenes.load_scene(tmp_path, "eth3d", None, 1).test)
    assert scene.meters == pytest.approx(1.0, rel=0.02)
    for view in scene.test:
        assert view.gt_depth[0, 0] == 0
        known = np.isfinite(maps[view.name])
        assert ((view.gt_depth > 0) == known).mean() > 0.99
        assert view.gt_depth[known] * scene.meters == pytest.approx(maps[view.name][known], rel=1e-4)


def test_eth3d_has_the_papers_settings(nvs: ModuleType) -> None:
    options = nvs.ETH3D_OPTIONS
    assert (options.steps, options.sh_degree, options.depth_weight, options.depth_unit) == (30_000, 3, 0.2, 1.0)


def test_run_eth3d_measures_depth_of_other_systems(nvs: ModuleType, tmp_path: Path) -> None:
    maps = write_eth3d(tmp_path / "courtyard")
    for name, depth in maps.items():
        path = tmp_path / "zoe" / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.where(np.isfinite(depth), depth, 0))
    results = tmp_path / "eth3d.jsonl"
    command = ["run", str(tmp_path / "courtyard"), "--dataset", "eth3d", "--results", str(results), *FEW]
    nvs.main([*command, "--size", "32", "--arms", "none", "--depth", f"zoe={tmp_path / 'zoe'}"])
    none, zoe = nvs.read(results)
    assert none["regime"] == "eth3d"
    assert none["options"] == {"steps": "3", "size": "32", "gaussians": "300"}
    assert zoe["arm"] == "zoe"
    assert zoe["depth_rmse"] > 0
    assert zoe["depth_rmse"] != none["depth_rmse"]


def test_table_without_truth_has_no_depth_columns(tables: ModuleType) -> None:
    (one,) = tables.comparisons(runs([0.1, 0.2, 0.3]))
    assert one.header() == ["arm", "PSNR, dB", "SSIM", "PSNR − none"]
    assert all(len(row) == 4 for row in one.rows())
    assert "nan" not in str(one.rows()) + one.verdict()
    assert "no truth of depth" in one.verdict()


def test_switches_are_compared_with_no_depth_of_the_same_seed_and_scene(tables: ModuleType) -> None:
    records = []
    for seed, gain, factor in ((0, 1.0, 0.5), (1, 2.0, 0.25)):
        for scene, psnr, error in (("a", 20.0, 4.0), ("b", 30.0, 1.0)):
            common = {"seed": seed, "depth_rel": 0.1}
            records.append(run_of("none", scene, psnr, depth_rmse=error, **common))
            records.append(run_of("omnidc", scene, psnr + gain, depth_rmse=factor * error, **common))
    records.append(run_of("omnidc", "a", 23.0, depth_rmse=2.0, depth_rel=0.1, options={"sky": "false"}))
    header, rows = tables.switch_rows(records)
    assert header[3:] == ["PSNR − none, dB", "RMSE / none", "rel. / none"]
    assert rows[0] == ["omnidc", "", "2", "+1.50 ± 0.71", "0.38 ± 0.18", "1.00 ± 0.00"]
    assert rows[1][:5] == ["omnidc", "sky false", "1", "+3.00", "0.50"]


def test_table_counts_depth_where_a_scene_has_it(tables: ModuleType) -> None:
    records = runs([0.1, 0.2])
    for record in records:
        if record["scene"] == "s0":
            record.update(depth_rmse=1.0 if record["arm"] == "omnidc" else 2.0, depth_rel=0.1)
    (one,) = tables.comparisons(records)
    assert one.rows()[2][0] == "omnidc"
    assert one.rows()[2][3] == "1.000 ± 0.000"
    assert one.rows()[2][-2:] == ["0.50", "1.00"]
    assert "RMSE of depth 0.50 (bar 0.7: met)" in one.verdict()
    assert "not ahead of linear on median rel." in one.verdict()


@pytest.mark.parametrize(
    ("gains", "sentence"),
    [
        ([1.0, 1.1, 1.2], "shows a gain."),
        ([-1.9, -1.7, -1.6], "shows a loss."),
        ([-0.2, -0.21, -0.19], "shows a loss (but not of 0.3 dB)."),
        ([0.1, -0.05, 0.05], "shows no gain, and excludes a loss of 0.3 dB."),
        ([2.0, -2.0, 1.0], "shows no gain, and does not exclude a loss of 0.3 dB."),
        ([1.0], "has no interval (one run)."),
    ],
)
def test_verdict_says_what_the_interval_shows(tables: ModuleType, gains: list[float], sentence: str) -> None:
    (one,) = tables.comparisons(runs(gains))
    assert one.verdict().endswith(sentence)


def test_run_records_are_resumed_and_tabled(
    nvs: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_project(tmp_path / "desk")
    maps = tmp_path / "maps" / "desk"
    maps.mkdir(parents=True)
    for view in views(9):
        np.save(maps / f"{view.name}.npy", view.gt_depth)
    results = tmp_path / "results.jsonl"
    command = ["run", str(tmp_path / "desk"), "--regime", "real", "--results", str(results), *FEW]
    command += ["--arms", "none", "linear", "true", "--depth", f"mvs={tmp_path / 'maps'}", "--pictures", str(tmp_path)]
    nvs.main(command)
    nvs.main(command)
    records = nvs.read(results)
    assert [record["arm"] for record in records] == ["none", "linear", "mvs"]
    assert records[0]["options"] == {"steps": "3", "gaussians": "300"}
    assert (tmp_path / "real" / "desk-mvs-0.png").is_file()
    capsys.readouterr()
    nvs.main(["table", str(results), "--json", str(tmp_path)])
    nvs.main(["list", str(results)])
    rows = json.loads((tmp_path / "nvs_real.json").read_text())["rows"]
    assert [row[0] for row in rows] == ["none", "linear", "mvs"]
    assert capsys.readouterr().out.count("| mvs |") == 2


def test_run_other_depth_and_sky_switch(nvs: ModuleType, tmp_path: Path) -> None:
    shown = [dataclasses.replace(view, sky=np.ones(SIZE, bool)) for view in views(4)]
    scene = nvs.Scene(
        "a",
        shown,
        [],
        importlib.import_module("simulated_sfm").SparseModel(None, [view.gt_depth for view in shown]),
        10.0,
    )
    settings = nvs.Settings(nvs.OPTIONS)
    assert all(view.sky is not None for view in nvs.supervised(scene, "true", None, settings))
    without = nvs.supervised(scene, "true", None, dataclasses.replace(settings, uses_sky=False))
    assert all(view.sky is None and view.depth is not None for view in without)
    for view in shown:
        np.save(tmp_path / f"{view.name}.npy", 1000 * view.gt_depth)
    with pytest.raises(OmnidcError, match="times that of the model's points"):
        nvs.supervised(scene, tmp_path, None, settings)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--depth", "mvs"], "NAME=FOLDER"),
        (["--depth", "linear=."], "NAME=FOLDER"),
        (["--depth", "mvs=nowhere"], "no folder nowhere"),
        (["--regime", "sparse", "--size", "99"], "--size is for photographs"),
    ],
)
def test_run_bad_options_are_a_sentence(nvs: ModuleType, tmp_path: Path, options: list[str], sentence: str) -> None:
    with pytest.raises(OmnidcError, match=sentence):
        nvs.main(["run", str(tmp_path), "--results", str(tmp_path / "r.jsonl"), *options])
