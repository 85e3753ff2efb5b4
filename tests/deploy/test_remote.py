from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fsspec")

from omnidc.deploy.remote import Place, ShardSink, UrlSink, as_url, expand_shards, shard_source, url_source
from omnidc.errors import ConfigError, FileError
from omnidc.frame import Frame
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.options import CompleteOptions, WriteOptions
from omnidc.pipeline.source import complete_source

NAMES = [f"{index:03d}" for index in range(5)]


class Constant:
    """Depth is the median of the measurements."""

    def complete(self, frame: Frame, options: CompleteOptions, /) -> Completion:
        sparse = frame.measurements()
        depth = np.full(sparse.shape, np.median(sparse[sparse > 0]), np.float32)
        return Completion(depth, None, np.where(sparse > 0, 1, np.nan).astype(np.float32), sparse, frame.image)


def files_of(name: str) -> dict[str, bytes]:
    """Photograph and sparse depth of one frame, whose depth is its number + 1."""
    picture, depth = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (32, 24), (int(name), 90, 10)).save(picture, "PNG")
    sparse = np.zeros((24, 32), np.float32)
    sparse[::6, ::6] = int(name) + 1
    np.save(depth, sparse)
    return {"png": picture.getvalue(), "npy": depth.getvalue()}


def fill(place: str) -> None:
    for name in NAMES:
        files = files_of(name)
        Place(f"{place}/images").write(f"{name}.png", files["png"])
        Place(f"{place}/sparse").write(f"{name}.npy", files["npy"])


def fill_shards(place: str) -> list[str]:
    for number, names in enumerate((NAMES[:3], NAMES[3:])):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name in names:
                for suffix, data in files_of(name).items():
                    entry = tarfile.TarInfo(f"{name}.{suffix}")
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))
        Place(place).write(f"in-{number:02d}.tar", buffer.getvalue())
    return expand_shards(f"{place}/in-{{00..01}}.tar")


def round_trip(place: str) -> None:
    """Folders in, folders out; shards in, shards out; interrupted and resumed."""
    fill(place)
    source = url_source(f"{place}/images", f"{place}/sparse", depth_scale=1.0)
    assert source.names == NAMES
    assert source["002"].sparse is not None
    assert source["002"].image[0, 0].tolist() == [2, 90, 10]

    def sink(**options: Any) -> UrlSink:
        return UrlSink(f"{place}/out", WriteOptions(("npy",)), "constant", **options)

    first = sink()
    for name in NAMES[:2]:
        first.write(source[name], Constant().complete(source[name], CompleteOptions()))
    report = complete_source(source, sink(resume=True), Constant())
    assert report.done == NAMES[2:]
    results = Place(f"{place}/out")
    assert {f"{name}.npy" for name in NAMES} <= set(results.list())
    assert np.load(io.BytesIO(results.read("003.npy"))).mean() == 4.0
    assert json.loads(results.read("003.json"))["source"] == "003.png"

    shards = shard_source(fill_shards(f"{place}/shards"), depth_scale=1.0)
    assert sorted(shards.names) == NAMES
    output = ShardSink(f"{place}/packed", WriteOptions(("npy",)), "constant", frames_per_shard=2)
    assert complete_source(shards, output, Constant()).done == shards.names
    assert [name for name in Place(f"{place}/packed").list() if name.endswith(".tar")] == [
        f"results-{number:06d}.tar" for number in range(3)
    ]
    again = ShardSink(f"{place}/packed", WriteOptions(("npy",)), "constant", resume=True)
    assert again.missing(shards.names) == []
    with pytest.raises(ConfigError, match="another model"):
        UrlSink(f"{place}/out", WriteOptions(("npy",)), "other", resume=True)


def test_local_folders_and_shards_go_round(tmp_path: Path) -> None:
    round_trip(f"file://{tmp_path}")


def test_memory_file_system_goes_round() -> None:
    round_trip("memory://bucket")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An S3 server on loopback, over HTTP."""
    pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().mkdir("frames")
        yield "s3://frames"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.mark.slow
def test_s3_over_http_goes_round(s3: str) -> None:
    round_trip(s3)


def test_command_line_paths_become_urls() -> None:
    assert as_url(Path("s3://bucket/a/b")) == "s3://bucket/a/b"
    assert as_url(Path("file:///tmp/a")) == "file:///tmp/a"
    assert as_url(Path("/tmp/a")) is None
    assert as_url(Path("a/b")) is None


def test_places_without_pairs_are_refused(tmp_path: Path) -> None:
    fill(f"file://{tmp_path}")
    with pytest.raises(FileError, match="No image below"):
        url_source(f"file://{tmp_path}/sparse", f"file://{tmp_path}/sparse")
    with pytest.raises(FileError, match=r"cannot be reached|No image below"):
        url_source(f"file://{tmp_path}/none", f"file://{tmp_path}/sparse")
    with pytest.raises(ConfigError, match="needs another package"):
        url_source("nosuchthing://a", "nosuchthing://b")
    (tmp_path / "bad.tar").write_bytes(b"not a tar" * 100)
    with pytest.raises(FileError, match="not a readable tar"):
        shard_source([f"file://{tmp_path}/bad.tar"])
    with pytest.raises(ConfigError, match="--png-scale"):
        UrlSink(f"file://{tmp_path}/out", WriteOptions(("png",)))


def test_shard_patterns_expand() -> None:
    assert expand_shards("a-{008..011}.tar") == ["a-008.tar", "a-009.tar", "a-010.tar", "a-011.tar"]
    assert expand_shards("s3://b/a.tar") == ["s3://b/a.tar"]
    with pytest.raises(ConfigError, match="backwards"):
        expand_shards("a-{3..1}.tar")
