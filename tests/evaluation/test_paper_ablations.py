"""The table of benchmarks/paper_ablations.py, made from runs that nobody trained."""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest

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
