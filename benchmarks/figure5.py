"""Fig. 5 of the paper: error against time, with the number of parameters as the size of a point.

    omnidc eval --protocol real --data DIR -m compact -m linear -m edge-aware -o OUT
    python benchmarks/figure5.py OUT/real.json --out figure5.svg [--pattern sift] [--error rel] [--time cpu_seconds]

Reads the JSON that `omnidc eval` wrote: any protocol, any methods, one pattern or the mean over all (ALL). Parameters
are counted where a method is a network of this package; other methods are small points. Nothing is measured here.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

from omnidc.errors import OmnidcError
from omnidc.network.checkpoint import load_network
from plot import COLORS, Panel, write


def parameters(method: str) -> int:
    """Number of weights of a network of ours; 0 for any other method."""
    try:
        return sum(p.numel() for p in load_network(method).parameters())
    except OmnidcError:
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pattern", default="ALL")
    parser.add_argument("--error", default="rel")
    parser.add_argument("--time", default="cpu_seconds")
    options = parser.parse_args()
    content = json.loads(options.results.read_text(encoding="utf-8"))
    means = [mean for mean in content["means"] if mean["pattern"] == options.pattern]
    if not means:
        known = ", ".join(dict.fromkeys(mean["pattern"] for mean in content["means"]))
        parser.error(f"{options.results} has no pattern {options.pattern!r}: choose one of {known}.")
    times = [mean["scores"][options.time] for mean in means]
    errors = [mean["scores"][options.error] for mean in means]
    panel = Panel(
        f"{content['protocol']}, {options.pattern}",
        f"{options.time} per image",
        options.error,
        (10 ** math.floor(math.log10(min(times))), 10 ** math.ceil(math.log10(max(times)) + 1e-9)),
        (0.0, 1.15 * max(errors)),
        log_x=True,
    )
    print("| method | parameters, M | " + f"{options.time} | {options.error} |\n|---|---:|---:|---:|")
    for index, (mean, time, error) in enumerate(zip(means, times, errors, strict=True)):
        count = parameters(mean["method"])
        panel.point(time, error, 3 + 1.5 * math.sqrt(count / 1e6), COLORS[index % len(COLORS)], mean["method"])
        print(f"| {mean['method']} | {count / 1e6:.1f} | {time:.3g} | {error:.4f} |")
    write(options.out, [panel], columns=1)


if __name__ == "__main__":
    main()
