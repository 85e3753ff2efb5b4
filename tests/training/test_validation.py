from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from tiny import TinyNetwork, scene

from omnidc.frame import Frame
from omnidc.training.validation import predict, score_frame, stack_rows, validate, write_picture


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


def test_pictures_of_any_size_are_padded_and_cropped() -> None:
    frame = frames(1)[0]
    assert frame.depth is not None
    depth, scale = predict(TinyNetwork().eval(), frame.image, frame.depth)
    assert depth.shape == (45, 61)
    assert scale is not None
    assert scale.shape == (45, 61)
    assert (depth > 0).all()


def test_validation_repeats_itself_and_leaves_the_network_as_it_was() -> None:
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
