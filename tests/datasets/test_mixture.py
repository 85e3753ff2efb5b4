from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.datasets.mixture import Mixture, Source, held_out, split
from omnidc.errors import ConfigError
from omnidc.frame import Frame


class Listed(list[Frame]):
    def __init__(self, scenes: list[str]) -> None:
        super().__init__([Frame(np.zeros((2, 2, 3), np.uint8))] * len(scenes))
        self.scenes = scenes


def source(name: str, size: int) -> Source:
    return Source(name, Listed(["x"] * size), np.arange(size))


def test_even_mix_draws_every_source_alike_and_each_frame_before_any_again() -> None:
    mixture = Mixture([source("big", 30), source("small", 7)])
    order = mixture.order(seed=1, epoch=0)
    assert mixture.length == len(order) == 60
    assert Counter(order[:, 0].tolist()) == {0: 30, 1: 30}
    assert sorted(order[order[:, 0] == 0, 1].tolist()) == list(range(30))
    small = order[order[:, 0] == 1, 1]
    for start in range(0, 28, 7):
        assert sorted(small[start : start + 7].tolist()) == list(range(7))
    assert all(set(pair) == {0, 1} for pair in order[:, 0].reshape(-1, 2).tolist())


def test_mix_by_size_draws_every_frame_once() -> None:
    order = Mixture([source("big", 30), source("small", 7)], mix="size").order(0, 0)
    assert len(order) == len({tuple(row) for row in order.tolist()}) == 37


def test_order_depends_on_seed_and_epoch_only() -> None:
    mixture = Mixture([source("a", 50)])
    first = mixture.order(3, 5)
    np.testing.assert_array_equal(first, Mixture([source("a", 50)]).order(3, 5))
    assert (first != mixture.order(3, 6)).any()
    assert (first != mixture.order(4, 5)).any()


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 200), st.sampled_from(["even", "size"]))
def test_epochs_have_the_length_asked_for(first: int, second: int, length: int, mix: str) -> None:
    order = Mixture([source("a", first), source("b", second)], mix, length).order(0, 0)
    assert order.shape == (length, 2)
    for number, size in enumerate((first, second)):
        assert (order[order[:, 0] == number, 1] < size).all()


def test_no_scene_is_both_trained_on_and_held_out() -> None:
    scenes = [f"room_{i // 6:05d}" for i in range(3000)]
    train, validation = split("a", Listed(scenes), 0.1)
    assert len(train.indices) + len(validation.indices) == 3000
    assert not {scenes[i] for i in train.indices} & {scenes[i] for i in validation.indices}
    assert 0.04 < len(validation.indices) / 3000 < 0.16


def test_held_out_scenes_stay_held_out_while_a_dataset_grows() -> None:
    few = [f"s{i}" for i in range(50)]
    more = [f"s{i}" for i in range(-20, 100)]
    assert [held_out(s, 0.2) for s in few] == [held_out(s, 0.2) for s in more if s in few]
    assert not any(held_out(s, 0.0) for s in more)
    assert all(held_out(s, 1.0) for s in more)


def test_datasets_without_scenes_hold_out_blocks() -> None:
    frames = [Frame(np.zeros((2, 2, 3), np.uint8))] * 2000
    train, validation = split("plain", frames, 0.3)
    assert len(validation.indices) > 0
    assert not {i // 100 for i in train.indices.tolist()} & {i // 100 for i in validation.indices.tolist()}


def test_mixture_without_frames_is_refused() -> None:
    with pytest.raises(ConfigError, match="--data"):
        Mixture([])
    with pytest.raises(ConfigError, match="'a'"):
        Mixture([source("a", 0)])
    with pytest.raises(ConfigError, match="mix"):
        Mixture([source("a", 1)], mix="odd")
