"""The paper's ablations (its Tables 4 and i) at the scale of two CPU cores: one narrow network, twelve variants.

    python benchmarks/paper_ablations.py --data scenes=FRAMES --out DIR [--seeds 3] [--steps 400] [--jobs 1]
    python benchmarks/paper_ablations.py --out DIR --table          # print what is there so far

DIR/results.json is what `benchmarks/tables.py` makes the table of docs/benchmarks.md from.

Every run trains the paper's network at an eighth of its width (1.5 M parameters) from nothing, on crops of 96×128 that
are scaled to a median depth of 1 as the paper does, with the same frames in the same order and for as many steps; only
the named thing differs. Random points are as dense as the paper's on its larger pictures. A run is judged on held-out
scenes at full size: at SIFT points (for the paper's ETH3D-SfM) and with 64 laser lines (for its KITTI). The network is
given meters, and errors are in units of the frame's median depth. One thread a run. A run that is there is not made
again and one that was interrupted goes on, so that the command may be stopped and repeated. The steps are few:
differences between variants say something, levels do not compare with the paper's. Whether the steps suffice is
measured: the last row of the table is the deviation between the variants' means over the mean deviation between seeds.
Chance alone gives 0.6 with three seeds. Where it is not well above that, repeat with more --steps, which starts runs of
their own.
"""

from __future__ import annotations

import argparse
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from omnidc.evaluation.metrics import depth_metrics, mean_scores
from omnidc.io.files import atomic_path
from omnidc.network.checkpoint import load_network
from omnidc.network.interface import DepthNetwork
from omnidc.patterns import parse
from omnidc.pipeline import DepthCompleter
from omnidc.training.config import load_config
from omnidc.training.data import open_source
from omnidc.training.state import load_state
from omnidc.training.trainer import train
from processes import process_pool

CROP = [96, 128]
WIDTH = 0.125
BATCH = 4  # the CPU time of a step is proportional to it (0.65 s; 1.3 s for 8): more steps for the same time
VAL_FRACTION = 0.05  # of the scenes
VAL_FRAMES = 24
COLUMNS = {"sift": ("rmse", "rel"), "lidar-64": ("rmse", "mae", "rel")}  # pattern: scores, as in the paper's Table 4
RANDOM = "0.03%~0.65%"  # the paper's 100 to 2000 points of 480×640, as a share of a crop
SYNTHETIC = f"0.5*{RANDOM} + 0.25*sift(fewest=0) + 0.25*lidar(baseline=none)"
ALL = f"0.5*{RANDOM} + 0.25*sift(fewest=0) + 0.25*lidar"


@dataclass(frozen=True)
class Run:
    """The scores of one variant with one seed."""

    name: str
    seed: int
    steps: int
    cpu_minutes: float  # of training, over all resumptions
    parameters: int
    scores: Mapping[str, Mapping[str, float]]  # pattern: score: mean over the held-out frames


@dataclass(frozen=True)
class Variant:
    """One row: the paper's heading, its name, and what differs from the whole method, by section of the preset."""

    group: str
    name: str
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def network(**options: Any) -> dict[str, Any]:
    return {"network": {"options": options}}


def losses(*names: str) -> dict[str, Any]:
    """Only these of the paper's three losses; the auxiliary ones (gradients, input confidence) stay."""
    weights = {"l1": 1.0, "l1_init": 1.0, "laplace": 0.5, "laplace_init": 0.5, "gradient_matching": 2.0}
    used = tuple(f"{name}{end}" for name in names for end in ("", "_init"))
    return {"loss": {"weights": {name: weight if name in used else 0.0 for name, weight in weights.items()}}}


WHOLE = "whole method"
VARIANTS = (
    Variant("", WHOLE),
    Variant("multi-resolution integrator", "R = 1", network(resolutions=1)),
    Variant("multi-resolution integrator", "R = 1, 2", network(resolutions=2)),
    Variant("losses", "L1", losses("l1")),
    Variant("losses", "L1 + Laplace", losses("l1", "laplace")),
    Variant("losses", "L1 + gradient matching", losses("l1", "gradient_matching")),
    Variant("losses", "Laplace", losses("laplace")),
    Variant("losses", "Laplace + gradient matching", losses("laplace", "gradient_matching")),
    Variant("depth space", "linear", network(space="linear")),
    Variant("depth space", "log", network(space="log")),
    Variant("training pattern", "random", {"data": {"pattern": RANDOM, "noise": ""}}),
    Variant("training pattern", "random + synthetic", {"data": {"pattern": SYNTHETIC, "noise": ""}}),
)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merge(result[key], value) if both else value
    return result


def run_one(variant: Variant, seed: int, steps: int, sources: dict[str, str], out: Path) -> Run:
    """Train one variant with one seed, or go on with it, and return its scores."""
    torch.set_num_threads(1)
    folder = out / "runs" / f"{''.join(c if c.isalnum() else '_' for c in variant.name)}-{seed}-{steps}"
    tables: dict[str, Any] = {
        "network": {"options": {"width": WIDTH}},
        "data": {
            "sources": sources,
            "mix": "size",
            "epoch_size": 0,
            "sizes": [CROP],
            "pattern": ALL,
            "min_points": 5,  # the sparsest patterns leave few on a crop
            "workers": 0,
            "val_fraction": VAL_FRACTION,
        },
        "optimizer": {"batch": BATCH},
        "schedule": {"epochs": 0, "steps": steps},
        "validation": {"frames": 1, "patterns": ["0.7%"], "every_epochs": 0, "pictures": 0},
        "runtime": {"device": "cpu", "threads": 1, "processes": 1, "checkpoint_minutes": 1.0},
    }
    config = load_config("paper", None, [f"seed={seed}"], **merge(tables, variant.tables))
    train(config, folder, quiet=True)
    network = load_network(folder / "last.safetensors")
    parameters = sum(p.numel() for p in network.parameters())
    minutes = load_state(folder)["cpu_seconds"] / 60
    return Run(variant.name, seed, steps, minutes, parameters, judge(network, sources))


def judge(network: DepthNetwork, sources: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Mean scores by pattern on the held-out frames, their depths divided by their median after completion."""
    completer = DepthCompleter(network)
    rows: dict[str, list[dict[str, float]]] = {pattern: [] for pattern in COLUMNS}
    for name, folder in sources.items():
        held_out = open_source(name, folder).split(VAL_FRACTION)[1]
        for index in np.linspace(0, len(held_out) - 1, VAL_FRAMES).astype(int):
            frame = held_out[int(index)]
            if frame.depth is None or not (frame.depth > 0).any():
                continue
            unit = np.median(frame.depth[frame.depth > 0])
            for pattern in COLUMNS:
                rng = np.random.default_rng(zlib.crc32(f"{frame.name}|{pattern}".encode()))
                sparse = np.ascontiguousarray(parse(pattern)(frame.depth, frame.image, rng).sparse, np.float32)
                depth = completer.complete(frame.image, sparse, sky="keep").depth
                rows[pattern].append(depth_metrics(depth / unit, frame.depth / unit))
    return {pattern: mean_scores(values) for pattern, values in rows.items()}


def read(content: Sequence[Mapping[str, Any]]) -> list[Run]:
    """The runs of a results file."""
    return [Run(**record) for record in content]


def table(runs: Sequence[Run]) -> str:
    """Markdown in the paper's columns, mean ± standard deviation over the seeds; only the runs of the most steps."""
    steps = max((run.steps for run in runs), default=0)
    columns = [(pattern, score) for pattern, scores in COLUMNS.items() for score in scores]
    heads = [f"{pattern} {score.upper()}" for pattern, score in columns]
    lines = [f"| | variant | runs | {' | '.join(heads)} | CPU min |", "|---|---|---:|" + "---:|" * (len(heads) + 1)]
    found: list[list[list[float]]] = []  # variant, column, seed
    for variant in VARIANTS:
        own = [run for run in runs if (run.name, run.steps) == (variant.name, steps)]
        if not own:
            continue
        found.append([[run.scores[pattern][score] for run in own] for pattern, score in columns])
        cells = [f"{mean(v):.4f}" + (f" ± {stdev(v):.4f}" if len(v) > 1 else "") for v in found[-1]]
        minutes = mean(run.cpu_minutes for run in own)
        lines.append(f"| {variant.group} | {variant.name} | {len(own)} | {' | '.join(cells)} | {minutes:.1f} |")
    ratios = [difference_ratio(column) for column in zip(*found, strict=True)]
    cells = ["—" if ratio is None else f"{ratio:.1f}" for ratio in ratios]
    return "\n".join([*lines, f"| | between variants / between seeds | | {' | '.join(cells)} | |"] if found else lines)


def difference_ratio(column: Sequence[Sequence[float]]) -> float | None:
    """Deviation between the variants' means over the mean deviation between seeds; None without two of each."""
    deviations = [stdev(values) for values in column if len(values) > 1]
    if len(column) < 2 or not deviations or mean(deviations) == 0:
        return None
    return stdev(map(mean, column)) / mean(deviations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", metavar="NAME=FOLDER", help="frames of omnidc scenes; repeatable")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one thread each")
    parser.add_argument("--only", action="append", help="name of a variant; repeatable")
    parser.add_argument("--table", action="store_true", help="print the results and do nothing else")
    options = parser.parse_args()
    path = options.out / "results.json"
    runs = read(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []
    if not options.table:
        if not options.data or not all("=" in entry for entry in options.data):
            parser.error("give --data NAME=FOLDER, or --table")
        names = [variant.name for variant in VARIANTS]
        unknown = [name for name in options.only or () if name not in names]
        if unknown:
            parser.error(f"there is no variant {unknown[0]!r}: choose from {', '.join(names)}")
        sources = dict(entry.split("=", 1) for entry in options.data)
        chosen = [variant for variant in VARIANTS if not options.only or variant.name in options.only]
        done = {(run.name, run.seed) for run in runs if run.steps == options.steps}
        # seed by seed: an unfinished table has all variants
        todo = [(v, seed) for seed in range(options.seeds) for v in chosen if (v.name, seed) not in done]
        options.out.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        with process_pool(options.jobs) as pool, tqdm(total=len(todo), unit="run") as bar:
            waiting = [pool.submit(run_one, v, seed, options.steps, sources, options.out) for v, seed in todo]
            for one in waiting:
                runs.append(one.result())
                with atomic_path(path) as temporary:
                    temporary.write_text(json.dumps([asdict(run) for run in runs], indent=0), encoding="utf-8")
                bar.update()
    print(table(runs))


if __name__ == "__main__":
    main()
