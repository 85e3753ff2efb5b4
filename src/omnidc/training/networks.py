"""From a name in the configuration to a network, and from a trained network to a file that users load."""

from __future__ import annotations

import copy
import importlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import save

from omnidc.errors import CheckpointError, ConfigError
from omnidc.io.files import atomic_path
from omnidc.network.checkpoint import load_network, save_network
from omnidc.network.compact import CompactConfig, CompactNetwork
from omnidc.network.efficientnet import EfficientNetLite0
from omnidc.network.interface import DepthNetwork
from omnidc.network.paper.config import PaperConfig
from omnidc.network.paper.model import PaperNetwork
from omnidc.training.config import ExportConfig, NetworkConfig
from omnidc.training.encoder import resolve_encoder

NAMES = ("compact", "paper")


def build_network(config: NetworkConfig) -> DepthNetwork:
    """Build the configured network with its own initialization; MODULE:CALLABLE is called with the options."""
    options: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in config.options.items()
    }
    try:
        if config.name == "compact":
            return CompactNetwork(CompactConfig(**options))
        if config.name == "paper":
            return PaperNetwork(PaperConfig(**options))
        module, colon, attribute = config.name.partition(":")
        if not colon:
            choices = ", ".join(NAMES)
            raise ConfigError(f"There is no network {config.name!r}: choose one of {choices}, or give MODULE:CLASS.")
        network = getattr(importlib.import_module(module), attribute)(**options)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"The network {config.name!r} cannot be loaded: {error}.") from error
    except TypeError as error:
        raise ConfigError(f"The network {config.name!r} does not take these options: {error}.") from error
    if not isinstance(network, DepthNetwork):
        raise ConfigError(f"{config.name!r} gives no DepthNetwork (see omnidc.network.interface).")
    return network


def initialize(network: DepthNetwork, config: NetworkConfig) -> None:
    """Load the weights to start from: a whole checkpoint, or ImageNet's for the encoder."""
    if config.encoder:
        load = getattr(getattr(network, "encoder", None), "load_imagenet", None)
        if load is None:
            raise ConfigError(
                f"The network {config.name!r} has no encoder with ImageNet weights: unset network.encoder."
            )
        load(resolve_encoder(config.encoder, config.encoder_sha256))
    elif not config.init_checkpoint and hasattr(getattr(network, "encoder", None), "load_imagenet"):
        warnings.warn("The encoder starts from random weights: network.encoder is empty.", stacklevel=2)
    if config.init_checkpoint:
        given = load_network(Path(config.init_checkpoint))
        slopes = [getattr(getattr(one, "config", None), "slope", None) for one in (given, network)]
        if slopes[0] != slopes[1]:  # the tensors would fit all the same
            raise CheckpointError(
                f"{config.init_checkpoint} was trained with a slope of {slopes[0]} below 0, the configuration has "
                f"{slopes[1]}: add --set network.options.slope={slopes[0]}."
            )
        try:
            network.load_state_dict(given.state_dict())
        except RuntimeError as error:
            raise CheckpointError(
                f"{config.init_checkpoint} holds another network than the configuration describes."
            ) from error


def freeze(network: DepthNetwork, prefixes: Sequence[str]) -> None:
    """Train all parameters but those whose names begin with one of `prefixes`."""
    names = dict(network.named_parameters())
    for prefix in prefixes:
        if not any(name.startswith(prefix) for name in names):
            raise ConfigError(f"network.freeze: the network has no parameter that begins with {prefix!r}.")
    for name, parameter in names.items():
        parameter.requires_grad_(not name.startswith(tuple(prefixes)))


def set_iterations(
    network: DepthNetwork,
    iterations: int,  # 0 = as many as `original` has
    original: DepthNetwork,
) -> None:
    """Set the iterations of a network's solver: few save time where crops are small."""
    if not iterations:
        if hasattr(original, "config"):
            network.config = original.config
        return
    if not hasattr(getattr(original, "config", None), "iterations"):
        raise ConfigError("network.iterations needs a network whose solver makes a fixed number of them: set it to 0.")
    network.config = replace(original.config, iterations=iterations)


def set_style_noise(network: DepthNetwork, noise: float) -> None:
    """Perturb the early features of a network's encoder while it trains; see `perturb_style`."""
    encoder = getattr(network, "encoder", None)
    if isinstance(encoder, EfficientNetLite0):
        encoder.style_noise = noise
    elif noise:
        raise ConfigError("network.style_noise needs the compact network's encoder: set it to 0.")


def check_export(network: DepthNetwork, options: ExportConfig) -> None:
    """Refuse options of the export that a network does not have."""
    if options.laplace_factor != 1 and not isinstance(network, CompactNetwork):
        raise ConfigError("export.laplace_factor needs the compact network: set it to 1.")
    if options.half and not isinstance(network, (CompactNetwork, PaperNetwork)):
        raise ConfigError("export.half needs a network of this package: set it to false.")


def export(
    network: DepthNetwork,
    config: NetworkConfig,
    path: Path,
    about: dict[str, Any],
    options: ExportConfig | None = None,
) -> None:
    """Write a network as users load it, with `about` (how it was trained) in its metadata.

    One from outside the package is stored as bare weights with its name.
    """
    options = options or ExportConfig()
    check_export(network, options)
    if isinstance(network, CompactNetwork) and options.laplace_factor != 1:
        network = copy.deepcopy(network)
        network.scale_laplace(options.laplace_factor)
    training = {"training": json.dumps(about)}
    with atomic_path(path) as temporary:
        if config.name in NAMES:
            save_network(network, temporary, training, half=options.half)
            data = temporary.read_bytes()
        else:
            tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in network.state_dict().items()}
            data = save(tensors, {**training, "network": config.name, "options": json.dumps(config.options)})
        temporary.write_bytes(sort_header(data))


def sort_header(data: bytes) -> bytes:
    """Return a safetensors file with a sorted header: the library's order of metadata changes from call to call."""
    size = int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]
