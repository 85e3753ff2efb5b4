"""Baselines that anyone can run: no weights, no training, the interface of every method (`sample.Method`)."""

from __future__ import annotations

from collections.abc import Mapping

from omnidc.evaluation.baselines.bilateral import bilateral
from omnidc.evaluation.baselines.integration import edge_aware, harmonic
from omnidc.evaluation.baselines.interpolation import idw, linear, nearest
from omnidc.evaluation.baselines.morphology import ip_basic, morphology
from omnidc.evaluation.sample import Method

BASELINES: Mapping[str, Method] = {
    "nearest": nearest,
    "linear": linear,
    "idw": idw,
    "morphology": morphology,
    "ip-basic": ip_basic,
    "bilateral": bilateral,
    "harmonic": harmonic,
    "edge-aware": edge_aware,
}
