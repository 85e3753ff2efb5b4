from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from omnidc.pipeline.legacy import sharpen as module
from omnidc.pipeline.legacy.sharpen import EDGE, MEASURED, NEARBY, RADIUS, SAME_COLOR, sharpen

Map = npt.NDArray[np.float32]
Picture = npt.NDArray[np.uint8]


def slowly(depth: Map, image: Picture, measured: npt.NDArray[np.bool_]) -> Map:
    """The obvious twin: pixel by pixel, one value after another."""
    height, width = depth.shape

    def window(y: int, x: int, radius: int) -> list[tuple[int, int]]:
        reach = range(-radius, radius + 1)
        return [(min(max(y + a, 0), height - 1), min(max(x + b, 0), width - 1)) for a in reach for b in reach]

    result = depth.copy()
    for y in range(height):
        for x in range(width):
            near = [depth[p] for p in window(y, x, NEARBY)]
            edge = max(near) > np.float32(EDGE) * min(near)
            weighed = []
            for p in window(y, x, RADIUS):
                far = np.sum((image[p].astype(np.float64) - image[y, x]) ** 2)
                alike = np.exp(-far / (2 * SAME_COLOR**2))
                weighed.append((depth[p], alike * (MEASURED if measured[p] else 1.0) if edge else 1.0))
            weighed.sort()
            total, half = 0.0, sum(weight for _, weight in weighed) / 2
            for value, weight in weighed:
                total += weight
                if total >= half - 1e-9:
                    result[y, x] = value
                    break
    return result


def test_agrees_with_the_obvious_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    depth = (2 + 0.02 * rng.random((24, 30))).astype(np.float32)
    depth[6:18, 10:22] = 1 + 0.02 * rng.random((12, 12)).astype(np.float32)
    image = rng.integers(0, 60, (24, 30, 3)).astype(np.uint8)
    image[5:17, 11:23] += 100
    monkeypatch.setattr(module, "AT_ONCE", 100)
    none, some = np.zeros(depth.shape, bool), rng.random(depth.shape) < 0.2
    fast, told = sharpen(depth, image), sharpen(depth, image, some)
    assert np.any(fast != depth)
    assert np.any(fast != told)
    np.testing.assert_array_equal(fast, slowly(depth, image, none))
    np.testing.assert_array_equal(told, slowly(depth, image, some))


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (3, 2)])
def test_small_pictures_pass(shape: tuple[int, int]) -> None:
    depth = np.linspace(1, 2, shape[0] * shape[1], dtype=np.float32).reshape(shape)
    result = sharpen(depth, np.zeros((*shape, 3), np.uint8))
    assert result.shape == shape
    assert np.all((result >= depth.min()) & (result <= depth.max()))


def ramp() -> tuple[Map, Picture, Map]:
    """A step in color, the truth, and a depth that takes three pixels for the step."""
    image = np.full((20, 20, 3), 40, np.uint8)
    image[:, 10:] = 200
    truth = np.where(image[..., 0] < 100, np.float32(1), np.float32(3))
    soft = truth.copy()
    soft[:, 8:12] = np.array([1.2, 1.8, 2.2, 2.8], np.float32)
    return soft, image, truth


def test_slope_across_an_outline_becomes_a_step_at_it() -> None:
    soft, image, truth = ramp()
    sharp = sharpen(soft, image)
    assert np.abs(sharp - truth).max() < 0.3
    assert np.abs(sharp - truth).mean() < 0.4 * np.abs(soft - truth).mean()


def test_thin_thing_of_its_own_color_stays_and_speckle_without_one_goes() -> None:
    depth = np.full((20, 20), 3, np.float32)
    depth[:, 10] = 1
    image = np.full((20, 20, 3), 40, np.uint8)
    assert np.all(sharpen(depth, image) == 3)
    image[:, 10] = 200
    np.testing.assert_array_equal(sharpen(depth, image), depth)


def test_scales_with_depth_exactly() -> None:
    rng = np.random.default_rng(1)
    depth = np.exp(rng.normal(0, 0.1, (20, 20))).astype(np.float32)
    image = rng.integers(0, 255, (20, 20, 3)).astype(np.uint8)
    np.testing.assert_array_equal(sharpen(depth * 8, image), 8 * sharpen(depth, image))
