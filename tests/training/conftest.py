from __future__ import annotations

from pathlib import Path

import pytest

from omnidc.datasets.shards import ShardWriter
from tiny import scene


@pytest.fixture(scope="session")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 frames of 12 scenes."""
    path = tmp_path_factory.mktemp("frames") / "frames.tar"
    with ShardWriter(path) as writer:
        for i in range(24):
            writer.add(f"plane_{i // 2:05d}_{i % 2}", *scene(i))
    return path
