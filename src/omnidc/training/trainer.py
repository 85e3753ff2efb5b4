"""The trainer: one process or many, resumable to the bit."""

from __future__ import annotations

import bisect
import json
import math
import time
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from omnidc.errors import ConfigError, FileError, InputError
from omnidc.integrate import ConvergenceWarning
from omnidc.io.files import atomic_path
from omnidc.patterns import parse
from omnidc.training.batch import Batch
from omnidc.training.clock import Clock, Interval, Pace, cpu_seconds
from omnidc.training.config import (
    DataConfig,
    TrainConfig,
    first_difference,
    from_tables,
    read_run,
    to_tables,
)
from omnidc.training.data import TrainingData, TrainingSource, epoch_order
from omnidc.training.distributed import ProcessGroup, join_group
from omnidc.training.ema import EMA
from omnidc.training.logger import RunLogger, StepRecord
from omnidc.training.networks import build_network, check_export, export, initialize
from omnidc.training.phases import cycle_progress, phase_configs, phase_ends, work_done
from omnidc.training.recipe import describe, write_recipe
from omnidc.training.samples import EpochSampler, Samples, make_loader
from omnidc.training.schedule import format_duration, lr_factor, parse_duration, progress
from omnidc.training.signals import StopSignal
from omnidc.training.state import STATE, Position, load_state, pack_names, save_state, unpack_names
from omnidc.training.stepper import Stepper
from omnidc.training.validation import validate, write_picture

MAX_SAVED_BATCHES = 10  # batches without a finite loss that are saved
FIRST_RESERVE = 0.02  # share of a time budget kept for the end before any validation was timed


@dataclass(frozen=True)
class Summary:
    """How a run ended."""

    step: int
    epoch: int
    elapsed: float  # seconds of training, over all resumptions
    skipped: int  # batches without a finite loss
    best: float  # mean REL of the best validation; inf without any
    loss: float  # of the last step


class Trainer:
    """One training run in one process; `train` drives it."""

    def __init__(self, config: TrainConfig, folder: Path, group: ProcessGroup, *, resume: bool = False) -> None:
        self.whole, self.folder, self.group = config, folder, group
        self.phases, self._phase_ends = phase_configs(config), phase_ends(config)
        self.config = self.phases[0]  # of the present phase
        self.device = group.device
        for phase in self.phases:
            self._check(phase)
        if config.runtime.threads:
            torch.set_num_threads(config.runtime.threads)
        cv2.setNumThreads(0)

        self.position = Position()
        self.frames: dict[str, int] = {}  # of the last epoch, by source
        self.clock = Clock()
        self._cpu_before = -self.group.size * cpu_seconds()  # what this process used before it began to train
        self.stop = StopSignal()
        self.stopped = False  # all processes agreed to stop
        self.last_loss = math.nan
        self._skipped_in_a_row = 0

        torch.manual_seed(config.seed)
        self.network = build_network(config.network)
        check_export(self.network, config.export)
        for phase in self.phases:
            self._check_sizes(phase.data)
        if not resume:
            with group.main_first():
                initialize(self.network, config.network)
        self.network.to(self.device)
        if config.runtime.channels_last:
            self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.stepper = Stepper(self.network, self.phases, group)
        self.network = self.stepper.network

        self.data = TrainingData(config.data, group)
        if resume:
            self._restore(load_state(folder))
        else:
            self.data.choose_validation(config.validation.frames)

    @property
    def ema(self) -> EMA:
        """The averaged weights."""
        return self.stepper.ema

    @property
    def step(self) -> int:
        """Optimizer steps done."""
        return self.position.step

    def _check(self, config: TrainConfig) -> None:
        """Refuse impossible settings before anything is built."""
        options, parts = config.optimizer, self.group.size * config.optimizer.accumulate
        if options.batch % parts:
            raise ConfigError(
                f"optimizer.batch={options.batch} cannot be split over {self.group.size} processes "
                f"x {options.accumulate} parts: choose a multiple of {parts}."
            )
        parse(config.data.pattern, noise=config.data.noise or None)
        for text in config.validation.patterns:
            parse(text)

    def _check_sizes(self, data: DataConfig) -> None:
        multiple = self.network.size_divisor
        for height, width in [*data.sizes, *(size[2:] for size in data.working_sizes)]:
            if height % multiple or width % multiple:
                raise ConfigError(
                    f"{height}x{width} of data.sizes or data.working_sizes does not fit this network, "
                    f"whose sizes are multiples of {multiple}."
                )

    def skip_to_phase(self, number: int) -> int:
        """Go to the first step of phase `number`, from 0, as a new epoch; return the steps of the phase."""
        ends = [0, *self._phase_ends]
        self.position.step = self.position.epoch_first = ends[number]
        return ends[number + 1] - ends[number]

    def _enter_phase(self) -> int:
        """Take the settings of the phase that the present step belongs to; return the step after its last."""
        number = min(bisect.bisect_right(self._phase_ends, self.step), len(self.phases) - 1)
        if self.stepper.module is None or self.phases[number] is not self.config:
            self.config = self.phases[number]
            self.stepper.configure(self.config)
            is_first_step = number > 0 and self.step == self._phase_ends[number - 1]
            if is_first_step and self.whole.phase[number].restart:
                self.stepper.restart()
        return self._phase_ends[number]

    # ------------------------------------------------------------------------------------------------------- state

    def state(self) -> dict[str, Any]:
        train, validation = self.data.train, self.data.validation.sources
        return {
            "config": json.dumps(to_tables(self.whole)),
            **asdict(self.position),
            "elapsed": self.clock.elapsed,
            "sources": None if train is None else pack_names({source.name: source.names for source in train}),
            "held_out": pack_names({source.name: source.names for source in validation}),
            **self.stepper.state(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        try:
            self.stepper.load_state(state)
        except (RuntimeError, ValueError) as error:
            raise ConfigError(
                f"The run in {self.folder} trains another network than this configuration describes; "
                "use its own config.json or another --out."
            ) from error
        images = state["step"] * self.whole.optimizer.batch  # of runs of earlier versions, which did not count them
        self.position = Position(**{name: state[name] for name in asdict(self.position) if name in state})
        self.position.images = state.get("images", images)
        self._cpu_before += self.position.cpu_seconds
        self.clock.start(state["elapsed"])
        train = state["sources"]
        self.data.restore(
            train=None if train is None else unpack_names(train), validation=unpack_names(state["held_out"])
        )

    def save(self, logger: RunLogger | None) -> None:
        """Write the state and the averaged weights (the main process; the others have the same)."""
        if self.group.is_main:
            if logger is not None:
                logger.flush()  # first: a resumed run expects the rows of every step before its state
            self.position.cpu_seconds = self._cpu_before + self.group.size * cpu_seconds()
            save_state(self.folder, self.state())
            self._export("last.safetensors")

    def _export(self, name: str, **scores: float) -> None:
        """Write the averaged weights with their recipe."""
        about = {**self.recipe(), **scores}
        export(self.ema.network, self.config.network, self.folder / name, about, self.whole.export)

    def recipe(self) -> dict[str, Any]:
        """Return how the weights were made; no times, so that the same recipe makes the same file."""
        return describe(self.whole, self.frames, processes=self.group.size, step=self.step, images=self.position.images)

    # ------------------------------------------------------------------------------------------------------- steps

    def sampler(self) -> EpochSampler:
        """Return the rest of the present epoch; a new one is begun if there is none."""
        if self.data.train is None:
            self.data.begin_epoch(self.folder)
        self.frames = {source.name: len(source) for source in self.data.train or ()}
        phase_end = self._enter_phase()
        config, position = self.config, self.position
        order = epoch_order(
            self.sources,
            mix=config.data.mix,
            epoch_size=config.data.epoch_size,
            seed=config.seed,
            epoch=position.epoch,
        )
        sampler = EpochSampler(
            order,
            seed=config.seed,
            first=position.epoch_first,
            start=position.step,
            batch=config.optimizer.batch,
            accumulate=config.optimizer.accumulate,
            rank=self.group.rank,
            world=self.group.size,
            sizes=config.data.sizes,
            working_sizes=config.data.working_sizes,
            working_share=config.data.working_share,
            stop=phase_end,
        )
        if sampler.steps == 0:
            raise ConfigError(
                f"An epoch has {len(order)} frames, fewer than optimizer.batch={config.optimizer.batch}: "
                "set data.epoch_size or a smaller batch."
            )
        return sampler

    @property
    def sources(self) -> list[TrainingSource]:
        """The training frames of the present phase."""
        assert self.data.train is not None
        used = self.config.data.use
        return [source for source in self.data.train if not used or source.name in used]

    def batches(self, sampler: EpochSampler) -> Iterator[Batch]:
        samples = Samples(self.sources, self.config.data, self.config.augment, self.config.seed)
        return iter(make_loader(samples, sampler, self.config.data, pin=self.device.type == "cuda"))

    def progress(self, elapsed: float, steps_per_epoch: int | None = None) -> float:
        """Return the share of the run that is over; between two epochs without `steps_per_epoch`."""
        position = self.position
        inside = (position.step - position.epoch_first) / steps_per_epoch if steps_per_epoch else 0.0
        return progress(
            self.config.schedule,
            step=position.step,
            epoch=position.epoch + inside,
            elapsed=elapsed,
            reserve=position.reserve,
        )

    def train_step(self, batches: Iterator[Batch], done: float) -> StepRecord:
        """Take one optimizer step at progress `done`."""
        position = self.position
        lr = self.config.optimizer.lr * lr_factor(self.config.schedule, cycle_progress(self.whole, done))
        result = self.stepper.step(batches, position.step, lr)
        self._skipped_in_a_row = 0 if result.is_finite else self._skipped_in_a_row + 1
        if not result.is_finite:
            self._skip(result.batches)
        self.last_loss = result.losses.pop("total", math.nan)
        record = StepRecord(
            step=position.step,
            epoch=position.epoch,
            progress=done,
            elapsed=self.clock.elapsed,
            lr=lr,
            norm=result.norm,
            skipped=position.skipped,
            resampled=sum(batch.resampled for batch in result.batches),
            size="x".join(map(str, result.batches[0].image.shape[-2:])),
            total=self.last_loss,
            losses=result.losses,
        )
        position.step += 1
        position.images += self.config.optimizer.batch
        return record

    def _skip(self, seen: list[Batch]) -> None:
        """Count a step without a finite loss, and save its data for inspection."""
        self.position.skipped += 1
        if self.position.skipped <= MAX_SAVED_BATCHES:
            with atomic_path(self.folder / "nan" / f"step_{self.step:07d}_rank{self.group.rank}.pt") as temporary:
                torch.save([asdict(batch) for batch in seen], temporary)
        if self._skipped_in_a_row >= self.config.runtime.max_skipped:
            raise InputError(
                f"{self._skipped_in_a_row} batches in a row had no finite loss; they are in {self.folder / 'nan'}. "
                "Lower optimizer.lr or look for bad data, then go on with --resume."
            )

    # -------------------------------------------------------------------------------------------------- validation

    def validate(self, logger: RunLogger | None) -> None:
        """Score the averaged weights and keep the best; the other processes wait for the main one."""
        if self.group.is_main and logger is not None and len(self.data.validation):
            began = time.monotonic()
            options, elapsed = self.config.validation, self.clock.elapsed
            scores, picture = validate(
                self.ema.network, self.data.validation, options.patterns, pictures=options.pictures
            )
            rows = [
                {"step": self.step, "elapsed": elapsed, "pattern": text, **asdict(score)}
                for text, score in scores.items()
            ]
            if picture is not None:
                write_picture(self.folder / "pictures" / f"step_{self.step:07d}.jpg", picture)
            logger.validation(rows, picture)
            mean = float(np.mean([score.rel for score in scores.values()])) if scores else math.inf
            if math.isfinite(mean) and mean < self.position.best:
                self.position.best = mean
                self._export("best.safetensors", rel=mean)
            parts = ", ".join(
                f"{t}: REL {s.rel:.4f} δ1 {s.delta1:.3f} cover {s.coverage:.3f}" for t, s in scores.items()
            )
            self.position.reserve = 1.2 * (time.monotonic() - began) + 2.0
            logger.note(f"step {self.step}, {format_duration(self.clock.elapsed)}: mean REL {mean:.4f} ({parts})")
        self.group.barrier()

    # --------------------------------------------------------------------------------------------------- whole run

    def run(self, logger: RunLogger | None) -> Summary:
        """Train until the schedule ends or a signal asks to stop."""
        config, position = self.whole, self.position
        self.clock.start()
        if self._is_over() and position.finished:
            return self.summary()
        position.finished = False
        if config.schedule.time_budget and not position.reserve:
            position.reserve = FIRST_RESERVE * parse_duration(config.schedule.time_budget)
        now = self.clock.elapsed
        validation = Interval(config.validation.every_steps, config.validation.every_minutes, now)
        checkpoint = Interval(config.runtime.checkpoint_steps, config.runtime.checkpoint_minutes, now)
        pace = Pace()
        validated_step = -1
        while not self._is_over():
            sampler = self.sampler()
            batches = self.batches(sampler)
            began = self.clock.elapsed
            while self.step < sampler.end and not self._is_over(sampler.steps):
                record = self.train_step(batches, self._done)
                pace.update(self.config.optimizer.batch, record.elapsed - began)
                if logger is not None:
                    work = work_done(self.phases, self._phase_ends, record.progress)
                    logger.step(record, rate=pace.rate, left=pace.left(work, record.elapsed))
                last = self.step == sampler.end
                every = config.validation.every_epochs
                due = validation.due(self.step, record.elapsed) or bool(
                    last and every and (position.epoch + 1) % every == 0
                )
                validate_now, save_now = self.group.broadcast(
                    [float(due), float(checkpoint.due(self.step, record.elapsed))]
                )
                if validate_now:
                    self.validate(logger)
                    validation.last, validated_step = self.clock.elapsed, self.step
                if last:
                    self._end_epoch()
                if save_now or validate_now:
                    self.save(logger)
                    checkpoint.last = self.clock.elapsed
                began = self.clock.elapsed
            del batches
        if not self.stopped and validated_step != self.step:
            self.validate(logger)
        position.finished = not self.stopped
        self.save(logger)
        if self.group.is_main:
            files = [self.folder / name for name in ("last.safetensors", "best.safetensors")]
            hours = {"hours": self.clock.elapsed / 3600, "cpu_hours": position.cpu_seconds / 3600}
            write_recipe(self.folder, {**self.recipe(), **hours}, files)
        return self.summary()

    def summary(self) -> Summary:
        """Return where the run stands."""
        position = self.position
        return Summary(self.step, position.epoch, self.clock.elapsed, position.skipped, position.best, self.last_loss)

    def _is_over(self, steps_per_epoch: int | None = None) -> bool:
        """Say whether the run ends here; all processes use the clock and the signal of the main one."""
        elapsed, self.position.reserve, stop = self.group.broadcast(
            [self.clock.elapsed, self.position.reserve, float(self.stop.requested)]
        )
        self._done = self.progress(elapsed, steps_per_epoch)
        self.stopped = self.stopped or bool(stop)
        return self._done >= 1 or self.stopped

    def _end_epoch(self) -> None:
        self.position.epoch += 1
        self.position.epoch_first = self.step
        self.data.end_epoch()


def train(config: TrainConfig, folder: Path, *, resume: bool = False, quiet: bool = False) -> Summary:
    """Train in `folder` until the schedule ends. A run of the same settings there, or `resume`, is gone on with."""
    if not resume and (folder / STATE).exists():
        difference = first_difference(config, from_tables(read_run(folder)))
        if difference:
            raise FileError(
                f"{folder} already holds a run with another {difference}: go on with --resume, or choose another --out."
            )
        resume = True
    with join_group(config.runtime.device) as group, warnings.catch_warnings():
        warnings.simplefilter("once", ConvergenceWarning)
        # of kernels of one pixel, whose memory is the same in both formats
        warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
        trainer = Trainer(config, folder, group, resume=resume)
        logger = None
        if group.is_main:
            with atomic_path(folder / "config.json") as temporary:
                temporary.write_text(json.dumps(to_tables(config), indent=2), encoding="utf-8")
            logger = RunLogger(folder, step=trainer.step, tensorboard=config.runtime.tensorboard, quiet=quiet)
        with logger or nullcontext(), trainer.stop:
            summary = trainer.run(logger)
        if trainer.stopped:
            raise KeyboardInterrupt
    return summary
