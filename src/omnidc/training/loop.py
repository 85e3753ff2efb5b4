"""The training loop: one process or many, resumable to the bit, ending on the clock."""

from __future__ import annotations

import functools
import json
import math
import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from omnidc.datasets.mixture import Mixture, Source, split
from omnidc.errors import ConfigError, FileError, InputError
from omnidc.frame import Frame
from omnidc.integrate import ConvergenceWarning
from omnidc.io.files import atomic_path
from omnidc.network.interface import DepthNetwork, Fields
from omnidc.patterns import parse
from omnidc.training import losses
from omnidc.training.checkpointing import STATE, load_state, pack_names, save_state, unpack_names
from omnidc.training.config import RuntimeConfig, TrainConfig, to_tables
from omnidc.training.distributed import World, join_world
from omnidc.training.ema import Average
from omnidc.training.journal import Journal
from omnidc.training.losses import LossConfig
from omnidc.training.manifest import FRAMES, choose, write_manifest
from omnidc.training.networks import build_network, export, freeze, initialise
from omnidc.training.samples import Batch, EpochPlan, Samples, make_loader, names_of, open_source, to_device
from omnidc.training.schedule import format_duration, lr_factor, parse_duration, progress
from omnidc.training.validation import validate, write_picture

KEPT_BATCHES = 10  # batches without a finite loss that are saved
FIRST_RESERVE = 0.02  # share of a time budget left for the end before any validation was timed


class LossModule(nn.Module):
    """Network and losses in one forward pass, so that DistributedDataParallel sees tensors only."""

    def __init__(self, network: DepthNetwork, config: LossConfig, channels_last: bool = True) -> None:
        super().__init__()
        self.network = network
        self.config = config
        self.layout = torch.channels_last if channels_last else torch.contiguous_format

    def forward(
        self,
        image: Tensor,  # uint8 [B, 3, H, W]
        sparse: Tensor,  # [B, 1, H, W]
        truth: Tensor,  # [B, 1, H, W]
        noise: Tensor,  # bool [B, 1, H, W]
    ) -> dict[str, Tensor]:
        pixels = (image.float() / 255).contiguous(memory_format=self.layout)
        return losses.total(self.network(pixels, sparse), truth, sparse, noise, self.config)


def _autocast_fields(
    original: Any, device: str, dtype: torch.dtype, image: Tensor, sparse: Tensor, *rest: Any
) -> Fields:
    with torch.autocast(device, dtype):
        fields: Fields = original(image, sparse, *rest)
    return replace(
        fields,
        gradients=tuple(g.float() for g in fields.gradients),
        weights=None if fields.weights is None else tuple(w.float() for w in fields.weights),
        confidence=fields.confidence.float(),
        refinement={name: tensor.float() for name, tensor in fields.refinement.items()},
    )


def pick_precision(runtime: RuntimeConfig, device: torch.device) -> torch.dtype:
    """The type of the network's matrix products. CPUs always compute in float32: bf16 crashes on some of them."""
    if device.type != "cuda":
        if runtime.precision not in ("auto", "fp32"):
            raise ConfigError(f"runtime.precision={runtime.precision} needs a GPU; on {device.type} use auto or fp32.")
        return torch.float32
    if runtime.precision == "auto":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[runtime.precision]


def make_optimiser(network: DepthNetwork, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW with one group for each learning-rate scale and decay."""
    options = config.optimiser
    used: set[str] = set()
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        scale = 1.0
        for prefix, factor in options.lr_scale.items():
            if name.startswith(prefix):
                scale = factor
                used.add(prefix)
        if not parameter.requires_grad:
            continue
        decay = options.weight_decay if options.decay_all or parameter.ndim >= 2 else 0.0
        groups.setdefault((scale, decay), []).append(parameter)
    unused = sorted(prefix for prefix in set(options.lr_scale) - used if not prefix.startswith(network.neutral))
    if unused:
        raise ConfigError(f"optimiser.lr_scale: the network has no parameter that begins with {unused[0]!r}.")
    return torch.optim.AdamW(
        [{"params": group, "weight_decay": decay, "lr_scale": scale} for (scale, decay), group in groups.items()],
        lr=options.lr,
        betas=(options.beta1, options.beta2),
        fused=True,
    )


class HeldOut(Sequence[Frame]):
    """Frames for validation, read when needed."""

    def __init__(self, places: Sequence[tuple[Sequence[Frame], int]]) -> None:
        self.places = places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Frame:  # type: ignore[override]
        frames, number = self.places[index]
        return frames[number]


@dataclass(frozen=True)
class Summary:
    """How a run ended."""

    step: int
    epoch: int
    elapsed: float  # seconds of training, over all resumptions
    skipped: int  # batches without a finite loss
    best: float  # mean REL of the best validation; inf without any
    loss: float  # of the last step


class Run:
    """One training run in one process; `train` drives it."""

    def __init__(self, config: TrainConfig, folder: Path, world: World, *, resume: bool = False) -> None:
        self.config, self.folder, self.world = config, folder, world
        self.device = world.device
        options = config.optimiser
        if options.batch % (world.size * options.accumulate):
            raise ConfigError(
                f"optimiser.batch={options.batch} cannot be split over {world.size} processes "
                f"x {options.accumulate} parts: choose a multiple of {world.size * options.accumulate}."
            )
        if config.runtime.threads:
            torch.set_num_threads(config.runtime.threads)
        cv2.setNumThreads(0)
        parse(config.data.pattern, noise=config.data.noise or None)  # a wrong string must not wait for a worker
        for text in config.validation.patterns:
            parse(text)

        self.step = self.epoch = self.epoch_first = self.skipped = 0
        self.elapsed_before = 0.0
        self.best = math.inf
        self.reserve = 0.0
        self.last_loss = math.nan
        self._bad_in_a_row = 0
        self._started = time.monotonic()
        self.sources: list[Source] | None = None
        self.stop_signal = False  # a signal asked this process to stop
        self.stopped = False  # and all agreed to

        torch.manual_seed(config.seed)
        self.network = build_network(config.network)
        if config.network.encoder or config.network.start:  # random weights are worth nothing untrained
            freeze(self.network, config.network.freeze)
        self._check_sizes()
        if not resume:
            initialise(self.network, config.network)
        self.network.to(self.device)
        if config.runtime.channels_last:
            self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if world.size > 1 and self.device.type == "cuda":
            self.network = nn.SyncBatchNorm.convert_sync_batchnorm(self.network)  # type: ignore[no-untyped-call]
        self.average = Average(self.network, options.ema)
        self.optimiser = make_optimiser(self.network, config)
        dtype = pick_precision(config.runtime, self.device)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=dtype is torch.float16)
        if dtype is not torch.float32:
            # Only `fields` in half precision: the integrator and what follows need float32.
            half = functools.partial(_autocast_fields, self.network.fields, self.device.type, dtype)
            self.network.fields = half  # type: ignore[method-assign]
        module: nn.Module = LossModule(self.network, config.loss, config.runtime.channels_last)
        if config.runtime.compile:
            module = torch.compile(module)  # type: ignore[assignment]
        self.ddp: DistributedDataParallel | None = None
        if world.size > 1:
            # heads whose loss has weight 0 get no gradient
            self.ddp = module = DistributedDataParallel(module, find_unused_parameters=True)
        self.module = module

        self.held_out = HeldOut([])
        self._held_out_names: dict[str, list[str]] = {}
        if resume:
            self._restore(load_state(folder))
        else:
            self._choose_held_out()

    # ------------------------------------------------------------------------------------------------------- data

    def _check_sizes(self) -> None:
        multiple = self.network.multiple
        for height, width in self.config.data.sizes:
            if height % multiple or width % multiple:
                raise ConfigError(
                    f"data.sizes: {height}x{width} does not fit this network, whose sizes are multiples of {multiple}."
                )

    def _open(self) -> dict[str, Sequence[Frame]]:
        if not self.config.data.sources:
            raise ConfigError("Training needs data: give --data NAME=PATH.")
        opened = {name: open_source(name, path) for name, path in self.config.data.sources.items()}
        return choose(opened, Path(self.config.data.manifest)) if self.config.data.manifest else opened

    def _choose_held_out(self) -> None:
        """Frames evenly spread over the held-out scenes of every source, the same for the whole run."""
        wanted: dict[str, list[str]] | None = None
        if self.world.is_first:
            wanted = {}
            opened = self._open()
            share = -(-self.config.validation.frames // len(opened))
            for name, frames in opened.items():
                _, out = split(name, frames, self.config.data.hold_out)
                count = min(share, len(out.indices))
                picked = out.indices[np.linspace(0, len(out.indices) - 1, count).astype(int)] if count else []
                names = names_of(frames)
                wanted[name] = [names[i] for i in picked]
        self._set_held_out(self.world.share(wanted))

    def _set_held_out(self, wanted: dict[str, list[str]]) -> None:
        opened = self._open()
        places = []
        for name, names in wanted.items():
            places += [(opened[name], index) for index in _indices(opened[name], names, name)]
        self._held_out_names = wanted
        self.held_out = HeldOut(places)

    def _begin_epoch(self) -> None:
        """Index the data anew (it may have grown); all processes take the first one's list."""
        chosen: dict[str, list[str]] | None = None
        if self.world.is_first:
            chosen = {}
            opened = self._open()
            write_manifest(self.folder / FRAMES, opened)
            for name, frames in opened.items():
                train, _ = split(name, frames, self.config.data.hold_out)
                names = names_of(frames)
                chosen[name] = [names[i] for i in train.indices]
        self._set_sources(self.world.share(chosen))

    def _set_sources(self, chosen: dict[str, list[str]]) -> None:
        opened = self._open()
        self.sources = [
            Source(name, opened[name], np.array(_indices(opened[name], names, name), dtype=np.int64))
            for name, names in chosen.items()
        ]
        self._source_names = {name: pack_names(names) for name, names in chosen.items()}

    def _plan(self, start: int) -> EpochPlan:
        assert self.sources is not None
        mixture = Mixture(self.sources, self.config.data.mix, self.config.data.per_epoch)
        plan = EpochPlan(
            mixture.order(self.config.seed, self.epoch),
            seed=self.config.seed,
            first=self.epoch_first,
            start=start,
            batch=self.config.optimiser.batch,
            accumulate=self.config.optimiser.accumulate,
            rank=self.world.rank,
            world=self.world.size,
            sizes=self.config.data.sizes,
        )
        if plan.steps == 0:
            raise ConfigError(
                f"An epoch has {mixture.length} frames, fewer than optimiser.batch={self.config.optimiser.batch}: "
                "set data.per_epoch or a smaller batch."
            )
        return plan

    def _batches(self, plan: EpochPlan) -> Iterator[Batch]:
        assert self.sources is not None
        samples = Samples(self.sources, self.config.data, self.config.augment, self.config.seed)
        return iter(make_loader(samples, plan, self.config.data, pin=self.device.type == "cuda"))

    # ------------------------------------------------------------------------------------------------------- state

    @property
    def elapsed(self) -> float:
        """Seconds of training, over all resumptions."""
        return self.elapsed_before + time.monotonic() - self._started

    def state(self) -> dict[str, Any]:
        return {
            "config": json.dumps(to_tables(self.config)),
            "step": self.step,
            "epoch": self.epoch,
            "epoch_first": self.epoch_first,
            "elapsed": self.elapsed,
            "skipped": self.skipped,
            "best": self.best,
            "reserve": self.reserve,
            "sources": self._source_names if self.sources is not None else None,
            "held_out": {name: pack_names(names) for name, names in self._held_out_names.items()},
            "network": self.network.state_dict(),
            "average": self.average.network.state_dict(),
            "average_updates": self.average.updates,
            "optimiser": self.optimiser.state_dict(),
            "scaler": self.scaler.state_dict(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        try:
            self.network.load_state_dict(state["network"])
            self.average.network.load_state_dict(state["average"])
            self.optimiser.load_state_dict(state["optimiser"])
        except (RuntimeError, ValueError) as error:
            raise ConfigError(
                f"The run in {self.folder} trains another network than this configuration describes; "
                "use its own config.json or another --out."
            ) from error
        # load_state_dict takes over the old groups' settings; these are the configuration's to say
        fresh = make_optimiser(self.network, self.config).param_groups
        for group, new in zip(self.optimiser.param_groups, fresh):
            group.update({key: value for key, value in new.items() if key != "params"})
        self.scaler.load_state_dict(state["scaler"])
        self.average.updates = state["average_updates"]
        for name in ("step", "epoch", "epoch_first", "skipped", "best", "reserve"):
            setattr(self, name, state[name])
        self.elapsed_before = state["elapsed"]
        self._set_held_out({name: unpack_names(data) for name, data in state["held_out"].items()})
        if state["sources"] is not None:
            self._set_sources({name: unpack_names(data) for name, data in state["sources"].items()})

    def save(self, journal: Journal | None) -> None:
        """Write the state and the averaged weights (the first process; the others have the same)."""
        if self.world.is_first:
            if journal is not None:
                journal.flush()  # first: a resumed run expects the rows of every step before its state
            save_state(self.folder, self.state())
            self._export("last.safetensors")

    def _export(self, name: str, **scores: float) -> None:
        """The averaged weights, with what a model card wants to know."""
        about = {
            "step": self.step,
            "images": self.step * self.config.optimiser.batch,
            "seconds": round(self.elapsed),
            "seed": self.config.seed,
            "data": sorted(self.config.data.sources),
            "encoder": self.config.network.encoder_sha256 if self.config.network.encoder else "",
            **scores,
        }
        export(self.average.network, self.config.network, self.folder / name, about)

    # ------------------------------------------------------------------------------------------------------- steps

    def progress(self, elapsed: float, plan: EpochPlan) -> float:
        inside = (self.step - self.epoch_first) / plan.steps
        return progress(
            self.config.schedule,
            step=self.step,
            epoch=self.epoch + inside,
            elapsed=elapsed,
            reserve=self.reserve,
        )

    def train_step(self, batches: Iterator[Batch], done: float) -> dict[str, Any]:
        """One optimiser step at progress `done`; returns what the journal wants to know."""
        options = self.config.optimiser
        lr = options.lr * lr_factor(self.config.schedule, done)
        for group in self.optimiser.param_groups:
            group["lr"] = lr * group["lr_scale"]
        # dropout and the like depend on the step, not on how the run came here
        torch.manual_seed(
            int(np.random.SeedSequence([self.config.seed, self.step, self.world.rank]).generate_state(1)[0])
        )
        buffers = [buffer.clone() for buffer in self.network.buffers()]
        sums: dict[str, float] = {}
        seen: list[Batch] = []
        good = True
        for part in range(options.accumulate):
            seen.append(next(batches))
            if good:
                good = self._part(seen[-1], sums, last=part == options.accumulate - 1)
        norm, means = math.nan, sums
        if good:
            self.scaler.unscale_(self.optimiser)
            limit = options.clip if options.clip > 0 else math.inf
            norm = float(nn.utils.clip_grad_norm_(self.network.parameters(), limit))
            means = dict(zip(sums, self.world.mean(list(sums.values()))))
        # Every process sees the same gradients, so all decide alike.
        if good and (math.isfinite(norm) or self.scaler.is_enabled()):
            self.scaler.step(self.optimiser)  # float16: the scaler leaves out a step that overflowed
            self.scaler.update()
            self.average.update(self.network)
            self._bad_in_a_row = 0
        else:
            for buffer, old in zip(self.network.buffers(), buffers):
                buffer.copy_(old)
            self._skip(seen)
        self.optimiser.zero_grad(set_to_none=True)
        self.last_loss = means.get("total", math.nan)
        row = {
            "step": self.step,
            "epoch": self.epoch,
            "progress": done,
            "lr": lr,
            "norm": norm,
            "skipped": self.skipped,
            "replaced": sum(int(batch["replaced"].sum()) for batch in seen),
            "size": "x".join(map(str, seen[0]["image"].shape[-2:])),
            "total": self.last_loss,
            **means,
        }
        self.step += 1
        return row

    def _part(self, batch: Batch, sums: dict[str, float], *, last: bool) -> bool:
        """Forward and backward of one part of a step; False, in every process, if any of them has no finite loss."""
        parts = self.config.optimiser.accumulate
        terms: dict[str, Tensor] = {}
        values: list[float] = []
        waiting: AbstractContextManager[Any] = nullcontext()
        if self.ddp is not None and not last:
            waiting = self.ddp.no_sync()
        with waiting:
            try:
                terms = self.module(**to_device(batch, self.device))
                values = torch.stack(list(terms.values())).detach().tolist()
                finite = math.isfinite(values[list(terms).index("total")])
            except InputError:  # the integrator refuses numbers that are not finite
                finite = False
            # one process must not wait in the backward pass for another that left it
            if self.world.mean([float(finite)])[0] < 1:
                return False
            try:
                self.scaler.scale(terms["total"] / parts).backward()  # type: ignore[no-untyped-call]
            except InputError:
                if self.world.size > 1:
                    raise
                return False
        for name, value in zip(terms, values):
            sums[name] = sums.get(name, 0.0) + value / parts
        return True

    def _skip(self, seen: list[Batch]) -> None:
        """Count a step without a finite loss, and keep its data for inspection."""
        self.skipped += 1
        self._bad_in_a_row += 1
        if self.skipped <= KEPT_BATCHES:
            with atomic_path(self.folder / "nan" / f"step_{self.step:07d}_rank{self.world.rank}.pt") as temporary:
                torch.save(seen, temporary)
        if self._bad_in_a_row >= self.config.runtime.max_skipped:
            raise InputError(
                f"{self._bad_in_a_row} batches in a row had no finite loss; they are in {self.folder / 'nan'}. "
                "Lower optimiser.lr or look for bad data, then go on with --resume."
            )

    # -------------------------------------------------------------------------------------------------- validation

    def validate(self, journal: Journal | None) -> None:
        """Score the averaged weights, keep them if they are the best so far. The others wait for the first process."""
        if self.world.is_first and journal is not None and len(self.held_out):
            began = time.monotonic()
            options = self.config.validation
            scores, picture = validate(self.average.network, self.held_out, options.patterns, pictures=options.pictures)
            about = {"step": self.step, "elapsed": self.elapsed}
            rows = [{**about, "pattern": text, **asdict(score)} for text, score in scores.items()]
            if picture is not None:
                write_picture(self.folder / "pictures" / f"step_{self.step:07d}.jpg", picture)
            journal.validation(rows, picture)
            mean = float(np.mean([score.rel for score in scores.values()])) if scores else math.inf
            if math.isfinite(mean) and mean < self.best:
                self.best = mean
                self._export("best.safetensors", rel=mean)
            parts = ", ".join(
                f"{t}: REL {s.rel:.4f} δ1 {s.delta1:.3f} cover {s.coverage:.3f}" for t, s in scores.items()
            )
            self.reserve = 1.2 * (time.monotonic() - began) + 2.0
            journal.note(f"step {self.step}, {format_duration(self.elapsed)}: mean REL {mean:.4f} ({parts})")
        self.world.wait()

    # --------------------------------------------------------------------------------------------------- whole run

    def loop(self, journal: Journal | None) -> Summary:
        """Train until the schedule ends or a signal asks to stop."""
        options, checks = self.config.validation, self.config.runtime
        self._started = time.monotonic()
        budget = parse_duration(self.config.schedule.time_budget) if self.config.schedule.time_budget else 0.0
        self.reserve = self.reserve or FIRST_RESERVE * budget
        saved_at = validated_at = self.elapsed
        validated_step = -1
        first_done: float | None = None
        rate = 0.0
        finished = False
        while not finished:
            if self.sources is None:
                self._begin_epoch()
            plan = self._plan(self.step)
            batches = self._batches(plan)
            end = plan.first + plan.steps
            began = self.elapsed
            while self.step < end:
                elapsed, self.reserve, stop = self.world.from_first(
                    [self.elapsed, self.reserve, float(self.stop_signal)]
                )
                done = self.progress(elapsed, plan)
                if done >= 1 or stop:
                    # the first process's word: the others may have heard a signal that it has not, or not yet
                    finished, self.stopped = True, bool(stop)
                    break
                row = self.train_step(batches, done)
                now = self.elapsed
                took, began = now - began, now
                rate = _smooth(rate, self.config.optimiser.batch / max(took, 1e-9))
                if first_done is None:
                    first_done, first_elapsed = done, elapsed
                if journal is not None:
                    journal.step({**row, "elapsed": now}, rate=rate, left=_left(done, first_done, now - first_elapsed))
                last = self.step == end
                due = bool(options.every_steps) and self.step % options.every_steps == 0
                due |= last and bool(options.every_epochs) and (self.epoch + 1) % options.every_epochs == 0
                due_clock = bool(options.every_minutes) and now - validated_at >= 60 * options.every_minutes
                save_clock = bool(checks.checkpoint_minutes) and now - saved_at >= 60 * checks.checkpoint_minutes
                due_flag, save_flag = self.world.from_first([float(due or due_clock), float(save_clock)])
                if due_flag:
                    self.validate(journal)
                    validated_at, validated_step = self.elapsed, self.step
                if last:
                    self._next_epoch()
                if save_flag or due_flag or (checks.checkpoint_steps and self.step % checks.checkpoint_steps == 0):
                    self.save(journal)
                    saved_at = self.elapsed
                began = self.elapsed
                if last:
                    break
            del batches
            if not finished and self.progress_without_plan() >= 1:
                finished = True
        if not self.stopped and validated_step != self.step:
            self.validate(journal)
        self.save(journal)
        return Summary(self.step, self.epoch, self.elapsed, self.skipped, self.best, self.last_loss)

    def _next_epoch(self) -> None:
        self.epoch += 1
        self.epoch_first = self.step
        self.sources = None

    def progress_without_plan(self) -> float:
        """Progress between two epochs; all processes use the first one's clock."""
        elapsed = self.world.from_first([self.elapsed])[0]
        return progress(self.config.schedule, step=self.step, epoch=self.epoch, elapsed=elapsed, reserve=self.reserve)


def _indices(frames: Sequence[Frame], names: Sequence[str], source: str) -> list[int]:
    place = {name: i for i, name in enumerate(names_of(frames))}
    try:
        return [place[name] for name in names]
    except KeyError as error:
        raise FileError(
            f"The frame {error.args[0]} of {source!r} is gone; put it back, or start again without --resume."
        ) from error


def _smooth(old: float, new: float) -> float:
    return new if old == 0 else 0.95 * old + 0.05 * new


def _left(done: float, first: float, seconds: float) -> str:
    """Time left at the pace since progress `first`, `seconds` ago."""
    if done <= first or seconds <= 0:
        return "?"
    return format_duration((1 - done) * seconds / (done - first))


@contextmanager
def _signals(run: Run) -> Iterator[None]:
    """SIGINT and SIGTERM end the run after the current step, with a checkpoint; a second one ends it at once."""

    def ask(number: int, frame: FrameType | None) -> None:
        if run.stop_signal:
            raise KeyboardInterrupt
        run.stop_signal = True

    old = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def train(config: TrainConfig, folder: Path, *, resume: bool = False, quiet: bool = False) -> Summary:
    """Train in `folder` until the schedule ends. With `resume`, go on from its last checkpoint."""
    if not resume and (folder / STATE).exists():
        raise FileError(f"{folder} already holds a run: go on with --resume, or choose another --out.")
    with join_world(config.runtime.device) as world, warnings.catch_warnings():
        warnings.simplefilter("once", ConvergenceWarning)
        run = Run(config, folder, world, resume=resume)
        journal = None
        if world.is_first:
            with atomic_path(folder / "config.json") as temporary:
                temporary.write_text(json.dumps(to_tables(config), indent=2), encoding="utf-8")
            journal = Journal(folder, step=run.step, tensorboard=config.runtime.tensorboard, quiet=quiet)
        with journal or nullcontext(), _signals(run):
            summary = run.loop(journal)
        if run.stopped:
            raise KeyboardInterrupt
    return summary
