from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in as an ONNX file."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from omnidc.deploy.model_info import ModelInfo
    from omnidc.deploy.onnx import export_onnx
    from standin import DIVISOR, StandIn

    path = tmp_path_factory.mktemp("onnx") / "standin.onnx"
    info = ModelInfo("stand-in", DIVISOR, max_side=200, license="Apache-2.0")
    export_onnx(StandIn(), path, info)
    return path
