from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from omnidc.errors import ConfigError, MissingExtraError
from omnidc.network.paper.config import PRESETS, PaperConfig
from omnidc.network.paper.model import PaperNetwork
from omnidc.network.paper.prior import DepthAnything, network_size, normalize_prior


def test_prior_is_normalized_by_its_quantiles() -> None:
    values = torch.rand(2, 1, 13, 17, dtype=torch.float64) * torch.tensor([3.0, 500.0]).view(2, 1, 1, 1)
    low, high = (torch.quantile(values.flatten(1), q, dim=1).view(2, 1, 1, 1) for q in (0.02, 0.98))
    torch.testing.assert_close(normalize_prior(values), (values - low) / (high - low))


def test_a_constant_prior_becomes_zero() -> None:
    assert torch.equal(normalize_prior(torch.full((1, 1, 4, 4), 7.0)), torch.zeros(1, 1, 4, 4))


@pytest.mark.parametrize(
    ("size", "expected"), [((480, 640), (518, 686)), ((640, 480), (686, 518)), ((256, 1216), (518, 2464))]
)
def test_prior_sees_the_short_side_at_518_in_patches_of_14(size: tuple[int, int], expected: tuple[int, int]) -> None:
    assert network_size(*size, 518, 14) == expected


def test_missing_transformers_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    prior = DepthAnything()
    with pytest.raises(MissingExtraError, match=r"pip install \"omnidc\[prior\]\""):
        prior(torch.rand(1, 3, 32, 32))


def test_adapter_hands_over_normalized_colors_and_resizes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []

    class Model:
        @classmethod
        def from_pretrained(cls, name: str) -> Model:
            assert name == "some/folder"
            return cls()

        def to(self, device: str) -> Model:
            return self

        def eval(self) -> Model:
            return self

        def __call__(self, pixel_values: Tensor) -> SimpleNamespace:
            seen.append(pixel_values)
            return SimpleNamespace(predicted_depth=pixel_values[:, 0])

    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(DepthAnythingForDepthEstimation=Model))
    image = torch.full((1, 3, 32, 48), 0.485)
    image[..., 24:] = 1.0
    inverse_depth = DepthAnything("some/folder")(image)
    assert seen[0].shape == (1, 3, 518, 784)
    assert inverse_depth.shape == (1, 1, 32, 48)
    assert (inverse_depth >= 0).all()  # bicubic resizing overshoots below 0
    torch.testing.assert_close(inverse_depth[..., 40:], torch.full((1, 1, 32, 8), (1 - 0.485) / 0.229))


def test_v11_needs_and_uses_its_prior(formula_network: Callable[[PaperConfig], PaperNetwork]) -> None:
    network = formula_network(PRESETS["paper-v1.1"])
    image, sparse = torch.rand(1, 3, 32, 64), torch.rand(1, 1, 32, 64)
    sparse[sparse < 0.9] = 0
    with pytest.raises(ConfigError, match="monocular prior"):
        network(image, sparse)
    network.prior = lambda image: image[:, :1]
    first = network(image, sparse).depth
    network.prior = lambda image: 5 * image[:, :1] + 2  # scale and shift do not matter
    torch.testing.assert_close(network(image, sparse).depth, first, rtol=1e-3, atol=0)
    network.prior = lambda image: image[:, 1:2]
    assert not torch.allclose(network(image, sparse).depth, first, rtol=1e-2)
