"""The bundled ONNX model: a graph whose weights are those of the checkpoint beside it.

    python -m omnidc.deploy.bundle

writes weights/compact.onnx anew; run it after every change of weights/compact.safetensors. ONNX permits tensors that
lie in another file, at an offset; a safetensors file holds them as ONNX wants them. So the weights are there once.
Tensors that the checkpoint stores as 16-bit floats go through a Cast, which onnxruntime computes once, when it opens
the model.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from omnidc.deploy.onnx import export_network
from omnidc.io.files import atomic_path
from omnidc.network.checkpoint import BUNDLED, load_network

SMALLEST = 1024  # bytes of a tensor that is worth a reference
NETWORK = "network."  # prefix of the exporter: `CompactExport` calls its part so
HALF = ".half"  # suffix of the 16-bit form of a tensor


def share_weights(
    model: Any,  # ModelProto, changed in place
    weights: Path,  # safetensors file; the model must be written beside it
) -> int:
    """Replace tensors that equal those of a checkpoint by references into it; return the bytes that this saves."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper
    from safetensors import safe_open

    places = _places(weights)
    saved = 0
    casts = []
    with safe_open(weights, framework="np") as file:
        for tensor in model.graph.initializer:
            name = tensor.name.removeprefix(NETWORK)
            if name not in places or tensor.data_type != TensorProto.FLOAT:
                continue
            stored, (first, last) = file.get_tensor(name), places[name]
            if numpy_helper.to_array(tensor).tobytes() != stored.astype(np.float32).tobytes():
                continue
            saved += len(tensor.raw_data)
            tensor.ClearField("raw_data")
            if stored.dtype == np.float16:
                tensor.data_type = TensorProto.FLOAT16
                casts.append(helper.make_node("Cast", [tensor.name + HALF], [tensor.name], to=TensorProto.FLOAT))
                tensor.name += HALF
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", weights.name), ("offset", first), ("length", last - first)):
                tensor.external_data.add(key=key, value=str(value))
    nodes = [*casts, *model.graph.node]  # each before those that read it
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return saved


def _places(weights: Path) -> dict[str, tuple[int, int]]:
    """Return the first byte and end of each larger tensor of floats, 32 or 16 bits, of a safetensors file."""
    with weights.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    del header["__metadata__"]
    places = {}
    for name, entry in header.items():
        first, last = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] in ("F32", "F16") and last - first >= SMALLEST:
            places[name] = (first, last)
    return places


def write_bundled(weights: Path = BUNDLED["compact"]) -> Path:
    """Export a checkpoint to an ONNX model beside it that shares its weights; return its path."""
    import onnx

    path = weights.with_suffix(".onnx")
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.onnx"
        export_network(load_network(weights), whole, report=print)
        model = onnx.load(str(whole))
    saved = share_weights(model, weights)
    with atomic_path(path) as temporary:
        temporary.write_bytes(model.SerializeToString())
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, and {saved / 1e6:.1f} MB in {weights.name}")
    return path


if __name__ == "__main__":
    write_bundled()
