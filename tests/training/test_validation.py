from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest
import torch

import omnidc
from omnidc.errors import ConvergenceError
from omnidc.frame import Frame
from omnidc.io.depth import read_depth
from omnidc.io.images import read_image
from omnidc.network.checkpoint import load_network
from omnidc.pipeline.completer import DepthCompleter
from omnidc.training.validation import as_users_run_it, score_frame, stack_rows, validate, write_picture
from tiny import TinyNetwork, scene


def frames(count: int = 3, height: int = 45, width: int = 61) -> list[Frame]:
    made = [scene(i, height, width) for i in range(count)]
    return [Frame(image=image, depth=depth, name=f"s_{i}") for i, (image, depth) in enumerate(made)]


def test_scores_are_means_over_known_pixels() -> None:
    truth = np.array([[1.0, 2.0, 0.0, 4.0]], np.float32)
    depth = np.array([[1.1, 2.0, 9.0, 6.0]], np.float32)
    scale = np.array([[0.01, 0.01, 1.0, 1.0]], np.float32)
    rel, delta1, coverage, log_error = score_frame(depth, scale, truth)
    assert rel == pytest.approx((0.1 + 0 + 0.5) / 3, rel=1e-6)
    assert delta1 == pytest.approx(2 / 3)
    assert coverage == pytest.approx(2 / 3)  # 0.1 > 0.01 ln 20; 2 < ln 20
    assert log_error == pytest.approx((math.log(1.1) + math.log(1.5)) / 3, rel=1e-6)
    assert math.isnan(score_frame(depth, None, truth)[2])


def test_coverage_of_laplace_errors_is_95_percent() -> None:
    rng = np.random.default_rng(0)
    truth = np.full((200, 200), 10.0, np.float32)
    scale = rng.uniform(0.01, 0.1, truth.shape).astype(np.float32)
    depth = (truth + rng.laplace(0, scale)).astype(np.float32)
    assert score_frame(depth, scale, truth)[2] == pytest.approx(0.95, abs=0.01)


def bundled_frame() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """Part of the bundled example and 1 % of its depths."""
    folder = Path(omnidc.__file__).parent / "examples"
    image, depth = read_image(folder / "room.jpg")[:192, :256], read_depth(folder / "room_depth.png").depth[:192, :256]
    rng = np.random.default_rng(0)
    return np.ascontiguousarray(image), np.where(rng.random(depth.shape) < 0.01, depth, 0).astype(np.float32)


def test_validation_runs_what_complete_runs() -> None:
    image, sparse = bundled_frame()
    completer = as_users_run_it(load_network("compact"))
    ours = completer.complete(image, sparse)
    theirs = omnidc.load("compact", device="cpu", runtime="torch").complete(image, sparse)
    np.testing.assert_array_equal(ours.depth, theirs.depth)
    np.testing.assert_array_equal(ours.uncertainty, theirs.uncertainty)


def test_complete_is_the_forward_pass_bit_for_bit() -> None:
    image, sparse = bundled_frame()
    completer = as_users_run_it(load_network("compact"))
    with torch.no_grad():
        pixels = torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255
        depth = completer.network(pixels, torch.from_numpy(sparse)[None, None]).depth[0, 0].numpy()
    np.testing.assert_array_equal(completer.complete(image, sparse).depth, depth)


def test_frame_without_a_finite_result_scores_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise ConvergenceError("no finite depth")

    monkeypatch.setattr(DepthCompleter, "complete", refuse)
    scores, _ = validate(TinyNetwork(), frames(1), ["200"])
    assert math.isnan(scores["200"].rel)


def test_validation_repeats_and_keeps_network() -> None:
    network = TinyNetwork().train()
    calls = network.calls.clone()
    first, picture = validate(network, frames(), ["200", "lidar-8"], pictures=2)
    again, _ = validate(network, frames()[::-1], ["200", "lidar-8"])
    for text in first:
        assert first[text].frames == 3
        assert first[text].rel == pytest.approx(again[text].rel)
    assert network.training
    assert torch.equal(network.calls, calls)
    assert picture is not None
    assert picture.shape == (2 * 45, 4 * 61, 3)


def test_frames_without_truth_are_left_out() -> None:
    blind = Frame(image=frames(1)[0].image, depth=np.zeros((45, 61), np.float32), name="blind")
    scores, picture = validate(TinyNetwork(), [blind], ["200"], pictures=1)
    assert scores == {}
    assert picture is None


def test_rows_of_different_widths_stack(tmp_path: Path) -> None:
    picture = stack_rows([np.zeros((10, 40, 3), np.uint8), np.full((20, 80, 3), 255, np.uint8)])
    assert picture is not None
    assert picture.shape == (20, 40, 3)
    write_picture(tmp_path / "new" / "p.jpg", picture)
    assert cv2.imread(str(tmp_path / "new" / "p.jpg")).shape == (20, 40, 3)
