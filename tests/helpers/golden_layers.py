"""Results of layers, losses, metrics and patterns on inputs that are formulas, so that nothing depends on a generator.

`tests/golden/make_layers.py` stores them, from a commit where the tests against the authors' code (`../shared`) passed;
`tests/golden/test_layers.py` compares.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from omnidc.datasets.kitti_dc import subsample_lines
from omnidc.evaluation.metrics import depth_metrics
from omnidc.network.paper.propagation import DySPN
from omnidc.network.upsample import convex_upsample
from omnidc.patterns.lidar import scan_pixels
from omnidc.training import losses

Arrays = dict[str, npt.NDArray[np.float64]]


def wave(*shape: int, seed: float = 0.0) -> Tensor:
    """Numbers in [−1, 1] without a visible order."""
    places = torch.arange(1, 1 + int(np.prod(shape)), dtype=torch.float64)
    return torch.sin(places * places * 0.37 + 7.1 * seed).reshape(shape)


def golden_metrics() -> Arrays:
    truth = (3 + 2 * wave(20, 30, seed=1)).numpy() * (wave(20, 30, seed=2).numpy() > -0.5)
    prediction = truth * (1 + 0.3 * wave(20, 30, seed=3).numpy()) - 0.9  # some below 0
    return {
        f"metrics {name}": np.array(value)
        for name, value in depth_metrics(prediction, truth, released=True).items()
        if value is not None
    }


def golden_losses() -> Arrays:
    result: Arrays = {}
    for height, width in ((16, 24), (17, 23)):
        gt_depth = (1.5 + wave(2, 1, height, width, seed=4)) * (wave(2, 1, height, width, seed=5) > -0.4)
        sparse = gt_depth * (wave(2, 1, height, width, seed=6) > 0.5)
        depth = (2 + wave(2, 1, height, width, seed=7)).requires_grad_()
        log_scale = wave(2, 1, height, width, seed=8).requires_grad_()
        terms = {
            "l1": losses.l1(depth, gt_depth, released=True),
            "laplace": losses.laplace(depth, gt_depth, log_scale, released=True),
            "gradient_matching": losses.gradient_matching(depth, gt_depth, released=True),
        }
        if height % 8 == 0:
            sizes = [(height // 4 // 2**r, width // 4 // 2**r) for r in range(2)]
            gradients = [wave(2, 2, *size, seed=9 + r).requires_grad_() for r, size in enumerate(sizes)]
            confidence = torch.sigmoid(wave(2, 1, height // 4, width // 4, seed=12))
            terms["gradient_l1"] = losses.gradient_l1(gradients, gt_depth, released=True)
            terms["input_confidence"] = losses.input_confidence(confidence, sparse, gt_depth, released=True)
        for name, term in terms.items():
            key = f"loss {name} {height}x{width}"
            result[key] = term.sum().detach().numpy()
            if name in ("l1", "laplace", "gradient_matching"):
                (slope,) = torch.autograd.grad(term.sum(), depth, retain_graph=True)
                result[f"{key} slope"] = slope.numpy()
    return result


def golden_layers() -> Arrays:
    spn = DySPN(6, "zero").double()
    with torch.no_grad():
        spn.conv_offset_aff.weight.copy_(0.3 * wave(*spn.conv_offset_aff.weight.shape, seed=20))
        spn.conv_offset_aff.bias.copy_(0.3 * wave(*spn.conv_offset_aff.bias.shape, seed=21))
    height, width = 10, 14
    start = (2 + wave(1, 1, height, width, seed=22)).requires_grad_()
    guide = wave(1, spn.conv_offset_aff.in_channels, height, width, seed=23)
    sparse = (2 + wave(1, 1, height, width, seed=24)) * (wave(1, 1, height, width, seed=25) > 0.7)
    steps = spn.iterate(start, guide, wave(1, 1, height, width, seed=26), sparse)
    steps[-1].backward(wave(1, 1, height, width, seed=27))
    assert start.grad is not None
    coarse, logits = wave(1, 1, 4, 5, seed=28), wave(1, 9 * 16, 4, 5, seed=29)
    return {
        "propagation": torch.stack(steps).detach().numpy(),
        "propagation slope": start.grad.numpy(),
        "upsampling": convex_upsample(coarse, logits, 4, "zero").numpy(),
    }


def golden_lines() -> Arrays:
    result: Arrays = {
        f"scan {lines} {height}x{width}": scan_pixels(height, width, lines).astype(np.float64).sum(axis=1)
        for lines, height, width in ((8, 48, 64), (16, 60, 80), (64, 37, 101))
    }
    K = np.array([[60.0, 0, 40], [0, 60.0, 20], [0, 0, 1]])
    depth = (5 + 2 * wave(40, 80, seed=30)).numpy().astype(np.float32) * (wave(40, 80, seed=31).numpy() > 0)
    for lines in (8, 16, 32):
        result[f"KITTI {lines} lines"] = subsample_lines(depth.astype(np.float32), K, lines).astype(np.float64)
    return result


def golden() -> Arrays:
    return {**golden_metrics(), **golden_losses(), **golden_layers(), **golden_lines()}
