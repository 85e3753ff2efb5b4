"""Points that were not matched in a photograph: which rule finds those that it shows?

    python benchmarks/visibility.py SCENES… [--complete]         # folders of `omnidc scenes render --multiview`
    python benchmarks/visibility.py --real 7SCENES               # data/multiview/7scenes_redkitchen_rgbd

Rendered scenes have true depth, and SfM is simulated with short tracks: a view matches a point that it shows with a
chance of 0.4, at most 20° and a factor of 1.6 in distance from where it was found; pixels have noise of 0.1 px, which
is 0.6 px in a photograph of 1,000. For each kind of scene and each rule: points of a view, the share whose depth is
wrong by more than 10 %, and the share of the visible unmatched points that the rule takes. With --complete also the
error of depth completed from these points by the shipped weights, over pixels within 7 of a visible point, and two
rules of a second pass: they drop what lies behind the depth that the default rule gave, and complete those views again.
The real scene is judged by its depth camera.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import torch

import omnidc
from cells import emit
from nvs_scenes import load_views
from omnidc.datasets.shards import Shards
from omnidc.geometry.rasterize import project_to_depth
from omnidc.geometry.transforms import transform
from omnidc.interop.second_pass import DepthView, behind_depth, hidden_points
from omnidc.sensors.colmap import Filters, open_model
from omnidc.sensors.rgbd import open_recording
from omnidc.sensors.visibility import near_observed_surface
from omnidc.splatting.view import SplatView
from simulated_sfm import Matching, SimulatedModel, simulate

MATCHING = Matching(chance=0.4, max_angle=20.0, max_ratio=1.6, pixel_noise=0.1)
WRONG = 0.1  # relative error of depth
Map = npt.NDArray[np.float32]

DEFAULT = "and near the observed surface (default)"
RULES = ("matched only", "all points", "not behind nearer points", DEFAULT)
# A second pass completes every view by the default rule and drops unmatched points that lie behind this depth.
OWN, NEIGHBORS_TOO = (
    "second pass: and not behind the view's depth",
    "second pass: nor behind two neighbors' depth (`--second-pass`)",
)
ORACLE = "oracle"


def sparse_depth(
    rule: str,
    points: npt.NDArray[np.float64],
    view: SplatView,
    model: SimulatedModel,
    index: int,
    is_hidden: npt.NDArray[np.bool_] | None = None,  # [P], by a second pass
) -> Map:
    """The sparse depth of a view by one rule. `points` are in its camera frame."""
    matched, visible = model.is_observed[:, index], model.is_visible[:, index]
    K, shape = view.camera.intrinsics, view.image.shape[:2]
    if rule == "matched only":
        chosen = matched
    elif rule == ORACLE:
        chosen = matched | visible
    else:
        chosen = np.ones(len(points), bool)
    window = 0 if rule in ("all points", ORACLE, "matched only") else None
    off = ~near_observed_surface(points, K, matched) if rule == DEFAULT else np.zeros(len(points), bool)
    if is_hidden is not None:
        off = off | (is_hidden & ~matched)
    return project_to_depth(
        points[chosen], K, shape, window, known_visible=matched[chosen], occluders_only=off[chosen]
    )[0]


def second_pass(
    model: SimulatedModel,
    local: list[npt.NDArray[np.float64]],  # of each view: all points in its frame
    views: list[SplatView],
    depths: list[Map],  # completed by the default rule
) -> dict[str, list[npt.NDArray[np.bool_]]]:
    """Which points each view's own depth hides, and which this or its neighbors' depth does."""
    done = [DepthView(depth, view.camera.intrinsics, view.camera.pose) for view, depth in zip(views, depths)]
    return {
        OWN: [behind_depth(points, view.intrinsics, view.depth) for points, view in zip(local, done)],
        NEIGHBORS_TOO: [hidden_points(model.cloud.points, done, index) for index in range(len(done))],
    }


def measure(folder: Path, completer: Any) -> dict[str, list[float]]:
    """Mean over the views of one scene of each rule's numbers."""
    views, _ = load_views(folder)
    model = simulate(views, matching=MATCHING)
    local = [transform(view.camera.view, model.cloud.points) for view in views]
    totals: dict[str, list[list[float]]] = defaultdict(list)
    first: list[Map] = []

    def complete(view: SplatView, sparse: Map) -> Map:
        return np.asarray(completer.complete(view.image, sparse, view.camera.intrinsics).depth)

    def judge(rule: str, index: int, sparse: Map, depth: Map | None) -> None:
        view, points = views[index], local[index]
        truth = view.gt_depth
        assert truth is not None
        oracle = sparse_depth(ORACLE, points, view, model, index) > 0
        matched = sparse_depth("matched only", points, view, model, index) > 0
        used = sparse > 0
        wrong = used & (np.abs(sparse - truth) > WRONG * truth)
        found = (used & oracle & ~matched & ~wrong).sum() / max(1, (oracle & ~matched).sum())
        row = [float(used.sum()), float(wrong.sum() / max(1, used.sum())), float(found)]
        if depth is not None:
            judged = (cv2.dilate(oracle.astype(np.uint8), np.ones((15, 15), np.uint8)) > 0) & (truth > 0)
            error = np.abs(depth - truth)[judged] / truth[judged]
            row += [float(error.mean()), float(np.median(error))]
        totals[rule].append(row)

    for rule in (*RULES, ORACLE):
        for index, view in enumerate(views):
            sparse = sparse_depth(rule, local[index], view, model, index)
            depth = None if completer is None else complete(view, sparse)
            judge(rule, index, sparse, depth)
            if rule == DEFAULT and depth is not None:
                first.append(depth)
    for rule, hidden in second_pass(model, local, views, first).items() if first else ():
        for index, view in enumerate(views):
            sparse = sparse_depth(DEFAULT, local[index], view, model, index, hidden[index])
            # Where nothing was dropped the first result stands.
            same = np.array_equal(sparse > 0, sparse_depth(DEFAULT, local[index], view, model, index) > 0)
            judge(rule, index, sparse, first[index] if same else complete(view, sparse))
    print(f"{folder}: {len(views)} views, {len(model.cloud)} points", flush=True)
    return {rule: list(np.mean(rows, axis=0)) for rule, rows in totals.items()}


def rendered(folders: list[Path], complete: bool, path: Path | None) -> None:
    """One group of rows for each kind of scene: its world."""
    completer: Any = omnidc.load() if complete else None
    kinds: dict[str, list[dict[str, list[float]]]] = defaultdict(list)
    for folder in folders:
        world = Shards(folder).meta(0)["world"]
        kinds[world if world == "street" else "interior"].append(measure(folder, completer))
    titles = ["points", "wrong by > 10 %", "of the visible"] + (["REL", "median"] if complete else [])
    table = []
    for kind, scenes in sorted(kinds.items(), reverse=True):
        for rule in (*RULES, *((OWN, NEIGHBORS_TOO) if complete else ()), ORACLE):
            row = np.mean([scene[rule] for scene in scenes], axis=0)
            cells = [f"{row[0]:.0f}", f"{row[1]:.1%}", f"{row[2]:.0%}", *(f"{value:.4f}" for value in row[3:])]
            table.append([f"{kind} ({len(scenes)})", rule, *cells])
    emit(["scenes", "rule", *titles], table, path)


def real(folder: Path, path: Path | None) -> None:
    """Ten images of red kitchen against the depth camera; one scale factor for each."""
    sensor = open_recording(folder, layout="7scenes")
    rules = {
        "`--observed-only`": Filters(observed_only=True),
        "all, no test (`--occlusion-window 0`)": Filters(occlusion_window=0),
        "near the observed surface, hidden ones dropped (default)": Filters(),
    }
    table = []
    for title, filters in rules.items():
        model, rows = open_model(folder, folder / "images", filters), []
        for name in model.names()[::4][:10]:
            truth = sensor[name.split(".")[0]].measurements()
            sparse = model.frame(name).measurements()
            y, x = np.nonzero(sparse)
            # The undistorted image is a few pixels larger; at a tolerance of 10 % the shift does not matter.
            depth = truth[np.clip(y - 1, 0, 479), np.clip(x - 3, 0, 639)]
            ratio = sparse[y, x][depth > 0] / depth[depth > 0]
            ratio /= np.median(ratio)
            rows.append([len(ratio), (ratio > 1 + WRONG).mean(), np.abs(ratio - 1).mean()])
        count, far, rel = np.mean(rows, axis=0)
        table.append([title, f"{count:.0f}", f"{far:.1%}", f"{rel:.3f}"])
    emit(["points", "per image with truth", "more than 10 % too far", "REL"], table, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenes", type=Path, nargs="*")
    parser.add_argument("--complete", action="store_true")
    parser.add_argument("--real", type=Path)
    parser.add_argument("--json", type=Path, help="also write the table, for docs/results")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.real is not None:
        real(args.real, args.json)
    else:
        rendered(args.scenes, args.complete, args.json)


if __name__ == "__main__":
    main()
