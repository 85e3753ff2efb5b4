from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from omnidc.network.paper.fused import FusedDySPN
from omnidc.network.paper.propagation import NEIGHBORS, DySPN, K


def random_problem(height: int, width: int, steps: int = 2) -> tuple[DySPN, tuple[Tensor, Tensor, Tensor, Tensor]]:
    """A propagation whose offsets of a few pixels often leave the image."""
    generator = torch.Generator().manual_seed(3)
    spn = DySPN(steps, "renormalized").double()
    spn.conv_offset_aff.weight.data.normal_(0, 0.2, generator=generator)
    spn.conv_offset_aff.bias.data.normal_(0, 2.0, generator=generator)
    depth = 1 + torch.rand(2, 1, height, width, generator=generator, dtype=torch.float64)
    guide = torch.randn(2, K * steps, height, width, generator=generator, dtype=torch.float64)
    confidence = torch.randn(2, 1, height, width, generator=generator, dtype=torch.float64)
    sparse = 1 + torch.rand(2, 1, height, width, generator=generator, dtype=torch.float64)
    sparse *= torch.rand(sparse.shape, generator=generator) < 0.2
    return spn, (depth, guide, confidence, sparse)


def slow_step(spn: DySPN, depth: Tensor, offset: Tensor, logit: Tensor, trust: Tensor, sparse: Tensor) -> Tensor:
    """One step by its definition: pixel by pixel, neighbor by neighbor, corner by corner."""
    batch, _, height, width = depth.shape
    out = torch.zeros_like(depth)
    for b, i, j in np.ndindex(batch, height, width):
        affinity = logit[b, :, i, j].softmax(0)
        total = inside = 0.0
        for k, (nx, ny) in enumerate(NEIGHBORS):
            y = i + ny + float(offset[b, 2 * k, i, j])
            x = j + nx + float(offset[b, 2 * k + 1, i, j])
            for row in (int(np.floor(y)), int(np.floor(y)) + 1):
                for column in (int(np.floor(x)), int(np.floor(x)) + 1):
                    weight = float(affinity[k]) * (1 - abs(y - row)) * (1 - abs(x - column))
                    if 0 <= row < height and 0 <= column < width:
                        total += weight * float(depth[b, 0, row, column])
                        inside += weight
        if spn.borders == "renormalized":
            total = total / inside if inside > 1e-3 else float(depth[b, 0, i, j])
        c = float(trust[b, 0, i, j])
        out[b, 0, i, j] = (1 - c) * total + c * float(sparse[b, 0, i, j])
    return out


@pytest.mark.parametrize("borders", ["zero", "renormalized"])
def test_a_step_agrees_with_its_definition(borders: str) -> None:
    spn, (depth, guide, confidence, sparse) = random_problem(5, 7, steps=1)
    spn.borders = borders
    offset, logit = spn.conv_offset_aff(guide).detach().split([2 * K, K], dim=1)
    trust = confidence.sigmoid() * (sparse > 0)
    expected = slow_step(spn, depth, offset, logit, trust, sparse)
    torch.testing.assert_close(spn.step(depth, offset, logit, trust, sparse), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("borders", ["zero", "renormalized"])
def test_strips_change_nothing(borders: str) -> None:
    spn, inputs = random_problem(70, 9)
    spn.borders = borders
    expected = spn(*inputs).detach()
    import omnidc.network.paper.fused as fused

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "STRIP_BYTES", 1)  # the shortest strips: several per image
        torch.testing.assert_close(FusedDySPN(spn)(*inputs), expected, rtol=1e-12, atol=1e-12)


def test_renormalized_borders_keep_constant_and_scale() -> None:
    spn, (depth, guide, confidence, sparse) = random_problem(6, 8)
    constant = torch.full_like(depth, 3.0)
    torch.testing.assert_close(spn(constant, guide, confidence, torch.zeros_like(sparse)).detach(), constant)
    torch.testing.assert_close(
        spn(1e6 * depth, guide, confidence, 1e6 * sparse), 1e6 * spn(depth, guide, confidence, sparse)
    )


def test_a_trusted_measurement_is_kept() -> None:
    spn, (depth, guide, _, sparse) = random_problem(6, 8)
    out = spn(depth, guide, torch.full_like(depth, 40.0), sparse).detach()
    assert (sparse > 0).any()
    torch.testing.assert_close(out[sparse > 0], sparse[sparse > 0])


def test_released_code_is_reproduced_with_gradients(shared: Path) -> None:
    arrays = np.load(shared / "reference/golden/dyspn.npz")
    golden = {name: torch.from_numpy(array).double() for name, array in arrays.items()}
    spn = DySPN(6, "zero").double()
    spn.conv_offset_aff.weight.data, spn.conv_offset_aff.bias.data = golden["weight"], golden["bias"]
    inputs = [golden[name].requires_grad_() for name in ("depth_init", "guide", "confidence_logit")]
    steps = spn.iterate(*inputs, golden["sparse_depth"])
    steps[-1].backward(golden["upstream"])
    close = {"rtol": 1e-9, "atol": 1e-10}
    torch.testing.assert_close(torch.stack(steps).detach(), golden["iters_f64"], **close)
    torch.testing.assert_close(steps[-1].detach(), golden["pred_f64"], **close)
    for tensor, name in zip(inputs, ("depth_init", "guide", "confidence_logit")):
        torch.testing.assert_close(tensor.grad, golden[f"d{name}"], **close)
    torch.testing.assert_close(spn.conv_offset_aff.weight.grad, golden["dweight"], **close)
    torch.testing.assert_close(spn.conv_offset_aff.bias.grad, golden["dbias"], **close)
