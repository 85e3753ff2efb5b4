"""`omnidc live`: continuous depth from a camera, a video, a folder or a bag."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omnidc.cli.models import DeviceOption, ModelOption, RuntimeOption, load_model


def register(app: typer.Typer) -> None:
    app.command("live")(live)


def live(
    source: Annotated[str, typer.Argument(help="Camera number, video file, folder of images, or bag.")],
    sparse: Annotated[
        Path | None,
        typer.Argument(help="Folder of depth files, or .npy [frames, H, W]; cameras take a folder's newest file."),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", help="Folder of depth files, or a video (.mp4, .avi) of colored depth."),
    ] = None,
    depth_format: Annotated[str, typer.Option(help="Files of an output folder: npy, png (mm), exr.")] = "npy",
    serve: Annotated[int | None, typer.Option(metavar="PORT", help="Show it on a page at this local port.")] = None,
    intrinsics: Annotated[
        tuple[float, float, float, float] | None, typer.Option(metavar="FX FY CX CY", help="Camera in pixels.")
    ] = None,
    depth_scale: Annotated[
        str, typer.Option(help="What stored depth is divided by: auto, 1, 100, 256, 1000, 5000 …")
    ] = "auto",
    max_long_side: Annotated[int | None, typer.Option(help="Compute larger images at this size.")] = None,
    frames: Annotated[int | None, typer.Option(help="Stop after so many frames.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Frames that are completed at the same time; default: cores, 1 with torch."),
    ] = None,
    timing: Annotated[Path | None, typer.Option(help="Write the time of each frame by stage here (json).")] = None,
    model: ModelOption = None,
    device: DeviceOption = "auto",
    runtime: RuntimeOption = "auto",
) -> None:
    """Complete depth continuously; print frames per second, latency and the time by stage."""
    from omnidc.cli.complete import parse_depth_scale
    from omnidc.deploy.live import (
        FolderOutput,
        LiveOutput,
        PageOutput,
        VideoOutput,
        default_workers,
        live_frames,
        run_live,
        write_timing,
    )
    from omnidc.errors import ConfigError
    from omnidc.pipeline.options import CompleteOptions

    if depth_format not in ("npy", "png", "exr"):
        raise ConfigError(f"--depth-format is npy, png or exr, not {depth_format!r}.")
    options = CompleteOptions(max_long_side=max_long_side)
    completer = load_model(model, device, runtime, threads=None if workers == 1 else 1)
    workers = default_workers(completer) if workers is None else workers
    outputs: list[LiveOutput] = [
        VideoOutput(path) if path.suffix else FolderOutput(path, depth_format) for path in output or ()
    ]
    if serve is not None:
        page = PageOutput(serve)
        outputs.append(page)
        typer.echo(f"showing at {page.url}")
    stream = live_frames(source, sparse, intrinsics, parse_depth_scale(depth_scale))
    measured = run_live(stream, completer, outputs, typer.echo, options, max_frames=frames, workers=workers)
    if not measured.frames:
        raise ConfigError(f"{source} gave no frame.")
    typer.echo(
        f"{measured.frames} frames, {measured.rate():.1f} frames/s, latency {1000 * measured.latency():.0f} ms; "
        f"median by stage:\n{measured.chart()}"
    )
    if timing is not None:
        write_timing(timing, measured)
