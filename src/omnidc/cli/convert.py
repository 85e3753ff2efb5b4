"""`omnidc convert`: the authors' checkpoints to our format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("convert")(convert)


def convert(
    file: Annotated[Path, typer.Argument(help="A released .pt or model.safetensors of OMNI-DC.", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.", show_default=False)],
) -> None:
    """Convert a released OMNI-DC checkpoint to omnidc's format: safetensors, with its configuration inside."""
    from omnidc.errors import ConfigError, require_torch

    require_torch("Converting a checkpoint")
    from omnidc.network.checkpoint import load_network, save_network

    if output.suffix != ".safetensors":
        raise ConfigError(f"Our format is safetensors: let the output end in .safetensors, not {output.name!r}.")
    network = load_network(str(file))
    save_network(network, output, {"source": file.name})
    parameters = sum(parameter.numel() for parameter in network.parameters())
    typer.echo(f"{output}: {parameters / 1e6:.2f} M parameters, {network.config}")
    if getattr(network.config, "prior", False):
        typer.echo(
            "Depth Anything V2 was left out: omnidc fetches it from Hugging Face when it runs this model "
            '(pip install "omnidc[prior]"). Its V2-Large weights are for non-commercial use only (CC BY-NC 4.0).'
        )
