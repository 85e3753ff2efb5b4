from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.errors import ConfigError
from omnidc.frame import Frame
from omnidc.training.data import TrainingSource, epoch_order, is_held_out


class Listed(list[Frame]):
    def __init__(self, scenes: list[str]) -> None:
        super().__init__([Frame(np.zeros((2, 2, 3), np.uint8))] * len(scenes))
        self.scenes = scenes


def source(name: str, size: int) -> TrainingSource:
    return TrainingSource(name, Listed(["x"] * size), np.arange(size))


def order_of(
    *sources: TrainingSource, mix: str = "even", epoch_size: int = 0, seed: int = 0, epoch: int = 0
) -> np.ndarray:
    return epoch_order(sources, mix=mix, epoch_size=epoch_size, seed=seed, epoch=epoch)


def test_even_mix_draws_sources_alike() -> None:
    order = order_of(source("big", 30), source("small", 7), seed=1)
    assert len(order) == 60
    assert Counter(order[:, 0].tolist()) == {0: 30, 1: 30}
    assert sorted(order[order[:, 0] == 0, 1].tolist()) == list(range(30))
    small = order[order[:, 0] == 1, 1]
    for start in range(0, 28, 7):
        assert sorted(small[start : start + 7].tolist()) == list(range(7))
    assert all(set(pair) == {0, 1} for pair in order[:, 0].reshape(-1, 2).tolist())


def test_mix_by_size_draws_every_frame_once() -> None:
    order = order_of(source("big", 30), source("small", 7), mix="size")
    assert len(order) == len({tuple(row) for row in order.tolist()}) == 37


def test_order_depends_on_seed_and_epoch_only() -> None:
    first = order_of(source("a", 50), seed=3, epoch=5)
    np.testing.assert_array_equal(first, order_of(source("a", 50), seed=3, epoch=5))
    assert (first != order_of(source("a", 50), seed=3, epoch=6)).any()
    assert (first != order_of(source("a", 50), seed=4, epoch=5)).any()


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 200), st.sampled_from(["even", "size"]))
def test_epochs_have_the_length_asked_for(first: int, second: int, length: int, mix: str) -> None:
    order = order_of(source("a", first), source("b", second), mix=mix, epoch_size=length)
    assert order.shape == (length, 2)
    for number, size in enumerate((first, second)):
        assert (order[order[:, 0] == number, 1] < size).all()


def test_no_scene_is_both_trained_on_and_held_out() -> None:
    scenes = [f"room_{i // 6:05d}" for i in range(3000)]
    train, validation = TrainingSource("a", Listed(scenes), np.arange(3000)).split(0.1)
    assert len(train.indices) + len(validation.indices) == 3000
    assert not {scenes[i] for i in train.indices} & {scenes[i] for i in validation.indices}
    assert 0.04 < len(validation.indices) / 3000 < 0.16


def test_held_out_scenes_stay_held_out_while_a_dataset_grows() -> None:
    few = [f"s{i}" for i in range(50)]
    more = [f"s{i}" for i in range(-20, 100)]
    assert [is_held_out(s, 0.2) for s in few] == [is_held_out(s, 0.2) for s in more if s in few]
    assert not any(is_held_out(s, 0.0) for s in more)
    assert all(is_held_out(s, 1.0) for s in more)


def test_datasets_without_scenes_hold_out_blocks() -> None:
    frames = [Frame(np.zeros((2, 2, 3), np.uint8))] * 2000
    train, validation = TrainingSource("plain", frames, np.arange(2000)).split(0.3)
    assert len(validation.indices) > 0
    assert not {i // 100 for i in train.indices.tolist()} & {i // 100 for i in validation.indices.tolist()}


def test_mixture_without_frames_is_refused() -> None:
    with pytest.raises(ConfigError, match="--data"):
        order_of()
    with pytest.raises(ConfigError, match="'a'"):
        order_of(source("a", 0))
    with pytest.raises(ConfigError, match="mix"):
        order_of(source("a", 1), mix="odd")
