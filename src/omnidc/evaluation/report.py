"""Results as tables: for the terminal, Markdown, CSV, and an HTML page that needs no other file."""

from __future__ import annotations

import base64
import csv
import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omnidc import __version__
from omnidc.evaluation.metrics import LABELS
from omnidc.evaluation.pictures import PANELS
from omnidc.evaluation.protocols import Published
from omnidc.evaluation.published import BASELINE_RULES, PAPER
from omnidc.evaluation.runner import Results, picture_path
from omnidc.io.files import atomic_path

EMPTY = "—"
GROUP_SCORES = ("rel", "rmse")


@dataclass(frozen=True)
class Table:
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def number(value: float | None, score: str) -> str:
    """Format a score; — where there is none."""
    if value is None or math.isnan(value):
        return EMPTY
    if score in ("seconds", "cpu_seconds", "peak_gb"):
        return f"{value:.3g}"
    digits = 3 if score.startswith(("delta", "coverage", "boundary")) else 4
    return f"{value:.{digits}f}"


def label(score: str) -> str:
    name, direction = LABELS[score]
    return f"{name} {direction}"


def table_rows(results: Results) -> list[str | None]:
    """Return the patterns, and None for the mean over all of them where that says anything."""
    return [*results.patterns, None] if results.protocol.total else list(results.patterns)


def method_tables(results: Results) -> list[Table]:
    """Make one table per method: patterns down, scores across."""
    tables = []
    for method in results.methods:
        everything = results.mean(method)
        scores = [score for score in results.protocol.scores if score in everything]
        rows = []
        for pattern in table_rows(results):
            mean = results.mean(method, pattern)
            count = str(len(results.select(method, pattern)))
            rows.append([pattern or "ALL", count, *(number(mean.get(score), score) for score in scores)])
        tables.append(Table(method, ["pattern", "n", *map(label, scores)], rows))
    return tables


def comparison_tables(results: Results, scores: Sequence[str] | None = None) -> list[Table]:
    """Make one table per score: patterns down; our methods, then what the authors of the released model published.

    A single method is followed by its difference from each of them: near 0 means that it is reproduced. There is none
    where the published mean is over more data sets than are there.
    """
    tables = []
    single = results.methods[0] if len(results.methods) == 1 else None
    for score in scores or results.protocol.scores:
        if not any(score in row.scores for row in results.rows):
            continue
        references = [p for p in results.protocol.published if p.reference and p.has(score)]
        rows = []
        for pattern in table_rows(results):
            count = str(max(results.count(score, method, pattern) for method in results.methods))
            ours = [results.mean(method, pattern).get(score) for method in results.methods]
            cells = [number(value, score) for value in ours]
            for reference in references:
                theirs = reference.values.get(pattern or "ALL", {}).get(score)
                cells.append(number(theirs, score))
                if single is not None:
                    cells.append(difference(ours[0], theirs, score) if results.is_complete(pattern) else EMPTY)
            rows.append([pattern or "ALL", count, *cells])
        header = ["pattern", "n", *results.methods]
        for reference in references:
            header += [reference.label, "difference"] if single is not None else [reference.label]
        tables.append(Table(label(score), header, rows))
    return tables


def published_tables(protocol: str, published: Sequence[Published], scores: Sequence[str] | None = None) -> list[Table]:
    """Make one table per score: published methods down, patterns across; † = trained on the data of that column."""
    found = dict.fromkeys(score for p in published for values in p.values.values() for score in values)
    tables = []
    for score in scores or found:
        rows_of_score = [p for p in published if p.has(score)]
        patterns = list(dict.fromkeys(x for p in rows_of_score for x, values in p.values.items() if score in values))
        if not patterns:
            continue
        rows = [[p.label, *(_published_cell(p, pattern, score) for pattern in patterns)] for p in rows_of_score]
        tables.append(Table(f"{protocol}, published: {label(score)}", ["method, source", *patterns], rows))
    return tables


def _published_cell(published: Published, pattern: str, score: str) -> str:
    cell = number(published.values.get(pattern, {}).get(score), score)
    return f"{cell}†" if pattern in published.in_domain and cell != EMPTY else cell


def difference(ours: float | None, theirs: float | None, score: str) -> str:
    """Return ours minus theirs with its sign; — where one of them is missing."""
    if ours is None or theirs is None or math.isnan(ours):
        return EMPTY
    text = number(abs(ours - theirs), score)
    return ("+" if ours >= theirs else "−") + text


def group_tables(results: Results) -> list[Table]:
    """Make one table each of REL and RMSE: groups of frames down, methods across."""
    found = (score for score in GROUP_SCORES if any(score in row.scores for row in results.rows))
    return [_group_table(results, score) for score in found]


def _group_table(results: Results, score: str) -> Table:
    rows = []
    for group in results.groups:
        count = str(max(results.count(score, method, group=group) for method in results.methods))
        means = (results.mean(method, group=group).get(score) for method in results.methods)
        rows.append([group, count, *(number(mean, score) for mean in means)])
    return Table(f"{label(score)} by group", ["group", "n", *results.methods], rows)


def tables(results: Results) -> list[Table]:
    """Make the tables of a report: every score of one method, or methods side by side; groups; published rows."""
    if len(results.methods) == 1 and not results.protocol.published:
        found = method_tables(results)
    else:
        found = comparison_tables(results)
    if len(results.groups) > 1:
        found += group_tables(results)
    baselines = [p for p in results.protocol.published if not p.reference]
    return [*found, *published_tables(results.protocol.name, baselines, results.protocol.scores)]


def to_text(table: Table) -> str:
    widths = [max(map(len, column)) for column in zip(table.header, *table.rows)]

    def line(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        return "  ".join([first, *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:]))]).rstrip()

    return "\n".join([table.title, line(table.header), *map(line, table.rows)])


def to_markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    ruler = "|---|" + "---:|" * (len(table.header) - 1)
    return "\n".join([f"**{table.title}**", "", line(table.header), ruler, *map(line, table.rows)])


def notes(results: Results) -> str:
    """Return the protocol's rules, and where published numbers come from."""
    return f"{results.protocol.title}. {results.protocol.rules}{published_notes(results.protocol.published)}"


def published_notes(published: Sequence[Published]) -> str:
    """Return the sources of published numbers, the paper's rules for its baselines, and notes on single cells."""
    if not published:
        return ""
    sources = dict.fromkeys(f"{p.source.short} = {p.source.text}" for p in published)
    remarks = [f"{p.method}, {note}" for p in published for note in p.notes]
    parts = [f" Published numbers: {'; '.join(sources)}; † = trained on that dataset."]
    if any(p.source is PAPER for p in published):
        parts.append(BASELINE_RULES)
    if remarks:
        parts.append("Notes: " + "; ".join(remarks) + ".")
    return " ".join(parts)


def write_csv(results: Results, path: Path) -> None:
    """Write every row with all its scores; a score that a row does not have is an empty cell."""
    scores = [score for score in LABELS if any(score in row.scores for row in results.rows)]
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "pattern", "group", "method", "points", *scores])
        for row in results.rows:
            values = [row.scores.get(score, math.nan) for score in scores]
            cells = ["" if math.isnan(value) else repr(value) for value in values]
            writer.writerow([row.image, row.pattern, row.group, row.method, row.points, *cells])


def write_json(results: Results, path: Path) -> None:
    """Write the means that tables show, by method and pattern, with the rules of the protocol; a line for each."""

    def rounded(scores: dict[str, float]) -> dict[str, float]:
        return {name: float(f"{value:.6g}") for name, value in scores.items() if name in LABELS}

    means = [
        {
            "method": method,
            "pattern": pattern or "ALL",
            "n": len(results.select(method, pattern)),
            "scores": rounded(results.mean(method, pattern)),
        }
        for method in results.methods
        for pattern in table_rows(results)
    ]
    groups = [
        {
            "method": method,
            "group": group,
            "n": len(results.select(method, group=group)),
            "scores": rounded(results.mean(method, group=group)),
        }
        for method in results.methods
        for group in results.groups
    ]
    head = {
        "protocol": results.protocol.name,
        "title": results.protocol.title,
        "rules": results.protocol.rules,
        "omnidc": __version__,
    }
    parts = [f' "{key}": {json.dumps(value, ensure_ascii=False)}' for key, value in head.items()]
    for key, rows in (("means", means), ("groups", groups)):
        lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
        parts.append(f' "{key}": [\n{lines}\n ]')
    with atomic_path(path) as temporary:
        temporary.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def write_markdown(results: Results, path: Path) -> None:
    text = "\n\n".join([notes(results), *map(to_markdown, tables(results))])
    with atomic_path(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1340px; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: .6em 0 1.6em } caption { text-align: left; font-weight: 600 }
th, td { padding: .15em .7em; text-align: right; border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums }
th:first-child, td:first-child { text-align: left }
figure { margin: 0 0 1em } img { width: 100%; max-width: 1280px; display: block } figcaption { font-size: 13px }
"""


def write_html(results: Results, path: Path, pictures: int | None = 3) -> None:
    """Write a page of all tables and, per pattern and method, pictures of the `pictures` worst rows (None = all)."""
    escape = html.escape
    parts = [f"<h1>{escape(results.protocol.title)}</h1><p>{escape(notes(results))}</p>"]
    for table in tables(results):
        head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
        parts.append(f"<table><caption>{escape(table.title)}</caption><tr>{head}</tr>{body}</table>")
    headline = results.protocol.scores[0]
    for pattern in results.patterns if results.folder is not None and pictures != 0 else ():
        parts.append(f"<h2>{escape(pattern)}</h2><p>{' | '.join(PANELS)}</p>")
        for method in results.methods:
            rows = [row for row in results.select(method, pattern) if math.isfinite(row.scores.get(headline, math.nan))]
            rows.sort(key=lambda row: row.scores[headline], reverse=LABELS[headline][1] == "↓")
            for row in rows[:pictures]:
                parts.append(_figure(results.folder, row.key, number(row.scores[headline], headline), headline))
    page = f"<!doctype html><meta charset=utf-8><title>{escape(results.protocol.title)}</title><style>{STYLE}</style>"
    with atomic_path(path) as temporary:
        temporary.write_text(page + "\n".join(parts) + "\n", encoding="utf-8")


def _figure(folder: Path | None, key: tuple[str, str, str], value: str, headline: str) -> str:
    image, pattern, method = key
    caption = html.escape(f"{image} · {method} · {LABELS[headline][0]} {value}")
    file = None if folder is None else picture_path(folder, image, pattern, method)
    if file is None or not file.is_file():
        return f"<figure><figcaption>{caption} (no picture)</figcaption></figure>"
    data = base64.b64encode(file.read_bytes()).decode()
    return f'<figure><img src="data:image/jpeg;base64,{data}" alt=""><figcaption>{caption}</figcaption></figure>'
