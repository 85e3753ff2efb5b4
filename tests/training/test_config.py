from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnidc.errors import ConfigError, FileError
from omnidc.patterns import parse
from omnidc.training.config import (
    from_tables,
    load_config,
    merge,
    parse_override,
    preset_names,
    read_run,
    to_tables,
)


def test_paper_preset_is_the_papers() -> None:
    config = load_config("paper")
    assert config.schedule.epochs == 72
    assert [round(milestone * 72) for milestone in config.schedule.milestones] == [36, 48, 56, 64]
    assert config.data.per_epoch == 5 * 25_000
    assert config.data.sizes == [[480, 640]]
    assert (config.optimiser.batch, config.optimiser.lr, config.optimiser.clip) == (60, 1e-3, 1.0)
    loss = config.loss
    assert (loss.l1, loss.l1_init, loss.laplace, loss.gradient_matching, loss.gradient_l1) == (1, 1, 0.5, 2, 1)
    assert (config.augment.scale_max, config.augment.brightness, config.augment.jpeg) == (1.5, 0.4, 0)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_complete_and_its_patterns_can_be_read(name: str) -> None:
    config = load_config(name, schedule={"time_budget": "1h"})
    parse(config.data.pattern, noise=config.data.noise or None)
    for text in config.validation.patterns:
        parse(text)
    assert from_tables(json.loads(json.dumps(to_tables(config)))) == config


def test_later_layers_win_key_by_key(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[optimiser]\nlr = 1\nbatch = 16\n[data.sources]\na = "/x"\n')
    config = load_config("compact", file, ["optimiser.batch=32", "schedule.steps=5"], data={"sources": {"b": "/y"}})
    assert config.optimiser.lr == 1.0
    assert config.optimiser.batch == 32
    assert config.optimiser.ema == load_config("compact", schedule={"steps": 1}).optimiser.ema
    assert config.data.sources == {"a": "/x", "b": "/y"}


@pytest.mark.parametrize(
    ("text", "value"),
    [("a.b=3", 3), ("a.b=1e-3", 1e-3), ("a.b=[[1, 2]]", [[1, 2]]), ("a.b=cuda:1", "cuda:1"), ('a.b="x"', "x")],
)
def test_overrides_are_toml_or_plain_words(text: str, value: object) -> None:
    assert parse_override(text) == {"a": {"b": value}}


def test_empty_table_empties() -> None:
    assert merge({"a": {"b": 1}}, {"a": {}}) == {"a": {}}
    assert merge({"a": {"b": 1}}, {"a": {"c": 2}}) == {"a": {"b": 1, "c": 2}}


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("optimiser.learning_rate=1", "no setting optimiser.learning_rate"),
        ("optimiser.lr=fast", "optimiser.lr must be a number"),
        ("optimiser.batch=1.5", "whole number"),
        ("optimiser=3", "table of settings"),
        ("optimiser.lr", "section.key=value"),
        ("data.sizes=[[1, 2, 3]]", "pairs"),
        ("data.hold_out=1", "hold_out"),
        ("schedule.kind=linear", "schedule.kind"),
        ("schedule.time_budget=soon", "duration"),
        ("runtime.precision=int8", "precision"),
        ("augment.flip=2", "flip"),
        ("optimiser.accumulate=0", "at least 1"),
    ],
)
def test_wrong_settings_are_named(override: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_config("compact", None, ["schedule.steps=1", override])


def test_run_without_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="no end"):
        load_config("compact")


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no preset"):
        load_config("huge")
    with pytest.raises(FileError, match=r"gone\.toml"):
        load_config("compact", tmp_path / "gone.toml")
    (tmp_path / "bad.toml").write_text("a = = 1")
    with pytest.raises(ConfigError, match="TOML"):
        load_config("compact", tmp_path / "bad.toml")
    with pytest.raises(FileError, match="no run"):
        read_run(tmp_path)
