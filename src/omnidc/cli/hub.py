"""`omnidc push`: a model to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("push")(push)


def push(
    checkpoint: Annotated[Path, typer.Argument(help="Checkpoint of omnidc (.safetensors).")],
    address: Annotated[str, typer.Argument(metavar="hf://OWNER/NAME", help="Where it goes; made if it is missing.")],
    onnx: Annotated[Path | None, typer.Option(help="Exported model that goes along.")] = None,
    card: Annotated[Path | None, typer.Option(help="Text of the model card; default: a short one.")] = None,
    license: Annotated[str, typer.Option(help="License, as the hub names it.")] = "apache-2.0",
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    message: Annotated[str, typer.Option("--message", help="Message of the commit.")] = "Upload an omnidc model",
) -> None:
    """Upload a model to the Hugging Face hub; `omnidc.load("hf://OWNER/NAME")` loads it."""
    from omnidc.deploy.hub import push as upload

    url = upload(checkpoint, address, onnx=onnx, card=card, license=license, private=private, message=message)
    typer.echo(f"pushed {checkpoint} to {address}: {url}")
