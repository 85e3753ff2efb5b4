from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import sph_harm_y

from omnidc.splatting.sh import C0, MAX_DEGREE, basis, basis_count, view_colors


def directions(n: int = 50) -> torch.Tensor:
    d = np.random.default_rng(0).normal(size=(n, 3))
    return torch.tensor(d / np.linalg.norm(d, axis=1, keepdims=True))


def test_basis_all_degrees_agrees_with_scipy() -> None:
    """Real harmonics with the Condon-Shortley phase, m = −l … l: what 3DGS files hold."""
    d = directions()
    theta, phi = np.arccos(d[:, 2].numpy()), np.arctan2(d[:, 1].numpy(), d[:, 0].numpy())
    expected = []
    for degree in range(MAX_DEGREE + 1):
        for m in range(-degree, degree + 1):
            value = sph_harm_y(degree, abs(m), theta, phi)
            expected.append(value.real if m == 0 else 2**0.5 * (value.imag if m < 0 else value.real))
    assert np.allclose(basis(d, MAX_DEGREE).numpy(), np.stack(expected, 1), atol=1e-9)


@pytest.mark.parametrize("degree", range(MAX_DEGREE + 1))
def test_basis_lower_degree_is_a_prefix(degree: int) -> None:
    d = directions()
    assert torch.equal(basis(d, degree), basis(d, MAX_DEGREE)[:, : basis_count(degree)])


def test_view_colors_only_dc_is_the_same_from_everywhere() -> None:
    dc = torch.tensor([[0.3, -5.0, 0.1]])
    means, rest = torch.tensor([[0.0, 0.0, 1.0]]), torch.zeros(1, 3, 3)
    first = view_colors(dc, rest, means, torch.zeros(3), 1)
    second = view_colors(dc, rest, means, torch.tensor([4.0, 1.0, 0.0]), 1)
    assert torch.allclose(first, second)
    assert first[0, 0] == pytest.approx(0.5 + C0 * 0.3)
    assert first[0, 1] == 0.0  # clamped at black


def test_view_colors_degree_one_depends_on_direction() -> None:
    rest = torch.zeros(1, 3, 3)
    rest[0, 1] = 0.5  # along z
    args = torch.zeros(1, 3), rest, torch.zeros(1, 3)
    front = view_colors(*args, torch.tensor([0.0, 0.0, -1.0]), 1)
    back = view_colors(*args, torch.tensor([0.0, 0.0, 1.0]), 1)
    assert (front > back).all()
    assert torch.allclose(view_colors(*args, torch.ones(3), 0), torch.full((1, 3), 0.5))
