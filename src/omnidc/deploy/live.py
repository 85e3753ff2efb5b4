"""Continuous completion: frames from a camera, a video, a folder or a bag; rate, latency and time by stage.

A camera delivers frames whether or not they are used: a thread keeps only the newest, so that the latency is that of
one frame. Files are completed frame by frame. Several workers complete as many frames at the same time, each on one
core, because a network of many small steps gains little from a second thread; results leave in the order of the frames.
"""

from __future__ import annotations

import http.server
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.errors import ConfigError, FileError
from omnidc.frame import Frame, FrameSource
from omnidc.io.depth import CODECS, read_depth, refuse_disparity
from omnidc.io.files import atomic_path, write_json
from omnidc.io.images import SUFFIXES
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.options import CompleteOptions
from omnidc.pipeline.prepare import make_frame
from omnidc.pipeline.source import Completer, pair_source
from omnidc.viz.colormap import Scale, colorize

Picture = npt.NDArray[np.uint8]  # [H, W, 3], RGB

STAGES = ("read", "complete", "output")
BAG_SUFFIXES = (".bag", ".mcap", ".db3")


class Depths(Protocol):
    """Sparse depth beside a video or a camera."""

    def at(self, index: int) -> npt.NDArray[np.float32] | None:  # [H, W], 0 = none; None = no measurements
        """Return the measurements of the frame with this number."""
        ...


class DepthFolder:
    """Depth files in the order of their names; for cameras the newest file, which another process writes."""

    def __init__(self, folder: Path, newest: bool, depth_scale: float | None) -> None:
        self.folder, self.newest, self.scale = folder, newest, depth_scale
        self.paths = self._list()
        if not self.paths and not newest:
            raise FileError(f"{folder} has no depth files ({', '.join(CODECS)}).")

    def at(self, index: int) -> npt.NDArray[np.float32] | None:
        paths = self._list() if self.newest else self.paths
        if not paths or (index >= len(paths) and not self.newest):
            return None
        path = paths[-1] if self.newest else paths[index]
        refuse_disparity(path, "convert it to depth")
        return read_depth(path, self.scale).depth

    def _list(self) -> list[Path]:
        # Half-written files of careful writers begin with a dot.
        files = [path for path in self.folder.iterdir() if path.suffix.lower() in CODECS and path.name[0] != "."]
        return sorted(files, key=lambda path: path.stat().st_mtime if self.newest else path.name)


class DepthStack:
    """One array [T, H, W] of an .npy file."""

    def __init__(self, path: Path) -> None:
        try:
            self.stack = np.load(path, mmap_mode="r")
        except (OSError, ValueError) as error:
            raise FileError(f"{path} cannot be read as an array ({error}).") from error
        if self.stack.ndim != 3:
            raise FileError(
                f"{path} should hold sparse depth as [frames, height, width], not {list(self.stack.shape)}."
            )

    def at(self, index: int) -> npt.NDArray[np.float32] | None:
        return np.asarray(self.stack[index], np.float32) if index < len(self.stack) else None


def open_depths(path: Path | None, newest: bool, depth_scale: float | None) -> Depths | None:
    """Open the sparse source beside a video or camera."""
    if path is None:
        return None
    if path.is_dir():
        return DepthFolder(path, newest, depth_scale)
    if path.suffix.lower() == ".npy" and path.is_file():
        return DepthStack(path)
    raise FileError(f"{path} is neither a folder of depth files nor an .npy file with [frames, height, width].")


class Camera:
    """The newest frame of a device, taken by a thread."""

    def __init__(self, capture: Any) -> None:
        self._capture, self._condition = capture, threading.Condition()
        self._frame: Any = None
        self._count = 0
        self.dropped = 0
        self._stop = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop:
            good, frame = self._capture.read()
            with self._condition:
                self.dropped += self._frame is not None
                self._frame = frame if good else None
                self._stop |= not good
                self._count += 1
                self._condition.notify()

    def read(self, timeout: float = 5.0) -> Any:
        """Return the newest frame, BGR; None when the device ended or was silent for `timeout` seconds."""
        with self._condition:
            self._condition.wait_for(lambda: self._frame is not None or self._stop, timeout)
            frame, self._frame = self._frame, None
            return frame

    def close(self) -> None:
        self._stop = True
        self._thread.join(timeout=2)
        self._capture.release()


def live_frames(
    source: str,
    sparse: Path | None,
    intrinsics: Any = None,
    depth_scale: float | None = None,
) -> Iterator[Frame]:
    """Yield frames of a camera number, a video file, a folder of images or a bag."""
    path = Path(source)
    if source.isdecimal():
        yield from _captured(cv2.VideoCapture(int(source)), source, True, sparse, intrinsics, depth_scale)
    elif path.suffix.lower() in BAG_SUFFIXES or (path / "metadata.yaml").is_file():
        from omnidc.sensors.rosbag import bag_source

        yield from _in_order(bag_source(path))
    elif path.is_dir():
        if sparse is None or not sparse.is_dir():
            raise ConfigError("A folder of images needs a folder of depth files with the same names beside it.")
        yield from _in_order(pair_source(path, sparse, intrinsics, depth_scale=depth_scale))
    elif path.is_file() and path.suffix.lower() not in SUFFIXES:
        yield from _captured(cv2.VideoCapture(source), source, False, sparse, intrinsics, depth_scale)
    else:
        raise FileError(f"{source} is no camera number, video, folder of images or bag.")


def _in_order(source: FrameSource) -> Iterator[Frame]:
    return (source[name] for name in source.names)


def _captured(
    capture: Any, source: str, device: bool, sparse: Path | None, intrinsics: Any, depth_scale: float | None
) -> Iterator[Frame]:
    if not capture.isOpened():
        raise FileError(f"{'Camera' if device else 'Video'} {source} cannot be opened by OpenCV.")
    depths = open_depths(sparse, device, depth_scale)
    camera = Camera(capture) if device else None
    index = 0
    try:
        while (picture := camera.read() if camera is not None else capture.read()[1]) is not None:
            depth = None if depths is None else depths.at(index)
            yield make_frame(
                np.ascontiguousarray(picture[..., ::-1]), depth, intrinsics, resize_sparse=True, name=f"{index:06d}"
            )
            index += 1
    finally:
        if camera is not None:
            camera.close()
        else:
            capture.release()


@dataclass
class Timing:
    """Seconds by stage, frame by frame."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {stage: [] for stage in STAGES})
    intervals: list[float] = field(default_factory=list)  # from the end of the frame before to the end of each

    def add(self, interval: float, **stages: float) -> None:
        self.intervals.append(interval)
        for stage, value in stages.items():
            self.seconds[stage].append(value)

    @property
    def frames(self) -> int:
        return len(self.seconds["complete"])

    def rate(self, last: int | None = None) -> float:
        """Return the frames per second over the last frames; None = all."""
        intervals = self.intervals[-last:] if last else self.intervals
        return len(intervals) / max(sum(intervals), 1e-9)

    def latency(self, last: int | None = None) -> float:
        """Return the mean seconds from a frame that was read to its output."""
        parts = [self.seconds[stage][-last:] if last else self.seconds[stage] for stage in ("complete", "output")]
        return sum(map(sum, parts)) / max(len(parts[0]), 1)

    def chart(self, width: int = 40) -> str:
        """Return the median time of each stage as bars of text."""
        medians = {stage: 1000 * float(np.median(values)) for stage, values in self.seconds.items() if values}
        longest = max(medians.values(), default=1.0)
        return "\n".join(
            f"{stage:>9} {value:8.1f} ms {'█' * max(1, round(width * value / longest))}"
            for stage, value in medians.items()
        )


class LiveOutput(Protocol):
    """Takes results while they come."""

    def write(self, frame: Frame, completion: Completion) -> None: ...

    def close(self) -> None: ...


class FolderOutput:
    """One depth file a frame."""

    def __init__(self, folder: Path, suffix: str = "npy") -> None:
        self.folder, self.suffix = folder, suffix

    def write(self, frame: Frame, completion: Completion) -> None:
        completion.save(self.folder / f"{frame.name}.{self.suffix}", scale=1000.0 if self.suffix == "png" else None)

    def close(self) -> None:
        pass


class VideoOutput:
    """A video of the colored depth. It gets its name when it is whole."""

    def __init__(self, path: Path, rate: float = 10.0) -> None:
        self.path, self.rate = path, rate
        self._context = atomic_path(path)
        self._temporary = self._context.__enter__()
        self._writer: Any = None
        self._scale: Scale | None = None  # that of the first frame, so that colors do not flicker

    def write(self, frame: Frame, completion: Completion) -> None:
        height, width = completion.depth.shape
        if self._writer is None:
            self._scale = Scale.of(completion.depth)
            code = cv2.VideoWriter.fourcc(*("MJPG" if self.path.suffix.lower() == ".avi" else "mp4v"))
            self._writer = cv2.VideoWriter(str(self._temporary), code, self.rate, (width, height))
            if not self._writer.isOpened():
                raise FileError(f"OpenCV cannot write {self.path}: take .mp4 or .avi.")
        self._writer.write(np.ascontiguousarray(colorize(completion.depth, self._scale)[..., ::-1]))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.release()
        self._context.__exit__(None, None, None)


class PageOutput:
    """The newest photograph and depth as a moving picture on a local page; no window system is needed."""

    def __init__(self, port: int) -> None:
        self._condition, self._picture, self._closed = threading.Condition(), b"", False
        output = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
                self.end_headers()
                with suppress(ConnectionError):
                    for picture in output.pictures():
                        head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(picture)}\r\n\r\n"
                        self.wfile.write(head.encode() + picture + b"\r\n")

            def log_message(self, *arguments: Any) -> None:
                pass

        try:
            self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"Port {port} cannot be used ({error}): choose another with --serve.") from error
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def pictures(self) -> Iterator[bytes]:
        """Yield each new picture as JPEG until the run ends."""
        last = b""
        while not self._closed:
            with self._condition:
                self._condition.wait_for(lambda: self._closed or self._picture is not last, timeout=1)  # noqa: B023
                picture = self._picture
            if picture is not last:
                last = picture
                yield picture

    def write(self, frame: Frame, completion: Completion) -> None:
        both = np.hstack([frame.image, colorize(completion.depth)])
        coded = cv2.imencode(".jpg", np.ascontiguousarray(both[..., ::-1]))[1].tobytes()
        with self._condition:
            self._picture = coded
            self._condition.notify_all()

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._server.shutdown()
        self._server.server_close()


def default_workers(completer: Completer) -> int:
    """Return one for each core where onnxruntime runs on the CPU; torch and GPUs use several cores for one frame."""
    session = getattr(completer, "session", None)
    if session is None or session.get_providers()[0] != "CPUExecutionProvider":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class _Done:
    completion: Completion
    seconds: float


def run_live(
    frames: Iterator[Frame],
    completer: Completer,
    outputs: list[LiveOutput],
    report: Callable[[str], None],
    options: CompleteOptions | None = None,
    *,
    max_frames: int | None = None,
    workers: int = 1,  # frames that are completed at the same time
    report_seconds: float = 2.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Complete frames until they end, `max_frames` were done, or the user interrupts; report rate and latency."""
    if workers < 1:
        raise ConfigError(f"At least one worker is needed, not {workers}.")
    timing, options = Timing(), options or CompleteOptions()
    last, reported = clock(), 0
    pool = ThreadPoolExecutor(workers, thread_name_prefix="live")
    running: deque[tuple[Frame, float, Future[_Done]]] = deque()  # frame, seconds of its reading, result

    def complete(frame: Frame) -> _Done:
        began = clock()
        completion = completer.complete(frame, options)
        return _Done(completion, clock() - began)

    try:
        before, ended, begun = clock(), False, 0
        while running or not ended:
            while len(running) < workers and not ended:
                ended = max_frames is not None and begun >= max_frames
                start = clock()
                frame = None if ended else next(frames, None)
                if frame is None:
                    ended = True
                    break
                running.append((frame, clock() - start, pool.submit(complete, frame)))
                begun += 1
            if not running:
                break
            frame, read, future = running.popleft()
            done = future.result()
            completed = clock()
            for output in outputs:
                output.write(frame, done.completion)
            end = clock()
            timing.add(end - before, read=read, complete=done.seconds, output=end - completed)
            before = end
            if end - last >= report_seconds:
                recent = timing.frames - reported
                report(f"{timing.rate(recent):.1f} frames/s, latency {1000 * timing.latency(recent):.0f} ms")
                last, reported = end, timing.frames
    except KeyboardInterrupt:
        report("interrupted; what was written stays.")
    finally:
        pool.shutdown(cancel_futures=True)
        close = getattr(frames, "close", None)
        if close is not None:
            close()
        for output in outputs:
            output.close()
    return timing


def write_timing(path: Path, timing: Timing) -> None:
    """Write the seconds by stage as JSON."""
    write_json(
        path, {"frames": timing.frames, "rate": timing.rate(), "seconds": json.loads(json.dumps(timing.seconds))}
    )
