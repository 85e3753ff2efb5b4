from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from omnidc.errors import InputError
from omnidc.frame import Frame, LazyFrames, Unit, point_warnings


def sparse(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    out = np.zeros((100, 200), np.float32)
    out[rows, columns] = np.linspace(2, 3, len(rows))
    return out


def test_point_warnings_few_crowded_and_missing_points() -> None:
    rng = np.random.default_rng(0)
    everywhere = sparse(rng.integers(0, 100, 500), rng.integers(0, 200, 500))
    assert point_warnings(everywhere) == ()
    assert "Only 20 depth points" in point_warnings(sparse(rng.permutation(100)[:20], np.arange(20)))[0]
    [corner] = point_warnings(sparse(rng.integers(70, 100, 500), rng.integers(0, 40, 500)))
    assert "lower left" in corner
    assert "no depth points" in point_warnings(np.zeros((5, 5), np.float32))[0]
    assert "same depth" in point_warnings(np.where(everywhere > 0, np.float32(2), np.float32(0)))[0]
    assert "span a factor" in point_warnings(np.where(everywhere > 2.5, everywhere * 1e5, everywhere))[0]
    assert "millimeters" in point_warnings(1000 * everywhere, Unit.UNKNOWN)[0]
    assert point_warnings(1000 * everywhere, Unit.SCENE) == ()


def test_frame_summary_names_points_range_and_unit() -> None:
    image = np.zeros((100, 200, 3), np.uint8)
    depth = sparse(np.array([1, 2]), np.array([3, 4]))
    line = Frame(image, depth, unit=Unit.METERS, unit_reason="as told").summary()
    assert line == "2 points, 0.01 % of 200x100; min 2, median 2.5, max 3 m (as told)"
    assert "scene units" in Frame(image, depth, unit=Unit.SCENE).summary()
    assert Frame(image).summary() == "no points in 200x100"


def test_frame_is_frozen_and_checks_sizes_and_unit() -> None:
    frame = Frame(np.zeros((4, 6, 3), np.uint8), name="a")
    with pytest.raises(FrozenInstanceError):
        frame.name = "b"  # type: ignore[misc]
    for field in ("sparse", "depth", "mask", "sky"):
        with pytest.raises(InputError, match=f"{field} is 6x4"):
            Frame(np.zeros((4, 6, 3), np.uint8), **{field: np.ones((6, 4), np.float32)})
    with pytest.raises(InputError, match="uint8"):
        Frame(np.zeros((4, 6, 3), np.float32))  # type: ignore[arg-type]


def test_frame_mask_removes_measurements() -> None:
    depth = np.full((4, 6), 2, np.float32)
    mask = np.arange(24).reshape(4, 6) % 2 == 0
    frame = Frame(np.zeros((4, 6, 3), np.uint8), depth).with_mask(mask)
    assert frame.mask is mask
    np.testing.assert_array_equal(frame.measurements() > 0, mask)
    assert (depth == 2).all()


def test_unit_is_its_word_in_text() -> None:
    assert f"{Unit.METERS} {Unit.UNKNOWN}" == "m input's unit"
    assert Unit("scene") is Unit.SCENE


def test_lazy_frames_load_when_asked() -> None:
    loaded = []

    def load(name: str) -> Frame:
        loaded.append(name)
        return Frame(np.zeros((1, 1, 3), np.uint8), name=name)

    source = LazyFrames({name: lambda name=name: load(name) for name in "abcde"}, ("a note",))
    assert source.names == list("abcde")
    assert source.every(2).names == ["a", "c", "e"]
    assert source.every(2).notes == ("a note",)
    assert not loaded
    assert source["c"].name == "c"
    assert loaded == ["c"]
    with pytest.raises(InputError, match="at least 1"):
        source.every(0)
