"""The frames of a run: sources, held-out scenes, the order of an epoch.

Every process of a run uses the lists of the main process, by name, because a folder may grow meanwhile.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from omnidc.datasets import DATASETS, open_dataset
from omnidc.datasets.shards import open_frames
from omnidc.errors import ConfigError, FileError
from omnidc.frame import Frame
from omnidc.training.config import DataConfig
from omnidc.training.distributed import ProcessGroup
from omnidc.training.manifest import FRAMES, read_manifest, write_manifest

MIXES = ("even", "size")
NO_DATA = "Training needs data: give --data NAME=PATH."


def frame_names(frames: Sequence[Frame]) -> list[str]:
    """Return the lasting name of every frame; where a dataset has none, its number."""
    names = getattr(frames, "names", None)
    return list(names) if names is not None else [str(i) for i in range(len(frames))]


def scene_names(frames: Sequence[Frame]) -> list[str]:
    """Return the scene of every frame; where a dataset has none, blocks of 100 neighboring frames count as scenes."""
    scenes = getattr(frames, "scenes", None)
    return list(scenes) if scenes is not None else [f"block_{i // 100}" for i in range(len(frames))]


def is_held_out(scene: str, fraction: float) -> bool:
    """Say whether a scene is for validation, by its name alone, so that it stays so while a dataset grows."""
    return zlib.crc32(scene.encode()) % 10_000 < fraction * 10_000


@dataclass(frozen=True)
class TrainingSource(Sequence[Frame]):
    """One dataset, and the indices of the frames that are used of it."""

    name: str
    frames: Sequence[Frame]
    indices: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Frame:  # type: ignore[override]
        return self.frames[int(self.indices[index])]

    @property
    def names(self) -> list[str]:
        names = frame_names(self.frames)
        return [names[i] for i in self.indices]

    def select(self, names: Sequence[str]) -> TrainingSource:
        """Return the frames of these names, in this order, of all that the dataset has."""
        place = {name: index for index, name in enumerate(frame_names(self.frames))}
        gone = [name for name in names if name not in place]
        if gone:
            raise FileError(
                f"{len(gone)} of {len(names)} listed frames of {self.name!r} are missing, the first is {gone[0]}: "
                "put them back, render on, or give the folder that has them."
            )
        return replace(self, indices=np.array([place[name] for name in names], dtype=np.int64))

    def split(self, fraction: float) -> tuple[TrainingSource, TrainingSource]:
        """Return the training and the held-out part; no scene is in both."""
        scenes = scene_names(self.frames)
        held_out = np.array([is_held_out(scenes[i], fraction) for i in self.indices], dtype=bool)
        return replace(self, indices=self.indices[~held_out]), replace(self, indices=self.indices[held_out])


def open_source(name: str, path: str) -> TrainingSource:
    """Open the frames at `path`: by the reader of the dataset `name` if there is one, else as shards."""
    frames = open_dataset(name, Path(path)) if name in DATASETS else open_frames(path, auxiliary=("sky.png",))
    return TrainingSource(name, frames, np.arange(len(frames)))


def open_sources(config: DataConfig) -> dict[str, TrainingSource]:
    """Open all sources of the configuration, limited to the frames of its manifest if it has one."""
    if not config.sources:
        raise ConfigError(NO_DATA)
    opened = {name: open_source(name, path) for name, path in config.sources.items()}
    if not config.manifest:
        return opened
    wanted = read_manifest(Path(config.manifest))
    if set(wanted) != set(opened):
        raise ConfigError(
            f"{config.manifest} lists frames of {', '.join(wanted)}, but --data gives {', '.join(opened)}: "
            "the names must be the same."
        )
    return {name: opened[name].select(names) for name, names in wanted.items()}


def epoch_order(
    sources: Sequence[TrainingSource], *, mix: str, epoch_size: int, seed: int, epoch: int
) -> npt.NDArray[np.int64]:
    """Return [length, 2], source number and frame index of every sample of an epoch.

    mix: "even" draws as many frames of every source, "size" every frame equally often. epoch_size: frames an epoch;
    0 = until the largest source ("even") or all of them ("size") were used once.
    """
    if mix not in MIXES:
        raise ConfigError(f"data.mix must be one of {', '.join(MIXES)}, not {mix!r}.")
    if not sources:
        raise ConfigError(NO_DATA)
    for source in sources:
        if not len(source):
            raise ConfigError(f"The dataset {source.name!r} has no frame left to train on after the held-out scenes.")
    rng = np.random.default_rng([seed, 0x6D6978, epoch])
    sizes = [len(source) for source in sources]
    if mix == "size":
        pool = np.concatenate([np.stack((np.full(len(s), n), s.indices), axis=1) for n, s in enumerate(sources)])
        return pool[_permutations(len(pool), epoch_size or sum(sizes), rng)]
    length = epoch_size or len(sizes) * max(sizes)
    result = np.empty((length, 2), dtype=np.int64)
    for number, source in enumerate(sources):
        places = np.arange(number, length, len(sources))
        result[places, 0] = number
        result[places, 1] = source.indices[_permutations(len(source), len(places), rng)]
    return result


def _permutations(size: int, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return `count` indices below `size`: whole permutations one after another, so that all are drawn alike."""
    rounds = max(1, -(-count // size))
    return np.concatenate([rng.permutation(size) for _ in range(rounds)])[:count].astype(np.int64)


class ValidationFrames(Sequence[Frame]):
    """Frames of several sources as one sequence, read when needed."""

    def __init__(self, sources: Sequence[TrainingSource]) -> None:
        self.sources = list(sources)
        self._places = [(source, i) for source in self.sources for i in range(len(source))]

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Frame:  # type: ignore[override]
        source, number = self._places[index]
        return source[number]


class TrainingData:
    """The training frames of the present epoch and the validation frames of the whole run.

    Sources are opened once an epoch, because a folder may grow; the first epoch uses what choosing the validation
    frames opened.
    """

    def __init__(self, config: DataConfig, group: ProcessGroup) -> None:
        self.config, self.group = config, group
        self.train: list[TrainingSource] | None = None  # None between epochs
        self.validation = ValidationFrames([])
        self._opened: dict[str, TrainingSource] | None = None

    def choose_validation(self, count: int) -> None:
        """Choose frames evenly over the held-out scenes of every source."""
        names: dict[str, list[str]] = {}
        opened = self._open()  # in every process, so that all fail alike
        if self.group.is_main:
            share = -(-count // len(opened))
            for name, source in opened.items():
                _, held_out = source.split(self.config.val_fraction)
                wanted = min(share, len(held_out))
                all_names = held_out.names
                names[name] = [all_names[int(i)] for i in np.linspace(0, len(held_out) - 1, wanted)]
        self.restore(validation=self.group.broadcast_object(names))

    def begin_epoch(self, folder: Path) -> None:
        """Take the frames that are there now, and write them to `folder` as a manifest."""
        names: dict[str, list[str]] = {}
        opened = self._open()
        if self.group.is_main:
            write_manifest(folder / FRAMES, {name: source.names for name, source in opened.items()})
            names = {name: source.split(self.config.val_fraction)[0].names for name, source in opened.items()}
        self.restore(train=self.group.broadcast_object(names))

    def end_epoch(self) -> None:
        self.train = self._opened = None

    def restore(
        self, *, train: Mapping[str, Sequence[str]] | None = None, validation: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """Set frames by source and name."""
        opened = self._open()
        if validation is not None:
            self.validation = ValidationFrames([opened[name].select(names) for name, names in validation.items()])
        if train is not None:
            self.train = [opened[name].select(names) for name, names in train.items()]

    def _open(self) -> dict[str, TrainingSource]:
        if self._opened is None:
            self._opened = open_sources(self.config)
        return self._opened
