from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from omnidc.deploy.live import Camera, FolderOutput, PageOutput, VideoOutput, live_frames, open_depths, run_live
from omnidc.errors import ConfigError, FileError, InputError
from omnidc.frame import Frame
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.options import CompleteOptions

SHAPE = (48, 64)


class Constant:
    def complete(self, frame: Frame, options: CompleteOptions, /) -> Completion:
        sparse = frame.measurements()
        value = np.median(sparse[sparse > 0]) if sparse.any() else 1.0
        ramp = np.linspace(0.9, 1.1, SHAPE[1], dtype=np.float32)[None].repeat(SHAPE[0], 0)
        return Completion(ramp * np.float32(value), None, np.full(SHAPE, np.nan, np.float32), sparse, frame.image)


def depth_map(value: float) -> np.ndarray:
    sparse = np.zeros(SHAPE, np.float32)
    sparse[::8, ::8] = value
    return sparse


@pytest.fixture
def video(tmp_path: Path) -> Path:
    path = tmp_path / "in.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, SHAPE[::-1])
    for k in range(5):
        writer.write(np.full((*SHAPE, 3), 40 * k, np.uint8))
    writer.release()
    return path


@pytest.fixture
def depths(tmp_path: Path) -> Path:
    folder = tmp_path / "depths"
    folder.mkdir()
    for k in range(5):
        np.save(folder / f"{k:04d}.npy", depth_map(k + 1))
    return folder


def test_video_with_depth_folder_is_written_frame_by_frame(tmp_path: Path, video: Path, depths: Path) -> None:
    lines: list[str] = []
    outputs = [FolderOutput(tmp_path / "out"), VideoOutput(tmp_path / "out.mp4")]
    timing = run_live(live_frames(str(video), depths), Constant(), outputs, lines.append, report_seconds=0)  # type: ignore[arg-type]
    assert timing.frames == 5
    assert [round(float(np.load(path).mean())) for path in sorted((tmp_path / "out").iterdir())] == [1, 2, 3, 4, 5]
    assert len(lines) == 5
    assert "frames/s, latency" in lines[0]
    capture = cv2.VideoCapture(str(tmp_path / "out.mp4"))
    assert int(capture.get(cv2.CAP_PROP_FRAME_COUNT)) == 5
    assert set(timing.seconds) == {"read", "complete", "output"}
    assert all(len(values) == 5 for values in timing.seconds.values())
    assert timing.chart().count("ms") == 3


def test_video_with_depth_stack_takes_frame_by_number(tmp_path: Path, video: Path) -> None:
    np.save(tmp_path / "stack.npy", np.stack([depth_map(k + 1) for k in range(3)]))
    frames = list(live_frames(str(video), tmp_path / "stack.npy"))
    assert [float(frame.measurements().max()) for frame in frames] == [1, 2, 3, 0, 0]


def test_folders_are_paired_by_name(tmp_path: Path, depths: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    for k in (1, 3):
        cv2.imwrite(str(images / f"{k:04d}.png"), np.zeros((*SHAPE, 3), np.uint8))
    assert [float(frame.measurements().max()) for frame in live_frames(str(images), depths)] == [2, 4]


def test_max_frames_stops_and_closes_the_source(video: Path) -> None:
    assert run_live(live_frames(str(video), None), Constant(), [], print, max_frames=2).frames == 2


class Device:
    """A camera that delivers 50 frames at once and ends."""

    def __init__(self) -> None:
        self.frames = iter(range(50))

    def read(self) -> tuple[bool, np.ndarray | None]:
        number = next(self.frames, None)
        return (False, None) if number is None else (True, np.full((2, 2, 3), number, np.uint8))

    def release(self) -> None:
        pass


def test_camera_keeps_the_newest_frame_only() -> None:
    camera = Camera(Device())
    camera._thread.join()
    assert camera.read() is None  # the device ended before anybody read
    assert camera.dropped >= 49
    camera.close()


def test_camera_folder_gives_the_newest_depth(depths: Path) -> None:
    import os

    newest = open_depths(depths, True, 1.0)
    assert newest is not None
    os.utime(depths / "0002.npy", (2e9, 2e9))
    assert float(newest.at(0).max()) == 3.0  # type: ignore[union-attr]
    (depths / ".half.npy").write_bytes(b"x")
    assert newest.at(1) is not None


def test_page_shows_the_newest_picture() -> None:
    page = PageOutput(0)
    frame = Frame(np.zeros((*SHAPE, 3), np.uint8), depth_map(2.0))
    page.write(frame, Constant().complete(frame, CompleteOptions()))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(page.url, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("multipart/x-mixed-replace")
        assert answer.readline() == b"--frame\r\n"
        assert answer.readline() == b"Content-Type: image/jpeg\r\n"
    page.close()


def test_interrupt_keeps_what_was_written(tmp_path: Path) -> None:
    def frames() -> Iterator[Frame]:
        yield Frame(np.zeros((*SHAPE, 3), np.uint8), depth_map(2.0), name="a")
        raise KeyboardInterrupt

    lines: list[str] = []
    assert run_live(frames(), Constant(), [VideoOutput(tmp_path / "a.avi")], lines.append).frames == 1
    assert (tmp_path / "a.avi").is_file()
    assert lines[-1].startswith("interrupted")


def test_sources_that_are_none_are_refused(tmp_path: Path, video: Path) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    np.save(tmp_path / "flat.npy", np.zeros((3, 4)))
    for source, sparse, error, sentence in [
        (str(tmp_path / "none.mp4"), None, FileError, "no camera number"),
        (str(tmp_path / "text.mp4"), None, FileError, "cannot be opened"),
        ("98", None, FileError, "Camera 98 cannot be opened"),
        (str(tmp_path), None, ConfigError, "needs a folder of depth files"),
        (str(video), tmp_path / "flat.npy", FileError, "frames, height, width"),
        (str(video), tmp_path / "none", FileError, "neither a folder"),
    ]:
        with pytest.raises(error, match=sentence):
            next(live_frames(source, sparse))


class SlowFirst(Constant):
    """Takes longer for the first frame than for the others."""

    def __init__(self) -> None:
        self.together, self.most, self.lock = 0, 0, threading.Lock()

    def complete(self, frame: Frame, options: CompleteOptions, /) -> Completion:
        with self.lock:
            self.together += 1
            self.most = max(self.most, self.together)
        time.sleep(0.2 if frame.name == "000000" else 0.02)
        with self.lock:
            self.together -= 1
        return super().complete(frame, options)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_complete_frames_together_and_write_in_order(tmp_path: Path, video: Path, workers: int) -> None:
    written: list[str] = []

    class Names:
        def write(self, frame: Frame, completion: object) -> None:
            written.append(frame.name)

        def close(self) -> None:
            pass

    completer = SlowFirst()
    timing = run_live(live_frames(str(video), None), completer, [Names()], print, workers=workers)
    assert completer.most == workers
    assert written == sorted(written)
    assert timing.frames == len(written) == len(timing.intervals)


def test_max_frames_is_kept_with_several_workers(video: Path) -> None:
    assert run_live(live_frames(str(video), None), Constant(), [], print, max_frames=2, workers=3).frames == 2


def test_error_of_a_worker_ends_the_run(video: Path) -> None:
    class Failing(Constant):
        def complete(self, frame: Frame, options: CompleteOptions, /) -> Completion:
            raise InputError("no")

    with pytest.raises(InputError):
        run_live(live_frames(str(video), None), Failing(), [], print, workers=2)
