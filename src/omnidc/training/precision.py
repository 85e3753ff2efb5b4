"""The number type of a network's matrix products."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from omnidc.errors import ConfigError
from omnidc.network.interface import DepthNetwork, Fields, StagedNetwork
from omnidc.training.config import RuntimeConfig


def pick_precision(runtime: RuntimeConfig, device: torch.device) -> torch.dtype:
    """Return the type of the network's matrix products. CPUs compute in float32: bf16 crashes on some of them."""
    if device.type != "cuda":
        if runtime.precision not in ("auto", "fp32"):
            raise ConfigError(f"runtime.precision={runtime.precision} needs a GPU; on {device.type} use auto or fp32.")
        return torch.float32
    if runtime.precision == "auto":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[runtime.precision]


def use_autocast(network: DepthNetwork, device: torch.device, dtype: torch.dtype) -> None:
    """Compute the features (`trunk`, or the stage `fields`) in `dtype`; the integrator needs float32."""
    if dtype is torch.float32:
        return
    if isinstance(network, StagedNetwork):
        half = functools.partial(_autocast_fields, network.fields, device.type, dtype)
        network.fields = half  # type: ignore[method-assign]
        return
    trunk = getattr(network, "trunk", None)
    if not isinstance(trunk, nn.Module):
        raise ConfigError("runtime.precision needs a network with a trunk or in stages; use fp32.")
    trunk.forward = functools.partial(_autocast_trunk, trunk.forward, device.type, dtype)


def _autocast_trunk(original: Any, device: str, dtype: torch.dtype, *inputs: Any) -> list[Tensor]:
    with torch.autocast(device, dtype):
        return [feature.float() for feature in original(*inputs)]


def _autocast_fields(
    original: Any, device: str, dtype: torch.dtype, image: Tensor, sparse: Tensor, *rest: Any
) -> Fields:
    with torch.autocast(device, dtype):
        fields: Fields = original(image, sparse, *rest)
    return replace(
        fields,
        gradients=tuple(g.float() for g in fields.gradients),
        weights=None if fields.weights is None else tuple(w.float() for w in fields.weights),
        confidence=fields.confidence.float(),
        refinement=fields.refinement.map(Tensor.float),
    )
