"""`omnidc scenes`: render our own world, look at it, measure it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

ASSETS_HELP = "Folder of asset packages (see `omnidc scenes setup`); without it everything is made from noise."
COPYLEFT_HELP = "Use textures under GPL and CC-BY-SA too."


def register(app: typer.Typer) -> None:
    """Add the group `scenes`."""
    group = typer.Typer(name="scenes", help="Render training scenes with exact depth.", no_args_is_help=True)
    group.command("render")(render)
    group.command("setup")(setup)
    group.command("preview")(preview)
    group.command("stats")(stats)
    app.add_typer(group)


def parse_size(text: str) -> tuple[int, int]:
    """Return the width and height of "320x240"."""
    from omnidc.errors import ConfigError

    match = re.fullmatch(r"(\d+)[x×](\d+)", text)
    if not match:
        raise ConfigError(f"The size must be WIDTHxHEIGHT such as 320x240, not {text!r}.")
    return int(match[1]), int(match[2])


def render(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the shards; an earlier run is continued.")],
    count: Annotated[int, typer.Option("-n", "--count", help="Frames the folder shall hold.")] = 1000,
    size: Annotated[str, typer.Option("--size", help="WIDTHxHEIGHT of a frame.")] = "320x240",
    seed: Annotated[int, typer.Option("--seed", help="Scenes of another seed are other scenes.")] = 0,
    workers: Annotated[int, typer.Option("--workers", help="Processes, about 1 GB each; one per free core.")] = 1,
    views: Annotated[int, typer.Option("--views", help="Views of each scene.")] = 3,
    samples: Annotated[int, typer.Option("--samples", help="Light paths per pixel before denoising.")] = 4,
    scenes_per_shard: Annotated[
        int | None, typer.Option("--scenes-per-shard", help="Scenes in one file; default 24, with --multiview 1.")
    ] = None,
    world: Annotated[
        list[str] | None, typer.Option("--worlds", help="Only this world (may be given several times or with commas).")
    ] = None,
    assets: Annotated[Path | None, typer.Option("--assets", help=ASSETS_HELP)] = None,
    with_copyleft: Annotated[bool, typer.Option("--with-copyleft", help=COPYLEFT_HELP)] = False,
    wide_driving: Annotated[
        float, typer.Option("--wide-driving", help="Share of driving views in the shape of 1242x375, as many pixels.")
    ] = 0.5,
    multiview: Annotated[
        float,
        typer.Option(
            "--multiview",
            help="Overlapping views of each scene with one lens and one exposure: the eyes' spread around an anchor "
            "view as a share of its depth, such as 0.35 (much overlap) or 0.8 (little).",
        ),
    ] = 0.0,
) -> None:
    """Render frames with exact depth, normals, sky and intrinsics into shards. Ctrl-C stops; the same call goes on."""
    import signal

    from tqdm import tqdm

    from omnidc.scenes.generate import Run, check_bpy, describe_assets
    from omnidc.scenes.manifest import Settings
    from omnidc.scenes.worlds import check_worlds

    check_bpy()
    width, height = parse_size(size)
    names = [name for given in world or [] for name in given.split(",") if name]
    settings = Settings(
        folder=str(output.resolve()),
        seed=seed,
        width=width,
        height=height,
        views=views,
        samples=samples,
        scenes_per_shard=scenes_per_shard if scenes_per_shard is not None else (1 if multiview else 24),
        worlds=check_worlds(names) if names else (),
        assets=None if assets is None else str(assets.resolve()),
        copyleft=with_copyleft,
        wide_driving=wide_driving,
        multiview=multiview,
    )
    sources = describe_assets(settings)
    with tqdm(total=count, unit="frame", smoothing=0.05) as bar:

        def report(event: dict[str, Any]) -> None:
            if event["event"] == "frame":
                bar.update()
            elif event["event"] == "retry":
                bar.update(-event["frames"])
                bar.write(f"The worker of shard {event['shard']} died ({event['why']}); it is rendered again.")
            elif event["event"] == "failed":
                bar.write(f"Scene {event['scene']} failed and is left out:\n{event['why']}")

        run = Run(settings, count, workers, report)
        run.manifest.sources = sources
        bar.update(run.frames)
        # `kill` ends a run in the background as Ctrl-C does one in a terminal: workers are told to end
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        run.go()
    worlds: dict[str, list[float]] = {}
    for about in run.manifest.shards.values():
        for name, part in about.get("worlds", {}).items():
            total = worlds.setdefault(name, [0, 0.0])
            total[0] += part["frames"]
            total[1] += part["cpu_seconds"]
    for name, (frames, seconds) in sorted(worlds.items()):
        typer.echo(f"{name:<10}{int(frames):>7} frames {seconds / max(frames, 1):6.2f} CPU-seconds each")
    typer.echo(f"{run.frames} frames in {len(run.manifest.shards)} shards in {output}")


def setup(
    assets: Annotated[Path | None, typer.Option("--assets", help="Folder of asset packages.")] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch what is missing with apt-get, pip and npm.")
    ] = False,
    with_copyleft: Annotated[bool, typer.Option("--with-copyleft", help=COPYLEFT_HELP)] = False,
) -> None:
    """Say which asset packages are there, which are missing and how to get them; or get them."""
    import importlib.util

    from omnidc.errors import ConfigError, OmnidcError
    from omnidc.scenes.acquire import acquire_missing, advice

    failed: list[str] = []
    if download:
        if assets is None:
            raise ConfigError("Say where the assets shall go: omnidc scenes setup --assets DIR --download.")
        failed = acquire_missing(assets, with_copyleft, typer.echo)
    for line in advice(assets, with_copyleft):
        typer.echo(line)
    if importlib.util.find_spec("bpy") is None:
        typer.echo('Blender is missing: pip install "omnidc[scenes]" (needs Python 3.11).')
    if failed:
        raise OmnidcError(f"Could not get {', '.join(failed)} (why, see above); rendering works without, or try again.")


def preview(
    folder: Annotated[Path, typer.Argument(help="Folder of shards, or one shard.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Picture to write.")] = Path("sheet.png"),
    columns: Annotated[int, typer.Option("--columns")] = 8,
    rows: Annotated[int, typer.Option("--rows")] = 4,
    seed: Annotated[int, typer.Option("--seed", help="Another seed draws other frames.")] = 0,
    world: Annotated[str | None, typer.Option("--world", help="Only frames of this world.")] = None,
) -> None:
    """Write a contact sheet: photographs above their depth."""
    from omnidc.scenes.preview import write_sheet

    write_sheet(folder, output, columns, rows, seed, world)
    typer.echo(f"{output}")


def stats(
    folder: Annotated[Path, typer.Argument(help="Folder of shards, or one shard.")],
    real: Annotated[Path | None, typer.Option("--real", help="Folder of .npz (rgb, depth) to compare with.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="At most so many frames of each world.")] = 200,
) -> None:
    """Print depth histogram, share of pixels near depth edges and share of bare pixels, by world."""
    from omnidc.datasets.shards import open_frames
    from omnidc.scenes.statistics import measure, real_frames, summarize, table

    frames = open_frames(folder)
    groups: dict[str, list[int]] = {}
    for index, key in enumerate(frames.keys):
        groups.setdefault(re.split(r"[-_]", key)[0], []).append(index)
    rows, everything = [], []
    for name, members in sorted(groups.items()):
        step = max(1, len(members) // limit)
        figures = []
        for index in members[::step][:limit]:
            frame = frames[index]
            assert frame.depth is not None
            figures.append(measure(frame, frame.depth == 0))
        rows.append((name, summarize(figures)))
        everything += figures
    rows.append(("all rendered", summarize(everything)))
    if real is not None:
        rows.append(("real", summarize([measure(frame) for frame in real_frames(real)])))
    typer.echo(table(rows))
