from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

import omnidc
from omnidc.datasets.shards import Shards, ShardWriter, decode_log_depth
from omnidc.io.depth import read_depth
from omnidc.io.images import read_image
from omnidc.training.batch import Batch
from omnidc.training.config import TrainConfig, load_config
from omnidc.training.data import TrainingSource
from omnidc.training.distributed import ProcessGroup
from omnidc.training.samples import Request, Samples
from omnidc.training.trainer import Trainer
from omnidc.training.validation import validate

STILL = dict.fromkeys(("flip", "compress_log_depth", "brightness", "contrast", "saturation"), 0.0)
NO_CAMERA = dict.fromkeys(("exposure", "white_balance", "vignette", "defocus", "motion", "noise", "jpeg"), 0.0)


# Rooms with as many depth edges as photographs have (1 to 4 % of the pixels), unlike frames of leaves.
ROOMS = ["10000_0", "10017_1", "10030_0", "10035_2", "20002_4", "20020_1", "20022_4", "20030_1"]


def shard_of(rooms: Path, path: Path) -> Shards:
    """The rooms, of which each is a photograph and 16-bit log depth from 5 cm to 3 km, as a shard."""
    with ShardWriter(path) as shard:
        for name in ROOMS:
            codes = cv2.imread(str(rooms / f"room_{name}.png"), cv2.IMREAD_UNCHANGED)
            depth = decode_log_depth(codes, math.log(0.05), math.log(3000.0))
            shard.add(f"room_{name}", read_image(rooms / f"room_{name}.jpg"), depth)
    return Shards(path)


def bundled_room(path: Path) -> Shards:
    """The bundled room and its mirror image as a shard."""
    examples = Path(omnidc.__file__).parent / "examples"
    image, depth = read_image(examples / "room.jpg"), read_depth(examples / "room_depth.png").depth
    with ShardWriter(path) as shard:
        shard.add("room_0", image, depth)
        shard.add("room_1", np.ascontiguousarray(image[:, ::-1]), np.ascontiguousarray(depth[:, ::-1]))
    return Shards(path)


def overfit_config(frames: Shards, batch: int, steps: int) -> TrainConfig:
    """From the shipped weights: a new network begins as an interpolation, and so few steps leave it one."""
    return load_config(
        "compact",
        network={"init_checkpoint": "compact", "options": {"slope": 0.0}, "freeze": ["trunk.encoder."]},
        data={"sources": {"frames": str(frames.files[0])}, "pattern": "0.7%", "max_edge_fraction": 1.0},
        augment={"scale_max": 1.0, **STILL, **NO_CAMERA},
        optimizer={"batch": batch, "ema": 0.9, "lr": 1e-3, "lr_scale": {}},
        schedule={"steps": steps},
    )


def errors_around_training(
    frames: Shards,
    folder: Path,
    steps: int,
    chosen: list[int],  # index of the frame of each sample of a batch
    size: tuple[int, int],  # of the crops
) -> tuple[float, float]:
    """The relative error on all frames before and after a training."""
    config = overfit_config(frames, len(chosen), steps)
    trainer = Trainer(config, folder, ProcessGroup(0, 1, torch.device("cpu")))
    trainer.sampler()
    assert trainer.data.train is not None
    samples = Samples(trainer.data.train, config.data, config.augment, config.seed)
    source = TrainingSource("frames", frames, np.arange(len(frames)))

    def error() -> float:
        return validate(trainer.ema.network, source, ["0.7%"])[0]["0.7%"].rel

    before = error()
    for step in range(steps):
        views = [samples[Request(step, slot, *size, 0, index)] for slot, index in enumerate(chosen)]
        trainer.train_step(iter([Batch.collate(views)]), step / steps)
    return before, error()


@pytest.mark.slow
def test_compact_network_overfits_the_bundled_room(tmp_path: Path) -> None:
    """100 steps on two frames at 0.7 % of the pixels bring the relative error on them down by a quarter at least."""
    before, after = errors_around_training(bundled_room(tmp_path / "room.tar"), tmp_path, 100, [0, 1], (224, 320))
    assert after < before * 3 / 4


@pytest.mark.slow
def test_compact_network_overfits_eight_rendered_images(shared: Path, tmp_path: Path) -> None:
    """100 steps on 8 frames at 0.7 % of the pixels bring the error on them below 1 %, and by a third at least."""
    frames = shard_of(shared / "data" / "frames", tmp_path / "rooms.tar")
    before, after = errors_around_training(frames, tmp_path, 100, list(range(len(ROOMS))), (224, 320))
    assert after < 0.01
    assert after < before * 2 / 3
