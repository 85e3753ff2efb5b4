"""`omnidc train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def train(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the run: checkpoints, logs, pictures.")],
    preset: Annotated[str | None, typer.Option(help="Settings to begin with: compact or paper.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file whose settings override the preset's.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=PATH, may be repeated. A NAME of `omnidc data list` picks that dataset's reader; "
            "any other name stands for shards or frames of `omnidc scenes`."
        ),
    ] = None,
    manifest: Annotated[
        Path | None, typer.Option(help="frames.json of a run, or a published one: train on exactly those frames.")
    ] = None,
    time_budget: Annotated[
        str | None, typer.Option(help="End after this much time (2h, 90m), with the schedule to match.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="section.key=value, may be repeated; overrides everything else.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out, also with other settings.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan of the run, measured, and stop.")] = False,
) -> None:
    """Train a network on rendered frames or public datasets. The same command again goes on where it stopped.

    On a CPU one process per core is started. Use torchrun for several GPUs or machines.
    """
    from omnidc.errors import ConfigError
    from omnidc.training.config import load_config, read_run
    from omnidc.training.launch import launch
    from omnidc.training.schedule import format_duration

    tables: dict[str, dict[str, object]] = {}
    sources: dict[str, object] = {}
    for item in data or []:
        name, equals, path = item.partition("=")
        if not equals or not name or not path:
            raise ConfigError(f"--data {item!r} cannot be read: write NAME=PATH.")
        if name in sources:
            raise ConfigError(f"--data gives the name {name!r} twice: each needs its own.")
        sources[name] = path
    if sources:
        tables["data"] = {"sources": sources}
    if manifest:
        tables.setdefault("data", {})["manifest"] = str(manifest)
    if time_budget:
        tables["schedule"] = {"time_budget": time_budget}
    before = read_run(out) if resume and not preset and not config else {}
    wanted = load_config(preset, config, settings or [], base=before, **tables)
    if dry_run:
        typer.echo(launch("plan", wanted, out).text())
        return
    summary = launch("train", wanted, out, resume=resume)
    best = "" if summary.best == float("inf") else f", best mean REL {summary.best:.4f}"
    loss = "" if summary.loss != summary.loss else f", loss {summary.loss:.4f}"  # NaN: the run had ended before
    typer.echo(
        f"{summary.step} steps in {format_duration(summary.elapsed)}{loss}{best}, "
        f"{summary.skipped} batches skipped; weights in {out / 'last.safetensors'}"
    )


def register(app: typer.Typer) -> None:
    app.command()(train)
