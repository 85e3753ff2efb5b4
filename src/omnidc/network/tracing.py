"""Tell apart inference on a CPU, training, and an exporter that records operations."""

from __future__ import annotations

import torch
from torch import Tensor


def is_traced() -> bool:
    """Return True while an exporter records the operations."""
    return bool(torch.compiler.is_exporting() or torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def may_split(x: Tensor) -> bool:
    """Return whether a map may be computed in bands of rows: inference on a CPU; exported graphs have no such loop."""
    return x.device.type == "cpu" and not torch.is_grad_enabled() and not is_traced()
