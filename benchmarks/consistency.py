"""Multi-view consistency of completed depth before a splat is trained: two ways, against the truth.

    python benchmarks/consistency.py [--ample SCENES…] [--sparse SCENES…]       # prints Markdown

"average" is `consistent_depth.py`. "solved again" gives the neighbors' depth, where two of them agree with
the view, to the network as further measurements on a grid of six pixels. Both change the errors of the training views'
depth (mean and median relative error, RMSE) by the printed shares; the last rows are the median disagreement of views.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import omnidc
from cells import emit
from consistent_depth import NEIGHBORS, TOLERANCE, consistent_views, reproject
from nvs_scenes import Scene, load_scene
from omnidc.interop.fusion import neighbors
from omnidc.splatting.view import DepthMap, SplatView

GRID = 6  # pixels between further measurements
LEAST = 2  # neighbors that agree


def completed(scene: Scene, sparse: list[DepthMap], completer: Any) -> list[SplatView]:
    """The training views with the network's depth."""
    pairs = zip(scene.train, sparse)
    return [replace(v, depth=completer.complete(v.image, s, v.camera.intrinsics).depth) for v, s in pairs]


def further_measurements(views: list[SplatView], sparse: list[DepthMap]) -> list[DepthMap]:
    """The points of each view and, on a grid, the mean depth of the neighbors that agree with it."""
    cameras, out = [view.camera for view in views], []
    for index, (view, points) in enumerate(zip(views, sparse)):
        assert view.depth is not None
        maps = np.stack([reproject(views[k], view) for k in neighbors(cameras, index, NEIGHBORS)])
        log = np.log(np.where(maps > 0, maps, 1.0))
        agrees = (maps > 0) & (np.abs(log - np.log(view.depth)) <= np.log1p(TOLERANCE))
        count = agrees.sum(axis=0)
        grid = np.zeros(points.shape, bool)
        grid[::GRID, ::GRID] = True
        chosen = grid & (count >= LEAST) & (points == 0)
        mean = np.exp(np.where(agrees, log, 0.0).sum(axis=0) / np.maximum(count, 1))
        out.append(np.where(chosen, mean, points).astype(np.float32))
    return out


def errors(views: list[SplatView], max_depth: float) -> list[float]:
    """Mean and median relative error and RMSE, each the mean over views."""
    rows = []
    for view in views:
        assert view.depth is not None
        assert view.gt_depth is not None
        known = (view.gt_depth > 0) & (view.gt_depth < max_depth)
        difference, truth = (view.depth - view.gt_depth)[known], view.gt_depth[known]
        relative = np.abs(difference) / truth
        rows.append([relative.mean(), np.median(relative), np.sqrt((difference**2).mean())])
    return [float(value) for value in np.mean(rows, axis=0)]


def disagreement(views: list[SplatView]) -> float:
    """Median relative difference of each view to its neighbors, where less than 20 %: the same surface."""
    cameras, medians = [view.camera for view in views], []
    for index, view in enumerate(views):
        assert view.depth is not None
        for k in neighbors(cameras, index, NEIGHBORS):
            theirs = reproject(views[k], view)
            ratio = np.abs(theirs[theirs > 0] / view.depth[theirs > 0] - 1)
            medians.append(np.median(ratio[ratio < 0.2]))
    return float(np.mean(medians))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ample", type=Path, nargs="*", default=[])
    parser.add_argument("--sparse", type=Path, nargs="*", default=[])
    parser.add_argument("--json", type=Path, help="also write the table, for docs/results")
    args = parser.parse_args()
    torch.set_num_threads(1)
    completer = omnidc.load()
    columns: dict[str, list[str]] = {}
    for regime in ("ample", "sparse"):
        for folder in getattr(args, regime):
            scene = load_scene(folder, regime)
            sparse = scene.model.sparse
            before = completed(scene, sparse, completer)
            ways = {
                "average": consistent_views(before),
                "solved again": completed(scene, further_measurements(before, sparse), completer),
            }
            plain, cells = errors(before, scene.max_depth), []
            for views in ways.values():
                cells += [f"{new / old - 1:+.0%}" for new, old in zip(errors(views, scene.max_depth), plain)]
            cells += [f"{disagreement(views):.1%}" for views in (before, *ways.values())]
            columns[f"{regime} {folder.name}"] = cells
    titles = [f"{way}: {what}" for way in ways for what in ("mean relative error", "median relative error", "RMSE")]
    titles += [f"disagreement, {way}" for way in ("one by one", *ways)]
    emit(["", *columns], [list(row) for row in zip(titles, *columns.values())], args.json)


if __name__ == "__main__":
    main()
