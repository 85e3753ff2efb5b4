"""Fig. 5 of the paper: error against time, with the number of parameters as the size of a point.

    omnidc eval --protocol real --data DIR -m compact -m linear -m edge-aware -o OUT
    python benchmarks/figure5.py OUT/real.json --out figure5.svg [--pattern sift] [--error rel] [--time cpu_seconds]

Reads the JSON that `omnidc eval` wrote: any protocol, any methods, one pattern or the mean over all (ALL). There is one
panel per error, REL and RMSE by default. Parameters are counted where a method is a network of this package; other
methods are small points. Nothing is measured here.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

from omnidc.errors import OmnidcError
from omnidc.evaluation.baselines import BASELINES
from omnidc.evaluation.report import LABELS, label, number
from omnidc.network.checkpoint import load_network
from plot import COLORS, Panel, write

ERRORS = ("rel", "rmse")


def parameters(method: str) -> int:
    """Number of weights of a network of this package; 0 for any other method."""
    if method in BASELINES:
        return 0
    try:
        return sum(p.numel() for p in load_network(method).parameters())
    except OmnidcError:
        return 0


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pattern", default="ALL")
    parser.add_argument("--error", action="append", help="a score of the file; repeatable")
    parser.add_argument("--time", default="cpu_seconds")
    options = parser.parse_args(arguments)
    try:
        content = json.loads(options.results.read_text(encoding="utf-8"))
        means = [mean for mean in content["means"] if mean["pattern"] == options.pattern]
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"{options.results} is not the JSON of omnidc eval ({error}).")
    if not means:
        known = ", ".join(dict.fromkeys(mean["pattern"] for mean in content["means"]))
        parser.error(f"{options.results} has no pattern {options.pattern!r}: choose one of {known}.")
    errors = options.error or ERRORS
    for mean in means:
        missing = [score for score in (options.time, *errors) if score not in mean["scores"]]
        if missing:
            parser.error(f"{mean['method']} has no {missing[0]} there: choose from {', '.join(mean['scores'])}.")
    times = [mean["scores"][options.time] for mean in means]
    counts = [parameters(mean["method"]) for mean in means]
    limits = (10 ** math.floor(math.log10(min(times))), 10 ** math.ceil(math.log10(max(times)) + 1e-9))
    panels = []
    for score in errors:
        values = [mean["scores"][score] for mean in means]
        title = f"{content['protocol']}, {options.pattern}"
        panel = Panel(
            title, f"{LABELS[options.time][0]} per image", LABELS[score][0], limits, (0, 1.15 * max(values)), log_x=True
        )
        for index, (mean, time, value, count) in enumerate(zip(means, times, values, counts, strict=True)):
            radius = 3 + 1.5 * math.sqrt(count / 1e6)
            panel.point(time, value, radius, COLORS[index % len(COLORS)], mean["method"])
        panels.append(panel)
    write(options.out, panels)
    print(f"| method | parameters, M | {LABELS[options.time][0]} | {' | '.join(map(label, errors))} |")
    print("|---|" + "---:|" * (2 + len(errors)))
    for mean, time, count in zip(means, times, counts, strict=True):
        cells = " | ".join(number(mean["scores"][score], score) for score in errors)
        print(f"| {mean['method']} | {count / 1e6:.1f} | {time:.3g} | {cells} |")


if __name__ == "__main__":
    main()
