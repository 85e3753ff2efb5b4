"""A run of the generator: shards shared out to worker processes, resumed where it stopped. Without bpy."""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnidc.datasets.shards import index_shard
from omnidc.errors import FileError, MissingExtraError, OmnidcError
from omnidc.scenes.assets import open_library
from omnidc.scenes.manifest import Manifest, Settings, load_manifest
from omnidc.scenes.scratch import Scratch, hold_output

MARK = "@omnidc "  # before each report of a worker, on an output where Blender talks too
ATTEMPTS = 2  # a worker that Blender takes down with it gets a second chance
GRACE = 2.0  # seconds a worker has to end before it is killed

# settings, shard, the worker's own folder → its process
Launch = Callable[[Settings, int, Path], "subprocess.Popen[str]"]


@dataclass
class Tally:
    """What became of one shard's views."""

    frames: int = 0
    refused: int = 0
    failed: list[str] = field(default_factory=list)
    worlds: dict[str, dict[str, float]] = field(default_factory=dict)

    def count(self, event: dict[str, Any]) -> None:
        """Take in one report of a worker."""
        if event["event"] == "failed":
            self.failed.append(f"scene {event['scene']}: {event['why'].strip().splitlines()[-1]}")
        if "cpu" in event:
            world = self.worlds.setdefault(event["world"], {"frames": 0, "cpu_seconds": 0.0})
            world["cpu_seconds"] = round(world["cpu_seconds"] + event["cpu"], 3)
            world["frames"] += event["event"] == "frame"
        self.frames += event["event"] == "frame"
        self.refused += event["event"] == "refused"

    def to_json(self) -> dict[str, Any]:
        """Return plain values for the manifest."""
        return {"frames": self.frames, "refused": self.refused, "failed": self.failed, "worlds": self.worlds}


def launch_worker(settings: Settings, shard: int, folder: Path) -> subprocess.Popen[str]:
    """Start the process that renders one shard; it reads its job from `folder` and reports on its output."""
    job = folder / "job.json"
    job.write_text(
        json.dumps({"settings": settings.to_json(), "shard": shard, "parent": os.getpid()}), encoding="utf-8"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "omnidc.scenes.worker", str(job)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
    )


def sweep_begun(settings: Settings, shard: int | None = None) -> None:
    """Remove what `atomic_path` had begun when its process was killed: of one shard, or of all and the manifest."""
    folder = Path(settings.folder)
    patterns = [f".scenes-{settings.seed}-*.tar", ".manifest.*.json"]
    if shard is not None:
        patterns = [f".{settings.shard_path(shard).stem}.*.tar"]
    for path in [path for pattern in patterns for path in folder.glob(pattern)]:
        path.unlink(missing_ok=True)


def end_with(parent: int, settings: Settings, shard: int, folder: Path) -> None:
    """End this process when its parent is gone (Cycles lets other threads run while it renders)."""
    while os.getppid() == parent:
        time.sleep(1.0)
    sweep_begun(settings, shard)
    shutil.rmtree(folder.parent, ignore_errors=True)
    os._exit(1)


def finished_shards(settings: Settings, manifest: Manifest) -> dict[int, int]:
    """Return the shards that are whole on disk, as number → frames. Damaged ones are made again."""
    found = {}
    sweep_begun(settings)
    for path in sorted(Path(settings.folder).glob(f"scenes-{settings.seed}-*.tar")):
        number = int(path.stem.rpartition("-")[2])
        try:
            frames = len(index_shard(path))
        except OmnidcError:
            path.unlink()
            continue
        found[number] = frames
        manifest.shards.setdefault(number, {"frames": frames})
    manifest.shards = {number: about for number, about in manifest.shards.items() if number in found}
    return found


class Run:
    """Renders until a folder holds `count` frames. Progress is handed to `report` as it happens."""

    def __init__(
        self,
        settings: Settings,
        count: int,
        workers: int,
        report: Callable[[dict[str, Any]], None],
        launch: Launch = launch_worker,
    ) -> None:
        self.settings, self.count, self.workers, self.report, self.launch = settings, count, workers, report, launch
        self.manifest = load_manifest(settings) or Manifest(settings)
        self._lock = threading.Lock()
        self._processes: dict[subprocess.Popen[str], int] = {}  # and their shards
        self._problems: queue.Queue[Exception] = queue.Queue()
        self._stopped = False
        self._held = hold_output(Path(settings.folder))
        self.done = finished_shards(settings, self.manifest)
        self.frames = sum(self.done.values())
        self._next = self._numbers()

    def _numbers(self) -> Iterator[int]:
        number = 0
        while True:
            if number not in self.done:
                yield number
            number += 1

    def _take(self) -> int | None:
        """Take the next shard to render; None when frames suffice or the run was stopped."""
        with self._lock:
            return None if self._stopped or self.frames >= self.count else next(self._next)

    def _loop(self) -> None:
        try:
            while (shard := self._take()) is not None:
                self._render(shard)
        except Exception as error:
            self._problems.put(error)
            self.stop()

    def _render(self, shard: int) -> None:
        said = "nothing"
        for _ in range(ATTEMPTS):
            tally, complete, words = self._attempt(shard)
            if complete:
                with self._lock:
                    self.manifest.shards[shard] = tally.to_json()
                    self.manifest.save()
                return
            if self._stopped:
                return
            with self._lock:
                self.frames -= tally.frames
            said = " | ".join(words[-3:]) or "nothing"
            self.report({"event": "retry", "shard": shard, "frames": tally.frames, "why": said})
        raise FileError(f"The worker of shard {shard} died twice; its last words: {said}.")

    def _attempt(self, shard: int) -> tuple[Tally, bool, list[str]]:
        tally, complete = Tally(), False
        words: list[str] = []
        with self._lock:
            if self._stopped:
                return tally, False, words
            folder = self._scratch.folder / f"{shard:05d}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            process = self.launch(self.settings, shard, folder)
            self._processes[process] = shard
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith(MARK):
                words = [*words[-20:], line.strip()]
                continue
            event = json.loads(line[len(MARK) :])
            complete |= event["event"] == "done"
            tally.count(event)
            if event["event"] == "frame":
                with self._lock:
                    self.frames += 1
            self.report(event)
        if process.wait() < 0:
            words.append(f"ended by signal {-process.returncode}")
        with self._lock:
            self._processes.pop(process)
        shutil.rmtree(folder, ignore_errors=True)
        if not complete:
            sweep_begun(self.settings, shard)
        return tally, complete, words

    def stop(self) -> None:
        """Tell the workers to end."""
        with self._lock:
            self._stopped = True
            for process in self._processes:
                process.terminate()

    def _end(self, threads: list[threading.Thread]) -> None:
        """Wait for workers that were told to end, kill those that do not, and leave nothing behind."""
        self.stop()
        deadline = time.monotonic() + GRACE
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            for process, shard in self._processes.items():
                process.kill()
                process.wait()
                sweep_begun(self.settings, shard)
        self._scratch.close()
        self._held.close()

    def go(self) -> None:
        """Render, and return when there are frames enough. Shards that were begun are finished, unless interrupted."""
        self._scratch = Scratch()
        threads = [threading.Thread(target=self._loop, daemon=True) for _ in range(self.workers)]
        try:
            self.manifest.save()
            for thread in threads:
                thread.start()
            while not self._stopped and any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(0.2)
        finally:
            self._end([thread for thread in threads if thread.ident is not None])
        if not self._problems.empty():
            raise self._problems.get()


def check_bpy() -> None:
    """Check that Blender can be imported in this very Python."""
    if importlib.util.find_spec("bpy") is None:
        raise MissingExtraError("bpy", "scenes", "Rendering scenes")


def describe_assets(settings: Settings) -> list[dict[str, object]]:
    """List the sources and licenses that a run may use; Blender's own skies are always among them."""
    path = settings.assets_path
    if path is not None and not path.is_dir():
        raise FileError(f"{path} is no folder of assets; `omnidc scenes setup` says how to fill one.")
    own: dict[str, object] = {"name": "bpy", "package": "bpy", "origin": "bpy", "license": "CC0-1.0"}
    return [{**own, "brings": "8 panoramas"}, *open_library(path, settings.copyleft).licenses()]
