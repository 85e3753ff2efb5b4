"""`omnidc live` on a model: frames per second, and a chart of the time by stage.

    python benchmarks/live.py MODEL [--size 240x320] [--frames 60] [--workers 2] [--clock cpu|wall] [-o timing.json]

A video of the bundled example, panned, is read with a sparse map for each frame, completed, and colored for the page
that `--serve` shows. Each worker completes a frame on one thread. The clock "cpu" counts the CPU time of all threads,
so that its rate is that of a single core; its times by stage mean something with one worker only.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np

import omnidc
from omnidc.deploy.live import LiveOutput, PageOutput, live_frames, run_live, write_timing
from omnidc.geometry.rasterize import resize_sparse_nearest
from omnidc.pipeline import make_frame

EXAMPLES = Path(omnidc.__file__).parent / "examples"


def write_video(folder: Path, size: tuple[int, int], frames: int) -> tuple[Path, Path]:
    """Write a video of the example moving sideways, and its sparse depth [frames, H, W]."""
    view = make_frame(EXAMPLES / "room.jpg", EXAMPLES / "room_sparse.npz")
    height, width = size
    image = np.asarray(cv2.resize(view.image, (width, height), interpolation=cv2.INTER_AREA))
    sparse = resize_sparse_nearest(view.measurements(), size)
    video, depths = folder / "video.avi", folder / "sparse.npy"
    writer = cv2.VideoWriter(str(video), cv2.VideoWriter.fourcc(*"MJPG"), 30, (width, height))
    for k in range(frames):
        writer.write(np.ascontiguousarray(np.roll(image, 2 * k, axis=1)[..., ::-1]))
    writer.release()
    np.save(depths, np.stack([np.roll(sparse, 2 * k, axis=1) for k in range(frames)]))
    return video, depths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("model")
    parser.add_argument("--size", default="240x320")
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clock", choices=["cpu", "wall"], default="cpu")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    height, width = (int(side) for side in given.size.split("x"))
    completer = omnidc.load(given.model, "cpu", threads=1)
    clock = time.process_time if given.clock == "cpu" else time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        video, depths = write_video(Path(folder), (height, width), given.frames)
        outputs: list[LiveOutput] = [PageOutput(0)]
        stream = live_frames(str(video), depths)
        timing = run_live(stream, completer, outputs, lambda text: None, workers=given.workers, clock=clock)
    what = "CPU-seconds" if given.clock == "cpu" else "seconds"
    print(f"{timing.frames} frames, {timing.rate():.1f} frames per second of {what}, latency {timing.latency():.3f}")
    print(f"median {what} by stage:\n{timing.chart()}")
    if given.output is not None:
        write_timing(given.output, timing)


if __name__ == "__main__":
    main()
