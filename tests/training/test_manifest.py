from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from omnidc.datasets.shards import ShardWriter
from omnidc.errors import ConfigError, FileError
from omnidc.training.trainer import train
from tiny import scene, tiny_config


def render(folder: Path, number: int) -> None:
    """Eight frames of four scenes, always the same for a number."""
    with ShardWriter(folder / f"part_{number}.tar") as writer:
        for i in range(8):
            writer.add(f"plane_{100 * number + i // 2:05d}_{i % 2}", *scene(10 * number + i))


def losses(folder: Path) -> list[str]:
    with (folder / "losses.csv").open(newline="") as file:
        return [row["total"] for row in csv.DictReader(file)]


def test_manifest_repeats_run_in_a_grown_folder(tmp_path: Path) -> None:
    render(tmp_path / "first", 0)
    render(tmp_path / "first", 2)
    train(tiny_config(tmp_path / "first"), tmp_path / "one", quiet=True)
    listed = json.loads((tmp_path / "one" / "frames.json").read_text())
    assert [len(names) for names in listed.values()] == [16]

    for number in range(4):
        render(tmp_path / "second", number)
    manifest = f"data.manifest={tmp_path / 'one' / 'frames.json'}"
    train(tiny_config(tmp_path / "second", manifest), tmp_path / "two", quiet=True)
    assert losses(tmp_path / "two") == losses(tmp_path / "one")
    assert json.loads((tmp_path / "two" / "frames.json").read_text()) == listed

    train(tiny_config(tmp_path / "second"), tmp_path / "all", quiet=True)
    assert losses(tmp_path / "all") != losses(tmp_path / "one")


def test_missing_frames_are_named(shard: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "frames.json"
    manifest.write_text(json.dumps({"planes": ["frames/plane_00000_0", "frames/plane_99999_0"]}))
    with pytest.raises(FileError, match=r"1 of 2 listed frames of 'planes' .* frames/plane_99999_0"):
        train(tiny_config(shard, f"data.manifest={manifest}"), tmp_path / "run", quiet=True)


def test_sources_must_have_the_manifests_names(shard: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "frames.json"
    manifest.write_text(json.dumps({"spheres": []}))
    with pytest.raises(ConfigError, match=r"spheres.*planes"):
        train(tiny_config(shard, f"data.manifest={manifest}"), tmp_path / "run", quiet=True)


@pytest.mark.parametrize("text", ["{", "[]", '{"planes": 3}', '{"planes": [1]}', None])
def test_damaged_manifest_is_refused_in_one_sentence(shard: Path, tmp_path: Path, text: str | None) -> None:
    manifest = tmp_path / "frames.json"
    if text is not None:
        manifest.write_text(text)
    with pytest.raises(FileError, match="manifest"):
        train(tiny_config(shard, f"data.manifest={manifest}"), tmp_path / "run", quiet=True)
