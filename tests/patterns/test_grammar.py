from __future__ import annotations

import importlib.util
import pickle
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.errors import ConfigError, InputError
from omnidc.patterns import parse
from omnidc.patterns.grammar import MODIFIERS, SOURCES, parse_span
from omnidc.patterns.sample import Depth, Image

EVERY = ["2150", "100~2000", "1~20", "1~~2000", "0.7%", "0.03%~0.7%", "0", "lidar-16", "LiDAR_64", "lidar-8(400)"]
EVERY += [*SOURCES, *MODIFIERS, "lidar(8~64)", "tof(8)", "radar(5~10)", "orb(3000, harris, fewest=0)", "sift(fewest=0)"]
EVERY += ["100~2000 & noise(0~0.05) & hole", "dense & 0.5*blocks(2, 10%) & crop(near=0.1~0.2) & drop & jitter(1%)"]
EVERY += ["0.5*100~2000+0.25*sift+0.25*lidar"]


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("text", EVERY)
def test_patterns_give_flags_and_repeat(text: str, released: bool, scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    depth_before, image_before = depth.copy(), image.copy()
    pattern = parse(text, noise="0~0.05", released=released)
    sample = pattern(depth, image, np.random.default_rng(7))
    again = pattern(depth, image, np.random.default_rng(7))
    np.testing.assert_array_equal(sample.sparse, again.sparse)
    assert sample.sparse.dtype == np.float32
    assert sample.outlier_mask.dtype == np.bool_
    assert sample.sparse.shape == sample.outlier_mask.shape == depth.shape
    assert np.isfinite(sample.sparse).all()
    assert sample.sparse.min() >= 0
    assert not sample.outlier_mask[sample.sparse == 0].any()
    np.testing.assert_array_equal(depth, depth_before)
    np.testing.assert_array_equal(image, image_before)


ONE = np.zeros((20, 30), np.float32)
ONE[7, 9] = 2
BROKEN = np.full((20, 30), np.nan, np.float32)
BROKEN[5:] = 3
BROKEN[6, 6] = np.inf
BROKEN[7, 7] = -1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("text", EVERY)
@pytest.mark.parametrize(
    "depth",
    [
        pytest.param(np.zeros((20, 30), np.float32), id="nothing known"),
        pytest.param(ONE, id="one pixel known"),
        pytest.param(np.full((20, 30), 3, np.float32), id="constant"),
        pytest.param(BROKEN, id="NaN, Inf and negative"),
        pytest.param(np.full((1, 1), 3, np.float32), id="1x1"),
        pytest.param(np.zeros((1, 1), np.float32), id="1x1 unknown"),
        pytest.param(np.full((1, 50), 3, np.float32), id="one row"),
        pytest.param(np.full((50, 1), 3, np.float32), id="one column"),
    ],
)
def test_degenerate_scenes_give_what_is_possible(depth: Depth, text: str, released: bool) -> None:
    image = np.random.default_rng(0).integers(0, 256, (*depth.shape, 3)).astype(np.uint8)
    pattern = parse(text, noise="0.05", released=released)
    for seed in range(3):
        sample = pattern(depth, image, np.random.default_rng(seed))
        known = np.isfinite(depth) & (depth > 0)
        assert np.isfinite(sample.sparse).all()
        assert sample.sparse.min() >= 0
        assert not sample.sparse[~known].any() or released
        if text in ("2150", "lidar", "sift", "orb", "dense") and known.any():
            assert sample.sparse.any()


def test_terms_are_drawn_by_weight(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    pattern = parse("0.6*10 + 0.3*20 + 0.1*lidar-4")
    rng = np.random.default_rng(0)
    counts = [int((pattern(depth, image, rng).sparse > 0).sum()) for _ in range(3000)]
    few, more = round(10 * (depth > 0).mean()), round(20 * (depth > 0).mean())
    assert abs(counts.count(few) / 3000 - 0.6) < 0.04
    assert abs(counts.count(more) / 3000 - 0.3) < 0.04


def test_weights_need_not_add_up_to_one() -> None:
    assert parse("sift+lidar").weights == (0.5, 0.5)
    assert parse("3*sift + lidar").weights == (0.75, 0.25)


def test_probability_of_a_modifier(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    pattern, rng = parse("dense & 0.3*hole(0.5)"), np.random.default_rng(0)
    whole = [np.array_equal(pattern(depth, image, rng).sparse, depth) for _ in range(500)]
    assert abs(np.mean(whole) - 0.7) < 0.07


def test_noise_of_the_mix_spares_lidar_and_terms_with_their_own(scene: tuple[Depth, Image]) -> None:
    depth, image = scene

    def changed(text: str) -> float:
        sample = parse(text, noise="0.5")(depth, image, np.random.default_rng(0))
        at = sample.sparse > 0
        return float(np.mean(sample.sparse[at] != depth[at]))

    assert 0.4 < changed("2000") < 0.6
    assert 0.3 < changed("sift(fewest=0)") < 0.7
    assert changed("lidar-64") == 0
    assert changed("dense") == 0
    assert changed("2000 & noise(0)") == 0


def test_modifier_alone_acts_on_random_points(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    alone = parse("hole(0.4)")(depth, image, np.random.default_rng(3))
    written = parse("0.7% & hole(0.4)")(depth, image, np.random.default_rng(3))
    np.testing.assert_array_equal(alone.sparse, written.sparse)


def test_modifiers_act_in_the_order_written(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    limit = np.quantile(depth[depth > 0], 0.3)
    cropped_last = parse("dense & noise(0.5) & crop(0.3)")(depth, image, np.random.default_rng(0)).sparse
    cropped_first = parse("dense & crop(0.3) & noise(0.5)")(depth, image, np.random.default_rng(0)).sparse
    assert cropped_last.max() <= limit
    assert cropped_first.max() > limit


def test_parsed_pattern_survives_pickling(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    pattern = parse("1~~500 & 0.5*hole + lidar", noise="5%", released=True)
    copy = pickle.loads(pickle.dumps(pattern))
    assert copy == pattern
    for seed in range(5):
        ours, theirs = (p(depth, image, np.random.default_rng(seed)) for p in (pattern, copy))
        np.testing.assert_array_equal(ours.sparse, theirs.sparse)


@given(low=st.floats(0.001, 1e4), factor=st.floats(1, 100), percent=st.booleans(), log=st.booleans())
def test_ranges_are_read_as_written(low: float, factor: float, percent: bool, log: bool) -> None:
    high = low * factor
    sign = "%" if percent else ""
    number = parse_span(f" {low!r}{sign} {'~~' if log else '~'} {high!r}{sign} ")
    unit = 0.01 if percent else 1
    assert number.low == pytest.approx(low * unit)
    assert number.high == pytest.approx(high * unit)
    assert (number.log, number.percent) == (log, percent)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("sift+", "empty part"),
        ("& hole", "empty part"),
        ("sfit", "no pattern 'sfit'"),
        ("100 & lidar", "no modifier"),
        ("2000~100", "smaller first"),
        ("0~~10", "above 0"),
        ("0.5", "whole number, or a density"),
        ("200%", "at most 100%"),
        ("0*sift", "weight above 0"),
        ("sift(", "brackets"),
        ("sift)", "brackets"),
        ("sift-4", "only lidar"),
        ("lidar-0", "only lidar"),
        ("lidar(0)", "at least 1"),
        ("lidar(4, 0.1, 6)", "a word, not a number"),
        ("lidar(4, 0.1, random, 6)", "takes lines, tilt"),
        ("lidar-16(100~200)", "one number"),
        ("orb(harris)", "not 'harris'"),
        ("orb(100, best)", "fast and harris"),
        ("orb(100, 5)", "is a word"),
        ("lidar(released=1)", "takes lines"),
        ("lidar(4, lines=5)", "given twice"),
        ("dense(3)", "nothing in brackets"),
        ("100 & noise(5)", "5% or 0.05"),
        ("100 & 2*hole", "cannot exceed 1"),
        ("100 & hole(often)", "a number or a range"),
        ("1e999*sift+orb", "to no number"),
        ("tof(1.5)", "whole number"),
        ("-5", "no pattern"),
    ],
)
def test_mistakes_are_told_in_one_sentence(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)) as error:
        parse(text)
    assert "\n" not in str(error.value)


def test_noise_must_be_a_rate() -> None:
    with pytest.raises(ConfigError, match=r"5% or 0\.05"):
        parse("lidar", noise="5")
    with pytest.raises(ConfigError, match="neither a number nor a range"):
        parse("sift", noise="much")


def test_depth_of_another_shape_is_an_error() -> None:
    with pytest.raises(InputError, match=r"\[H, W\]"):
        parse("5")(np.zeros((1, 4, 4), np.float32), np.zeros((4, 4, 3), np.uint8), np.random.default_rng(0))


REAL = {
    "random-0.7%": "0.7%",
    "random-0.1%": "0.1%",
    "random-0.03%": "0.03%",
    "random-5pt": "5",
    "noise-5%": "0.7% & noise(5%)",
    "noise-10%": "0.7% & noise(10%)",
    "orb": "orb(3000, harris, fewest=0)",
    "sift": "sift(fewest=0)",
    "lidar-64": "lidar-64(400)",
    "lidar-16": "lidar-16(400)",
    "lidar-8": "lidar-8(400)",
    "hole": "0.7% & hole(0.58)",
}


@pytest.fixture(scope="module")
def real_bench(shared: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("real_bench", shared / "prototypes" / "real_bench.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", REAL)
def test_real_protocol_draws_are_reproduced(name: str, real_bench: ModuleType, scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    expected = real_bench.pattern(name, image, depth, None, np.random.default_rng(3))
    np.testing.assert_array_equal(parse(REAL[name])(depth, image, np.random.default_rng(3)).sparse, expected)
