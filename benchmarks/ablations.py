"""What each part of the compact model is worth: short trainings without it, three seeds each, on held-out scenes.

    python benchmarks/ablations.py --data FRAMES --out DIR --start compact --lr 3e-4 [--steps 40] [--seeds 3] [--jobs 2]
    python benchmarks/ablations.py --out DIR --table          # print what is there so far

Every run sees the same frames in the same order for the same number of steps and is judged on the same held-out scenes;
only the named thing differs. With --start every run goes on from those weights, of the parts that the variant has: from
nothing, a few hundred steps lead hardly away from interpolation, and with a trained trunk but new heads sixty do not. A
run that is there is not made again, so the command may be interrupted and repeated. The table has the mean error of ln
depth, in per cent, mean ± standard deviation over the seeds (REL of rendered rooms is made of the few pixels that look
past a window frame). Short runs on small crops: differences, not levels, carry over to long ones.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from tqdm import tqdm

from omnidc.io.files import atomic_path
from omnidc.network.checkpoint import load_network, save_network
from omnidc.network.compact import CompactConfig, CompactNetwork
from omnidc.training.config import load_config
from omnidc.training.data import frame_names, is_held_out, open_source, scene_names
from omnidc.training.manifest import write_manifest
from omnidc.training.trainer import train
from processes import process_pool

SIZES = [[128, 160], [160, 128], [128, 192]]
PATTERNS = ["0.7%", "0.1%", "0.03%", "sift", "lidar-16"]
FRAMES = 16  # held out
VAL_FRACTION = 0.05  # of the scenes
LINEAR_LOSSES = {
    **{"l1": 1.0, "l1_init": 0.0, "laplace": 0.5, "gradient_matching": 2.0},
    **{"l1_log": 0.0, "laplace_log": 0.0, "gradient_matching_log": 0.0},
}
RANDOM = "0.01%~~5%"
INTERIORS = ("room", "office", "kitchen", "corridor")
# group, name → what differs from the preset, by section; "worlds" is not the preset's: frames of those worlds alone
VARIANTS: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
    ("", "preset (R = 4 from 1/2)"): {},
    ("resolutions", "R = 3"): {"network": {"options": {"resolutions": 3}}},
    ("resolutions", "R = 2"): {"network": {"options": {"resolutions": 2}}},
    ("resolutions", "R = 1"): {"network": {"options": {"resolutions": 1}}},
    ("integrator", "8 iterations"): {"network": {"options": {"iterations": 8}}},
    ("trunk", "without attention"): {"network": {"options": {"attention_blocks": 0}}},
    ("refine", "without propagation"): {"network": {"options": {"half_steps": 0, "propagation_steps": 0}}},
    ("depth space", "losses in linear depth (the paper's)"): {"loss": {"weights": LINEAR_LOSSES, "relative": 0.0}},
    ("losses", "without gradient L1"): {"loss": {"weights": {"gradient_l1": 0.0}}},
    ("losses", "without gradient matching"): {"loss": {"weights": {"gradient_matching_log": 0.0}}},
    ("losses", "without Laplace"): {"loss": {"weights": {"laplace_log": 0.0}}},
    ("losses", "not relative to interpolation"): {"loss": {"relative": 0.0}},
    ("training", "without the mean of weights"): {"optimizer": {"ema": 0.0}},
    ("training", "one size of crop"): {"data": {"sizes": SIZES[:1]}},
    ("training", "no bas-reliefs"): {"augment": {"compress_log_depth": 0.0}},
    ("training", "photographs as rendered"): {
        "augment": dict.fromkeys(("exposure", "white_balance", "vignette", "defocus", "motion", "noise", "jpeg"), 0.0)
    },
    ("worlds", "interiors only"): {"worlds": {"only": INTERIORS}},
    ("worlds", "streets and nature only"): {"worlds": {"only": ("street", "nature")}},
    ("worlds", "close-ups, displays and piles only"): {"worlds": {"only": ("closeup", "display", "pile")}},
    ("patterns", "random points only"): {"data": {"pattern": RANDOM}},
    ("patterns", "0.7 % only"): {"data": {"pattern": "0.7%"}},
}


def manifest_of(worlds: Sequence[str], sources: dict[str, str], path: Path) -> None:
    """Write a manifest that trains on frames of `worlds` alone and holds out what every run does."""
    chosen = {}
    for name, folder in sources.items():
        frames = open_source(name, folder).frames
        chosen[name] = [
            frame
            for frame, scene in zip(frame_names(frames), scene_names(frames), strict=True)
            if scene.startswith(tuple(worlds)) or is_held_out(scene, VAL_FRACTION)
        ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_manifest(path, chosen)


def fitting_start(start: str, options: dict[str, Any], path: Path) -> dict[str, Any]:
    """Write what a compact network of `options` can take of `start`, as a whole network; return its options."""
    given = load_network(start)
    assert isinstance(given, CompactNetwork)
    options = {"slope": given.config.slope, **options}
    network = CompactNetwork(CompactConfig(**options))
    tensors = given.state_dict()
    network.load_state_dict({name: tensors.get(name, tensor) for name, tensor in network.state_dict().items()})
    path.parent.mkdir(parents=True, exist_ok=True)
    save_network(network, path)
    return options


def run_one(
    name: str, seed: int, steps: int, data: Sequence[str], encoder: str, start: str, lr: float, out: Path
) -> dict[str, Any]:
    """Train one variant with one seed and return its scores."""
    torch.set_num_threads(1)
    folder = out / "runs" / f"{''.join(c if c.isalnum() else '_' for c in name)}-{seed}"
    changes = next(change for (_, known), change in VARIANTS.items() if known == name)
    tables: dict[str, dict[str, Any]] = {
        "data": {
            "sources": {f"frames{i}": one for i, one in enumerate(data)},
            "sizes": SIZES,
            "workers": 0,
            "val_fraction": VAL_FRACTION,
        },
        "schedule": {"steps": steps},
        "optimizer": {"ema": 0.98, "lr": lr},
        "validation": {"patterns": PATTERNS, "frames": FRAMES, "every_minutes": 0.0, "pictures": 0},
        "network": {"encoder": encoder} if encoder else {},
    }
    for section, values in changes.items():
        if section == "worlds":
            own = folder.with_suffix(".frames.json")
            manifest_of(values["only"], tables["data"]["sources"], own)
            tables["data"]["manifest"] = str(own)
        else:
            tables[section] = {**tables.get(section, {}), **values}
    if start:
        own = folder.with_suffix(".start.safetensors")
        options = fitting_start(start, tables["network"].get("options", {}), own)
        tables["network"] = {**tables["network"], "options": options, "init_checkpoint": str(own)}
    config = load_config("compact", None, [f"seed={seed}"], **tables)
    train(config, folder, resume=(folder / "state.pt").exists(), quiet=True)
    with (folder / "validation.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if int(row["step"]) == steps]
    errors = {row["pattern"]: float(row["log_error"]) for row in rows}
    return {"name": name, "seed": seed, "steps": steps, "error": errors}


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def table(results: Sequence[dict[str, Any]]) -> str:
    """Markdown: one line per variant, mean error of ln depth in per cent by pattern."""
    lines = [f"| | without or with | runs | {' | '.join(PATTERNS)} |", "|---|---|---:|" + "---:|" * len(PATTERNS)]
    for group, name in VARIANTS:
        scores = [result["error"] for result in results if result["name"] == name]
        if not scores:
            continue
        cells = []
        for pattern in PATTERNS:
            values = [100 * score[pattern] for score in scores]
            cells.append(f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else ""))
        lines.append(f"| {group} | {name} | {len(scores)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", help="shards of omnidc scenes; may be given more than once")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--encoder", default="", help="ImageNet weights (see the preset)")
    parser.add_argument("--start", default="", help="weights that every run goes on from, as far as they fit")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--only", action="append", help="part of a variant's name")
    parser.add_argument("--table", action="store_true", help="print the results and do nothing else")
    options = parser.parse_args()
    path = options.out / "results.jsonl"
    results = read(path)
    if not options.table:
        if not options.data:
            parser.error("give --data, or --table")
        names = [name for _, name in VARIANTS if not options.only or any(part in name for part in options.only)]
        done = {(result["name"], result["seed"]) for result in results}
        # seed by seed: an unfinished table has all variants
        todo = [(name, seed) for seed in range(options.seeds) for name in names if (name, seed) not in done]
        shared = (options.steps, options.data, options.encoder, options.start, options.lr, options.out)
        with process_pool(options.jobs) as pool, tqdm(total=len(todo), unit="run") as bar:
            waiting = [pool.submit(run_one, name, seed, *shared) for name, seed in todo]
            for one in waiting:
                results.append(one.result())
                with atomic_path(path) as temporary:
                    temporary.write_text("".join(json.dumps(result) + "\n" for result in results), encoding="utf-8")
                bar.update()
    print(table(results))


if __name__ == "__main__":
    main()
