from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.errors import ConfigError
from omnidc.training.config import ScheduleConfig
from omnidc.training.schedule import format_duration, lr_factor, parse_duration, progress


@pytest.mark.parametrize(
    ("text", "seconds"), [("2h", 7200), ("90m", 5400), ("1h30m", 5400), ("45s", 45), ("1.5d", 129600), ("1h 5s", 3605)]
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "2x", "2h later", "0s", "-1h"])
def test_other_words_are_no_durations(text: str) -> None:
    with pytest.raises(ConfigError, match="duration"):
        parse_duration(text)


def test_durations_are_written_for_people() -> None:
    assert format_duration(3723.4) == "1:02:03"
    assert format_duration(-1) == "0:00:00"


def test_released_steps_halve_after_36_48_56_and_64_of_72_epochs() -> None:
    config = ScheduleConfig()
    factors = [lr_factor(config, epoch / 72) for epoch in range(1, 72)]
    expected = [0.5 ** sum(epoch >= m for m in (36, 48, 56, 64)) for epoch in range(1, 72)]
    assert factors == pytest.approx(expected)
    assert lr_factor(config, 0.5 / 72) == pytest.approx(0.5)


def test_cosine_rises_then_falls_to_its_end() -> None:
    config = ScheduleConfig(kind="cosine", warmup=0.1, final=0.02)
    assert lr_factor(config, 0.0) == 0
    assert lr_factor(config, 0.1) == pytest.approx(1)
    assert lr_factor(config, 0.55) == pytest.approx(0.51)
    assert lr_factor(config, 1.0) == pytest.approx(0.02)
    assert math.isfinite(lr_factor(ScheduleConfig(kind="cosine", warmup=0.0), 0.0))


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(["steps", "cosine"]))
def test_rate_falls_after_the_rise_and_stays_between_0_and_1(a: float, b: float, kind: str) -> None:
    config = ScheduleConfig(kind=kind, warmup=0.05)
    low, high = sorted((a, b))
    assert 0 <= lr_factor(config, low) <= 1
    if low >= 0.05:
        assert lr_factor(config, low) >= lr_factor(config, high)


def test_progress_is_the_furthest_of_steps_epochs_and_time() -> None:
    config = ScheduleConfig(steps=100, epochs=4, time_budget="100s")
    assert progress(config, step=10, epoch=1.0, elapsed=5) == 0.25
    assert progress(config, step=50, epoch=1.0, elapsed=5) == 0.5
    assert progress(config, step=50, epoch=1.0, elapsed=80) == 0.8
    assert progress(config, step=50, epoch=1.0, elapsed=80, reserve=20) == 1.0
    assert progress(config, step=500, epoch=1.0, elapsed=0) == 1.0
