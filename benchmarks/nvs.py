"""Novel views with depth supervision: the paper's Table 6 on small rendered scenes. Resumable.

    python benchmarks/nvs.py run SCENES… --results results.jsonl [--regime ample|sparse|real] [--arms …] [--seeds 0 1 2]
    python benchmarks/nvs.py table results.jsonl [--json docs/results]
    python benchmarks/nvs.py list results.jsonl

A scene is a folder of `omnidc scenes render --multiview`, or, with `--regime real`, a folder with images/ and a COLMAP
model (of ETH3D: a scene's images/ and dslr_calibration_undistorted/ as sparse/), which has no true depth. Every run
appends one JSON line; runs that are in the file are skipped, so that the same command goes on where it stopped.

`table` prints Markdown: mean ± deviation of each arm over scenes and seeds, and the paired difference to the arm
without depth with a 95 % interval (t distribution). Seeds of one scene are not independent, so they are averaged first
and the interval is over scenes; with one scene it is over its seeds and says nothing about other scenes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from scipy import stats

import omnidc
from cells import emit
from consistent_depth import consistent_views
from omnidc.datasets.shards import Shards
from omnidc.evaluation.baselines.interpolation import linear
from omnidc.io.images import write_picture
from omnidc.sensors.colmap import Filters, open_model
from omnidc.splatting.camera import Camera
from omnidc.splatting.densify import DensifyOptions, split_to
from omnidc.splatting.experiment import RenderedView, evaluate, mean_metrics, split_views
from omnidc.splatting.gaussians import from_points
from omnidc.splatting.rasterizer import load_rasterizer
from omnidc.splatting.reconstruction import bare_view, load_reconstruction
from omnidc.splatting.start import ColoredPoints, dense_points
from omnidc.splatting.trainer import SplatTrainer, TrainOptions
from omnidc.splatting.view import SplatView, scene_extent
from omnidc.viz.colormap import Scale, colorize
from simulated_sfm import SparseModel, simulate

# arm: source of depth, start from the depth's points too
ARMS = {
    "none": ("none", False),
    "sparse": ("sparse", False),
    "linear": ("linear", False),
    "omnidc": ("omnidc", False),
    "omnidc+points": ("omnidc", True),
    "true": ("true", False),
}
HOLDOUT = {"ample": 5, "sparse": 3, "real": 8}  # every n-th view is held out
REAL_SIZE = 160  # longer side of real photographs, pixels
START_SHARE = 0.5  # of the cap; all arms start with as many Gaussians, so that they have as many at every step
MAX_DEPTH = {"street": 40.0}  # meters; truth beyond is left out of the depth errors
INDOOR_MAX_DEPTH = 10.0
CONSISTENT = False  # whether dense depth is averaged over views before training
OPTIONS = TrainOptions(steps=1000, sh_degree=1, densify=DensifyOptions(cap=4000))


@dataclasses.dataclass(frozen=True)
class Scene:
    """Views of one scene, split, with what SfM knows of the training views."""

    name: str
    train: list[SplatView]
    test: list[SplatView]
    model: SparseModel
    max_depth: float


def load_project(folder: Path) -> Scene:
    """Photographs with a COLMAP model; the points that a photograph observes are its sparse depth."""
    model = open_model(folder, folder / "images", Filters(min_track=2, observed_only=True))
    train, test = split_views(model.names(), HOLDOUT["real"], None)
    scene = load_reconstruction(model, REAL_SIZE)
    sparse = [scene.frames[k].measurements() for k in train]
    views = [bare_view(frame) for frame in scene.frames]
    return Scene(
        folder.name, [views[k] for k in train], [views[k] for k in test], SparseModel(scene.cloud, sparse), np.inf
    )


def load_views(folder: Path) -> tuple[list[SplatView], str]:
    """All views of a rendered scene with their true depth and sky, and its world."""
    frames = Shards(folder)
    views = []
    for k in range(len(frames)):
        frame = frames[k]
        assert frame.depth is not None
        assert frame.intrinsics is not None
        pose = np.array(frames.meta(k)["pose"])
        camera = Camera.from_pose(frame.intrinsics, pose, frame.depth.shape)
        views.append(SplatView(frames.keys[k], camera, frame.image, gt_depth=frame.depth, sky=frame.sky))
    return views, frames.meta(0)["world"]


def load_scene(folder: Path, regime: str) -> Scene:
    if regime == "real":
        return load_project(folder)
    views, world = load_views(folder)
    # Held-out views begin at the third, so that the anchor view is for training.
    test = [view for k, view in enumerate(views) if k % HOLDOUT[regime] == 2]
    train = [view for k, view in enumerate(views) if k % HOLDOUT[regime] != 2]
    return Scene(folder.name, train, test, simulate(train), MAX_DEPTH.get(world, INDOOR_MAX_DEPTH))


def supervised(scene: Scene, source: str, completer: Any, consistent: bool) -> list[SplatView]:
    """The training views with the depth of an arm. The sky mask is the renderer's, for all arms alike."""
    views = []
    for view, sparse in zip(scene.train, scene.model.sparse):
        depth, uncertainty = None, None
        if source == "sparse":
            depth = sparse
        elif source == "true":
            depth = view.gt_depth
        elif (sparse > 0).any() and source == "linear":
            depth = linear(view.image, sparse)
        elif (sparse > 0).any() and source == "omnidc":
            result = completer.complete(view.image, sparse, view.camera.intrinsics)
            depth, uncertainty = result.depth, result.uncertainty
        views.append(dataclasses.replace(view, depth=depth, uncertainty=uncertainty))
    return consistent_views(views) if consistent and source in ("linear", "omnidc") else views


def write_views(folder: Path, name: str, views: list[SplatView], results: list[RenderedView]) -> None:
    """One picture a run, a row for each held-out view: photograph, render, true depth and depth on one scale."""
    rows = []
    for view, result in zip(views, results):
        truth = result.depth if view.gt_depth is None else view.gt_depth
        scale = Scale.of(truth)
        rows.append([view.image, result.image, colorize(truth, scale), colorize(result.depth, scale)])
    write_picture(folder / f"{name}.png", np.concatenate([np.concatenate(row, axis=1) for row in rows]))


def run_arm(
    scene: Scene,
    arm: str,
    seed: int,
    options: TrainOptions,
    completer: Any,
    consistent: bool,  # depth is averaged over views before training
    pictures: Path | None = None,
) -> dict[str, Any]:
    source, dense = ARMS[arm]
    views = supervised(scene, source, completer, consistent)
    options = dataclasses.replace(options, seed=seed, edge_aware=source != "sparse")
    rng = np.random.default_rng(seed)
    start: ColoredPoints = scene.model.cloud
    count = int(START_SHARE * options.densify.cap)
    if dense:
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
    measure = partial(evaluate, trainer.gaussians, rasterizer=trainer.rasterizer, near=trainer.near)
    results = measure(scene.test, max_depth=scene.max_depth)
    if pictures is not None:
        write_views(pictures, f"{scene.name}-{arm}-{seed}", scene.test, results)
    return {**record, **mean_metrics([one.metrics for one in results])}


def key_of(record: dict[str, Any]) -> tuple[Any, ...]:
    return record["regime"], record["scene"], record["arm"], record["seed"], json.dumps(record["options"])


def run(args: argparse.Namespace) -> None:
    torch.set_num_threads(args.threads)
    cv2.setNumThreads(1)
    done = {key_of(record) for record in read(args.results)} if args.results.is_file() else set()
    changes = dict(pair.split("=", 1) for pair in args.set)
    changed = {name: json.loads(value) for name, value in changes.items()}
    consistent = bool(changed.pop("consistent", CONSISTENT))
    options = dataclasses.replace(OPTIONS, **changed)
    completer = omnidc.load()
    for folder in args.scenes:
        scene = None
        for seed in args.seeds:
            for arm in args.arms:
                record = {"regime": args.regime, "scene": folder.name, "arm": arm, "seed": seed, "options": changes}
                if key_of(record) in done or (args.regime == "real" and arm == "true"):
                    continue
                scene = scene or load_scene(folder, args.regime)
                pictures = None if args.pictures is None else args.pictures / args.regime
                record.update(run_arm(scene, arm, seed, options, completer, consistent, pictures))
                record.update(views=len(scene.train), points=len(scene.model.cloud))
                with args.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                print(json.dumps(record), flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


METRICS = {"psnr": "PSNR, dB", "ssim": "SSIM", "depth_rmse": "depth RMSE, m", "depth_rel": "median rel."}
Runs = dict[tuple[str, int], dict[str, Any]]  # of one arm, by scene and seed
RMSE_BAR, REL_BAR, PSNR_LOSS = 0.7, 0.5, -0.3  # of no depth; dB


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval (t distribution)."""

    mean: float
    half: float | None  # None = one value only

    @classmethod
    def of(cls, gains: dict[tuple[str, int], float]) -> Interval:
        """Return the interval over scenes of gains by scene and seed; with one scene over its seeds."""
        scenes = sorted({scene for scene, _ in gains})
        by_scene = [float(np.mean([gain for (scene, _), gain in gains.items() if scene == name])) for name in scenes]
        values = by_scene if len(scenes) > 1 else list(gains.values())
        half = float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)) if len(values) > 1 else None
        return cls(float(np.mean(values)), half)

    def __str__(self) -> str:
        if self.half is None:
            return f"{self.mean:+.2f} (one run)"
        return f"{self.mean:+.2f} [{self.mean - self.half:+.2f}, {self.mean + self.half:+.2f}]"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """All arms of one regime, over the scenes and seeds that every arm has."""

    regime: str
    options: dict[str, str]
    arms: dict[str, Runs]
    pairs: list[tuple[str, int]]

    def mean(self, arm: str, metric: str) -> float:
        return float(np.mean([self.arms[arm][pair].get(metric, np.nan) for pair in self.pairs]))

    def ratio(self, arm: str, metric: str) -> float:
        """Ratio of the means to those without depth."""
        return self.mean(arm, metric) / self.mean("none", metric)

    def gain(self, arm: str) -> Interval:
        """Paired difference of PSNR to the arm without depth."""
        return Interval.of(
            {pair: self.arms[arm][pair]["psnr"] - self.arms["none"][pair]["psnr"] for pair in self.pairs}
        )

    def title(self) -> str:
        scenes, seeds = ({pair[k] for pair in self.pairs} for k in (0, 1))
        counts = {run["gaussians"] for runs in self.arms.values() for pair, run in runs.items() if pair in self.pairs}
        count = f"every run ends with {min(counts)} Gaussians"
        if len(counts) > 1:
            count = f"**not comparable: runs end with {min(counts)} to {max(counts)} Gaussians**"
        names = ", ".join(sorted(str(scene) for scene in scenes))
        return f"**{self.regime}**: {len(scenes)} scenes ({names}), {len(seeds)} seeds, options {self.options}; {count}"

    def rows(self) -> list[list[str]]:
        rows = []
        for arm in ARMS:
            if arm in self.arms:
                spread = {m: np.std([self.arms[arm][pair].get(m, np.nan) for pair in self.pairs]) for m in METRICS}
                cells = [f"{self.mean(arm, metric):.3f} ± {spread[metric]:.3f}" for metric in METRICS]
                cells += [str(self.gain(arm)), *(f"{self.ratio(arm, m):.2f}" for m in ("depth_rmse", "depth_rel"))]
                rows.append([arm, *cells])
        return rows

    def verdict(self) -> str:
        """Say which bars omnidc's depth meets."""
        if not {"omnidc", "linear", "none"} <= self.arms.keys():
            return ""
        rmse, rel, gain = self.ratio("omnidc", "depth_rmse"), self.ratio("omnidc", "depth_rel"), self.gain("omnidc")
        ahead = all(self.mean("omnidc", m) < self.mean("linear", m) for m in ("depth_rmse", "depth_rel"))
        low = float("-inf") if gain.half is None else gain.mean - gain.half
        psnr = "allows a gain as well as a loss"
        if low > PSNR_LOSS:
            psnr = "shows a gain" if low > 0 else f"excludes a loss of {-PSNR_LOSS} dB"
        return (
            f"omnidc against no depth, {self.regime}: RMSE of depth {rmse:.2f} (bar {RMSE_BAR}: "
            f"{'met' if rmse <= RMSE_BAR else 'missed'}), median relative error {rel:.2f} (bar {REL_BAR}: "
            f"{'met' if rel <= REL_BAR else 'missed'}), {'ahead of' if ahead else 'not ahead of'} linear on both. "
            f"The interval of PSNR {psnr}."
        )


def comparisons(records: list[dict[str, Any]]) -> list[Comparison]:
    groups: dict[tuple[str, str], dict[str, Runs]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        group = record["regime"], json.dumps(record["options"])
        groups[group][record["arm"]][record["scene"], record["seed"]] = record
    made = []
    for (regime, options), arms in sorted(groups.items()):
        pairs = [pair for pair in arms.get("none", {}) if all(pair in runs for runs in arms.values())]
        if pairs:
            made.append(Comparison(regime, json.loads(options), dict(arms), pairs))
    return made


def listing(args: argparse.Namespace) -> None:
    """Print every run, one row each."""
    rows = []
    for run in read(args.results):
        options = ", ".join(f"{name} {value}" for name, value in run["options"].items())
        values = [f"{run[metric]:.3f}" for metric in METRICS if metric in run]
        rows.append([run["regime"], run["scene"], run["arm"], options, str(run["seed"]), *values])
    emit(["regime", "scene", "arm", "options", "seed", *METRICS.values()], rows, args.json)


def report(args: argparse.Namespace) -> None:
    """Print the table of each regime and what it shows."""
    for one in comparisons(read(args.results)):
        print(f"\n{one.title()}\n")
        path = None if args.json is None else args.json / f"nvs_{one.regime}.json"
        emit(["arm", *METRICS.values(), "PSNR − none", "RMSE / none", "rel. / none"], one.rows(), path)
        print(f"\n{one.verdict()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("scenes", type=Path, nargs="+")
    runner.add_argument("--results", type=Path, required=True)
    runner.add_argument("--regime", choices=list(HOLDOUT), default="ample")
    runner.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    runner.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    runner.add_argument("--pictures", type=Path, help="folder for pictures of the held-out views")
    runner.add_argument("--threads", type=int, default=1)
    runner.add_argument(
        "--set", nargs="*", default=[], metavar="OPTION=JSON", help="fields of TrainOptions, or consistent"
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
    args = parser.parse_args()
    args.command(args)


if __name__ == "__main__":
    main()
