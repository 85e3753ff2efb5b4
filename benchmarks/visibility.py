"""Points that were not matched in a photograph: which rule finds those that it shows?

    python benchmarks/visibility.py SCENES… [--complete]         # folders of `omnidc scenes render --multiview`
    python benchmarks/visibility.py --real 7SCENES               # data/multiview/7scenes_redkitchen_rgbd

Rendered scenes have true depth, and SfM is simulated with short tracks: a view matches a point that it shows with a
chance of 0.4, at most 20° and a factor of 1.6 in distance from where it was found; pixels have noise of 0.1 px, which
is 0.6 px in a photograph of 1,000. For each rule: points of a view, the share whose depth is wrong by more than 10 %,
and the share of the visible unmatched points that the rule takes. With --complete also the error of depth completed
from these points by the shipped weights, over pixels within 7 of a visible point. The real scene is judged by its
depth camera.
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
from omnidc.geometry.rasterize import project_to_depth
from omnidc.geometry.transforms import transform
from omnidc.sensors.colmap import Filters, open_model
from omnidc.sensors.rgbd import open_recording
from omnidc.sensors.visibility import near_observed_surface
from omnidc.splatting.view import SplatView
from simulated_sfm import Matching, SimulatedModel, simulate

MATCHING = Matching(chance=0.4, max_angle=20.0, max_ratio=1.6, pixel_noise=0.1)
WRONG = 0.1  # relative error of depth
Map = npt.NDArray[np.float32]

RULES = ("matched only", "all points", "not behind nearer points", "and near the observed surface (default)", "oracle")


def sparse_depth(rule: str, points: npt.NDArray[np.float64], view: SplatView, model: SimulatedModel, index: int) -> Map:
    """The sparse depth of a view by one rule. `points` are in its camera frame."""
    matched, visible = model.is_observed[:, index], model.is_visible[:, index]
    K, shape = view.camera.intrinsics, view.image.shape[:2]
    if rule == "matched only":
        chosen = matched
    elif rule == "oracle":
        chosen = matched | visible
    else:
        chosen = np.ones(len(points), bool)
    window = 0 if rule in ("all points", "oracle", "matched only") else None
    off = ~near_observed_surface(points, K, matched) if rule.startswith("and near") else np.zeros(len(points), bool)
    return project_to_depth(
        points[chosen], K, shape, window, known_visible=matched[chosen], occluders_only=off[chosen]
    )[0]


def rendered(folders: list[Path], complete: bool, path: Path | None) -> None:
    completer: Any = omnidc.load() if complete else None
    means: dict[str, list[list[float]]] = defaultdict(list)
    for folder in folders:
        views, _ = load_views(folder)
        model = simulate(views, matching=MATCHING)
        totals: dict[str, list[list[float]]] = defaultdict(list)
        for index, view in enumerate(views):
            truth = view.gt_depth
            assert truth is not None
            points = transform(view.camera.view, model.cloud.points)
            oracle = sparse_depth("oracle", points, view, model, index) > 0
            matched = sparse_depth("matched only", points, view, model, index) > 0
            near = cv2.dilate(oracle.astype(np.uint8), np.ones((15, 15), np.uint8)) > 0
            judged = near & (truth > 0)
            for rule in RULES:
                sparse = sparse_depth(rule, points, view, model, index)
                used = sparse > 0
                wrong = used & (np.abs(sparse - truth) > WRONG * truth)
                found = (used & oracle & ~matched & ~wrong).sum() / max(1, (oracle & ~matched).sum())
                row = [float(used.sum()), float(wrong.sum() / max(1, used.sum())), float(found)]
                if complete:
                    depth = completer.complete(view.image, sparse, view.camera.intrinsics).depth
                    error = np.abs(depth - truth)[judged] / truth[judged]
                    row += [float(error.mean()), float(np.median(error))]
                totals[rule].append(row)
        for rule in RULES:
            means[rule].append(list(np.mean(totals[rule], axis=0)))
        print(f"{folder}: {len(views)} views, {len(model.cloud)} points", flush=True)
    titles = ["points", "wrong by > 10 %", "of the visible"] + (["REL", "median"] if complete else [])
    table = []
    for rule in RULES:
        row = np.mean(means[rule], axis=0)
        table.append([rule, f"{row[0]:.0f}", f"{row[1]:.1%}", f"{row[2]:.0%}", *(f"{value:.4f}" for value in row[3:])])
    emit(["rule", *titles], table, path)


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
