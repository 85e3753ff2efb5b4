"""`Source`: what every reader returns, a list of names and a way to load the frame behind each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from omnidc.frame import Frame


@dataclass
class Source:
    """Frames that are read when asked for, so that a finished one need not be opened again."""

    loaders: Mapping[str, Callable[[], Frame]]  # frame name → how to read it
    notes: list[str] = field(default_factory=list)  # what the reader assumed or changed; shown before the run

    def __len__(self) -> int:
        return len(self.loaders)

    def __iter__(self) -> Iterator[Frame]:
        return (load() for load in self.loaders.values())

    def names(self) -> list[str]:
        return list(self.loaders)

    def load(self, name: str) -> Frame:
        return self.loaders[name]()
