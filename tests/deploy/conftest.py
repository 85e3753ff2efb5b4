from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in as an ONNX file."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from standin import DIVISOR, StandIn

    from omnidc.deploy.model_info import ModelInfo
    from omnidc.deploy.onnx import export_onnx

    path = tmp_path_factory.mktemp("onnx") / "standin.onnx"
    info = ModelInfo("stand-in", DIVISOR, max_side=200, license="Apache-2.0")
    export_onnx(StandIn(), path, info)
    return path
