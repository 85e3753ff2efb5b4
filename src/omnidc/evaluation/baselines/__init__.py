"""Baselines that anyone can run: no weights, no training, the interface of every method (`sample.Method`)."""

from __future__ import annotations

from collections.abc import Mapping

from omnidc.evaluation.baselines.interpolation import idw, linear, nearest
from omnidc.evaluation.sample import Method

BASELINES: Mapping[str, Method] = {
    "nearest": nearest,
    "linear": linear,
    "idw": idw,
}
