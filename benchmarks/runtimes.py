"""Compare the runtimes of a model side by side: an exported ONNX file against torch.

    python benchmarks/runtimes.py MODEL.onnx [--torch CHECKPOINT] [--sizes 240x320,480x640] [--threads 1] [-o rows.json]

Prints the CPU time to open the file and, for each size, CPU time of `complete` with either runtime, in turns within one
run, their ratio, and the share of pixels whose depth and uncertainty agree to 1e-3. Without --torch only the ONNX model
is timed. Both complete the bundled example, scaled to the size.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

import omnidc
from omnidc.deploy.runtime import OnnxCompleter
from omnidc.frame import Frame
from omnidc.geometry.rasterize import resize_sparse_nearest
from omnidc.io.files import write_json
from omnidc.pipeline import make_frame

EXAMPLES = Path(omnidc.__file__).parent / "examples"


def example(size: tuple[int, int]) -> Frame:
    """The bundled view at another size (height, width)."""
    frame = make_frame(EXAMPLES / "room.jpg", EXAMPLES / "room_sparse.npz")
    image = np.asarray(cv2.resize(frame.image, size[::-1], interpolation=cv2.INTER_AREA), np.uint8)
    return make_frame(image, resize_sparse_nearest(frame.measurements(), size))


def cpu_seconds(runs: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """Least CPU time of each, all threads together, in turns, so that other load falls on all alike."""
    times: list[list[float]] = [[] for _ in runs]
    for repeat in range(repeats + 1):
        for run, mine in zip(runs, times):
            start = time.process_time()
            run()
            if repeat:  # the first run does not count
                mine.append(time.process_time() - start)
    return [min(mine) for mine in times]


def agreement(one: Any, other: Any) -> float:
    """Share of pixels that differ by less than 1e-3 of their value."""
    return float((np.abs(one / other - 1) < 1e-3).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("model", type=Path)
    parser.add_argument("--torch", help="the same model for torch: a name or a checkpoint")
    parser.add_argument("--sizes", default="61x95,97x131,240x320,375x500,480x640")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    start = time.process_time()
    light = OnnxCompleter(given.model, "cpu", threads=given.threads)
    opened = time.process_time() - start
    print(f"opened with {opened:.2f} CPU-seconds")
    completers: list[Any] = [light]
    if given.torch is not None:
        import torch

        torch.set_num_threads(given.threads)
        completers.append(omnidc.load(given.torch, "cpu", "torch"))
    rows = []
    for word in given.sizes.split(","):
        height, width = (int(side) for side in word.split("x"))
        frame = example((height, width))
        seconds = cpu_seconds([lambda c=c: c.complete(frame, sky="keep") for c in completers], given.repeats)  # noqa: B023
        row: dict[str, Any] = {"size": word, "onnx_ms": 1000 * seconds[0]}
        if len(completers) > 1:
            results = [completer.complete(frame, sky="keep") for completer in completers]
            row |= {
                "torch_ms": 1000 * seconds[1],
                "torch_over_onnx": seconds[1] / seconds[0],
                "depth_agrees": agreement(*(result.depth for result in results)),
                "uncertainty_agrees": agreement(*(result.uncertainty for result in results)),
            }
        rows.append(row)
        print(json.dumps(row), flush=True)
    if given.output is not None:
        write_json(given.output, {"threads": given.threads, "open_seconds": opened, "rows": rows})


if __name__ == "__main__":
    main()
