"""A photograph and nothing else: relative depth of the model against a constant, both brought to the truth's scale.

    python benchmarks/no_points.py --data DIR [--model compact] [--results docs/results/no_points.json]

DIR is that of `omnidc eval --protocol real`. Scale alignment is one factor per image, the median of truth / prediction;
δ1 is the share of pixels with max(d / D, D / d) < 1.25, REL the mean of |d − D| / D.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

import omnidc
from omnidc.evaluation.real import read_photograph
from omnidc.io.files import write_json
from omnidc.training.validation import score_frame


def scores(depth: npt.NDArray[np.float32], truth: npt.NDArray[np.float32]) -> tuple[float, float]:
    """δ1 and REL after alignment of the scale."""
    known = truth > 0
    rel, delta1, _, _ = score_frame(depth * np.median(truth[known] / depth[known]), None, truth)
    return delta1, rel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="compact")
    parser.add_argument("--results", type=Path, help="file for the means, for benchmarks/tables.py")
    options = parser.parse_args()
    completer = omnidc.load(options.model)
    rows = []
    for path in tqdm(sorted(options.data.glob("*.npz")), unit="image"):
        view = read_photograph(path)
        if view.depth is None or not (view.depth > 0).any():
            continue
        depth = completer.complete(view.image, None, sky="keep").depth
        assert np.isfinite(depth).all(), f"{path.name}: depth is not finite"
        rows.append((path.stem, scores(depth, view.depth), scores(np.ones_like(depth), view.depth)))
    for name, ours, constant in rows:
        print(f"{name:40s} δ1 {ours[0]:.3f} against {constant[0]:.3f}, REL {ours[1]:.3f} against {constant[1]:.3f}")
    (delta, rel), (delta0, rel0) = (np.mean([row[i] for row in rows], axis=0) for i in (1, 2))
    better = sum(ours[0] > constant[0] for _, ours, constant in rows)
    print(f"mean of {len(rows)}: δ1 {delta:.3f} against {delta0:.3f} of a constant (better on {better}), ", end="")
    print(f"REL {rel:.3f} against {rel0:.3f}")
    if options.results:
        means = {"delta_1": {"model": delta, "constant": delta0}, "rel": {"model": rel, "constant": rel0}}
        write_json(options.results, {"model": options.model, "photographs": len(rows), "better": better, **means})


if __name__ == "__main__":
    main()
