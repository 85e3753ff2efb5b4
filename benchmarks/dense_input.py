"""Dense depth of a depth camera as input: is what is right kept, and what is wrong corrected?

    python benchmarks/dense_input.py --data DIR [--model compact]

DIR holds Open3D's and 7-Scenes' samples of RGB-D frames (depth in millimeters, 0 and 65535 = none). Kept: the share of
measured pixels whose result differs by more than 5 % from the measurement. Corrected: 5 % of the measured pixels are
replaced, half by flying pixels (between foreground and background, within two pixels of a depth edge), half by
speckles (15 to 50 % off); of those that are more than 10 % off, the share whose result is within 5 % of the original.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

import omnidc

FILES = {
    "open3d": (
        "open3d_testdata/src/Test/TestData/RGBD/color/00000.jpg",
        "open3d_testdata/src/Test/TestData/RGBD/depth/00000.png",
    ),
    "7scenes": ("7scenes_tsdf/data/frame-000000.color.jpg", "7scenes_tsdf/data/frame-000000.depth.png"),
}
PLANTED = 0.05  # of the measured pixels
MOVED, WRONG = 0.05, 0.1  # relative
WINDOW = np.ones((5, 5), np.uint8)

FloatMap = npt.NDArray[np.float32]


def read(root: Path, image: str, depth: str) -> tuple[npt.NDArray[np.uint8], FloatMap]:
    """Return RGB and depth in meters, 0 = none."""
    color = cv2.imread(str(root / image), cv2.IMREAD_COLOR)
    codes = cv2.imread(str(root / depth), cv2.IMREAD_UNCHANGED)
    if color is None or codes is None:
        raise SystemExit(f"{root} has no {image} or {depth}.")
    return color[..., ::-1].copy(), np.where(codes == 65535, 0, codes).astype(np.float32) / 1000


def plant(depth: FloatMap, rng: np.random.Generator) -> FloatMap:
    """Replace a share of the measurements by flying pixels and speckles."""
    valid = depth > 0
    near = cv2.erode(np.where(valid, depth, np.float32(1e6)), WINDOW)
    far = cv2.dilate(depth, WINDOW)
    at_edge = np.flatnonzero(valid & (far > 1.3 * near))
    count = int(PLANTED * valid.sum() / 2)
    result = depth.copy()
    flying = rng.permutation(at_edge)[:count]
    share = rng.uniform(0.25, 0.75, len(flying)).astype(np.float32)
    result.flat[flying] = near.flat[flying] ** (1 - share) * far.flat[flying] ** share
    speckles = rng.permutation(np.flatnonzero(valid))[: 2 * count - len(flying)]
    sign = rng.choice([-1, 1], len(speckles))
    result.flat[speckles] = depth.flat[speckles] * (1 + sign * rng.uniform(0.15, 0.5, len(speckles)))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="compact")
    options = parser.parse_args()
    completer = omnidc.load(options.model)
    for name, files in FILES.items():
        image, depth = read(options.data, *files)
        valid = depth > 0
        kept = completer.complete(image, depth, sky="keep").depth
        moved = np.abs(kept[valid] / depth[valid] - 1) > MOVED
        planted = plant(depth, np.random.default_rng(0))
        wrong = valid & (np.abs(planted / np.where(valid, depth, 1) - 1) > WRONG)
        result = completer.complete(image, planted, sky="keep").depth
        corrected = np.abs(result[wrong] / depth[wrong] - 1) < MOVED
        right = valid & (planted == depth)
        harmed = np.abs(result[right] / depth[right] - 1) > MOVED
        print(
            f"{name:8s} {valid.mean():.0%} measured; moved {moved.mean():.3%} (bar 0.2 %); "
            f"of {wrong.sum()} planted {corrected.mean():.1%} corrected (bar 80 %), "
            f"of the others {harmed.mean():.3%} moved"
        )


if __name__ == "__main__":
    main()
