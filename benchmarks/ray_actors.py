"""Throughput of two Ray actors against one, in the same run on this machine.

    python benchmarks/ray_actors.py [--frames 40] [--model compact]

Each pool completes the bundled example many times into memory. Model loading is left out: the clocks run from the first
result of the last actor to the last result. Prints frames per second, and the CPU time of Ray and its actors for a
frame: on a busy machine only the latter means anything.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import omnidc
from omnidc.deploy.ray import complete_with_ray
from omnidc.deploy.ray_options import RayOptions
from omnidc.frame import Frame, LazyFrames
from omnidc.pipeline import Completion, make_frame
from processes import cpu_seconds

EXAMPLES = Path(omnidc.__file__).parent / "examples"


class Clock:
    """A sink that keeps only the times of its results."""

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []  # seconds, CPU-seconds

    def missing(self, names: Sequence[str]) -> list[str]:
        return list(names)

    def write(self, frame: Frame, completion: Completion) -> None:
        self.times.append((time.perf_counter(), cpu_seconds()))

    def close(self) -> None:
        pass


def measure(actors: int, frames: int, model: str) -> tuple[float, float]:
    """Frames per second and CPU-seconds per frame of a pool."""
    load = {
        f"{k:05d}": partial(make_frame, EXAMPLES / "room.jpg", EXAMPLES / "room_sparse.npz", name=f"{k:05d}")
        for k in range(frames)
    }
    clock = Clock()
    complete_with_ray(LazyFrames(load), clock, model, "cpu", ray_options=RayOptions(actors=actors))
    first, last, count = clock.times[actors - 1], clock.times[-1], len(clock.times) - actors
    return count / (last[0] - first[0]), (last[1] - first[1]) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--model", default="compact")
    given = parser.parse_args()
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 starves on a machine that is busy otherwise
    (rate1, cpu1), (rate2, cpu2) = (measure(actors, given.frames, given.model) for actors in (1, 2))
    print(f"one actor {rate1:.2f} frames/s, two actors {rate2:.2f} frames/s, ratio {rate2 / rate1:.2f}")
    print(f"CPU time of a frame: one actor {1000 * cpu1:.0f} ms, two actors {1000 * cpu2:.0f} ms")


if __name__ == "__main__":
    main()
