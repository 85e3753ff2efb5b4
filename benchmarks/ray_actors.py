"""Throughput of two Ray actors against one, in the same run on this machine.

    python benchmarks/ray_actors.py [--frames 40] [--model compact]

Each pool completes the bundled example many times into memory. Model loading is left out: the clock runs from the first
result to the last.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import omnidc
from omnidc.deploy.ray import complete_with_ray
from omnidc.deploy.ray_options import RayOptions
from omnidc.frame import Frame, LazyFrames
from omnidc.pipeline import Completion, make_frame

EXAMPLES = Path(omnidc.__file__).parent / "examples"


class Clock:
    """A sink that keeps only the times of its results."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def missing(self, names: Sequence[str]) -> list[str]:
        return list(names)

    def write(self, frame: Frame, completion: Completion) -> None:
        self.times.append(time.perf_counter())

    def close(self) -> None:
        pass


def rate(actors: int, frames: int, model: str) -> float:
    """Frames per second of a pool."""
    load = {
        f"{k:05d}": partial(make_frame, EXAMPLES / "room.jpg", EXAMPLES / "room_sparse.npz", name=f"{k:05d}")
        for k in range(frames)
    }
    clock = Clock()
    complete_with_ray(LazyFrames(load), clock, model, "cpu", ray_options=RayOptions(actors=actors))
    return (len(clock.times) - actors) / (clock.times[-1] - clock.times[actors - 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--model", default="compact")
    given = parser.parse_args()
    one, two = (rate(actors, given.frames, given.model) for actors in (1, 2))
    print(f"one actor {one:.2f} frames/s, two actors {two:.2f} frames/s, ratio {two / one:.2f}")


if __name__ == "__main__":
    main()
