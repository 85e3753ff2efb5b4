"""Baselines that anyone can run: no weights, no training, the interface of every method (`sample.Method`).

Without a measurement a baseline returns 0 everywhere, which counts as an error of 100 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps

import numpy as np

from omnidc.evaluation.baselines.bilateral import bilateral
from omnidc.evaluation.baselines.integration import edge_aware, harmonic
from omnidc.evaluation.baselines.interpolation import idw, linear, nearest
from omnidc.evaluation.baselines.morphology import ip_basic, morphology
from omnidc.evaluation.sample import Depth, Image, Intrinsics, Method


def _where_measured(baseline: Method) -> Method:
    @wraps(baseline)
    def method(image: Image, sparse: Depth, intrinsics: Intrinsics | None = None) -> Depth:
        return baseline(image, sparse, intrinsics) if (sparse > 0).any() else np.zeros_like(sparse)

    return method


BASELINES: Mapping[str, Method] = {
    "nearest": _where_measured(nearest),
    "linear": _where_measured(linear),
    "idw": _where_measured(idw),
    "morphology": _where_measured(morphology),
    "ip-basic": _where_measured(ip_basic),
    "bilateral": _where_measured(bilateral),
    "harmonic": _where_measured(harmonic),
    "edge-aware": _where_measured(edge_aware),
}
