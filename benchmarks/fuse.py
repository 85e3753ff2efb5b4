"""Time and memory of `--fuse` on many large views: a room of photographs of 6.4 megapixels.

    python benchmarks/fuse.py [--views 11] [--size 3088x2072]

Views are posed depth maps of one box-shaped room with a picture each, written to a temporary folder. A child process
fuses them as `omnidc colmap --fuse` does (without the completion before) and reports its peak memory. Bars: at most
five million points and 2 GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.interop.sinks import fuse_views
from omnidc.interop.views import PosedView
from omnidc.pipeline.options import WriteOptions

ROOM = np.array([4.0, 2.5, 6.0])  # half widths, meters


def room_depth(
    K: npt.NDArray[np.float64], pose: npt.NDArray[np.float64], shape: tuple[int, int]
) -> npt.NDArray[np.float32]:
    """z-depth of a box-shaped room from inside."""
    v, u = np.mgrid[: shape[0], : shape[1]].astype(np.float32)
    rays = np.stack([(u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1], np.ones_like(u)], axis=-1) @ pose[:3, :3].T
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = (np.sign(rays) * ROOM - pose[:3, 3]) / rays
    return np.nanmin(reach, axis=-1).astype(np.float32)


def make_views(folder: Path, count: int, shape: tuple[int, int]) -> None:
    height, width = shape
    K = np.array([[0.8 * width, 0.0, width / 2], [0.0, 0.8 * width, height / 2], [0.0, 0.0, 1.0]])
    rng = np.random.default_rng(0)
    picture = cv2.resize(rng.integers(0, 256, (40, 60, 3)).astype(np.uint8), (width, height))
    for k in range(count):
        angle = 0.5 * np.sin(2 * np.pi * k / count)
        pose = np.eye(4)
        pose[:3, :3] = [[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]]
        pose[:3, 3] = 0.1 * k - 0.05 * count, 0.0, 0.0
        np.save(folder / f"{k}.npy", room_depth(K, pose, shape))
        np.savez(folder / f"{k}.npz", K=K, pose=pose)
        cv2.imwrite(str(folder / f"{k}.jpg"), picture)


def load_views(folder: Path) -> list[PosedView]:
    views = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as record:
            K, pose = record["K"], record["pose"]
        depth = path.with_suffix(".npy")
        shape = np.load(depth, mmap_mode="r").shape
        image = path.with_suffix(".jpg")
        views.append(PosedView(path.stem, image.name, image, partial(np.load, depth), K, pose, shape))
    return views


def fuse_here(folder: Path) -> None:
    """In the child: fuse, and print time and peak memory."""
    began = time.perf_counter()
    cloud = fuse_views(folder / "fused.ply", load_views(folder), 0.03, WriteOptions())
    usage = resource.getrusage(resource.RUSAGE_SELF)
    record = {
        "points": len(cloud.points),
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_gb": round(usage.ru_maxrss / 2**20, 2),
    }
    print(json.dumps(record))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--views", type=int, default=11)
    parser.add_argument("--size", default="3088x2072")
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here is not None:
        fuse_here(args.here)
        return
    width, height = map(int, args.size.split("x"))
    with tempfile.TemporaryDirectory() as name:
        make_views(Path(name), args.views, (height, width))
        print(f"{args.views} views of {width}x{height}:", flush=True)
        subprocess.run([sys.executable, __file__, "--here", name], check=True)


if __name__ == "__main__":
    main()
