"""A run of the generator: shards shared out to worker processes, resumed where it stopped. Without bpy."""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnidc.data.shards import index_shard
from omnidc.errors import FileError, MissingExtraError, OmnidcError
from omnidc.scenes.assets import open_library
from omnidc.scenes.manifest import Manifest, Settings, load_manifest

MARK = "@omnidc "  # before each report of a worker, on an output where Blender talks too
ATTEMPTS = 2  # a worker that Blender takes down with it gets a second chance

Launch = Callable[[Settings, int], "subprocess.Popen[str]"]


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
        """For the manifest."""
        return {"frames": self.frames, "refused": self.refused, "failed": self.failed, "worlds": self.worlds}


def launch_worker(settings: Settings, shard: int) -> subprocess.Popen[str]:
    """Start the process that renders one shard; it reads its job from a file and reports on its output."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="omnidc-job-", delete=False, encoding="utf-8") as file:
        json.dump({"settings": settings.to_json(), "shard": shard}, file)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "omnidc.scenes.worker", file.name],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
    )


def finished_shards(settings: Settings, manifest: Manifest) -> dict[int, int]:
    """Shards that are whole on disk, whoever wrote them down: number → frames. Damaged ones are made again."""
    found = {}
    for begun in Path(settings.folder).glob(f".scenes-{settings.seed}-*.tar"):
        begun.unlink()  # left by a run that was killed
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
        self._processes: set[subprocess.Popen[str]] = set()
        self._problems: queue.Queue[Exception] = queue.Queue()
        self._stopped = False
        Path(settings.folder).mkdir(parents=True, exist_ok=True)
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
        """The next shard to render; None when frames suffice or the run was stopped."""
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
        words: list[str] = []
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
            self.report({"event": "retry", "shard": shard, "frames": tally.frames})
        said = " | ".join(words[-3:]) or "nothing"
        raise FileError(f"The worker of shard {shard} died twice; its last words: {said}.")

    def _attempt(self, shard: int) -> tuple[Tally, bool, list[str]]:
        tally, complete = Tally(), False
        words: list[str] = []
        with self._lock:
            if self._stopped:
                return tally, False, words
            process = self.launch(self.settings, shard)
            self._processes.add(process)
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
        process.wait()
        with self._lock:
            self._processes.discard(process)
        return tally, complete, words

    def stop(self) -> None:
        """End the workers; their unfinished shards leave nothing behind that could be read."""
        with self._lock:
            self._stopped = True
            for process in self._processes:
                process.terminate()

    def go(self) -> None:
        """Render, and return when there are frames enough. Shards that were begun are finished."""
        self.manifest.save()
        threads = [threading.Thread(target=self._loop, daemon=True) for _ in range(self.workers)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.5)
        except BaseException:
            self.stop()
            raise
        if not self._problems.empty():
            raise self._problems.get()


def check_bpy() -> None:
    """Blender must be importable in this very Python."""
    if importlib.util.find_spec("bpy") is None:
        raise MissingExtraError("bpy", "scenes", "Rendering scenes")


def describe_assets(settings: Settings) -> list[dict[str, object]]:
    """The sources and licences that a run may use; Blender's own skies are always among them."""
    path = settings.assets_path
    if path is not None and not path.is_dir():
        raise FileError(f"{path} is no folder of assets; `omnidc scenes setup` says how to fill one.")
    own: dict[str, object] = {"name": "bpy", "package": "bpy", "origin": "bpy", "licence": "CC0-1.0"}
    return [{**own, "brings": "8 panoramas"}, *open_library(path, settings.copyleft).licences()]
