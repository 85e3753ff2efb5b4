"""Files of weights: our own format, and the ones the authors of OMNI-DC released.

Ours is a safetensors file whose metadata hold the network's configuration; it is read strictly. The authors' `.pt`
files and their safetensors file on Hugging Face have the same tensor names as our paper-size network, so that no table
of names is needed: what the file lacks or has in excess is what a strict load finds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from omnidc.errors import CheckpointError, ConfigError
from omnidc.io.files import atomic_path
from omnidc.io.untrusted import untrusted
from omnidc.network.compact import CompactConfig, CompactNetwork
from omnidc.network.interface import DepthNetwork
from omnidc.network.paper.config import PaperConfig
from omnidc.network.paper.model import PaperNetwork
from omnidc.network.paper.prior import DepthAnything
from omnidc.network.paper.released import PRIOR_PREFIX, config_of_released, read_pickle

# The "architecture" of a configuration: its dataclass (with to_dict and from_dict) and its network. A network keeps its
# configuration as `.config` and has no tensors outside its state dict.
ARCHITECTURES: dict[str, tuple[type[Any], type[Any]]] = {
    "compact-2": (CompactConfig, CompactNetwork),
    "paper": (PaperConfig, PaperNetwork),
}
RETIRED = "compact"  # architecture of the compact network of 0.1

# Names that stand for files within the package.
WEIGHTS = Path(__file__).parents[1] / "weights"
BUNDLED = {"compact": WEIGHTS / "compact.safetensors"}

FORMAT = "omnidc"


def load_network(name_or_path: str | os.PathLike[str], device: str | torch.device = "cpu") -> DepthNetwork:
    """Load the network of a file, or of a name in `BUNDLED`, ready to run (eval mode).

    A released v1.1 model gets Depth Anything V2 as its prior, which is fetched when first used.
    """
    path = resolve(name_or_path)
    tensors, metadata, options = read(path)
    if FORMAT in metadata:
        config, network_class = config_of(path, metadata)
    else:
        config, network_class = config_of_released(path, tensors, options), PaperNetwork
        tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(PRIOR_PREFIX)}
    # On the meta device, since random weights would only be thrown away; sizes are whatever the file says.
    known = "a network that this version of omnidc knows"
    with untrusted(path, known, "update omnidc", CheckpointError), torch.device("meta"):
        network: DepthNetwork = network_class(config)
    load_strict(network, tensors, path)
    if isinstance(network, PaperNetwork) and network.config.prior:
        network.prior = DepthAnything(device=device)
    return network.to(device).eval()


def save_network(
    network: DepthNetwork,
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    half: bool = False,
) -> None:
    """Write a network in our format. `metadata`: anything worth keeping with it, such as how it was trained.

    half: store matrices and filters as 16-bit floats; loading makes 32-bit ones of them.
    """
    if getattr(network, "optimized", False):
        raise ConfigError("An optimized network cannot be saved; save it before calling for_inference().")
    config: Any = network.config
    texts = {**(metadata or {}), FORMAT: "1", "config": json.dumps(config.to_dict())}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    if half:
        tensors = {name: tensor.half() if tensor.ndim >= 2 else tensor for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        # save_file would leave the file readable by its owner alone.
        temporary.write_bytes(save(tensors, texts))


def resolve(name_or_path: str | os.PathLike[str]) -> Path:
    """Return the file of a bundled name or of a path; raise `CheckpointError` where there is none."""
    path = BUNDLED.get(os.fspath(name_or_path))
    if path is not None and not path.is_file():
        raise CheckpointError(
            f"The bundled model {name_or_path!r} is missing from this installation ({path}); install omnidc again."
        )
    path = path or Path(name_or_path)
    if not path.is_file():
        raise CheckpointError(
            f"There is no checkpoint {path}; give the path of a file, or one of the names {', '.join(BUNDLED)}."
        )
    return path


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, str], argparse.Namespace | None]:
    """Return tensors, metadata (safetensors) and options (the released code's .pt)."""
    kind = "a safetensors file or PyTorch checkpoint"
    with untrusted(path, kind, "download it again", CheckpointError), path.open("rb") as file:
        if file.read(4) == b"PK\x03\x04":
            tensors, options = read_pickle(path)
            return tensors, {}, options
    with untrusted(path, kind, "download it again", CheckpointError), safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}, None  # noqa: SIM118


def config_of(path: Path, metadata: Mapping[str, str]) -> tuple[Any, type[Any]]:
    """Return configuration and class of a file of ours."""
    try:
        values = json.loads(metadata["config"])
        retired = values["architecture"] == RETIRED
        if not retired:
            config_class, network_class = ARCHITECTURES[values["architecture"]]
            config = config_class.from_dict(values)
            _check_types(config, config_class())
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(
            f"{path} describes a network that this version of omnidc does not know ({reason}); update omnidc."
        ) from error
    if retired:
        raise CheckpointError(
            f"{path} is a model of omnidc 0.1, which this version does not run: use the bundled model, or omnidc 0.1."
        )
    return config, network_class


def _check_types(config: Any, default: Any) -> None:
    """Refuse values of other types than the default's: many would fail only when the network runs."""
    for name, usual in vars(default).items():
        value = getattr(config, name)
        if isinstance(usual, tuple):
            fits = isinstance(value, tuple) and [type(one) for one in value] == [type(one) for one in usual]
        elif usual is None and value is None:
            fits = True
        elif usual is None or isinstance(usual, float):  # None stands for a number that follows from the others
            fits = type(value) in (float, int) and math.isfinite(value)
        else:
            fits = type(value) is type(usual)
        if not fits:
            raise ValueError(f"{name} = {str(value)[:40]}")


def load_strict(network: DepthNetwork, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Put tensors into a network on the meta device; names and shapes must match exactly."""
    expected = network.state_dict()
    missing = [name for name in expected if name not in tensors]
    excess = [name for name in tensors if name not in expected]
    if missing or excess:
        parts = [f"lacks {len(missing)} ({summarize(missing)})"] if missing else []
        parts += [f"has {len(excess)} unknown ones ({summarize(excess)})"] if excess else []
        raise CheckpointError(
            f"{path} does not fit its network: of {len(expected)} tensors it {' and '.join(parts)}; "
            "it is incomplete or of another model."
        )
    wrong = [
        f"{name} {list(tensors[name].shape)} instead of {list(like.shape)}"
        for name, like in expected.items()
        if tensors[name].shape != like.shape
    ]
    if wrong:
        raise CheckpointError(f"{path} does not fit its network: it has {summarize(wrong)}.")
    network.load_state_dict(
        {name: tensors[name].to(like.dtype, copy=True) for name, like in expected.items()}, assign=True
    )


def summarize(names: list[str]) -> str:
    """Join names for a message; of more than fifty, as in a file of another model, only the first ten."""
    return ", ".join(names if len(names) <= 50 else [*names[:10], f"… {len(names) - 10} more"])
