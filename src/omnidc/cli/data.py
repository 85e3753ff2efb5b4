"""`omnidc data`: which datasets can be read, and whether a copy on disk is what its reader expects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def register(app: typer.Typer) -> None:
    """Add the group `data`."""
    group = typer.Typer(name="data", help="List and check datasets.", no_args_is_help=True)
    group.command("list")(list_datasets)
    group.command("check")(check_dataset)
    app.add_typer(group)


def list_datasets() -> None:
    """Print the datasets that can be read (docs/datasets.md says where to get them)."""
    from omnidc.datasets import DATASETS

    rows = [("NAME", "FOR", "WHAT", "LICENSE")]
    rows += [(name, d.split, d.description, d.license) for name, d in DATASETS.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def check_dataset(
    name: Annotated[str, typer.Argument(help="A name from `omnidc data list`.")],
    root: Annotated[Path, typer.Argument(help="The dataset's folder.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write RGB | sparse | depth of the frame to this picture.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("-O", "--option", help="Option of the reader, for example -O lines=16.")
    ] = None,
    index: Annotated[int, typer.Option("-i", "--index", help="Which frame to look at, counted from 0.")] = 0,
    every: Annotated[bool, typer.Option("--all", help="Read every frame, to find the broken ones.")] = False,
) -> None:
    """Count the frames of a dataset, read one and describe it."""
    from omnidc.datasets import open_dataset
    from omnidc.datasets.check import describe, picture, write_picture
    from omnidc.errors import ConfigError

    frames = open_dataset(name, root, **parse_options(option or []))
    if not 0 <= index < len(frames):
        raise ConfigError(f"There is no frame {index}: the dataset {name!r} in {root} has {len(frames)}.")
    typer.echo(f"dataset    {name}: {len(frames)} frame{'s' if len(frames) != 1 else ''} in {root}")
    frame = frames[index]
    for line in describe(frame):
        typer.echo(line)
    if output is not None:
        write_picture(output, picture(frame))
        typer.echo(f"picture    {output}")
    if every:
        read_all(frames)


def read_all(frames: Any) -> None:
    """Read every frame; name the broken ones and leave with exit code 2 if there are any."""
    from tqdm import tqdm

    from omnidc.errors import OmnidcError

    broken = 0
    for index in tqdm(range(len(frames)), unit="frame", disable=None):
        try:
            frames[index]
        except OmnidcError as error:
            broken += 1
            tqdm.write(f"frame {index}: {error}")
    typer.echo(f"read       {len(frames) - broken} of {len(frames)} frames are good")
    if broken:
        raise typer.Exit(2)


def parse_options(words: list[str]) -> dict[str, Any]:
    """Parse `["lines=16", "part=indoor"]` to keyword arguments; values are Python literals where they can be."""
    import ast

    from omnidc.errors import ConfigError

    options: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise ConfigError(f"-O {word} is not of the form NAME=VALUE.")
        try:
            # "true" and "false" as everyone writes them; Python's spelling works too.
            options[key] = ast.literal_eval(text.capitalize() if text in ("true", "false") else text)
        except (ValueError, SyntaxError):
            options[key] = text
    return options
