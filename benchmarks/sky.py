"""Sky: intersection over union on held-out rendered frames, and measured pixels of photographs that are called sky.

    python benchmarks/sky.py --scenes DIR --real DIR [--model compact] [--pattern 0.1%] [--frames 100]

--scenes: shards of `omnidc scenes render`; only streets and landscapes of held-out scenes (as in training) with at
least 2 % of sky. Both the mean over frames and that of all pixels together are printed.
--real: photographs of `omnidc eval --protocol real`; a pixel with a measured depth is not sky.
"""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path

import numpy as np
from tqdm import tqdm

import omnidc
from omnidc.evaluation.real import read_photograph
from omnidc.geometry.surface import SKY_PROBABILITY
from omnidc.patterns import parse
from omnidc.training.data import open_source

HELD_OUT = 0.05  # of the scenes, as in the preset
OUTDOORS = ("street", "nature")  # kinds of scenes
MIN_SKY = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=Path)
    parser.add_argument("--real", type=Path)
    parser.add_argument("--model", default="compact")
    parser.add_argument("--pattern", default="0.1%")
    parser.add_argument("--frames", type=int, default=100)
    options = parser.parse_args()
    completer, pattern = omnidc.load(options.model), parse(options.pattern)

    def sky_of(image, depth, name):  # type: ignore[no-untyped-def]
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        sparse = pattern(depth, image, rng).sparse.astype(np.float32)
        sky = completer.complete(image, sparse).sky
        if sky is None:
            raise SystemExit(f"{options.model} does not predict the sky.")
        return sky > SKY_PROBABILITY

    if options.scenes:
        held_out = open_source("scenes", str(options.scenes)).split(HELD_OUT)[1]
        scores = []
        for index in tqdm(range(len(held_out)), unit="frame", leave=False):
            frame = held_out[index]
            if not Path(frame.name).name.startswith(OUTDOORS):
                continue
            if frame.sky is None or frame.depth is None or frame.sky.mean() < MIN_SKY or not (frame.depth > 0).any():
                continue
            found = sky_of(frame.image, frame.depth, frame.name)
            scores.append(((found & frame.sky).sum(), (found | frame.sky).sum()))
            if len(scores) == options.frames:
                break
        if not scores:
            raise SystemExit(f"{options.scenes} has no held-out frame outdoors with sky.")
        both, either = np.array(scores, np.float64).T
        print(
            f"IoU {np.mean(both / either):.3f} (least {np.min(both / either):.3f}) over {len(scores)} held-out frames "
            f"with sky, {both.sum() / either.sum():.3f} of all pixels together"
        )
    if options.real:
        shares = {}
        for path in tqdm(sorted(options.real.glob("*.npz")), unit="image", leave=False):
            view = read_photograph(path)
            if view.depth is not None and (view.depth > 0).any():
                shares[path.stem] = sky_of(view.image, view.depth, path.stem)[view.depth > 0].mean()
        worst = sorted(shares, key=lambda name: -shares[name])[:5]
        print(f"called sky: {np.mean(list(shares.values())):.3%} of the measured pixels of {len(shares)} photographs")
        print("most: " + ", ".join(f"{name} {shares[name]:.2%}" for name in worst))


if __name__ == "__main__":
    main()
