"""The command line: one typer app, one small module per group of commands.

A module of this package only declares commands; what a command needs it imports inside its function, so that
`omnidc --help` stays fast. Errors of the user's input leave here as one sentence and exit code 2.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

# Options that were renamed; the old names work for one release, hidden from the help.
RENAMED_OPTIONS = {
    "--far": "--clip-depth",
    "--max-depth": "--max-input-depth",
    "--keep-edges": "--keep-flying-pixels",
    "--check": "--overlay",
    "--every": "--frame-step",
    "--footprint": "--occlusion-window",
    "--tolerance": "--max-time-diff",
    "--to-bag": "--write-bag",
    "--confidence": "--format=confidence",
    "--turntable": "--format=turntable",
    "--camera": "--kitti-camera",
}


class Commands(TyperGroup):
    """The group of all commands, which translates old option names."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # click's types, which some typers bring along
        name, command, rest = super().resolve_command(ctx, args)
        if command is None:
            return name, command, rest
        known = {option for parameter in command.params for option in parameter.opts}
        return name, command, [_current_option(word, known) for word in rest]


def _current_option(word: str, known: set[str]) -> str:
    """Return the present name of a renamed option, with its "=value"; any other word as it is."""
    option, equals, value = word.partition("=")
    new = RENAMED_OPTIONS.get(option)
    if new is None or new.partition("=")[0] not in known or option in known:
        return word
    typer.echo(f"note: {option} is now {new}.", err=True)
    return f"{new}{equals}{value}"


DEBUG = "OMNIDC_DEBUG"  # environment variable: errors of the input with their tracebacks

app = typer.Typer(
    name="omnidc",
    cls=Commands,
    help="Dense metric depth from a photograph and a few depth measurements.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Each module has `register(app)`; the order is the order of `omnidc --help`.
COMMANDS: tuple[str, ...] = (
    "complete",
    "sensors",
    "doctor",
    "splat",
    "live",
    "ros2",
    "web",
    "evaluate",
    "train",
    "scenes",
    "data",
    "convert",
    "export",
    "hub",
)


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
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    if debug:
        os.environ[DEBUG] = "1"


for _module in COMMANDS:
    importlib.import_module(f"omnidc.cli.{_module}").register(app)


def main() -> None:
    """Run the `omnidc` script."""
    from omnidc.errors import OmnidcError

    try:
        app()
    except OmnidcError as error:
        if os.environ.get(DEBUG):
            traceback.print_exc()
        typer.echo(f"omnidc: {error}", err=True)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "safetensors"):
            raise
        typer.echo('omnidc: This needs the package torch: install it with  pip install "omnidc[torch]".', err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("omnidc: interrupted.", err=True)
        sys.exit(130)
