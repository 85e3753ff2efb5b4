from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnidc.errors import ConfigError, FileError
from omnidc.network.compact import CompactNetwork
from omnidc.network.paper.config import PRESETS, PaperConfig
from omnidc.patterns import parse
from omnidc.training.config import (
    from_tables,
    load_config,
    preset_names,
    read_run,
    to_tables,
)
from omnidc.training.losses import LOSSES
from omnidc.training.phases import phase_configs, phase_ends
from omnidc.training.tables import merge, modernize, parse_override


def test_paper_preset_is_the_papers() -> None:
    config = load_config("paper")
    assert config.schedule.epochs == 72
    assert [round(milestone * 72) for milestone in config.schedule.milestones] == [36, 48, 56, 64]
    assert config.data.epoch_size == 5 * 25_000
    assert config.data.sizes == [[480, 640]]
    assert (config.optimizer.batch, config.optimizer.lr, config.optimizer.grad_clip) == (60, 1e-3, 1.0)
    weights = {loss.name: config.loss.weight(loss) for loss in LOSSES}
    paper = {"l1": 1, "l1_init": 1, "laplace": 0.5, "laplace_init": 0.5, "gradient_matching": 2}
    paper |= {"gradient_l1": 1, "input_confidence": 1}
    assert {name: weight for name, weight in weights.items() if weight} == paper
    assert config.data.unit_median
    assert config.loss.min_log_scale == -2
    assert (config.augment.scale_max, config.augment.brightness, config.augment.jpeg) == (1.5, 0.4, 0)


def test_presets_of_the_paper_differ_as_they_say() -> None:
    paper, tenth, plus = (to_tables(load_config(name)) for name in ("paper", "paper-tenth", "paper-plus"))
    tenth["data"]["epoch_size"] *= 10
    assert tenth == paper
    assert plus["network"].pop("options") == {"released": False, "log_scale_floor": -7.0}
    assert plus["loss"].pop("min_log_scale") == -7.0
    paper["network"].pop("options"), paper["loss"].pop("min_log_scale")
    assert plus == paper


@pytest.mark.parametrize(
    ("name", "used"), [("ogni-dc", {"l1", "l1_init", "gradient_l1"}), ("completionformer", {"l1"})]
)
def test_presets_of_the_baselines_differ_in_network_and_losses_alone(name: str, used: set[str]) -> None:
    config = load_config(name)
    assert PaperConfig(**config.network.options) == PRESETS[name]
    assert {loss.name for loss in LOSSES if config.loss.weight(loss)} == used
    tables, tenth = to_tables(config), to_tables(load_config("paper-tenth"))
    for one in (tables, tenth):
        one["network"].pop("options"), one["loss"].pop("weights")
    assert tables == tenth


def test_presets_of_the_paper_train_in_float32() -> None:
    presets = [name for name in preset_names() if load_config(name).network.name == "paper"]
    assert len(presets) == 5
    assert {load_config(name).runtime.precision for name in presets} == {"fp32"}


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_complete_and_its_patterns_can_be_read(name: str) -> None:
    config = load_config(name, schedule={"time_budget": "1h"})
    parse(config.data.pattern, noise=config.data.noise or None)
    for text in config.validation.patterns:
        parse(text)
    assert from_tables(json.loads(json.dumps(to_tables(config)))) == config


def test_later_layers_win_key_by_key(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[optimizer]\nlr = 1\nbatch = 16\n[data.sources]\na = "/x"\n')
    config = load_config("compact", file, ["optimizer.batch=32", "schedule.steps=5"], data={"sources": {"b": "/y"}})
    assert config.optimizer.lr == 1.0
    assert config.optimizer.batch == 32
    assert config.optimizer.ema == load_config("compact", schedule={"steps": 1}).optimizer.ema
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
        ("optimizer.learning_rate=1", "no setting optimizer.learning_rate"),
        ("optimizer.lr=fast", "optimizer.lr must be a number"),
        ("optimizer.batch=1.5", "whole number"),
        ("optimizer=3", "table of settings"),
        ("optimizer.lr", "section.key=value"),
        ("data.sizes=[[1, 2, 3]]", "pairs"),
        ("data.val_fraction=1", "val_fraction"),
        ("schedule.kind=linear", "schedule.kind"),
        ("schedule.time_budget=soon", "duration"),
        ("runtime.precision=int8", "precision"),
        ("augment.flip=2", "flip"),
        ("optimizer.accumulate=0", "at least 1"),
    ],
)
def test_wrong_settings_are_named(override: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_config("compact", None, ["schedule.steps=1", override])


def test_run_without_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="no end"):
        load_config()


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


def test_modernize_old_keys_are_todays_settings() -> None:
    old = ["optimiser.clip=2.0", "data.hold_out=0.1", "data.per_epoch=7", "data.max_edges=0.3", "network.start=x"]
    old += ["augment.relief=0.25", "loss.l1_log=3.0", "loss.normals=0.0", "loss.edge_radius=3", "schedule.steps=1"]
    old += ["loss.gradient_space=linear"]
    config = load_config("compact", None, old)
    assert (config.optimizer.grad_clip, config.optimizer.batch) == (2.0, 8)
    assert (config.data.val_fraction, config.data.epoch_size, config.data.max_edge_fraction) == (0.1, 7, 0.3)
    assert (config.network.init_checkpoint, config.augment.compress_log_depth) == ("x", 0.25)
    assert (config.loss.weights["l1_log"], config.loss.weights["gradient_l1"]) == (3.0, 10.0)


def test_modernize_keeps_what_it_is_given() -> None:
    tables = {"optimiser": {"clip": 1.0}, "loss": {"normals": 0.0}}
    assert modernize(tables) == {"optimizer": {"grad_clip": 1.0}}
    assert tables == {"optimiser": {"clip": 1.0}, "loss": {"normals": 0.0}}


@pytest.mark.parametrize("override", ["loss.normals=1.0", "loss.edge_gain=2.0"])
def test_modernize_removed_settings_in_use_are_refused(override: str) -> None:
    with pytest.raises(ConfigError, match="was removed"):
        load_config("compact", None, ["schedule.steps=1", override])


def test_phases_override_key_by_key_and_share_the_steps() -> None:
    phases = [{"share": 0.7, "optimizer": {"batch": 16}, "loss": {"weights": {"l1_log": 2.0}}}, {"share": 0.3}]
    config = load_config("compact", schedule={"steps": 1000}, phase=phases)
    first, second = phase_configs(config)
    assert phase_ends(config) == [700, 1000]
    assert (first.optimizer.batch, first.optimizer.lr, first.loss.weights["l1_log"]) == (16, config.optimizer.lr, 2.0)
    assert first.loss.weights["gradient_l1"] == config.loss.weights["gradient_l1"]
    assert second.optimizer == config.optimizer
    assert phase_configs(load_config("paper"))[0] == load_config("paper")


def test_compact_preset_sizes_fit_the_network() -> None:
    for phase in phase_configs(load_config("compact")):
        sizes = [*phase.data.sizes, *(size[2:] for size in phase.data.working_sizes)]
        assert all(side % CompactNetwork.size_divisor == 0 for size in sizes for side in size)


def test_override_wins_over_phases_of_the_preset() -> None:
    given = load_config("compact", None, ["data.sizes=[[96, 128]]", "loss.weights.l1_log=2.0"])
    assert len(phase_configs(given)) > 1
    assert all(phase.data.sizes == [[96, 128]] for phase in phase_configs(given))
    assert len({str(phase.data.sizes) for phase in phase_configs(load_config("compact"))}) > 1


@pytest.mark.parametrize(
    ("phases", "complaint"),
    [
        ([{"share": 0.5}], "add up to 1"),
        ([{"share": 1.0, "network": {"name": "paper"}}], r"cannot change network\.name"),
        ([{"share": 1.0, "data": {"sources": {}}}], r"cannot change data\.sources"),
        ([{"share": 1.0, "optimizer": {"batch": "many"}}], r"optimizer\.batch must be a whole number"),
        ([{"share": 1.0, "schedule": {}}], r"no setting phase\.0\.schedule"),
    ],
)
def test_phases_that_cannot_be_are_refused(phases: list[object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        phase_configs(load_config("compact", phase=phases))
