"""Several datasets as one: which frames an epoch holds, in which order, and which scenes are held out."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidc.errors import ConfigError
from omnidc.frame import Frame

MIXES = ("even", "size")


def scenes_of(frames: Sequence[Frame]) -> list[str]:
    """The scene of every frame; where a dataset does not tell, blocks of 100 neighbouring frames count as scenes."""
    scenes = getattr(frames, "scenes", None)
    return list(scenes) if scenes is not None else [f"block_{i // 100}" for i in range(len(frames))]


def held_out(scene: str, share: float) -> bool:
    """Whether a scene is for validation: by its name alone, so that it stays so while a dataset grows."""
    return zlib.crc32(scene.encode()) % 10_000 < share * 10_000


@dataclass(frozen=True)
class Source:
    """One dataset and the indices of it that may be drawn."""

    name: str
    frames: Sequence[Frame]
    indices: npt.NDArray[np.int64]


def split(name: str, frames: Sequence[Frame], share: float) -> tuple[Source, Source]:
    """Training and held-out part of a dataset; no scene is in both."""
    out = np.array([held_out(scene, share) for scene in scenes_of(frames)], dtype=bool)
    return Source(name, frames, np.flatnonzero(~out)), Source(name, frames, np.flatnonzero(out))


class Mixture:
    """Sources mixed frame by frame. An epoch's order depends on (seed, epoch) and the sources alone.

    mix: "even" draws as many frames of every source, whatever its size; "size" every frame equally often.
    per_epoch: frames an epoch; 0 = until the largest source ("even") or all of them ("size") were seen once.
    """

    def __init__(self, sources: Sequence[Source], mix: str = "even", per_epoch: int = 0) -> None:
        if mix not in MIXES:
            raise ConfigError(f"data.mix must be one of {', '.join(MIXES)}, not {mix!r}.")
        for source in sources:
            if len(source.indices) == 0:
                raise ConfigError(
                    f"The dataset {source.name!r} has no frame left to train on after the held-out scenes."
                )
        if not sources:
            raise ConfigError("Training needs data: give --data NAME=PATH.")
        self.sources = list(sources)
        self.mix = mix
        sizes = [len(source.indices) for source in sources]
        whole = len(sizes) * max(sizes) if mix == "even" else sum(sizes)
        self.length = per_epoch or whole

    def order(self, seed: int, epoch: int) -> npt.NDArray[np.int64]:
        """[length, 2]: source number and frame index of every sample of an epoch."""
        rng = np.random.default_rng([seed, 0x6D6978, epoch])
        if self.mix == "size":
            pool = np.concatenate(
                [np.stack((np.full(len(s.indices), n), s.indices), axis=1) for n, s in enumerate(self.sources)]
            )
            return pool[_repeated(len(pool), self.length, rng)]
        result = np.empty((self.length, 2), dtype=np.int64)
        for number, source in enumerate(self.sources):
            places = np.arange(number, self.length, len(self.sources))
            result[places, 0] = number
            result[places, 1] = source.indices[_repeated(len(source.indices), len(places), rng)]
        return result


def _repeated(size: int, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """`count` indices below `size`: whole permutations one after another, so that none is drawn twice too early."""
    rounds = max(1, -(-count // size))
    return np.concatenate([rng.permutation(size) for _ in range(rounds)])[:count].astype(np.int64)
