"""Compare the runtimes of a model side by side: an exported ONNX file against torch.

    python benchmarks/runtimes.py MODEL.onnx [--torch compact] [--sizes 240x320,480x640] [--threads 1] [-o rows.json]

Prints, for each size, CPU time of both in the same run, their ratio, and the share of pixels that agree to 1e-3.
Without --torch only the ONNX model is timed. Both complete the bundled example, scaled to the size.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
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


def cpu_seconds(run: Callable[[], Any], repeats: int) -> float:
    """Least CPU time of several runs, all threads together; the first run does not count."""
    run()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("model", type=Path)
    parser.add_argument("--torch", help="the same model for torch: a name or a checkpoint")
    parser.add_argument("--sizes", default="240x320,480x640")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    light = OnnxCompleter(given.model, "cpu", threads=given.threads)
    heavy = None
    if given.torch is not None:
        import torch

        torch.set_num_threads(given.threads)
        heavy = omnidc.load(given.torch, "cpu", "torch")
    rows = []
    for word in given.sizes.split(","):
        height, width = (int(side) for side in word.split("x"))
        frame = example((height, width))
        row: dict[str, Any] = {"size": word}
        row["onnx_ms"] = 1000 * cpu_seconds(lambda: light.complete(frame), given.repeats)  # noqa: B023
        if heavy is not None:
            row["torch_ms"] = 1000 * cpu_seconds(lambda: heavy.complete(frame), given.repeats)  # noqa: B023
            row["torch_over_onnx"] = row["torch_ms"] / row["onnx_ms"]
            depths = [completer.complete(frame).depth for completer in (light, heavy)]
            row["agree_1e-3"] = float((np.abs(depths[0] / depths[1] - 1) < 1e-3).mean())
        rows.append(row)
        print(json.dumps(row))
    if given.output is not None:
        write_json(given.output, {"model": given.model.name, "threads": given.threads, "rows": rows})


if __name__ == "__main__":
    main()
