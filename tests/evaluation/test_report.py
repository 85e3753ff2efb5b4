from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from omnidc.cli import app
from omnidc.evaluation.pictures import PANEL_WIDTH, strip
from omnidc.evaluation.protocols import Citation, EvaluationProtocol, Published
from omnidc.evaluation.report import (
    comparison_tables,
    group_tables,
    method_tables,
    number,
    tables,
    to_markdown,
    to_text,
    write_csv,
    write_html,
    write_json,
)
from omnidc.evaluation.runner import Results, Row, picture_path
from omnidc.evaluation.sample import Sample


def results(folder: Path | None = None, total: bool = True) -> Results:
    protocol = EvaluationProtocol(
        "t",
        "A <table>",
        "Rules.",
        ("p", "q"),
        lambda root, only: [],
        ("rel", "delta_1"),
        ("g", "h"),
        total=total,
        published=(
            Published("Net", {"q": {"rel": 0.031}}, Citation("paper", "a source"), reference=True),
            Published("Base", {"q": {"rel": 0.5}}, Citation("paper", "a source"), frozenset({"q"})),
        ),
    )
    rows = [
        Row("one", "p", "m", "g", 9, {"rel": 0.1, "delta_1": 0.9}),
        Row("two", "p", "m", "h", 9, {"rel": 0.3, "delta_1": 0.7}),
        Row("one", "q", "m", "g", 9, {"rel": 0.2, "delta_1": math.nan}),
        Row("one", "p", "n", "g", 9, {"rel": 0.5, "delta_1": 0.5}),
    ]
    return Results(protocol, rows, ["m", "n"], folder)


def test_table_has_methods_beside_published_rows() -> None:
    rel, d1 = comparison_tables(results())
    assert rel.header == ["pattern", "n", "m", "n", "Net, paper"]
    assert rel.rows[0] == ["p", "2", "0.2000", "0.5000", "—"]
    assert rel.rows[1] == ["q", "1", "0.2000", "—", "0.0310"]
    assert rel.rows[2][0] == "ALL"
    assert d1.header == ["pattern", "n", "m", "n"]  # the paper has no such number
    assert d1.rows[1] == ["q", "0", "—", "—"]


def test_a_single_method_is_followed_by_its_differences() -> None:
    both = results()
    one = replace(both, rows=[row for row in both.rows if row.method == "m"], methods=["m"])
    rel = comparison_tables(one)[0]
    assert rel.header == ["pattern", "n", "m", "Net, paper", "difference"]
    assert rel.rows[0] == ["p", "2", "0.2000", "—", "—"]
    assert rel.rows[1] == ["q", "1", "0.2000", "0.0310", "+0.1690"]


def test_baselines_stand_in_a_table_of_their_own_with_daggers() -> None:
    published = [table for table in tables(results()) if "published" in table.title]
    assert [table.rows for table in published] == [[["Base, paper", "0.5000†"]]]


def test_json_holds_the_means_of_the_tables(tmp_path: Path) -> None:
    write_json(results(), tmp_path / "t.json")
    content = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    mean = next(m for m in content["means"] if (m["method"], m["pattern"]) == ("m", "p"))
    assert mean["n"] == 2
    assert mean["scores"] == pytest.approx({"rel": 0.2, "delta_1": 0.8})


def test_a_total_that_says_nothing_is_not_shown() -> None:
    assert [row[0] for row in comparison_tables(results(total=False))[0].rows] == ["p", "q"]


def test_one_method_is_shown_with_all_its_scores() -> None:
    table = method_tables(results())[0]
    assert table.header == ["pattern", "n", "REL ↓", "δ1 ↑"]
    assert table.rows[0] == ["p", "2", "0.2000", "0.800"]


def test_groups_are_in_the_order_of_the_protocol() -> None:
    table = group_tables(results())[0]
    assert [row[0] for row in table.rows] == ["g", "h"]
    assert table.rows[0][2:] == ["0.1500", "0.5000"]


def test_group_tables_hold_rel_and_rmse() -> None:
    both = results()
    rows = [replace(row, scores={**row.scores, "rmse": 2 * row.scores["rel"]}) for row in both.rows]
    rel, rmse = group_tables(replace(both, rows=rows))
    assert (rel.title, rmse.title) == ("REL ↓ by group", "RMSE ↓ by group")
    assert rmse.rows[0][2:] == ["0.3000", "1.0000"]


def test_text_and_markdown_hold_the_same_cells() -> None:
    table = comparison_tables(results())[0]
    text, markdown = to_text(table).splitlines(), to_markdown(table).splitlines()
    assert text[2].split() == table.rows[0]
    assert [cell.strip() for cell in markdown[4].strip("|").split("|")] == table.rows[0]


def test_csv_has_every_row_and_empty_cells_for_missing_scores(tmp_path: Path) -> None:
    write_csv(results(), tmp_path / "t.csv")
    with (tmp_path / "t.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    assert float(rows[0]["rel"]) == 0.1
    assert rows[2]["delta_1"] == ""


def test_the_page_is_one_file_with_the_worst_picture(tmp_path: Path) -> None:
    for image in ("one", "two"):
        path = picture_path(tmp_path, image, "p", "m")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image.encode())
    write_html(results(tmp_path), tmp_path / "real.html", pictures=1)
    page = (tmp_path / "real.html").read_text(encoding="utf-8")
    assert "A &lt;table&gt;" in page
    assert "a source" in page
    assert "data:image/jpeg;base64,dHdv" in page  # "two" is the worse one
    assert "b25l" not in page
    assert 'src="http' not in page
    write_html(results(tmp_path), tmp_path / "real.html", pictures=None)
    assert "b25l" in (tmp_path / "real.html").read_text(encoding="utf-8")


def test_numbers_are_written_for_people() -> None:
    assert number(0.123456, "rel") == "0.1235"
    assert number(0.98765, "delta_1") == "0.988"
    assert number(None, "rel") == number(math.nan, "rel") == "—"
    assert number(12.3456, "seconds") == "12.3"


def test_strip_has_five_panels_even_without_depth() -> None:
    truth = np.tile(np.linspace(1, 5, 64, dtype=np.float32), (48, 1))
    sample = Sample(np.full((48, 64, 3), 77, np.uint8), np.where(truth > 4.8, truth, 0), truth)
    bad = truth.copy()
    bad[:5], bad[5:9], bad[9:12] = np.nan, -1.0, np.inf
    picture = strip(sample, bad)
    assert picture.shape == (192, 5 * PANEL_WIDTH, 3)
    perfect = strip(sample, truth)
    error = perfect[:, 4 * PANEL_WIDTH :]
    assert error.max() < 20  # no error is black
    assert (
        np.abs(
            perfect[:, 2 * PANEL_WIDTH : 3 * PANEL_WIDTH].astype(int) - perfect[:, 3 * PANEL_WIDTH : 4 * PANEL_WIDTH]
        ).max()
        == 0
    )
    assert picture[:, 4 * PANEL_WIDTH :].max() > 150


@pytest.fixture
def photograph(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    rng = np.random.default_rng(0)
    depth = rng.uniform(1, 2, (48, 64)).astype(np.float32)
    np.savez(folder / "nyu_x.npz", rgb=rng.integers(0, 256, (48, 64, 3), dtype=np.uint8), depth=depth)
    return folder


def test_the_command_prints_tables_and_writes_all_forms(photograph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["eval", "-d", str(photograph), "-m", "nearest", "-m", "linear", "--patterns", "random-0.7%,hole"]
    result = CliRunner().invoke(app, [*arguments, "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "REL ↓" in result.output
    assert "hole" in result.output
    assert {path.name for path in out.iterdir()} == {
        "scores-real.jsonl",
        "real.csv",
        "real.json",
        "real.md",
        "real.html",
        "pictures",
    }
    again = CliRunner().invoke(app, [*arguments, "-o", str(out), "--resume", "--markdown"])
    assert "| hole |" in again.output


def test_eval_command_lists_protocols() -> None:
    listed = CliRunner().invoke(app, ["eval", "--protocol", "list"])
    assert "table2" in listed.output
    refused = CliRunner().invoke(app, ["eval", "-d", ".", "--resume"])
    assert refused.exit_code != 0
