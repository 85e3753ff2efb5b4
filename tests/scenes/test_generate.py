"""Runs with a worker that needs no Blender: how shards are shared out, resumed and repaired."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from omnidc.datasets.shards import Shards
from omnidc.errors import ConfigError, FileError
from omnidc.scenes.generate import Run
from omnidc.scenes.manifest import MANIFEST, Manifest, Settings, frame_key, load_manifest

# what a worker does, with noise in place of Blender; argv: settings, shard, mode
FAKE = """
import json, sys
import numpy as np
from pathlib import Path
from omnidc.datasets.shards import ShardWriter
from omnidc.scenes.manifest import Settings, frame_key
settings, shard, mode = Settings.from_json(json.loads(sys.argv[1])), int(sys.argv[2]), sys.argv[3]
once = Path(settings.folder) / "died"
print("Blender says hello")
with ShardWriter(settings.shard_path(shard)) as writer:
    for scene in settings.scenes_of(shard):
        for view in range(settings.views):
            rng = np.random.default_rng([settings.seed, scene, view])
            writer.add(frame_key("room", settings.seed, scene, view),
                       rng.integers(0, 255, (32, 32, 3)).astype(np.uint8), rng.uniform(1, 2, (32, 32)))
            print("@omnidc " + json.dumps({"event": "frame", "scene": scene, "world": "room", "why": None, "cpu": 0.5}),
                  flush=True)
            if mode == "die" or (mode == "die once" and not once.exists()):
                once.touch()
                sys.exit("Segmentation fault")
print("@omnidc " + json.dumps({"event": "done", "shard": shard}))
"""


def run_fake(settings: Settings, count: int, mode: str = "well", workers: int = 2) -> tuple[Run, list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []

    def launch(settings: Settings, shard: int, folder: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", FAKE, json.dumps(settings.to_json()), str(shard), mode]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    run = Run(settings, count, workers, events.append, launch)
    run.go()
    return run, events


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(folder=str(tmp_path), seed=7, views=2, scenes_per_shard=2, width=32, height=32)


def test_render_makes_shards_until_frames_suffice(settings: Settings, tmp_path: Path) -> None:
    run, _ = run_fake(settings, 7)
    frames = Shards(tmp_path)
    assert len(frames) == run.frames >= 7
    assert frame_key("room", 7, 0, 1) in frames.keys
    record = json.loads((tmp_path / MANIFEST).read_text())
    assert record["settings"]["seed"] == 7
    assert "bpy" in record["versions"]
    assert record["shards"]["0"]["worlds"]["room"] == {"frames": 4, "cpu_seconds": 2.0}


def test_a_second_call_goes_on_where_the_first_stopped(settings: Settings, tmp_path: Path) -> None:
    run_fake(settings, 4, workers=1)
    before = (tmp_path / "scenes-7-00000.tar").read_bytes()
    run, events = run_fake(settings, 8, workers=1)
    assert run.frames == 8
    assert len([event for event in events if event["event"] == "frame"]) == 4
    assert (tmp_path / "scenes-7-00000.tar").read_bytes() == before
    _, events = run_fake(settings, 8)
    assert events == []


def test_a_shard_that_was_cut_off_is_made_again(settings: Settings, tmp_path: Path) -> None:
    run_fake(settings, 4, workers=1)
    shard = tmp_path / "scenes-7-00000.tar"
    whole = shard.read_bytes()
    shard.write_bytes(whole[: len(whole) // 2])
    run, _ = run_fake(settings, 4, workers=1)
    assert run.frames == 4
    assert len(Shards(tmp_path)) == 4


def test_a_worker_that_dies_once_is_started_again(settings: Settings, tmp_path: Path) -> None:
    run, events = run_fake(settings, 4, "die once", workers=1)
    assert [event["event"] for event in events].count("retry") == 1
    assert run.frames == len(Shards(tmp_path)) == 4


def test_render_dying_worker_ends_run_with_message(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="Segmentation fault"):
        run_fake(settings, 4, "die", workers=1)
    assert list(tmp_path.glob("*.tar")) == []


def test_other_settings_into_the_same_folder_are_refused(settings: Settings, tmp_path: Path) -> None:
    Manifest(settings).save()
    assert load_manifest(settings) is not None
    other = Settings(**{**settings.to_json(), "samples": 9, "worlds": ()})
    with pytest.raises(ConfigError, match="samples 4, not 9"):
        load_manifest(other)
    # the same run on another machine is the same run
    moved = Settings(**{**settings.to_json(), "folder": str(tmp_path), "worlds": ()})
    assert load_manifest(moved) is not None


def test_shards_share_out_the_scenes_without_gap_or_repetition(settings: Settings) -> None:
    scenes = [scene for shard in range(5) for scene in settings.scenes_of(shard)]
    assert scenes == list(range(10))


def test_settings_survive_json(settings: Settings) -> None:
    chosen = Settings(**{**settings.to_json(), "worlds": ("room", "pile"), "assets": "/a"})
    assert Settings.from_json(json.loads(json.dumps(chosen.to_json()))) == chosen


@pytest.mark.parametrize("wrong", [{"views": 0}, {"width": 8}, {"samples": 0}, {"seed": -1}])
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        Settings(folder=str(tmp_path), **wrong)
