"""Write the tables of README, docs and model card from the JSON files that the measurements wrote: none is typed.

    python benchmarks/tables.py [PAGE ...] [--results docs/results] [--check]

Without a PAGE all pages with tables are written. A table stands between `<!-- table FILE KIND OPTIONS -->` and
`<!-- /table -->`; what is between the two is replaced. FILE is looked for in the results folder. KIND:

    scores    patterns down, methods across, one table per score     scores=rel,rmse methods=linear,compact
    method    patterns down, scores across, for one method           method=compact scores=rel,rmse,boundary_f1
    groups    groups of frames down, methods across                  scores=rel methods=linear,compact
    shipped   a model beside linear interpolation and the best of the baselines      method=compact scores=rel,rmse
    gain      one sentence: by how much a model's REL is lower than linear interpolation's     method=compact
    nopoints  one sentence, from what benchmarks/no_points.py wrote
    curves    what benchmarks/curves.py wrote
    prior     what benchmarks/prior.py wrote
    figure3   what benchmarks/figure3.py wrote
    ablations what benchmarks/paper_ablations.py wrote
    doctor    what benchmarks/doctor.py wrote
    rows      a column for each key of its rows (runtimes.py, int8.py, demo_page.py)     columns=size,onnx_ms
    cells     {"header": [...], "rows": [[...]]} as it is (integrate.py); part=NAME: of one key of the file

With --check nothing is written; the exit code is 1 when a table would change or its file is missing.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from omnidc.evaluation.baselines import BASELINES
from omnidc.evaluation.report import LABELS, Table, label, number, to_markdown
from omnidc.io.files import atomic_path
from prior import table as prior_table

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"(<!-- table (\S+) (\w+)([^>]*?) -->\n)(.*?)(<!-- /table -->)", re.DOTALL)


def mean_of(rows: Sequence[Mapping[str, Any]], method: str, key: str, value: str, score: str) -> str:
    found = (row["scores"].get(score) for row in rows if row["method"] == method and row[key] == value)
    return number(next(found, None), score)


def counts(rows: Sequence[Mapping[str, Any]], key: str, value: str) -> str:
    return str(max(row["n"] for row in rows if row[key] == value))


def score_tables(content: Any, options: Mapping[str, str], part: str, key: str) -> list[Table]:
    """One table per score: `key` (pattern or group) down, methods across."""
    rows = content[part]
    methods = options["methods"].split(",") if "methods" in options else list(dict.fromkeys(r["method"] for r in rows))
    values = list(dict.fromkeys(row[key] for row in rows))
    return [
        Table(
            label(score),
            [key, "n", *methods],
            [[v, counts(rows, key, v), *(mean_of(rows, m, key, v, score) for m in methods)] for v in values],
        )
        for score in options["scores"].split(",")
        if any(score in row["scores"] for row in rows)
    ]


def method_table(content: Any, options: Mapping[str, str]) -> list[Table]:
    rows, scores = content["means"], options["scores"].split(",")
    values = list(dict.fromkeys(row["pattern"] for row in rows))
    body = [
        [v, counts(rows, "pattern", v), *(mean_of(rows, options["method"], "pattern", v, s) for s in scores)]
        for v in values
    ]
    return [Table(options["method"], ["pattern", "n", *map(label, scores)], body)]


def means_of(content: Any, score: str) -> dict[str, dict[str, float]]:
    """Return pattern → method → score, without the mean over all patterns."""
    found: dict[str, dict[str, float]] = {}
    for row in content["means"]:
        if row["pattern"] != "ALL" and score in row["scores"]:
            found.setdefault(row["pattern"], {})[row["method"]] = row["scores"][score]
    return found


def shipped_table(content: Any, model: str, scores: Sequence[str]) -> list[Table]:
    """Scores of a model, beside linear interpolation and the best baseline of each pattern; coverage beside REL."""
    patterns = means_of(content, "rel")
    header, rows = ["pattern", "n"], [[p, counts(content["means"], "pattern", p)] for p in patterns]
    inside = means_of(content, "coverage_95")
    for score in scores:
        name, direction = LABELS[score]
        means = means_of(content, score)
        best_of = max if direction == "↑" else min
        header += [f"{name} {model}", f"{name} linear", "best baseline"]
        for row in rows:
            methods = means[row[0]]
            best, method = best_of((value, method) for method, value in methods.items() if method in BASELINES)
            row += [number(methods[model], score), number(methods["linear"], score), f"{number(best, score)} {method}"]
        if score == "rel":
            header.append("inside 95 %")
            for row in rows:
                row.append(number(inside[row[0]][model], "coverage"))
    return [Table("", header, rows)]


def gain_sentence(content: Any, model: str) -> str:
    """The least and the largest reduction of REL against linear interpolation, by pattern."""
    gains = {pattern: 1 - m[model] / m["linear"] for pattern, m in means_of(content, "rel").items()}
    (least, low), (most, high) = (f(gains.items(), key=lambda item: item[1]) for f in (min, max))
    return (
        f"REL is {100 * low:.0f} % ({least}) to {100 * high:.0f} % ({most}) lower than that of linear interpolation, "
        f"over {len(gains)} kinds of sparse input."
    )


def no_points_sentence(content: Any) -> str:
    delta, rel = content["delta_1"], content["rel"]
    return (
        f"Without any measurement, after alignment of the scale (one factor per image): δ1 {delta['model']:.3f} "
        f"(a constant: {delta['constant']:.3f}), REL {rel['model']:.3f} ({rel['constant']:.3f}), better than a "
        f"constant (δ1) on {content['better']} of {content['photographs']} photographs."
    )


def curves_table(content: Any) -> list[Table]:
    """REL by number of points and of lines."""
    rows = [
        [f"{row['n']:,} {what}", number(row["linear"], "rel"), number(row["model"], "rel")]
        for what, part in (("random points", "points"), ("LiDAR lines", "lines"))
        for row in content[part]
    ]
    return [Table(f"REL ↓, mean of {content['frames']} frames", ["input", "linear", content["model"]], rows)]


def figure3_table(content: Any) -> str:
    layouts: dict[str, dict[str, float]] = content["largest deviation, in units of the noise"]
    heads = list(next(iter(layouts.values())))
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    return "\n".join(
        [*lines, *(f"| {name} | {' | '.join(f'{v:.2f}' for v in d.values())} |" for name, d in layouts.items())]
    )


def rows_table(content: Any, options: Mapping[str, str]) -> str:
    """A line for each of the file's `rows`."""
    columns = options["columns"].split(",")

    def cell(value: Any) -> str:
        return value if isinstance(value, str) else f"{value:.4g}"

    lines = [f"| {' | '.join(name.replace('_', ' ') for name in columns)} |", "|---|" + "---:|" * (len(columns) - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(cell(row[name]) for name in columns)} |" for row in content["rows"])])


def doctor_table(content: Any) -> str:
    """Verdicts by planted fault, and a sentence about untouched samples."""
    lines = ["| fault | samples | found | cannot tell | missed | found of decided |", "|---|---:|---:|---:|---:|---:|"]
    for row in content["rows"]:
        found, missed = row["found"], row["missed"]
        share = f"{100 * found / (found + missed):.0f} %" if found + missed else "–"
        lines.append(f"| {row['fault']} | {row['samples']} | {found} | {row['cannot_tell']} | {missed} | {share} |")
    checks = ", ".join(f"{check} {count}" for check, count in content["false_alarms_by_check"].items())
    alarms = f"{content['false_alarms']} of {content['untouched']} untouched samples raise a suspicion"
    return "\n".join([*lines, "", f"{alarms} ({checks})." if checks else f"{alarms}."])


def ablations_table(content: Any) -> str:
    import paper_ablations  # imports the whole training

    return paper_ablations.table(paper_ablations.read(content))


# Kinds that need no options.
PLAIN: Mapping[str, Callable[[Any], str]] = {
    "nopoints": no_points_sentence,
    "figure3": figure3_table,
    "prior": prior_table,
    "ablations": ablations_table,
    "doctor": doctor_table,
}


def render(kind: str, content: Any, options: Mapping[str, str]) -> str:
    if kind in PLAIN:
        return PLAIN[kind](content)
    if kind == "rows":
        return rows_table(content, options)
    if kind == "gain":
        return gain_sentence(content, options["method"])
    if kind == "method":
        found = method_table(content, options)
    elif kind == "shipped":
        found = shipped_table(content, options["method"], options["scores"].split(","))
    elif kind == "curves":
        found = curves_table(content)
    elif kind == "cells":
        part = content[options["part"]] if "part" in options else content
        found = [Table("", part["header"], part["rows"])]
    elif kind in ("scores", "groups"):
        found = score_tables(content, options, *(("means", "pattern") if kind == "scores" else ("groups", "group")))
    else:
        raise SystemExit(f"There is no kind of table {kind!r}: see the head of this script.")
    return "\n\n".join(to_markdown(table).removeprefix("****\n\n") for table in found)


def pages() -> list[Path]:
    """Return README, docs and model card, those that have tables of this kind."""
    every = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "src/omnidc/weights/README.md"]
    return [page for page in every if BLOCK.search(page.read_text(encoding="utf-8"))]


def written(page: Path, results: Path) -> str:
    """Return the text of a page with its tables made anew."""

    def replace(match: re.Match[str]) -> str:
        head, file, kind, rest, body, end = match.groups()
        path = results / file
        if not path.is_file() and not body:
            return match[0]  # a table that has not been measured yet
        if not path.is_file():
            raise SystemExit(f"{page}: {path}, the source of a {kind} table, is missing.")
        options = dict(option.split("=", 1) for option in rest.split())
        return f"{head}{render(kind, json.loads(path.read_text(encoding='utf-8')), options)}\n{end}"

    return BLOCK.sub(replace, page.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, nargs="*")
    parser.add_argument("--results", type=Path, default=ROOT / "docs/results")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    for page in arguments.page or pages():
        text = written(page, arguments.results)
        if text == page.read_text(encoding="utf-8"):
            continue
        if arguments.check:
            raise SystemExit(f"{page} differs from its JSON files: run python benchmarks/tables.py.")
        with atomic_path(page) as temporary:
            temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
