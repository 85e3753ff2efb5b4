"""Honest uncertainty with noisy measurements: pixels inside the 95 % interval when every measurement is noisy.

    python benchmarks/noisy_measurements.py --data DIR [--model compact] [--json FILE]

DIR is that of `omnidc eval --protocol real`. Measurements are multiplied by exp(σ n), n normally distributed, another
one for each: no outliers, but noise as of stereo, a cheap laser or triangulated points. Means over the photographs.
"""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path

import numpy as np
from tqdm import tqdm

import omnidc
from cells import emit
from omnidc.evaluation.real import real_frames
from omnidc.training.validation import score_frame

NOISE = (0.0, 0.03, 0.08)  # σ
USED = ("random-0.7%", "random-0.1%", "sift", "lidar-64", "lidar-16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="compact")
    parser.add_argument("--json", type=Path, help="also write the table for the docs")
    options = parser.parse_args()
    completer = omnidc.load(options.model)
    scores: dict[tuple[str, float], list[tuple[float, float]]] = {(name, s): [] for name in USED for s in NOISE}
    for frame in tqdm(real_frames(options.data), unit="image"):
        draw = frame.open()
        for pattern in USED:
            sample = draw(pattern)
            if sample is None:
                continue
            rng = np.random.default_rng(zlib.crc32(f"{frame.name}/{pattern}/noise".encode()))
            normal = rng.standard_normal(sample.sparse.shape).astype(np.float32)
            for sigma in NOISE:
                result = completer.complete(sample.image, sample.sparse * np.exp(sigma * normal), sky="keep")
                rel, _, coverage, _ = score_frame(result.depth, result.uncertainty, sample.gt_depth)
                scores[pattern, sigma].append((rel, coverage))
    header = ["pattern", *(f"REL, noise {sigma:.0%}" for sigma in NOISE), *(f"inside 95 %, {s:.0%}" for s in NOISE)]
    means = {key: np.mean(values, axis=0) for key, values in scores.items()}
    rows = [
        [name, *(f"{means[name, s][0]:.4f}" for s in NOISE), *(f"{means[name, s][1]:.3f}" for s in NOISE)]
        for name in USED
    ]
    emit(header, rows, options.json)


if __name__ == "__main__":
    main()
