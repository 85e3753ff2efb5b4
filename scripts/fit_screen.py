"""Fit the outlier classifier of the compact network alone, on the simulated sensors of the preset.

    python scripts/fit_screen.py --data FRAMES --start start.safetensors -o fitted.safetensors   # four CPU-minutes

The classifier sees measurements only, so that its features are computed once and thousands of steps take a minute. Each
image counts alike. Prints the cross entropy on held-out scenes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from omnidc.network.checkpoint import load_network, save_network
from omnidc.network.compact import CompactNetwork
from omnidc.network.normalize import masked_log, normalization
from omnidc.network.screen import BLOCK, OutlierClassifier, block_candidates, candidate_features
from omnidc.training.batch import Batch
from omnidc.training.config import TrainConfig, from_tables, read_preset
from omnidc.training.data import TrainingSource, open_sources
from omnidc.training.samples import Request, Samples

SIZES = ((192, 256), (256, 352), (384, 512), (480, 640))  # windows of the features are pixels: sizes of photographs too
MOST = 1500  # candidates of an image
TOLERANCE = 0.1  # log depth: a larger error makes a measurement an outlier
POINTS = 8192  # of a step
RATE = 4e-3


def candidates(batch: Batch) -> tuple[Tensor, Tensor]:  # [n, FEATURES], bool [n]
    """Features of the candidates of one image, and whether each is right."""
    norm = normalization(batch.sparse)
    z, valid = masked_log(batch.sparse / norm.median)
    z = z / norm.log_std
    values, given = block_candidates(z, valid)
    features = candidate_features(values, given)[0]  # [FEATURES, 2, h, w]
    known = (batch.sparse > 0) & (batch.gt_depth > 0)
    ones = torch.ones_like(batch.sparse)
    error = (torch.where(known, batch.sparse, ones).log() - torch.where(known, batch.gt_depth, ones).log()).abs()
    wrong = (known & (error > TOLERANCE)) | ((batch.sparse > 0) & batch.outlier_mask)
    cells, measured = F.pixel_unshuffle(z, BLOCK)[0], F.pixel_unshuffle(valid, BLOCK)[0] > 0  # [16, h, w]
    nearest = torch.where(measured, cells, torch.inf).argmin(0)
    farthest = torch.where(measured, cells, -torch.inf).argmax(0)
    right = ~F.pixel_unshuffle(wrong.float(), BLOCK)[0].gather(0, torch.stack([nearest, farthest])).bool()
    place = given[0] > 0
    return features[:, place].T, right[place]


def gather(source: TrainingSource, config: TrainConfig, count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features [n, FEATURES], labels bool [n] and weights [n] of the candidates of `count` samples."""
    samples, rng = Samples([source], config.data, config.augment, seed), np.random.default_rng(seed)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for step in tqdm(range(count), unit="image"):
        height, width = SIZES[rng.integers(len(SIZES))]
        index = int(source.indices[rng.integers(len(source.indices))])
        features, right = candidates(samples[Request(step, 0, height, width, 0, index)])
        chosen = torch.from_numpy(rng.permutation(len(right))[:MOST])
        weight = torch.full((len(chosen),), 1 / max(1, len(chosen)))
        parts.append((features[chosen].half(), right[chosen], weight))
    features, right, weight = (torch.cat(one) for one in zip(*parts))
    return features, right, weight / weight.mean()


def entropy(screen: OutlierClassifier, data: Sequence[Tensor]) -> Tensor:
    features, right, weight = data
    x = features.float()
    for layer in (screen.layer1, screen.layer2):
        x = F.relu(layer(x))
    logit = screen.layer3(x)[:, 0]
    return (weight * F.binary_cross_entropy_with_logits(logit, right.float(), reduction="none")).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--data", required=True, help="frames of `omnidc scenes`")
    parser.add_argument("--start", type=Path, required=True, help="checkpoint whose classifier is replaced")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--images", type=int, default=3200)
    parser.add_argument("--steps", type=int, default=14000)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    tables = read_preset("compact")
    tables["data"]["sources"] = {"scenes": arguments.data}
    config = from_tables({**tables, "phase": []})
    train, held_out = open_sources(config.data)["scenes"].split(config.data.val_fraction)
    data, judge = gather(train, config, arguments.images, 1), gather(held_out, config, arguments.images // 8, 2)
    screen = OutlierClassifier()
    optimizer = torch.optim.AdamW(screen.parameters(), lr=RATE, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, arguments.steps)
    began = time.process_time()
    for _ in tqdm(range(arguments.steps), unit="step"):
        index = torch.randint(len(data[0]), (POINTS,))
        optimizer.zero_grad()
        entropy(screen, [one[index] for one in data]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        held = float(entropy(screen, judge))
    print(f"cross entropy on held-out scenes {held:.4f}, {time.process_time() - began:.0f} CPU-seconds")
    network = load_network(arguments.start)
    if not isinstance(network, CompactNetwork):
        raise SystemExit(f"{arguments.start} is no compact network.")
    network.screen = screen
    save_network(network, arguments.out, {"start": "trunk of omnidc 0.1, outlier classifier fitted alone"})


if __name__ == "__main__":
    main()
