"""The tables and plots of benchmarks/ that are made of results: here of made-up ones."""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from omnidc.network.compact import CompactNetwork
from omnidc.training.config import load_config
from omnidc.training.networks import build_network
from omnidc.training.phases import phase_configs

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def ablations(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("paper_ablations")


def scores(ablations: ModuleType, value: float) -> dict[str, dict[str, float]]:
    return {pattern: dict.fromkeys(names, value) for pattern, names in ablations.COLUMNS.items()}


def test_ablation_table_shows_mean_and_deviation_of_seeds(ablations: ModuleType) -> None:
    values = {"L1": (0.1, 0.3), "R = 1": (0.5, 0.7)}
    runs = [
        ablations.Run(name, seed, 400, 5.0, 1, scores(ablations, value))
        for name, pair in values.items()
        for seed, value in enumerate(pair)
    ]
    short = ablations.Run("L1", 0, 100, 1.0, 1, scores(ablations, 9.0))  # of an earlier try with fewer steps
    lines = ablations.table([short, *runs]).splitlines()
    assert len(lines) == 2 + 2 + 1
    assert "| L1 | 2 | 0.2000 ± 0.1414 |" in lines[3]
    assert "| R = 1 | 2 | 0.6000 ± 0.1414 |" in lines[2]
    assert "| 2.0 |" in lines[4]  # deviation of the means 0.2828 over 0.1414


def test_ablation_runs_survive_their_file(ablations: ModuleType) -> None:
    run = ablations.Run("L1", 2, 400, 5.0, 1, scores(ablations, 0.25))
    assert ablations.read(json.loads(json.dumps([asdict(run)]))) == [run]


def test_ablation_table_without_runs_is_empty(ablations: ModuleType) -> None:
    assert len(ablations.table([]).splitlines()) == 2


def test_ablation_variants_are_the_papers_twelve(ablations: ModuleType) -> None:
    assert len(ablations.VARIANTS) == 12
    assert len({variant.name for variant in ablations.VARIANTS}) == 12


def test_ablation_losses_switch_off_what_is_not_named(ablations: ModuleType) -> None:
    weights = ablations.losses("laplace", "gradient_matching")["loss"]["weights"]
    assert {name for name, weight in weights.items() if weight} == {"laplace", "laplace_init", "gradient_matching"}


@pytest.fixture
def figure5(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("figure5")


def evaluation(folder: Path, **scores: float) -> Path:
    means = [{"method": name, "pattern": "ALL", "n": 1, "scores": scores} for name in ("linear", "nearest")]
    path = folder / "real.json"
    path.write_text(json.dumps({"protocol": "real", "means": means}), encoding="utf-8")
    return path


def test_figure5_draws_rel_and_rmse(figure5: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = evaluation(tmp_path, rel=0.1, rmse=0.5, cpu_seconds=0.02)
    figure5.main([str(path), "--out", str(tmp_path / "figure5.svg")])
    svg = (tmp_path / "figure5.svg").read_text(encoding="utf-8")
    assert svg.count("<circle") == 4
    assert svg.count(">nearest<") == 2
    assert "| linear | 0.0 | 0.02 | 0.1000 | 0.5000 |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [(["--pattern", "x"], "no pattern"), (["--error", "rel"], "no rel there"), ([], "no rel there")],
)
def test_figure5_without_the_score_is_a_sentence(
    figure5: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    path = evaluation(tmp_path, mae=0.1, cpu_seconds=0.02)
    with pytest.raises(SystemExit, match="2"):
        figure5.main([str(path), "--out", str(tmp_path / "figure5.svg"), *more])
    assert message in capsys.readouterr().err
    assert not (tmp_path / "figure5.svg").exists()


def test_compact_ablations_are_configurations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    variants = importlib.import_module("ablations").VARIANTS
    assert len(variants) > 5
    for name, changes in variants.items():
        config = load_config(
            "compact", **{section: change for section, change in changes.items() if section != "worlds"}
        )
        assert phase_configs(config), name
        with torch.device("meta"):
            assert isinstance(build_network(config.network), CompactNetwork), name


def test_fastdepth_prior_has_the_size_of_the_image_and_reads_colors_from_0_to_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With a network whose depth is the difference of red and blue."""
    onnx = pytest.importorskip("onnx")
    monkeypatch.syspath_prepend(BENCHMARKS)
    weights = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [1, 3, 1, 1], [1.0, 0.0, -1.0])
    given, result = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, channels, 8, 8])
        for name, channels in (("0", 3), ("depth", 1))
    )
    node = onnx.helper.make_node("Conv", ["0", "w"], ["depth"])
    graph = onnx.helper.make_graph([node], "difference", [given], [result], [weights])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "model.onnx")
    image = np.zeros((12, 20, 3), np.uint8)
    image[:, :10], image[:, 10:] = (204, 99, 51), (102, 99, 0)
    depth = importlib.import_module("prior").load_fastdepth(tmp_path / "model.onnx")(image)
    assert depth.shape == (12, 20)
    np.testing.assert_allclose(depth[:, :8], 0.6, atol=1e-6)
    np.testing.assert_allclose(depth[:, 12:], 0.4, atol=1e-6)
