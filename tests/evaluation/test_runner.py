from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from omnidc.errors import ConfigError, FileError, InputError
from omnidc.evaluation import evaluate
from omnidc.evaluation.protocols import EvaluationProtocol
from omnidc.evaluation.runner import Results, Row, picture_path
from omnidc.evaluation.sample import FrameRef, Sample


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """Three small photographs in the format of the real protocol; one with a sensor of its own."""
    folder = tmp_path / "photographs"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in ("middlebury_a", "nyu_b", "vod_c"):
        depth = (2 + np.cumsum(rng.random((48, 64)), axis=1) / 16).astype(np.float32)
        arrays = {"rgb": rng.integers(0, 256, (48, 64, 3), dtype=np.uint8), "depth": depth}
        if name == "vod_c":
            arrays["sparse"] = np.where(rng.random(depth.shape) < 0.05, depth + np.float32(0.1), 0).astype(np.float32)
        np.savez(folder / f"{name}.npz", **arrays)
    return folder


class Counting:
    """A method that counts its calls and gives an uncertainty."""

    def __init__(self, value: float = 3.0) -> None:
        self.calls, self.value = 0, value

    def __call__(self, image: np.ndarray, sparse: np.ndarray, intrinsics: np.ndarray | None) -> SimpleNamespace:
        self.calls += 1
        depth = np.full(sparse.shape, self.value, np.float32)
        return SimpleNamespace(depth=depth, uncertainty=np.full(sparse.shape, 0.5, np.float32))


def test_rows_hold_all_scores_of_all_methods_side_by_side(photographs: Path) -> None:
    results = evaluate(
        "real", photographs, {"flat": Counting(), "near": "nearest"}, patterns=["random-0.7%", "sensor"], progress=False
    )
    assert len(results.rows) == (3 + 1) * 2
    assert results.patterns == ["random-0.7%", "sensor"]
    assert results.groups == ["fine structure", "indoor cameras", "driving", "real sparse input"]
    for row in results.rows:
        assert {"rel", "rmse", "delta_1", "edge_rel", "rel_at_input", "rmse_median", "cpu_seconds"} <= set(row.scores)
        assert ("coverage_95" in row.scores) == (row.method == "flat")
    assert results.mean("near", "random-0.7%")["rel_at_input"] == 0
    assert results.mean("near")["rel"] < results.mean("flat")["rel"]


def test_only_limits_images_and_a_function_is_enough(photographs: Path) -> None:
    results = evaluate("real", photographs, Counting(), patterns=["random-5pt"], only="nyu", progress=False)
    assert [row.image for row in results.rows] == ["nyu_b"]
    assert results.methods == ["Counting"]


def test_resume_runs_only_what_is_missing(photographs: Path, tmp_path: Path) -> None:
    out, method = tmp_path / "out", Counting()

    def run(resume: bool, patterns: list[str]) -> Results:
        return evaluate(
            "real", photographs, {"m": method}, patterns=patterns, folder=out, resume=resume, progress=False
        )

    first = run(False, ["random-5pt"])
    assert method.calls == 3
    again = run(True, ["random-5pt", "sensor"])
    assert method.calls == 4  # one sensor; the frames without one are known by now
    assert {row.key for row in first.rows} < {row.key for row in again.rows}
    run(True, ["random-5pt", "sensor"])
    assert method.calls == 4
    run(False, ["random-5pt"])
    assert method.calls == 7


def test_a_torn_line_is_made_again_and_other_methods_are_kept(photographs: Path, tmp_path: Path) -> None:
    out, method = tmp_path / "out", Counting()
    log = out / "scores-real.jsonl"
    evaluate("real", photographs, {"a": method}, patterns=["random-5pt"], folder=out, progress=False)
    text = log.read_text()
    log.write_text(text[: len(text) - 40])
    evaluate("real", photographs, {"b": Counting()}, patterns=["random-5pt"], folder=out, resume=True, progress=False)
    evaluate("real", photographs, {"a": method}, patterns=["random-5pt"], folder=out, resume=True, progress=False)
    assert method.calls == 3 + 1
    assert len([line for line in log.read_text().splitlines() if '"b"' in line]) == 3


def test_scores_of_a_changed_checkpoint_are_not_kept(
    photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, checkpoint = Counting(), tmp_path / "model.safetensors"
    monkeypatch.setattr("omnidc.evaluation.runner.find_method", lambda name, untiled: method)
    for content, calls in ((b"one", 3), (b"one", 3), (b"another", 6)):
        if not checkpoint.exists() or checkpoint.read_bytes() != content:
            checkpoint.write_bytes(content)
        evaluate(
            "real",
            photographs,
            str(checkpoint),
            patterns=["random-5pt"],
            folder=tmp_path / "out",
            resume=True,
            progress=False,
        )
        assert method.calls == calls


def test_a_finished_run_loads_no_model(photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> Results:
        return evaluate(
            "real", photographs, "nearest", patterns=["random-5pt"], folder=tmp_path, resume=True, progress=False
        )

    run()
    monkeypatch.setattr("omnidc.evaluation.runner.find_method", lambda name: pytest.fail("loaded"))
    assert len(run().rows) == 3


def test_pictures_are_written_for_every_row(photographs: Path, tmp_path: Path) -> None:
    results = evaluate(
        "real", photographs, "nearest", patterns=["random-0.1%"], folder=tmp_path, pictures=True, progress=False
    )
    assert len(results.rows) == 3
    for row in results.rows:
        assert picture_path(tmp_path, *row.key).read_bytes().startswith(b"\xff\xd8")


def test_rows_survive_the_file_with_their_missing_scores() -> None:
    row = Row("a", "p", "m", "g", 7, {"rel": 0.25, "edge_rel": math.nan}, "f")
    again = Row.from_json(row.to_json())
    assert again.key == row.key
    assert again.scores["rel"] == 0.25
    assert math.isnan(again.scores["edge_rel"])
    assert again.fingerprint == "f"


def two_datasets() -> EvaluationProtocol:
    return EvaluationProtocol(
        "t",
        "t",
        "",
        ("p",),
        lambda root, only: [],
        ("rmse", "rel"),
        by_group=True,
        rmse_divisors={"A/out": 5.0},
    )


def test_parts_count_alike_and_outdoor_errors_are_divided() -> None:
    rows = [Row(str(i), "p", "m", "A/in", 1, {"rmse": 1.0, "rel": 0.1}) for i in range(5)]
    rows += [Row("o", "p", "m", "A/out", 1, {"rmse": 15.0, "rel": 0.3})]
    rows += [Row("b", "p", "m", "B", 1, {"rmse": 4.0, "rel": 0.4})]
    mean = Results(two_datasets(), rows, ["m"]).mean("m", "p")
    assert mean["rmse"] == pytest.approx((1 + 15 / 5 + 4) / 3)
    assert mean["rel"] == pytest.approx((0.1 + 0.3 + 0.4) / 3)


def test_frames_are_opened_once_and_only_when_needed() -> None:
    opened: list[str] = []
    truth = np.ones((8, 8), np.float32)
    sample = Sample(np.zeros((8, 8, 3), np.uint8), truth, truth)

    def frame(name: str) -> FrameRef:
        def open_():  # type: ignore[no-untyped-def]
            opened.append(name)
            return lambda pattern: sample

        return FrameRef(name, ("p", "q"), open_)

    protocol = EvaluationProtocol("t", "t", "", ("p", "q"), lambda root, only: [frame("a"), frame("b")], ("rel",))
    results = evaluate(protocol, ".", {"x": Counting(1.0), "y": Counting(2.0)}, progress=False)
    assert opened == ["a", "b"]
    assert len(results.rows) == 8
    assert results.mean("x")["rel"] == 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"protocol": "tabel2"}, ConfigError, "table2"),
        ({"patterns": ["random-0.7"]}, ConfigError, "random-0.7%"),
        ({"data": "no/such/folder"}, FileError, "no/such/folder"),
        ({"data": None}, ConfigError, "--data"),
        ({"only": "zebra"}, InputError, "zebra"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    photographs: Path, arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    call = {"protocol": "real", "data": photographs, "methods": "nearest", "progress": False, **arguments}
    with pytest.raises(error, match=message):
        evaluate(**call)  # type: ignore[arg-type]
