"""The measuring instrument: metrics, protocols (the paper's tables as data), baselines and reports."""

from __future__ import annotations

from omnidc.evaluation.catalog import PROTOCOLS
from omnidc.evaluation.metrics import depth_metrics
from omnidc.evaluation.protocols import EvaluationProtocol
from omnidc.evaluation.runner import Results, evaluate

__all__ = ["PROTOCOLS", "EvaluationProtocol", "Results", "depth_metrics", "evaluate"]
