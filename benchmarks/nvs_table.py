"""What the runs of benchmarks/nvs.py show: means, paired differences with intervals, and the bars."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

METRICS = {
    "psnr": "PSNR, dB", "ssim": "SSIM", "lpips": "LPIPS", "depth_rmse": "depth RMSE, m", "depth_rel": "median rel.",
}  # fmt: skip
DEPTH_METRICS = {"depth_rmse": "RMSE / none", "depth_rel": "rel. / none"}
SIGNS = ("+.2f", ".2f", ".2f")  # how a difference and two ratios are printed
ARM_ORDER = ("none", "sparse", "linear", "omnidc", "omnidc+points", "true")
RMSE_BAR, REL_BAR, PSNR_LOSS = 0.7, 0.5, -0.3  # of no depth; dB

Runs = dict[tuple[str, int], dict[str, Any]]  # of one arm, by scene and seed


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

    def verdict(self) -> str:
        """Say what the interval of a difference of PSNR shows."""
        if self.half is None:
            return "has no interval (one run)"
        low, high = self.mean - self.half, self.mean + self.half
        if low > 0:
            return "shows a gain"
        small = f"a loss of {-PSNR_LOSS} dB"
        if high < 0:
            return f"shows a loss{f' (but not of {-PSNR_LOSS} dB)' if low > PSNR_LOSS else ''}"
        return f"shows no gain, and {'excludes' if low > PSNR_LOSS else 'does not exclude'} {small}"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """All arms of one regime, over the scenes and seeds that every arm has."""

    regime: str
    options: dict[str, str]
    arms: dict[str, Runs]
    pairs: list[tuple[str, int]]

    def values(self, arm: str, metric: str) -> list[float]:
        """A metric of an arm's runs, of those scenes where it was measured."""
        return [self.arms[arm][pair][metric] for pair in self.pairs if metric in self.arms[arm][pair]]

    def metrics(self) -> list[str]:
        """Metrics that every arm has, on one scene at least."""
        return [metric for metric in METRICS if all(self.values(arm, metric) for arm in self.arms)]

    def mean(self, arm: str, metric: str) -> float:
        return float(np.mean(self.values(arm, metric)))

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
        runs = [self.arms[arm][pair] for arm in self.arms for pair in self.pairs]
        counts = {run["gaussians"] for run in runs}
        count = f"every run ends with {min(counts)} Gaussians"
        if len(counts) > 1:
            count = f"**not comparable: runs end with {min(counts)} to {max(counts)} Gaussians**"
        names = ", ".join(sorted(str(scene) for scene in scenes))
        seconds, cpu = (max(run[name] for run in runs) for name in ("seconds", "cpu_seconds"))
        return (
            f"**{self.regime}**: {len(scenes)} scenes ({names}), {len(seeds)} seeds, options {self.options}; {count}; "
            f"a run took at most {seconds:.0f} s by the clock and {cpu:.0f} CPU-s, all of them together "
            f"{sum(run['cpu_seconds'] for run in runs) / 3600:.2f} CPU-hours"
        )

    def header(self) -> list[str]:
        metrics = self.metrics()
        ratios = [DEPTH_METRICS[metric] for metric in metrics if metric in DEPTH_METRICS]
        return ["arm", *(METRICS[metric] for metric in metrics), "PSNR − none", *ratios]

    def rows(self) -> list[list[str]]:
        """Mean ± deviation of each arm, its gain over no depth, and its depth errors as shares of those without."""
        rows, metrics = [], self.metrics()
        for arm in sorted(self.arms, key=_place):
            cells = [f"{self.mean(arm, m):.3f} ± {np.std(self.values(arm, m)):.3f}" for m in metrics]
            ratios = [f"{self.ratio(arm, m):.2f}" for m in metrics if m in DEPTH_METRICS]
            rows.append([arm, *cells, str(self.gain(arm)), *ratios])
        return rows

    def verdict(self) -> str:
        """Say which bars omnidc's depth meets; those of depth only where a truth of depth is known."""
        if not {"omnidc", "linear", "none"} <= self.arms.keys():
            return ""
        psnr = f"The interval of PSNR, {self.gain('omnidc')} dB, {self.gain('omnidc').verdict()}."
        if not DEPTH_METRICS.keys() <= set(self.metrics()):
            return f"omnidc against no depth, {self.regime}: no truth of depth is known. {psnr}"
        rmse, rel = self.ratio("omnidc", "depth_rmse"), self.ratio("omnidc", "depth_rel")
        behind = [
            METRICS[metric] for metric in DEPTH_METRICS if self.mean("omnidc", metric) >= self.mean("linear", metric)
        ]
        linear = f"not ahead of linear on {' and '.join(behind)}" if behind else "ahead of linear on both"
        return (
            f"omnidc against no depth, {self.regime}: RMSE of depth {rmse:.2f} (bar {RMSE_BAR}: "
            f"{'met' if rmse <= RMSE_BAR else 'missed'}), median relative error {rel:.2f} (bar {REL_BAR}: "
            f"{'met' if rel <= REL_BAR else 'missed'}), {linear}. {psnr}"
        )


def _place(arm: str) -> tuple[int, str]:
    """Our arms in their order, those of `--depth NAME=FOLDER` behind them."""
    return (ARM_ORDER.index(arm) if arm in ARM_ORDER else len(ARM_ORDER)), arm


def comparisons(records: Sequence[dict[str, Any]]) -> list[Comparison]:
    """Return a comparison for each regime and set of options that has runs without depth."""
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


def list_rows(records: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return a header and a row for every run, with the metrics that any of them has."""
    metrics = [metric for metric in METRICS if any(metric in run for run in records)]
    rows = []
    for run in records:
        options = ", ".join(f"{name} {value}" for name, value in run["options"].items())
        values = [f"{run[metric]:.3f}" if metric in run else "–" for metric in metrics]
        rows.append([run["regime"], run["scene"], run["arm"], options, str(run["seed"]), *values])
    return ["regime", "scene", "arm", "options", "seed", *(METRICS[metric] for metric in metrics)], rows


def switch_rows(records: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return a header and a row for every arm with its options, compared with no depth: mean ± deviation over seeds.

    Within a seed, differences of PSNR are averaged over regimes and scenes, and so are the logarithms of ratios.
    """
    runs = {(run["arm"], json.dumps(run["options"]), run["seed"], run["regime"], run["scene"]): run for run in records}
    rows = []
    for arm, text in dict.fromkeys(key[:2] for key in runs):
        if arm == "none":
            continue
        by_seed: dict[int, list[list[float]]] = defaultdict(list)
        for (_, _, seed, *place), run in ((key, run) for key, run in runs.items() if key[:2] == (arm, text)):
            without = runs.get(("none", "{}", seed, *place))
            if without is not None:
                ratios = [np.log(run[metric] / without[metric]) for metric in DEPTH_METRICS]
                by_seed[seed].append([run["psnr"] - without["psnr"], *ratios])
        means = np.array([np.mean(values, axis=0) for values in by_seed.values()])  # [seeds, 3]
        means[:, 1:] = np.exp(means[:, 1:])
        spread = [f" ± {one:.2f}" for one in means.std(axis=0, ddof=1)] if len(means) > 1 else [""] * 3
        options = ", ".join(f"{name} {value}" for name, value in json.loads(text).items())
        cells = [f"{mean:{form}}{deviation}" for mean, deviation, form in zip(means.mean(0), spread, SIGNS)]
        rows.append([arm, options, str(len(means)), *cells])
    return ["arm", "options", "seeds", "PSNR − none, dB", *DEPTH_METRICS.values()], rows
