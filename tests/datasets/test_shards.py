from __future__ import annotations

import math
import pickle
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.datasets.shards import (
    Shards,
    ShardWriter,
    decode_log_depth,
    decode_normals,
    encode_log_depth,
    encode_normals,
    open_frames,
    scene_of,
)
from omnidc.errors import FileError, InputError


def picture(seed: int, height: int = 24, width: int = 32) -> np.ndarray:
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    return cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)


def depth_map(seed: int, height: int = 24, width: int = 32) -> np.ndarray:
    rng = np.random.default_rng(seed)
    depth = np.exp(rng.uniform(math.log(0.2), math.log(80), (height, width))).astype(np.float32)
    depth[:3] = 0
    return depth


def write(path: Path, count: int = 3) -> None:
    with ShardWriter(path) as shard:
        for i in range(count):
            shard.add(f"room_{i // 2:05d}_{i}", picture(i), depth_map(i), meta={"i": i})


@given(st.lists(st.floats(1e-3, 1e5), min_size=1, max_size=40))
def test_log_depth_is_exact_to_half_a_per_mille(values: list[float]) -> None:
    depth = np.array([[0.0, *values]])
    codes, lo, hi = encode_log_depth(depth)
    back = decode_log_depth(codes, lo, hi)
    assert back[0, 0] == 0
    np.testing.assert_allclose(back[0, 1:], depth[0, 1:], rtol=5e-4)
    assert codes[0, 1:].min() >= 1


def test_depth_that_is_not_a_number_or_not_positive_is_unknown() -> None:
    depth = np.array([[np.nan, np.inf, -1.0, 0.0, 2.0]])
    codes, lo, hi = encode_log_depth(depth)
    np.testing.assert_allclose(decode_log_depth(codes, lo, hi), [[0, 0, 0, 0, 2.0]], rtol=1e-6)
    codes, lo, hi = encode_log_depth(np.zeros((2, 2)))
    assert not decode_log_depth(codes, lo, hi).any()


def test_depth_range_too_wide_for_16_bits_is_refused() -> None:
    with pytest.raises(InputError, match="too wide"):
        encode_log_depth(np.array([[1e-20, 1e20]]))


def test_normals_survive() -> None:
    rng = np.random.default_rng(0)
    normals = rng.normal(size=(5, 6, 3))
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    normals[0, 0] = 0
    np.testing.assert_allclose(decode_normals(encode_normals(normals)), normals, atol=2e-5)


def test_frames_come_back_as_they_were_written(tmp_path: Path) -> None:
    intrinsics = np.array([[30.0, 0, 15.5], [0, 31.0, 11.5], [0, 0, 1]])
    normals = np.zeros((24, 32, 3), np.float32)
    normals[5:, :, 2] = -1
    normals[7:, :] = (1.0, 0, 0)
    sky = np.zeros((24, 32), bool)
    sky[:2] = True
    with ShardWriter(tmp_path / "a.tar") as shard:
        shard.add("street_00001_0", picture(1), depth_map(1), intrinsics, normals, sky, {"light": "noon"})
        shard.add("street_00001_1", picture(2), depth_map(2))
    frames = Shards([tmp_path / "a.tar"])
    assert len(frames) == 2
    assert frames.keys == ["street_00001_0", "street_00001_1"]
    assert frames.scenes == ["street_00001"] * 2
    first, second = frames[0], frames[1]
    assert first.name == "a/street_00001_0"
    np.testing.assert_allclose(first.depth, depth_map(1), rtol=5e-4)
    assert np.abs(first.image.astype(int) - picture(1)).mean() < 3
    np.testing.assert_array_equal(first.intrinsics, intrinsics)
    np.testing.assert_allclose(first.normals, normals, atol=2e-5)
    np.testing.assert_array_equal(first.sky, sky)
    assert frames.meta(0) == {"light": "noon"}
    assert second.intrinsics is None
    assert second.sky is None


def test_normals_and_sky_are_left_unread_where_nobody_wants_them(tmp_path: Path) -> None:
    normals, sky = np.zeros((24, 32, 3), np.float32), np.zeros((24, 32), bool)
    with ShardWriter(tmp_path / "a.tar") as shard:
        shard.add("room_00001_0", picture(1), depth_map(1), None, normals, sky)
    whole, lean = Shards(tmp_path)[0], Shards(tmp_path, auxiliary=())[0]
    assert whole.normals is not None
    assert whole.sky is not None
    assert lean.normals is None
    assert lean.sky is None
    np.testing.assert_array_equal(lean.depth, whole.depth)
    np.testing.assert_array_equal(lean.image, whole.image)


def test_shards_can_be_pickled_for_workers_and_read_at_random(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", 3)
    write(tmp_path / "b.tar", 4)
    frames = pickle.loads(pickle.dumps(Shards(tmp_path)))
    assert [frames.meta(i)["i"] for i in (6, 0, 3, 2)] == [3, 0, 0, 2]
    assert len(frames) == 7
    assert frames[-1].name == "b/room_00001_3"
    with pytest.raises(IndexError):
        frames[7]


def test_webdataset_reads_the_shards(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    write(tmp_path / "a.tar", 2)
    samples = list(webdataset.WebDataset(str(tmp_path / "a.tar"), shardshuffle=False))
    assert [sample["__key__"] for sample in samples] == ["room_00000_0", "room_00000_1"]
    assert {"jpg", "depth.png", "json"} <= samples[0].keys()


def test_writer_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    def die_half_way() -> None:
        with ShardWriter(tmp_path / "a.tar") as shard:
            shard.add("room_1_0", picture(0), depth_map(0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        die_half_way()
    assert list(tmp_path.iterdir()) == []


def test_shard_still_being_written_is_not_seen(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", 1)
    with ShardWriter(tmp_path / "b.tar") as shard:
        shard.add("room_1_0", picture(0), depth_map(0))
        assert len(Shards(tmp_path)) == 1
    assert len(Shards(tmp_path)) == 2


def test_shard_cut_off_anywhere_is_never_read_as_whole(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", 2)
    data = (tmp_path / "a.tar").read_bytes()
    content = data.rstrip(b"\0")
    cut = tmp_path / "cut.tar"
    # every block boundary, and odd places in between
    for length in [*range(512, len(content), 512), *range(100, len(content), 2500), 0]:
        cut.write_bytes(data[:length])
        with pytest.raises(FileError):
            Shards(cut)


def test_file_that_is_no_shard_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"hello" * 1000)
    with pytest.raises(FileError, match=r"x\.tar"):
        Shards(tmp_path)
    with pytest.raises(FileError, match="neither"):
        Shards(tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="No shard"):
        Shards(tmp_path / "empty")


def test_bad_frames_are_refused(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "a.tar") as shard:
        shard.add("room_1_0", picture(0), depth_map(0))
        with pytest.raises(InputError, match="already"):
            shard.add("room_1_0", picture(0), depth_map(0))
        with pytest.raises(InputError, match="letters"):
            shard.add("room.1", picture(0), depth_map(0))
        with pytest.raises(InputError, match="resize"):
            shard.add("room_1_1", picture(0), depth_map(0)[1:])
        with pytest.raises(InputError, match="sky"):
            shard.add("room_1_2", picture(0), depth_map(0), sky=np.ones((24, 32), bool))
    assert len(Shards(tmp_path / "a.tar")) == 1
    with pytest.raises(InputError, match="not open"):
        shard.add("room_1_3", picture(0), depth_map(0))


def test_folder_with_tars_opens_as_shards(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", 1)
    assert isinstance(open_frames(tmp_path), Shards)


def test_scene_is_the_key_without_its_view() -> None:
    assert scene_of("room_00012_3") == "room_00012"
    assert scene_of("alone") == "alone"
