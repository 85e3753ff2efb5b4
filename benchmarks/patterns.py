"""CPU time of every pattern on a textured synthetic frame: `python benchmarks/patterns.py`.

One core; the last column is the time over the budget (1.0 = just within it). Budgets at 480×640: random points 5 ms,
keypoints and LiDAR 150 ms; LiDAR at 240×320: 30 ms.
"""

from __future__ import annotations

import time

import cv2
import numpy as np

from omnidc.patterns import parse

BUDGET = {480: {"random": 5.0, "keypoints": 150.0, "lidar": 150.0}, 240: {"lidar": 30.0}}
PATTERNS = {
    "2150": "random",
    "0.7%": "random",
    "100~2000": "random",
    "1~~2000 & noise(0~0.05)": "",
    "sift": "keypoints",
    "orb": "keypoints",
    "lidar": "lidar",
    "lidar(128)": "lidar",
    "lidar-64": "lidar",
    "radar": "",
    "camera": "",
    "tof": "",
    "0.7% & hole": "",
    "0.7% & blocks": "",
    "0.7% & crop": "",
    "0.5*100~2000+0.25*sift+0.25*lidar": "",
}


def frame(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Boxes before a slanted wall, with texture at several scales."""
    rng = np.random.default_rng(0)
    depth = np.linspace(8, 2, height, dtype=np.float32)[:, None] + np.zeros((height, width), np.float32)
    texture = np.zeros((height, width, 3), np.float32)
    for octave in range(2, 8):
        coarse = rng.standard_normal((height * 2 // 2**octave, width * 2 // 2**octave, 3)).astype(np.float32)
        texture += cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    image = np.clip(128 + 30 * texture, 0, 255).astype(np.uint8)
    for _ in range(12):
        y, x = rng.integers(0, height * 3 // 4), rng.integers(0, width * 3 // 4)
        box = np.s_[y : y + height // 5, x : x + width // 6]
        depth[box] = rng.uniform(0.7, 2.0)
        image[box] = image[box] // 2 + rng.integers(0, 128, 3).astype(np.uint8)
    return depth, image


def milliseconds(text: str, depth: np.ndarray, image: np.ndarray, repeats: int = 15) -> tuple[float, float, float]:
    """Median and maximum CPU milliseconds of a call, and the median number of points."""
    pattern, rng, times, points = parse(text), np.random.default_rng(0), [], []
    pattern(depth, image, rng)
    for _ in range(repeats):
        start = time.process_time()
        sample = pattern(depth, image, rng)
        times.append(1e3 * (time.process_time() - start))
        points.append(np.count_nonzero(sample.sparse))
    return float(np.median(times)), float(np.max(times)), float(np.median(points))


def main() -> None:
    cv2.setNumThreads(1)
    for height, width in ((480, 640), (240, 320)):
        depth, image = frame(height, width)
        print(f"{height}x{width:<30d} {'points':>7s} {'median ms':>10s} {'max ms':>8s} {'/ budget':>9s}")
        for text, kind in PATTERNS.items():
            median, worst, points = milliseconds(text, depth, image)
            budget = BUDGET[height].get(kind)
            ratio = f"{median / budget:9.2f}" if budget else f"{'':9s}"
            print(f"{text:34s} {points:7.0f} {median:10.1f} {worst:8.1f} {ratio}")


if __name__ == "__main__":
    main()
