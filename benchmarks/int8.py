"""What int8 would bring: the trunk's convolutions of an exported model quantized, against the model as it is.

    python benchmarks/int8.py MODEL.onnx FOLDER [--sizes 240x320,480x640] [-o rows.json]

FOLDER has .npz files with `rgb` [H, W, 3] and `depth` [H, W], 0 = unknown. The first eight calibrate the activations,
sixteen others judge. Prints the CPU time of both in turns within one run, the size of both files, and the mean relative
error of both at 0.5 % of the depth as points. Static quantization, weights per channel.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from omnidc.deploy.runtime import OnnxCompleter
from omnidc.io.files import write_json

POINTS = 0.005  # share of the pixels
CALIBRATION, JUDGED = 8, 16  # files


def read(path: Path, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Photograph, points and depth at a size (height, width)."""
    with np.load(path) as data:
        image = cv2.resize(data["rgb"], size[::-1], interpolation=cv2.INTER_AREA)
        depth = cv2.resize(data["depth"], size[::-1], interpolation=cv2.INTER_NEAREST).astype(np.float32)
    chosen = np.random.default_rng(0).random(depth.shape) < POINTS
    return image, depth * chosen, depth


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, paths: list[Path]) -> None:
        self._frames: Iterator[Any] = (read(path, (256, 320)) for path in paths)

    def get_next(self) -> dict[str, np.ndarray] | None:
        frame = next(self._frames, None)
        if frame is None:
            return None
        image, sparse, _ = frame
        return {"image": image.transpose(2, 0, 1)[None].astype(np.float32) / 255, "sparse": sparse[None, None]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", default="240x320,480x640")
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--model-output", type=Path, help="keep the int8 model here")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    paths = sorted(path for path in given.folder.glob("*.npz") if "nogt" not in path.name)
    convolutions = [
        node.name for node in onnx.load(str(given.model)).graph.node if node.op_type == "Conv" and "trunk" in node.name
    ]
    with tempfile.TemporaryDirectory() as folder:
        small = given.model_output or Path(folder) / "int8.onnx"
        quantize_static(
            str(given.model),
            str(small),
            Calibration(paths[:CALIBRATION]),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["Conv"],
            nodes_to_quantize=convolutions,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        completers = [OnnxCompleter(path, "cpu", threads=1) for path in (given.model, small)]
        sizes = [path.stat().st_size / 1e6 for path in (given.model, small)]
        print(f"{len(convolutions)} convolutions in int8; {sizes[0]:.1f} MB → {sizes[1]:.1f} MB")
    rows = []
    for word in given.sizes.split(","):
        height, width = (int(side) for side in word.split("x"))
        image, sparse, _ = read(paths[CALIBRATION], (height, width))
        seconds: list[list[float]] = [[], []]
        for _ in range(given.repeats):
            for completer, mine in zip(completers, seconds):
                start = time.process_time()
                completer.run(image, sparse)
                mine.append(time.process_time() - start)
        float32, int8 = (min(mine) for mine in seconds)
        rows.append({"size": word, "float32_ms": 1000 * float32, "int8_ms": 1000 * int8, "ratio": float32 / int8})
        print(f"{word}: float32 {1000 * float32:.0f} ms, int8 {1000 * int8:.0f} ms of CPU time, {float32 / int8:.2f}")
    errors: list[list[float]] = [[], []]
    for path in paths[-JUDGED:]:
        image, sparse, depth = read(path, (240, 320))
        known = depth > 0
        for completer, mine in zip(completers, errors):
            result = completer.run(image, sparse).depth
            mine.append(float(np.abs(result[known] / depth[known] - 1).mean()))
    rel = [float(np.mean(mine)) for mine in errors]
    print(f"REL on {JUDGED} views: float32 {rel[0]:.5f}, int8 {rel[1]:.5f}")
    if given.output is not None:
        write_json(given.output, {"megabytes": sizes, "rel": rel, "rows": rows})


if __name__ == "__main__":
    main()
