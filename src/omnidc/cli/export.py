"""`omnidc export`: a model as one ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omnidc.cli.models import ModelOption


def register(app: typer.Typer) -> None:
    app.command("export")(export)


def export(
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, ending in .onnx.")] = Path(
        "model.onnx"
    ),
    model: ModelOption = None,
    size: Annotated[str | None, typer.Option(metavar="HxW", help="The only size it will take; default: any.")] = None,
    iterations: Annotated[int | None, typer.Option(help="Iterations of the solver; default: the model's.")] = None,
) -> None:
    """Export a model to ONNX: run it without torch, in the browser, or from other languages."""
    from omnidc.errors import ConfigError, require_torch

    require_torch("Exporting to ONNX", extra="onnx")
    from omnidc.deploy.onnx import export_network
    from omnidc.pipeline import load

    if output.suffix.lower() != ".onnx":
        raise ConfigError(f"The exported file ends in .onnx, unlike {output}.")
    fixed = None
    if size is not None:
        words = size.lower().split("x")
        if len(words) != 2 or not all(word.isdecimal() for word in words):
            raise ConfigError(f"--size is HEIGHTxWIDTH such as 480x640, not {size!r}.")
        fixed = (int(words[0]), int(words[1]))
    network = load(model or "compact", "cpu").network
    done = export_network(network, output, iterations, fixed, lambda text: typer.echo(text, err=True))
    typer.echo(f"wrote {done.path}: {done.nodes} nodes, {done.megabytes:.1f} MB, in {done.seconds:.0f} s")
