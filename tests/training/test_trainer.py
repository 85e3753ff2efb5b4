from __future__ import annotations

import csv
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from omnidc.datasets.shards import ShardWriter
from omnidc.errors import ConfigError, FileError, InputError
from omnidc.network.checkpoint import load_network
from omnidc.network.paper.config import PaperConfig
from omnidc.training import data, trainer
from omnidc.training import losses as losses_module
from omnidc.training.config import TrainConfig, load_config, read_run, to_tables
from omnidc.training.distributed import ProcessGroup
from omnidc.training.logger import StepRecord
from omnidc.training.loss_module import LossModule, has_unused_parameters
from omnidc.training.networks import build_network, export, freeze
from omnidc.training.optimizer import make_optimizer
from omnidc.training.plan import make_plan
from omnidc.training.precision import pick_precision
from omnidc.training.state import load_state, save_state
from omnidc.training.stepper import Stepper
from omnidc.training.trainer import Trainer, train
from tiny import TinyNetwork, scene, tiny_config

HELPERS = Path(__file__).parents[1] / "helpers"
SOURCE = Path(trainer.__file__).parents[2]


def rows(folder: Path, name: str = "losses.csv") -> list[dict[str, str]]:
    with (folder / name).open(newline="") as file:
        return list(csv.DictReader(file))


def losses(folder: Path) -> list[str]:
    return [row["total"] for row in rows(folder)]


def environment() -> dict[str, str]:
    path = os.pathsep.join((str(SOURCE), str(HELPERS)))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def command(config: TrainConfig, folder: Path, *options: str) -> list[str]:
    """`omnidc train` with this configuration, by way of the file that a run leaves behind."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder.with_suffix(".json")
    file.write_text(json.dumps(to_tables(config)))
    start = "import sys, json; from pathlib import Path; from omnidc.training.config import from_tables; "
    start += "from omnidc.training.trainer import train; "
    start += "train(from_tables(json.loads(Path(sys.argv[1]).read_text())), Path(sys.argv[2]), "
    start += "resume='--resume' in sys.argv, quiet=True)"
    script = folder.with_suffix(".py")
    script.write_text(f"if __name__ == '__main__':\n    {start}\n")
    return [str(script), str(file), str(folder), *options]


def same_weights(first: Path, second: Path) -> None:
    one, two = load_file(first), load_file(second)
    assert one.keys() == two.keys()
    for name in one:
        assert torch.equal(one[name], two[name]), name


def test_run_learns_and_leaves_everything_it_promises(shard: Path, tmp_path: Path) -> None:
    config = tiny_config(
        shard, "schedule.steps=40", "validation.every_steps=20", "data.pattern='300'", "loss.weights.laplace_log=3.0"
    )
    summary = train(config, tmp_path, quiet=True)
    assert summary.step == 40
    assert summary.skipped == 0
    table = rows(tmp_path)
    assert [int(row["step"]) for row in table] == list(range(40))
    likelihood = [float(row["laplace_log"]) for row in table]
    assert np.mean(likelihood[-8:]) < np.mean(likelihood[:8]) - 0.2
    checks = rows(tmp_path, "validation.csv")
    assert [row["step"] for row in checks] == ["20", "40"]
    assert min(float(row["rel"]) for row in checks) == pytest.approx(summary.best, rel=1e-4)
    assert 0 <= float(checks[1]["coverage"]) <= 1
    names = {path.name for path in tmp_path.iterdir()}
    assert {"state.pt", "last.safetensors", "best.safetensors", "config.json", "pictures"} <= names
    assert (tmp_path / "pictures" / "step_0000040.jpg").stat().st_size > 1000
    network = TinyNetwork()
    network.load_state_dict(load_file(tmp_path / "last.safetensors"))


@pytest.mark.parametrize(
    ("preset", "unused"),  # released checkpoints have the head of learned edge weights, also where they are uniform
    [
        ("paper", "update_block.grad_weights_head."),
        ("ogni-dc", "update_block.grad_weights_head."),
        ("completionformer", "backbone.cfi_dec"),
    ],
)
def test_papers_network_and_its_baselines_train(shard: Path, tmp_path: Path, preset: str, unused: str) -> None:
    """Every weight that the result depends on moves within two steps; the file is what users load."""
    tables: dict[str, Any] = {
        "network": {"options": {"width": 0.125}},
        "data": {"sources": {"planes": str(shard)}, "sizes": [[32, 64]], "epoch_size": 0, "workers": 0},
        "optimizer": {"batch": 2},
        "schedule": {"epochs": 0, "steps": 2, "warmup": 0.0},
        "validation": {"every_epochs": 0, "frames": 1, "patterns": ["100"], "pictures": 0},
        "runtime": {"device": "cpu", "threads": 1, "processes": 1},
    }
    config = load_config(preset, None, ["data.pattern='200~400'"], **tables)
    with pytest.warns(UserWarning, match="random weights"):
        summary = train(config, tmp_path, quiet=True)
    assert (summary.step, summary.skipped) == (2, 0)
    assert all(np.isfinite(float(row["total"])) for row in rows(tmp_path))
    trained = load_network(tmp_path / "last.safetensors")
    assert trained.config == PaperConfig(**config.network.options)
    torch.manual_seed(config.seed)
    start = dict(build_network(config.network).named_parameters())
    still = [name for name, value in trained.named_parameters() if torch.equal(value, start[name])]
    assert [name for name in still if not name.startswith(unused)] == []


def test_interrupted_run_goes_on_as_if_nothing_had_happened(shard: Path, tmp_path: Path) -> None:
    """Stopped in the middle of the second epoch, resumed in a fresh process state."""
    config = tiny_config(shard, "schedule.steps=9", "runtime.checkpoint_steps=1")
    train(config, tmp_path / "whole", quiet=True)

    class StoppedError(Exception):
        pass

    def stop_at_six(self: Trainer, *arguments: Any) -> StepRecord:
        if self.step == 6:
            raise StoppedError
        return original(self, *arguments)

    original = Trainer.train_step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train_step", stop_at_six)
        with pytest.raises(StoppedError):
            train(config, tmp_path / "parts", quiet=True)
    train(config, tmp_path / "parts", resume=True, quiet=True)
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    same_weights(tmp_path / "parts" / "last.safetensors", tmp_path / "whole" / "last.safetensors")


def test_killed_run_goes_on_as_if_nothing_had_happened(shard: Path, tmp_path: Path) -> None:
    """kill -9 somewhere between two checkpoints, with a worker process, then --resume."""
    config = tiny_config(shard, "schedule.steps=30", "runtime.checkpoint_steps=4", "data.workers=1")
    train(config, tmp_path / "whole", quiet=True)
    killed = tmp_path / "killed"
    call = [sys.executable, *command(config, killed)]
    process = subprocess.Popen(call, env=environment(), start_new_session=True)
    deadline = time.monotonic() + 600
    while not (killed / "state.pt").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert load_state(killed)["step"] < 30, "too fast for this test"
    subprocess.run([*call, "--resume"], env=environment(), check=True, timeout=600)
    assert losses(killed) == losses(tmp_path / "whole")
    same_weights(killed / "last.safetensors", tmp_path / "whole" / "last.safetensors")


def test_signal_to_the_workers_too_ends_a_run_with_a_checkpoint(shard: Path, tmp_path: Path) -> None:
    """Slurm sends SIGTERM to every process of a job."""
    config = tiny_config(shard, "schedule.steps=100000", "runtime.checkpoint_steps=5", "data.workers=1")
    run = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, *command(config, run)], env=environment(), start_new_session=True, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 300
    while not (run / "state.pt").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert "DataLoader worker" not in errors.decode()
    state = load_state(run)
    assert state["step"] == len(losses(run))
    assert not state["finished"]


def test_growing_folder_is_indexed_once_an_epoch(tmp_path: Path) -> None:
    folder = tmp_path / "frames"

    def grow(number: int) -> None:
        with ShardWriter(folder / f"part_{number}.tar") as writer:
            for i in range(8):
                writer.add(f"plane_{100 * number + i:05d}_0", *scene(10 * number + i))

    grow(0)
    config = tiny_config(folder, "data.val_fraction=0", "schedule.steps=8", "runtime.checkpoint_steps=1")
    original = Trainer.train_step
    sizes: list[int] = []

    def watch(self: Trainer, *arguments: Any) -> StepRecord:
        assert self.data.train is not None
        sizes.append(len(self.data.train[0]))
        if self.step == 1:
            grow(1)
        return original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train_step", watch)
        train(config, tmp_path / "run", quiet=True)
    assert sizes == [8, 8, 16, 16, 16, 16, 16, 16]
    # a run resumed in the middle of an epoch sees that epoch's frames, whatever was added since
    grow(2)
    resumed = Trainer(config, tmp_path / "run", ProcessGroup(0, 1, torch.device("cpu")), resume=True)
    assert resumed.data.train is not None
    assert len(resumed.data.train[0]) == 16
    assert len(resumed.data.train[0].frames) == 24


def test_two_processes_give_losses_of_one(shard: Path, tmp_path: Path) -> None:
    config = tiny_config(shard, "schedule.steps=5", "validation.every_steps=3")
    train(config, tmp_path / "one", quiet=True)
    two = tmp_path / "two"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run([*launcher, *command(config, two)], env=environment(), check=True, timeout=600)
    one_losses, two_losses = (np.array(losses(folder), float) for folder in (tmp_path / "one", two))
    np.testing.assert_allclose(two_losses, one_losses, rtol=2e-5)
    first, second = load_file(tmp_path / "one" / "last.safetensors"), load_file(two / "last.safetensors")
    for name in first:
        torch.testing.assert_close(first[name] * 1.0, second[name] * 1.0, rtol=1e-4, atol=1e-5)


def test_accumulating_gradients_gives_the_same_losses(shard: Path, tmp_path: Path) -> None:
    for parts in (1, 2):
        train(tiny_config(shard, f"optimizer.accumulate={parts}"), tmp_path / str(parts), quiet=True)
    whole, parted = (np.array(losses(tmp_path / str(parts)), float) for parts in (1, 2))
    np.testing.assert_allclose(parted, whole, rtol=2e-5)


def test_batch_without_finite_loss_is_skipped_counted_and_kept(shard: Path, tmp_path: Path) -> None:
    config = tiny_config(shard, "schedule.steps=6")
    original = losses_module.total
    number = iter(range(100))

    def spoil(*arguments: Any) -> dict[str, torch.Tensor]:
        factor = torch.nan if next(number) == 3 else 1.0
        return {name: factor * value for name, value in original(*arguments).items()}

    before: dict[str, torch.Tensor] = {}
    step = Trainer.train_step

    def watch(self: Trainer, *arguments: Any) -> StepRecord:
        if self.step == 3:
            before.update({name: tensor.clone() for name, tensor in self.network.state_dict().items()})
        if self.step == 4:
            for name, tensor in self.network.state_dict().items():
                assert torch.equal(tensor, before[name]), f"{name} changed by a bad batch"
        return step(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses_module, "total", spoil)
        patch.setattr(Trainer, "train_step", watch)
        summary = train(config, tmp_path, quiet=True)
    assert before
    assert summary.skipped == 1
    assert np.isfinite(summary.loss)
    (kept,) = (tmp_path / "nan").iterdir()
    batch = torch.load(kept, weights_only=True)
    assert batch[0]["names"]
    assert kept.name.startswith("step_0000003")


def test_run_gives_up_when_no_batch_is_finite(shard: Path, tmp_path: Path) -> None:
    config = tiny_config(shard, "schedule.steps=50", "runtime.max_skipped=3")
    original = losses_module.total

    def spoil(*arguments: Any) -> dict[str, torch.Tensor]:
        return {name: torch.nan * value for name, value in original(*arguments).items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses_module, "total", spoil)
        with pytest.raises(InputError, match="3 batches in a row"):
            train(config, tmp_path, quiet=True)


def test_time_budget_ends_the_run_with_a_finished_schedule(shard: Path, tmp_path: Path) -> None:
    config = tiny_config(shard, "schedule.steps=0", schedule={"time_budget": "3s"})
    began = time.monotonic()
    summary = train(config, tmp_path, quiet=True)
    assert time.monotonic() - began > 2.0
    assert summary.step > 3
    last = rows(tmp_path)[-1]
    assert float(last["progress"]) > 0.8
    assert float(last["lr"]) < 0.3 * config.optimizer.lr
    assert (tmp_path / "last.safetensors").is_file()


def test_cpu_time_of_a_run_excludes_earlier_work_of_the_process(shard: Path, tmp_path: Path) -> None:
    config = tiny_config(shard, "schedule.steps=4")
    spent = 1000.0  # by the process before the run
    original = Trainer.train_step

    def step(self: Trainer, *arguments: Any) -> StepRecord:
        nonlocal spent
        spent += 2.0
        if spent == 1004.0:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "cpu_seconds", lambda: spent)
        patch.setattr(Trainer, "train_step", step)
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path, quiet=True)
        assert load_state(tmp_path)["cpu_seconds"] == 4.0
        spent += 500.0  # between the runs
        assert train(config, tmp_path, quiet=True).step == 4
        assert load_state(tmp_path)["cpu_seconds"] == 8.0


def test_signal_ends_the_run_with_a_checkpoint(shard: Path, tmp_path: Path) -> None:
    config = tiny_config(shard, "schedule.steps=1000")
    original = Trainer.train_step

    def press(self: Trainer, *arguments: Any) -> StepRecord:
        if self.step == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train_step", press)
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path, quiet=True)
    assert load_state(tmp_path)["step"] == 4


def test_folder_of_an_earlier_run_is_not_overwritten(shard: Path, tmp_path: Path) -> None:
    train(tiny_config(shard, "schedule.steps=1"), tmp_path, quiet=True)
    with pytest.raises(FileError, match="--resume"):
        train(tiny_config(shard), tmp_path, quiet=True)
    with pytest.raises(FileError, match="no run"):
        train(tiny_config(shard), tmp_path / "other", resume=True, quiet=True)
    with pytest.raises(ConfigError, match="another network"):
        train(tiny_config(shard, "network.options.width=4"), tmp_path, resume=True, quiet=True)


def test_run_of_an_earlier_version_is_resumed(shard: Path, tmp_path: Path) -> None:
    config = tiny_config(shard, "schedule.steps=4")
    train(config, tmp_path, quiet=True)
    tables = to_tables(tiny_config(shard, "schedule.steps=6"))
    tables["optimiser"] = tables.pop("optimizer")
    tables["optimiser"]["clip"] = tables["optimiser"].pop("grad_clip")
    tables["data"]["hold_out"] = tables["data"].pop("val_fraction")
    tables["loss"] |= {**tables["loss"].pop("weights"), "normals": 0.0, "edge_gain": 0.0}
    (tmp_path / "config.json").write_text(json.dumps(tables))
    state = load_state(tmp_path)
    state["optimiser"] = state.pop("optimizer")
    save_state(tmp_path, state)
    resumed = load_config(base=read_run(tmp_path))
    assert resumed == tiny_config(shard, "schedule.steps=6")
    assert train(resumed, tmp_path, resume=True, quiet=True).step == 6


def test_sources_are_opened_once_before_the_first_step(shard: Path, tmp_path: Path) -> None:
    original, opened = data.open_source, []

    def count(name: str, path: str) -> data.TrainingSource:
        opened.append(name)
        return original(name, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "open_source", count)
        train(tiny_config(shard, "schedule.steps=2"), tmp_path, quiet=True)
    assert opened == ["planes"]


def test_unused_parameters_are_searched_for_only_if_there_are(shard: Path) -> None:
    network = TinyNetwork()
    calls = network.calls.clone()
    module = LossModule(network, tiny_config(shard).loss)
    assert has_unused_parameters(module, (32, 48), torch.device("cpu"))
    freeze(network, ["unused"])
    assert not has_unused_parameters(module, (32, 48), torch.device("cpu"))
    assert torch.equal(network.calls, calls)
    assert all(parameter.grad is None for parameter in network.parameters())


def test_same_command_again_goes_on_and_then_does_nothing(shard: Path, tmp_path: Path) -> None:
    config = tiny_config(shard, "schedule.steps=5", "runtime.checkpoint_steps=1")
    original = Trainer.train_step

    def press(self: Trainer, *arguments: Any) -> StepRecord:
        if self.step == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train_step", press)
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path, quiet=True)
    assert train(config, tmp_path, quiet=True).step == 5
    before = (tmp_path / "state.pt").read_bytes()
    again = train(config, tmp_path, quiet=True)
    assert again.step == 5
    assert (tmp_path / "state.pt").read_bytes() == before
    assert [row["step"] for row in rows(tmp_path)] == ["0", "1", "2", "3", "4"]


def test_recipe_and_metadata_say_how_the_weights_were_made(tmp_path: Path) -> None:
    folder = tmp_path / "frames"
    with ShardWriter(folder / "part.tar") as writer:
        for i in range(12):
            writer.add(f"plane_{i:05d}_0", *scene(i))
    generator = {"settings": {"seed": 7}, "versions": {"omnidc": "0.1.0"}}
    (folder / "manifest.json").write_text(json.dumps({**generator, "shards": []}))
    run = tmp_path / "run"
    train(tiny_config(folder, "schedule.steps=2"), run, quiet=True)
    again = tmp_path / "again"
    train(tiny_config(folder, "schedule.steps=2"), again, quiet=True)
    assert (again / "last.safetensors").read_bytes() == (run / "last.safetensors").read_bytes()
    recipe = json.loads((run / "recipe.json").read_text())
    assert recipe["settings"]["seed"] == 3
    assert recipe["sources"]["planes"]["generator"] == generator
    assert recipe["sources"]["planes"]["frames"] > 0
    assert (recipe["step"], recipe["images"]) == (2, 8)
    assert recipe["cpu_hours"] > 0
    digest = hashlib.sha256((run / "last.safetensors").read_bytes()).hexdigest()
    assert recipe["sha256"]["last.safetensors"] == digest
    with safe_open(run / "last.safetensors", framework="pt") as file:
        inside = json.loads(file.metadata()["training"])
    assert inside["settings"] == recipe["settings"]
    assert inside["sources"] == recipe["sources"]


def test_phases_change_size_batch_rate_and_frozen_parts(shard: Path, tmp_path: Path) -> None:
    start = tmp_path / "start.safetensors"
    export(TinyNetwork(), tiny_config(shard).network, start, {})
    phases = [
        {"share": 0.5, "network": {"freeze": ["stem"]}, "data": {"sizes": [[32, 48]]}, "optimizer": {"batch": 2}},
        {"share": 0.5, "data": {"sizes": [[48, 64]]}, "optimizer": {"lr": 1e-3}},
    ]
    config = tiny_config(shard, "schedule.steps=8", "schedule.warmup=0", "schedule.final=1", phase=phases)
    config.network.init_checkpoint = str(start)
    stems: list[torch.Tensor] = []
    original = Trainer.train_step

    def watch(self: Trainer, *arguments: Any) -> StepRecord:
        record = original(self, *arguments)
        stems.append(self.network.state_dict()["stem.weight"].clone())
        return record

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train_step", watch)
        patch.setattr("omnidc.training.networks.load_network", lambda path: TinyNetwork())
        summary = train(config, tmp_path / "run", quiet=True)
    table = rows(tmp_path / "run")
    assert [row["size"] for row in table] == ["32x48"] * 4 + ["48x64"] * 4
    assert [float(row["lr"]) for row in table] == pytest.approx([1e-2] * 4 + [1e-3] * 4)
    assert all(torch.equal(stem, stems[0]) for stem in stems[:4])
    assert not torch.equal(stems[4], stems[3])
    assert load_state(tmp_path / "run")["images"] == 4 * 2 + 4 * 4
    assert summary.step == 8


@pytest.mark.parametrize("restart", [False, True])
def test_phases_resume_to_the_same_losses(shard: Path, tmp_path: Path, restart: bool) -> None:
    phases = [
        {"share": 0.25, "optimizer": {"batch": 2}},
        {"share": 0.75, "restart": restart, "data": {"sizes": [[48, 64]]}},
    ]
    config = tiny_config(shard, "schedule.steps=8", "runtime.checkpoint_steps=1", phase=phases)
    train(config, tmp_path / "whole", quiet=True)
    original = Trainer.train_step

    def press(self: Trainer, *arguments: Any) -> StepRecord:
        if self.step in stops:
            stops.remove(self.step)
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self, *arguments)

    stops = [1, 4]  # the step that ends the first phase, and one within the second
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train_step", press)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                train(config, tmp_path / "parts", quiet=True)
        train(config, tmp_path / "parts", quiet=True)
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    same_weights(tmp_path / "parts" / "last.safetensors", tmp_path / "whole" / "last.safetensors")


def test_restart_begins_a_cycle_from_the_averaged_weights(shard: Path, tmp_path: Path) -> None:
    phases = [{"share": 0.25}, {"share": 0.25}, {"share": 0.25, "restart": True}, {"share": 0.25}]
    settings = ["schedule.steps=16", "schedule.kind=cosine", "schedule.warmup=0.25", "optimizer.ema=0.9"]
    config = tiny_config(shard, *settings, phase=phases)
    is_average: list[bool] = []
    moments: list[int] = []
    original = Trainer.train_step

    def watch(self: Trainer, *arguments: Any) -> StepRecord:
        average = self.ema.network.state_dict()
        is_average.append(all(torch.equal(average[name], tensor) for name, tensor in self.network.state_dict().items()))
        moments.append(len(self.stepper.optimizer.state))
        return original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train_step", watch)
        train(config, tmp_path / "run", quiet=True)
    assert [step for step in range(16) if is_average[step]] == [0, 1, 8, 9]  # the rate of a cycle's first step is 0
    assert [step for step in range(16) if not moments[step]] == [0, 8]
    rates = [float(row["lr"]) for row in rows(tmp_path / "run")]
    assert rates[8:] == pytest.approx(rates[:8])
    assert max(rates) == rates[2] > 2 * rates[7]


def test_phases_with_equal_settings_follow_each_other(shard: Path, tmp_path: Path) -> None:
    config = tiny_config(shard, "schedule.steps=4", phase=[{"share": 0.5}, {"share": 0.1}, {"share": 0.4}])
    assert train(config, tmp_path / "run", quiet=True).step == 4


def test_working_size_reaches_the_network(shard: Path, tmp_path: Path) -> None:
    sizes: list[Any] = []

    def forward(self: TinyNetwork, image: torch.Tensor, sparse: torch.Tensor, working_size: Any = None) -> Any:
        sizes.append((tuple(image.shape[-2:]), working_size))
        return original(self, image, sparse)

    original = TinyNetwork.forward
    overrides = ["data.working_sizes=[[48, 64, 24, 32]]", "data.working_share=1.0", "validation.frames=0"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tiny.TinyNetwork.forward", forward)
        train(tiny_config(shard, "schedule.steps=2", *overrides), tmp_path, quiet=True)
    assert sizes == [((48, 64), (24, 32))] * 2


def test_impossible_runs_are_refused_before_they_begin(shard: Path, tmp_path: Path) -> None:
    def refused(*overrides: str) -> str:
        with pytest.raises((ConfigError, FileError)) as caught:
            train(tiny_config(shard, *overrides), tmp_path / "x", quiet=True)
        return str(caught.value)

    assert "multiples of 8" in refused("data.sizes=[[33, 48]]")
    assert "multiple of 3" in refused("optimizer.accumulate=3")
    assert "fewer than" in refused("optimizer.batch=400")
    assert "--data" in refused("data.sources={}")
    assert "MODULE:CLASS" in refused("network.name=huge")
    assert "no parameter" in refused("optimizer.lr_scale={nose = 1.0}")
    assert "needs a GPU" in refused("runtime.precision=bf16")
    assert "sparkle" in refused("validation.patterns=['sparkle']")
    assert "does not take" in refused("network.options.color=1")


def test_optimizer_scales_rates_by_prefix(shard: Path) -> None:
    config = tiny_config(shard, "optimizer.lr_scale={stem = 0.1}", "optimizer.decay_all=false")
    network = TinyNetwork()
    groups = make_optimizer(network, config.optimizer).param_groups
    found = {(group["lr_scale"], group["weight_decay"]): len(group["params"]) for group in groups}
    assert found == {(0.1, 0.01): 1, (0.1, 0.0): 1, (1.0, 0.01): 3, (1.0, 0.0): 3}


@pytest.mark.parametrize("last", ["stem.weight", "stem", "st"])
def test_optimizer_leaves_out_what_all_phases_freeze(shard: Path, last: str) -> None:
    phases = []
    for prefix in ("stem.weight", last):
        phases.append(tiny_config(shard))
        phases[-1].network.freeze, phases[-1].network.encoder = [prefix], "known"
    network = TinyNetwork()
    stepper = Stepper(network, phases, ProcessGroup(0, 1, torch.device("cpu")))
    trained = [id(parameter) for group in stepper.optimizer.param_groups for parameter in group["params"]]
    names = {name for name, parameter in network.named_parameters() if id(parameter) not in trained}
    assert names == {"stem.weight"}


def test_a_prefix_whose_parameters_are_all_frozen_is_no_mistake(shard: Path) -> None:
    network = TinyNetwork()
    freeze(network, ["stem"])
    groups = make_optimizer(network, tiny_config(shard, "optimizer.lr_scale={stem = 0.1}").optimizer).param_groups
    assert {group["lr_scale"] for group in groups} == {1.0}


def test_a_prefix_without_parameters_is_refused(shard: Path) -> None:
    config = tiny_config(shard, "optimizer.lr_scale={extra = 5.0}")
    with pytest.raises(ConfigError, match="extra"):
        make_optimizer(TinyNetwork(), config.optimizer)


def test_cpu_always_computes_in_float32(shard: Path) -> None:
    assert pick_precision(tiny_config(shard).runtime, torch.device("cpu")) is torch.float32


def test_dry_run_measures_and_writes_nothing(shard: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    plan = make_plan(tiny_config(shard, "schedule.epochs=2", "schedule.steps=0"))
    assert plan.steps == 2 * plan.steps_per_epoch
    assert plan.images_per_second > 0
    assert plan.parameters == sum(p.numel() for p in TinyNetwork().parameters())
    assert "images a second" in plan.text()
    assert sorted(tmp_path.rglob("*")) == before


def test_dry_run_times_every_phase(shard: Path) -> None:
    phases = "phase=[{share=0.01}, {share=0.2}, {share=0.79, optimizer={batch=4}, data={sizes=[[64, 64]]}}]"
    plan = make_plan(tiny_config(shard, "schedule.steps=20", "schedule.epochs=0", "optimizer.batch=2", phases))
    assert [(phase.steps, phase.batch) for phase in plan.phases] == [(4, 2), (16, 4)]  # 0.2 of a step is none
    assert all(phase.seconds_per_step > 1e-4 for phase in plan.phases)
    assert (plan.steps, plan.images) == (20, 4 * 2 + 16 * 4)
    assert plan.seconds == pytest.approx(sum(phase.seconds for phase in plan.phases))
    assert "phase 2" in plan.text()


def test_dry_run_ends_on_the_clock(shard: Path) -> None:
    plan = make_plan(tiny_config(shard, "schedule.steps=0", "schedule.epochs=0", 'schedule.time_budget="2h"'))
    assert plan.seconds == pytest.approx(7200, rel=0.01)
