"""`omnidc eval`: methods side by side on a protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("eval")(evaluate)


def evaluate(
    protocol: Annotated[
        str, typer.Option("--protocol", "-p", help="Which table; --protocol list shows them.")
    ] = "real",
    data: Annotated[Path | None, typer.Option("--data", "-d", help="Root folder of the data.")] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "-m",
            help="A baseline (linear, …), module:callable, a model's name or a checkpoint; repeat for several.",
        ),
    ] = None,
    patterns: Annotated[str, typer.Option(help="Only these sparse patterns, separated by commas.")] = "",
    only: Annotated[str, typer.Option(help="Only images whose name contains this.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for scores, tables, and a page with pictures.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep the scores that the output folder has.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables as Markdown.")] = False,
    pictures: Annotated[
        int, typer.Option(help="Pictures in the page per pattern and method, worst first; 0 = none, -1 = all.")
    ] = 3,
    released: Annotated[
        bool, typer.Option("--released", help="Metrics exactly as in the released OMNI-DC evaluation.")
    ] = False,
    published: Annotated[
        str, typer.Option("--published", help="Only print what is published for a table, such as table2 or table-e.")
    ] = "",
) -> None:
    """Score depth completion methods on a protocol and print its table, with what others have published."""
    from omnidc.errors import ConfigError
    from omnidc.evaluation.catalog import PROTOCOLS, find_protocol, find_table

    if published:
        from omnidc.evaluation.published import read_table, table_names
        from omnidc.evaluation.report import published_notes, published_tables, to_markdown, to_text

        rows = read_table(find_table(published))
        if not rows:
            raise ConfigError(f"Nothing is published for {published!r}: choose one of {', '.join(table_names())}.")
        form = to_markdown if markdown else to_text
        typer.echo("\n\n".join([published_notes(rows).strip(), *map(form, published_tables(published, rows))]))
        return
    if protocol == "list":
        for entry in PROTOCOLS.values():
            typer.echo(f"{entry.name:14s} {entry.title}")
        return
    if resume and output is None:
        raise ConfigError("--resume needs the folder of the earlier run: give it with -o FOLDER.")

    from omnidc.evaluation.report import (
        notes,
        tables,
        to_markdown,
        to_text,
        write_csv,
        write_html,
        write_json,
        write_markdown,
    )
    from omnidc.evaluation.runner import evaluate as run

    results = run(
        protocol,
        data,
        method or ["linear"],
        patterns=[name.strip() for name in patterns.split(",")] if patterns else None,
        only=only,
        folder=output,
        resume=resume,
        pictures=pictures != 0,
        released=released,
    )
    table = find_protocol(protocol)
    missing = table.missing(data) if data is not None else []
    if missing:
        typer.echo(f"Not in {data}, so not in these tables: {', '.join(missing)}.", err=True)
    for sentence in table.counts(data) if data is not None else []:
        typer.echo(sentence, err=True)
    form = to_markdown if markdown else to_text
    typer.echo("\n\n".join([notes(results), *map(form, tables(results))]))
    if output is not None:
        write_csv(results, output / f"{table.name}.csv")
        write_json(results, output / f"{table.name}.json")
        write_markdown(results, output / f"{table.name}.md")
        write_html(results, output / f"{table.name}.html", None if pictures < 0 else pictures)
        files = ", ".join(f"{table.name}.{ending}" for ending in ("csv", "json", "md", "html"))
        typer.echo(f"\nWritten to {output}: {files}", err=True)
