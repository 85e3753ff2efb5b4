"""Write the tables of a page from the JSON files that the measurements wrote, so that none of them is typed.

    python benchmarks/tables.py docs/benchmarks.md --results docs/results [--check]

A table of the page stands between `<!-- table FILE KIND OPTIONS -->` and `<!-- /table -->`; what is between the two is
replaced. FILE is looked for in the results folder; a table whose file is not there stays as it is, and is named. KIND:

    scores   patterns down, methods across, one table per score      scores=rel,rmse methods=linear,compact
    method   patterns down, scores across, for one method            method=compact scores=rel,rmse,boundary_f1
    groups   groups of frames down, methods across                   scores=rel methods=linear,compact
    prior    what benchmarks/prior.py wrote
    figure3  what benchmarks/figure3.py wrote
    rows     a column for each key of its rows (runtimes.py, int8.py, demo_page.py)   columns=size,onnx_ms
    ablations  what benchmarks/paper_ablations.py wrote

With --check nothing is written; the exit code is 1 when a table would change.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omnidc.evaluation.report import Table, label, number, to_markdown
from omnidc.io.files import atomic_path
from prior import table as prior_table

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
    ]


def method_table(content: Any, options: Mapping[str, str]) -> list[Table]:
    rows, scores = content["means"], options["scores"].split(",")
    values = list(dict.fromkeys(row["pattern"] for row in rows))
    body = [
        [v, counts(rows, "pattern", v), *(mean_of(rows, options["method"], "pattern", v, s) for s in scores)]
        for v in values
    ]
    return [Table(options["method"], ["pattern", "n", *map(label, scores)], body)]


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


def render(kind: str, content: Any, options: Mapping[str, str]) -> str:
    if kind == "prior":
        return prior_table(content)
    if kind == "figure3":
        return figure3_table(content)
    if kind == "rows":
        return rows_table(content, options)
    if kind == "ablations":
        import paper_ablations  # imports the whole training

        return paper_ablations.table(paper_ablations.read(content))
    if kind == "method":
        found = method_table(content, options)
    elif kind in ("scores", "groups"):
        found = score_tables(content, options, *(("means", "pattern") if kind == "scores" else ("groups", "group")))
    else:
        raise SystemExit(f"There is no kind of table {kind!r}: see the head of this script.")
    return "\n\n".join(map(to_markdown, found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    text = arguments.page.read_text(encoding="utf-8")

    def replace(match: re.Match[str]) -> str:
        head, file, kind, rest, _, end = match.groups()
        path = arguments.results / file
        if not path.is_file():
            print(f"{path} is not there: its {kind} table stays as it is.", file=sys.stderr)
            return match[0]
        options = dict(option.split("=", 1) for option in rest.split())
        return f"{head}{render(kind, json.loads(path.read_text(encoding='utf-8')), options)}\n{end}"

    result = BLOCK.sub(replace, text)
    if arguments.check:
        raise SystemExit(int(result != text))
    with atomic_path(arguments.page) as temporary:
        temporary.write_text(result, encoding="utf-8")


if __name__ == "__main__":
    main()
