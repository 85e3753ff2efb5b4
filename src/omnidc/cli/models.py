"""Options of every command that runs a model, and loading it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from omnidc.pipeline.base import BaseCompleter

MODEL_HELP = '"compact" (bundled), "interpolate" (no network), a checkpoint or .onnx file, or hf://OWNER/NAME.'
ModelOption = Annotated[str | None, typer.Option("--model", "-m", help=MODEL_HELP)]
RUNTIME_HELP = '"auto" (onnx for .onnx files and on CPUs), "torch" or "onnx".'
DeviceOption = Annotated[str, typer.Option(help='"auto", "cpu", "cuda", "cuda:1", "mps" …')]

RuntimeOption = Annotated[Literal["auto", "torch", "onnx"], typer.Option(help=RUNTIME_HELP)]


def load_model(model: str | None, device: str, runtime: str = "auto", threads: int | None = None) -> BaseCompleter:
    """Load the model asked for; without a name the bundled one, or the integrator alone where there are no weights."""
    from omnidc.deploy.loading import default_model, load

    name = default_model() if model is None else model
    if model is None and name == "interpolate":
        typer.echo(
            "note: the weights of the compact network are not installed, so the integrator runs alone "
            "(--model interpolate): smooth depth through the points, blind to the photograph.",
            err=True,
        )
    return load(name, device, runtime, threads=threads)
