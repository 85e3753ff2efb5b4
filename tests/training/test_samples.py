from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from omnidc.datasets.shards import Shards, ShardWriter
from omnidc.errors import FileError, InputError
from omnidc.frame import Frame
from omnidc.training.batch import TENSORS
from omnidc.training.data import TrainingSource, epoch_order, frame_names, open_source
from omnidc.training.samples import EpochSampler, Request, Samples, make_loader
from tiny import tiny_config


def sources(shard: Path) -> list[TrainingSource]:
    frames = Shards(shard)
    return [TrainingSource("planes", frames, np.arange(len(frames)))]


def plan(shard: Path, *, start: int = 0, rank: int = 0, world: int = 1, accumulate: int = 1) -> EpochSampler:
    return EpochSampler(
        epoch_order(sources(shard), mix="even", epoch_size=0, seed=0, epoch=0),
        seed=0,
        first=0,
        start=start,
        batch=8,
        accumulate=accumulate,
        rank=rank,
        world=world,
        sizes=[[32, 48], [48, 64]],
    )


def test_two_processes_share_what_one_would_do(shard: Path) -> None:
    whole = list(plan(shard))
    halves = [list(plan(shard, rank=rank, world=2, accumulate=2)) for rank in (0, 1)]
    assert len(whole) == 3
    for step in range(3):
        parts = [request for half in halves for part in half[2 * step : 2 * step + 2] for request in part]
        assert sorted(parts, key=lambda r: r.slot) == whole[step]


def test_plan_resumes_in_the_middle_of_an_epoch(shard: Path) -> None:
    assert list(plan(shard, start=2)) == list(plan(shard))[2:]
    assert len(plan(shard, start=2)) == 1


def test_sampler_working_sizes_come_in_their_share_of_steps() -> None:
    sampler = EpochSampler(
        np.zeros((1600, 2), np.int64),
        seed=0, first=0, start=0, batch=8, accumulate=1, rank=0, world=1, sizes=[[32, 48]],
        working_sizes=[[96, 128, 48, 64]], working_share=0.25,
    )  # fmt: skip
    requests = [part[0] for part in sampler]
    smaller = [request for request in requests if request.working_size]
    assert {(request.height, request.width, request.working_size) for request in smaller} == {(96, 128, (48, 64))}
    assert {(r.height, r.width) for r in requests if not r.working_size} == {(32, 48)}
    assert 0.17 < len(smaller) / len(requests) < 0.33


def test_sampler_stops_where_the_next_phase_begins() -> None:
    order = np.zeros((80, 2), np.int64)
    common = {"seed": 0, "batch": 8, "accumulate": 1, "rank": 0, "world": 1, "sizes": [[32, 48]]}
    sampler = EpochSampler(order, first=5, start=6, stop=9, **common)
    assert [part[0].step for part in sampler] == [6, 7, 8]
    assert EpochSampler(order, first=5, start=6, **common).end == 15


def test_sample_carries_the_sky_of_its_view(tmp_path: Path) -> None:
    """Sky and unknown depth coincide in these frames; the sample's must too, whatever the crop."""
    rng = np.random.default_rng(0)
    sky = np.zeros((48, 64), bool)
    sky[:20, 10:] = True
    with ShardWriter(tmp_path / "frames.tar") as writer:
        for i in range(2):
            depth = np.where(sky, 0, rng.uniform(1, 2, sky.shape))
            writer.add(f"s_{i}", np.zeros((48, 64, 3), np.uint8), depth, sky=sky)
    config = tiny_config(tmp_path)
    samples = Samples([open_source("frames", str(tmp_path))], config.data, config.augment, seed=1)
    for step in range(8):
        request = Request(step=step, slot=0, height=32, width=48, source=0, index=0, working_size=(16, 24))
        sample = samples[request]
        assert torch.equal(sample.sky, sample.gt_depth == 0)
        assert sample.working_size == (16, 24)
    assert sample.sky.dtype == torch.bool


def test_batch_has_one_size_and_sizes_change_between_steps(shard: Path) -> None:
    everything = EpochSampler(
        np.zeros((800, 2), np.int64),
        seed=0, first=0, start=0, batch=8, accumulate=1, rank=0, world=1, sizes=[[32, 48], [48, 64]],
    )  # fmt: skip
    sizes = [{(request.height, request.width) for request in batch} for batch in everything]
    assert all(len(size) == 1 for size in sizes)
    assert set.union(*sizes) == {(32, 48), (48, 64)}


def test_sample_of_many_edges_is_replaced_by_another_view(shard: Path) -> None:
    """Two frames, one of which is nothing but edges: every sample comes from the other."""
    image = np.zeros((64, 96, 3), np.uint8)
    leaves = np.where(np.indices((64, 96)).sum(0) // 2 % 2, 1.0, 3.0).astype(np.float32)
    frames = [Frame(image, depth=depth, name=name) for depth, name in ((leaves, "leaves"), (0 * leaves + 2, "wall"))]
    config = tiny_config(shard)
    config.data.max_edge_fraction = 0.15
    samples = Samples([TrainingSource("two", frames, np.arange(2))], config.data, config.augment, seed=0)
    made = [samples[Request(step=step, slot=0, height=32, width=48, source=0, index=0)] for step in range(4)]
    assert {sample.names for sample in made} == {("wall",)}
    assert all(sample.resampled for sample in made)


def test_sample_depends_on_seed_step_and_slot_only(shard: Path) -> None:
    config = tiny_config(shard)
    samples = Samples(sources(shard), config.data, config.augment, seed=1)
    request = Request(step=5, slot=2, height=32, width=48, source=0, index=7)
    first, again = samples[request], Samples(sources(shard), config.data, config.augment, seed=1)[request]
    for name in TENSORS:
        assert torch.equal(getattr(first, name), getattr(again, name))
    other = samples[Request(step=6, slot=2, height=32, width=48, source=0, index=7)]
    assert not torch.equal(first.sparse, other.sparse)
    assert first.image.dtype == torch.uint8
    assert first.image.shape == (1, 3, 32, 48)
    right = (first.sparse > 0) & ~first.outlier_mask
    torch.testing.assert_close(first.sparse[right], first.gt_depth[right], rtol=0.11, atol=0)


def test_workers_make_the_same_batches_as_the_main_process(shard: Path) -> None:
    batches = []
    for workers in (0, 2):
        config = tiny_config(shard, f"data.workers={workers}")
        samples = Samples(sources(shard), config.data, config.augment, seed=1)
        batches.append(list(make_loader(samples, plan(shard), config.data)))
    for alone, helped in zip(*batches, strict=True):
        assert alone.names == helped.names
        assert torch.equal(alone.sparse, helped.sparse)
        assert torch.equal(alone.image, helped.image)


class Broken(list[Frame]):
    """Every second frame cannot be read."""

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if index % 2:
            raise FileError("damaged")
        return super().__getitem__(index)


def test_unusable_frames_are_replaced_and_counted(shard: Path) -> None:
    config = tiny_config(shard)
    frames = Broken(Shards(shard)[i] for i in range(24))
    samples = Samples([TrainingSource("b", frames, np.arange(24))], config.data, config.augment, seed=1)
    request = Request(step=0, slot=0, height=32, width=48, source=0, index=3)
    assert samples[request].resampled > 0
    only_bad = Samples([TrainingSource("b", frames, np.array([1, 3]))], config.data, config.augment, seed=1)
    with pytest.raises(InputError, match="damaged"):
        only_bad[request]


def test_samples_with_too_few_measurements_are_replaced(shard: Path) -> None:
    config = tiny_config(shard, "data.min_points=2000")
    samples = Samples(sources(shard), config.data, config.augment, seed=1)
    with pytest.raises(InputError, match="too few"):
        samples[Request(step=0, slot=0, height=32, width=48, source=0, index=3)]


def test_range_limit_forgets_what_is_much_nearer_than_the_rest(shard: Path) -> None:
    config = tiny_config(shard, "data.range_limit=2")
    samples = Samples(sources(shard), config.data, config.augment, seed=1)
    gt_depth = samples[Request(step=0, slot=0, height=48, width=64, source=0, index=3)].gt_depth
    assert gt_depth[gt_depth > 0].min() >= gt_depth.max() / 2


def test_samples_have_a_median_of_one_when_asked(shard: Path) -> None:
    config = tiny_config(shard, data={"unit_median": True})
    sample = Samples(sources(shard), config.data, config.augment, 0)[Request(0, 0, 32, 48, 0, 0)]
    gt_depth, measured = sample.gt_depth.numpy(), sample.sparse.numpy()
    assert np.median(gt_depth[gt_depth > 0]) == pytest.approx(1, rel=1e-6)
    clean = (measured > 0) & ~sample.outlier_mask.numpy() & (gt_depth > 0)
    assert np.median(measured[clean] / gt_depth[clean]) == pytest.approx(1, rel=1e-3)


def test_names_of_datasets_pick_their_readers(shard: Path, tmp_path: Path) -> None:
    assert isinstance(open_source("anything", str(shard)).frames, Shards)
    with pytest.raises(FileError):
        open_source("hypersim", str(tmp_path / "missing"))
    assert frame_names(Shards(shard))[0] == "frames/plane_00000_0"
