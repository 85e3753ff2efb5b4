"""The command line: one typer app, one small module per room.

A module of this package only declares commands; what a command needs it imports inside its function, so that
`omnidc --help` stays fast. Errors of the user's input leave here as one sentence and exit code 2.
"""

from __future__ import annotations

import importlib
import sys
from typing import Annotated

import typer

app = typer.Typer(
    name="omnidc",
    help="Dense metric depth from a photograph and a few depth measurements.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Each module has `register(app)`; the order is the order of `omnidc --help`.
ROOMS: tuple[str, ...] = ("complete", "sensors", "ros2", "web", "evaluate", "train", "scenes", "data", "convert")


def _print_version(value: bool) -> None:
    if value:
        from omnidc import __version__

        typer.echo(f"omnidc {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


for _room in ROOMS:
    importlib.import_module(f"omnidc.cli.{_room}").register(app)


def main() -> None:
    """Entry point of the `omnidc` script."""
    from omnidc.errors import OmnidcError

    try:
        app()
    except OmnidcError as error:
        typer.echo(f"omnidc: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("omnidc: interrupted.", err=True)
        sys.exit(130)
