from __future__ import annotations

import numpy as np
import pytest

from omnidc.scenes.develop import add_haze, develop


def ramp() -> np.ndarray:
    return np.tile(np.geomspace(0.01, 1, 64, dtype=np.float32)[None, :, None], (48, 1, 3))


def test_exposure_does_not_depend_on_the_strength_of_light() -> None:
    first, second = develop(ramp(), 0.18), develop(ramp() * 37, 0.18)
    assert np.abs(first.astype(int) - second).max() <= 1


def test_brighter_light_is_never_darker_and_never_wraps() -> None:
    picture = develop(ramp() ** 3, 0.18)
    assert (np.diff(picture[0, :, 0].astype(int)) >= 0).all()


def test_nights_stay_dark() -> None:
    assert develop(ramp(), 0.06).mean() < develop(ramp(), 0.18).mean()


def test_broken_light_makes_a_picture_still() -> None:
    light = ramp()
    light[0, 0], light[1, 1], light[2, 2] = np.nan, np.inf, -1
    assert develop(light, 0.18).dtype == np.uint8


def test_haze_swallows_what_is_far_first() -> None:
    light = ramp()
    depth = np.full((48, 64), 5.0, dtype=np.float32)
    depth[:24] = 500.0
    hazy = add_haze(light, depth, 0.01)
    assert hazy[:24, :, 1].std() < 0.1 * light.std()
    assert hazy[24:, :, 1].std() > 0.9 * light[24:, :, 1].std()
    assert add_haze(light, depth, 0.0) is light
    assert hazy[:24, :, 1].mean() == pytest.approx(np.percentile(light @ [0.2126, 0.7152, 0.0722], 80), rel=0.05)
