"""What users get with the bundled weights, on the bundled example."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

import omnidc
from omnidc.io.depth import read_depth
from omnidc.io.images import read_image
from omnidc.patterns import parse

FOLDER = Path(omnidc.__file__).parent / "examples"

# Mean relative error through `complete`, measured with the bundled weights, and a tenth more.
BOUNDS = {"0.7%": 0.0117, "0.1%": 0.0323, "lidar-16": 0.0106, "0.7%&noise(0.1)": 0.0149}


@pytest.fixture(scope="module")
def completer() -> omnidc.DepthCompleter:
    return omnidc.load()


def view(pattern: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Image, measurements and ground truth."""
    image, depth = read_image(FOLDER / "room.jpg"), read_depth(FOLDER / "room_depth.png").depth
    sample = parse(pattern)(depth, image, np.random.default_rng(0))
    return image, np.ascontiguousarray(sample.sparse, np.float32), depth


@pytest.mark.parametrize("pattern", BOUNDS)
def test_complete_bundled_example_is_accurate(completer: omnidc.DepthCompleter, pattern: str) -> None:
    image, sparse, gt_depth = view(pattern)
    valid = gt_depth > 0
    error = np.abs(completer.complete(image, sparse).depth - gt_depth)[valid] / gt_depth[valid]
    assert error.mean() < BOUNDS[pattern]


def test_complete_tiled_equals_whole(completer: omnidc.DepthCompleter) -> None:
    image, sparse, _ = view("0.7%")
    whole, tiled = completer.complete(image, sparse, tile=None), completer.complete(image, sparse, tile=256)
    assert whole.uncertainty is not None
    assert tiled.uncertainty is not None
    for one, other in ((tiled.depth, whole.depth), (tiled.uncertainty, whole.uncertainty)):
        assert (np.abs(one / other - 1) < 1e-3).mean() > 0.999


def test_complete_a_batch_equals_one_frame(completer: omnidc.DepthCompleter) -> None:
    image, sparse, _ = view("0.1%")
    alone = completer.complete(image, sparse)
    other = sparse * np.float32(0.5)
    together = completer.complete([image, image], [other, sparse])[1]
    np.testing.assert_allclose(together.depth, alone.depth, rtol=1e-5)


def test_complete_does_not_depend_on_threads() -> None:
    image, sparse, _ = view("0.1%")
    completer = omnidc.load("compact", device="cpu", runtime="torch")
    alone = completer.complete(image, sparse)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 2)
    try:
        crowded = completer.complete(image, sparse)
    finally:
        torch.set_num_threads(threads)
    np.testing.assert_allclose(crowded.depth, alone.depth, rtol=1e-5)


def test_complete_gives_outliers_low_confidence(completer: omnidc.DepthCompleter) -> None:
    image, depth = read_image(FOLDER / "room.jpg"), read_depth(FOLDER / "room_depth.png").depth
    drawn = parse("0.7%&noise(0.1)")(depth, image, np.random.default_rng(0))
    wrong = drawn.outlier_mask & (np.abs(np.log(np.maximum(drawn.sparse, 1e-3) / np.maximum(depth, 1e-3))) > 0.3)
    right = (drawn.sparse > 0) & ~drawn.outlier_mask
    confidence = completer.complete(image, np.ascontiguousarray(drawn.sparse, np.float32)).input_confidence
    assert confidence is not None
    assert (confidence[wrong] < 0.7).mean() > 0.8
    assert (confidence[right] > 0.9).mean() > 0.8


def test_complete_leaves_outliers_out_and_says_so(completer: omnidc.DepthCompleter) -> None:
    """A plane measured at one pixel in sixty, a tenth of the measurements three times too far."""
    rng = np.random.default_rng(1)
    plane = np.broadcast_to(np.linspace(2, 4, 448, dtype=np.float32), (320, 448))
    measured = rng.random(plane.shape) < 1 / 60
    wrong = measured & (rng.random(plane.shape) < 0.1)
    sparse = (np.where(wrong, 3 * plane, plane) * measured).astype(np.float32)
    result = completer.complete(np.full((320, 448, 3), 128, np.uint8), sparse, sky="keep")
    assert np.abs(result.depth / plane - 1).mean() < 0.01
    assert result.input_confidence[wrong].mean() < 0.15
    assert result.input_confidence[measured & ~wrong].mean() > 0.9
