"""Error against the number of measurements, and calibration of the uncertainty, on rendered frames.

    python benchmarks/curves.py measure FRAMES/street FRAMES/indoor --results docs/results/curves.json [--model compact]
    python benchmarks/curves.py plot --results docs/results/curves.json --out docs/images/curves.svg
    python benchmarks/curves.py sizes --results docs/results/runtimes.json --out docs/images/sizes.svg

The head of `pictures.py` has the commands that render FRAMES; nothing was trained on their seed. `measure` writes
means over the frames: the relative error (REL) of linear interpolation and of the model, for random points and for
simulated LiDAR, and the share of pixels inside the central interval of p % of the predicted Laplace distribution.
Pixels without depth (sky) do not count. `plot` draws what the file holds and measures nothing;
`sizes` draws the CPU time against the size of the image that `runtimes.py` measured.
"""

from __future__ import annotations

import argparse
import json
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

import omnidc
from omnidc import __version__
from omnidc.datasets.shards import Shards
from omnidc.evaluation.baselines import linear
from omnidc.frame import Frame
from omnidc.io.files import write_json
from omnidc.patterns import parse
from plot import COLORS, Panel, write

POINTS = (5, 20, 100, 500, 2000, 8000)
LINES = (4, 8, 16, 32, 64)
CALIBRATED = {"100": "100 points", "2000": "2000 points", "lidar-16(400)": "16 lines"}
INTERVALS = tuple(range(5, 100, 5))  # percent

FloatMap = npt.NDArray[np.float32]


def draw(frame: Frame, pattern: str) -> FloatMap:  # [H, W]
    """Return simulated measurements of a frame; the same in every run."""
    assert frame.depth is not None
    rng = np.random.default_rng(zlib.crc32(f"{frame.name}/{pattern}".encode()))
    return parse(pattern)(frame.depth, frame.image, rng).sparse


def rel(depth: FloatMap, truth: FloatMap) -> float:  # [H, W] each; 0 in `truth` = unknown
    """Return the mean of |d − D| / D over the known pixels."""
    known = truth > 0
    return float(np.mean(np.abs(depth - truth)[known] / truth[known]))


def inside(depth: FloatMap, scale: FloatMap, truth: FloatMap) -> list[float]:  # [H, W] each
    """Return for each of INTERVALS the share of known pixels with |d − D| ≤ −b ln(1 − p)."""
    known = truth > 0
    ratio = np.abs(depth - truth)[known] / scale[known]
    return [float(np.mean(ratio <= -math.log1p(-p / 100))) for p in INTERVALS]


def measure(frames: list[Path], model: str) -> dict[str, Any]:
    """Return the content of the results file."""
    source, completer = Shards(frames), omnidc.load(model)
    patterns = [str(n) for n in POINTS] + [f"lidar-{n}(400)" for n in LINES]
    errors: dict[str, dict[str, list[float]]] = {name: {"linear": [], "model": []} for name in patterns}
    shares: dict[str, list[list[float]]] = {name: [] for name in CALIBRATED}
    for index in tqdm(range(len(source)), unit="frame"):
        frame = source[index]
        if frame.depth is None or not (frame.depth > 0).any():
            continue
        for name in patterns:
            sparse = draw(frame, name)
            result = completer.complete(frame.image, sparse, sky="keep")
            errors[name]["linear"].append(rel(linear(frame.image, sparse), frame.depth))
            errors[name]["model"].append(rel(result.depth, frame.depth))
            if name in CALIBRATED and result.uncertainty is not None:
                shares[name].append(inside(result.depth, result.uncertainty, frame.depth))
    means = {name: {method: float(np.mean(values)) for method, values in each.items()} for name, each in errors.items()}
    return {
        "model": model,
        "version": __version__,
        "frames": len(next(iter(errors.values()))["linear"]),
        "points": [{"n": n, **means[str(n)]} for n in POINTS],
        "lines": [{"n": n, **means[f"lidar-{n}(400)"]} for n in LINES],
        "intervals": list(INTERVALS),
        "inside": {CALIBRATED[name]: np.mean(each, axis=0).round(4).tolist() for name, each in shares.items() if each},
    }


def panels(content: dict[str, Any]) -> list[Panel]:
    """Return the three plots of a results file."""
    found = []
    for part, title in (("points", "random points"), ("lines", "LiDAR lines")):
        rows = content[part]
        ns = [row["n"] for row in rows]
        errors = [row[method] for row in rows for method in ("linear", "model")]
        low, high = 10 ** math.floor(math.log10(min(errors))), 10 ** math.ceil(math.log10(max(errors)))
        limits = (ns[0], ns[-1]), (low, high)
        panel = Panel(f"REL against {title}", title, "REL", *limits, log_x=True, log_y=True, x_ticks=ns)
        for color, method, label in (
            (COLORS[1], "linear", "linear interpolation"),
            (COLORS[0], "model", content["model"]),
        ):
            values = [row[method] for row in rows]
            panel.line(ns, values, color)
            for n, value in zip(ns, values):
                panel.point(n, value, 3, color)
            panel.label(ns[0], values[0], label, color)
        found.append(panel)
    panel = Panel("pixels inside the central interval, %", "interval, %", "%", (0, 100), (0, 100))
    panel.line([0, 100], [0, 100], "#999")
    for row, (color, (name, shares)) in enumerate(zip(COLORS, content["inside"].items())):
        panel.line(content["intervals"], [100 * share for share in shares], color)
        panel.label(60, 26 - 8 * row, name, color)
    return [*found, panel]


def size_panel(content: Any) -> Panel:
    """CPU time of `complete` against pixels, of both runtimes."""
    rows = content["rows"]
    pixels = [math.prod(map(int, row["size"].split("x"))) for row in rows]
    times = {name: [row[f"{name}_ms"] for row in rows] for name in ("torch", "onnx")}
    every = [value for values in times.values() for value in values]
    panel = Panel(
        f"CPU time of complete, {content['threads']} thread",
        "pixels",
        "ms",
        (min(pixels) / 1.3, max(pixels) * 1.3),
        (10 ** math.floor(math.log10(min(every))), 10 ** math.ceil(math.log10(max(every)))),
        log_x=True,
        log_y=True,
        x_ticks=pixels,
    )
    for color, name, values, place in zip(COLORS, ("torch", "onnxruntime"), times.values(), (1.15, 0.5)):
        panel.line(pixels, values, color)
        for x, y in zip(pixels, values):
            panel.point(x, y, 3, color)
        panel.label(pixels[1], values[1] * place, name, color)
    return panel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("frames", type=Path, nargs="+")
    measuring.add_argument("--model", default="compact")
    plotting = commands.add_parser("plot")
    sizing = commands.add_parser("sizes")
    for command in (plotting, sizing):
        command.add_argument("--out", type=Path, required=True)
    for command in (measuring, plotting, sizing):
        command.add_argument("--results", type=Path, required=True)
    options = parser.parse_args()
    if options.command == "measure":
        write_json(options.results, measure(options.frames, options.model))
        return
    content = json.loads(options.results.read_text(encoding="utf-8"))
    if options.command == "sizes":
        write(options.out, [size_panel(content)], columns=1)
    else:
        write(options.out, panels(content), columns=3)


if __name__ == "__main__":
    main()
