"""The whole examination, the report and the command."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from known_room import Room, room, shifted
from omnidc.cli import app
from omnidc.diagnose import Verdict, as_json, as_lines, as_text, diagnose, examine
from omnidc.diagnose.doctor import CHECKS
from omnidc.errors import InputError, OmnidcError
from omnidc.frame import Frame
from omnidc.geometry.camera import backproject
from omnidc.io.calibration import read_calibration
from omnidc.pipeline import load


def frame_of(scene: Room, share: float = 0.05) -> Frame:
    return Frame(image=scene.image, sparse=scene.random(share), intrinsics=scene.K, name="room")


def test_examine_of_a_clean_room_finds_nothing() -> None:
    found = examine(room(2).image, room(2).random(0.3), room(2).K)
    assert [finding.check for finding in found.findings] == list(CHECKS)
    assert found.suspicions == ()


def test_examine_is_deterministic() -> None:
    scene = room(2)
    first, second = (examine(scene.image, scene.random(0.05), scene.K) for _ in range(2))
    assert first == second


def test_examine_of_some_checks_gives_the_same_verdicts() -> None:
    scene = room(2)
    every = examine(scene.image, scene.random(0.05), scene.K).findings
    some = examine(scene.image, scene.random(0.05), scene.K, checks=("outliers", "ray depth")).findings
    assert some == tuple(f for f in every if f.check in ("outliers", "ray depth"))


def test_examine_every_suspicion_has_advice() -> None:
    scene = room(2)
    K = scene.K.copy()
    K[:2] /= 2
    wrong = examine(scene.image, shifted(scene.random(0.3), 5, 0) * np.float32(1000), K)
    assert {finding.check for finding in wrong.suspicions} >= {"unit", "camera matrix", "calibration"}
    for finding in wrong.findings:
        assert bool(finding.advice) is (finding.verdict is Verdict.SUSPICIOUS)
        assert finding.evidence.endswith(".")


def test_examine_of_other_size_or_no_points_is_refused() -> None:
    scene = room()
    with pytest.raises(InputError, match="300x240"):
        examine(scene.image, scene.depth[:, :300], scene.K)
    with pytest.raises(InputError, match="no depth points"):
        examine(scene.image, np.zeros_like(scene.depth), scene.K)


def test_report_fits_on_a_page_and_is_json() -> None:
    diagnosis = diagnose(frame_of(room(1)), load("interpolate", "cpu"), folds=2)
    text = as_text(diagnosis)
    assert text.count("\n") <= 50
    assert all(check in text for check in CHECKS)
    data = json.loads(json.dumps(as_json(diagnosis), allow_nan=False))
    assert data["errors"]["network"]["rel"] > 0
    assert data["errors"]["count"] == sum(row["count"] for row in data["errors"]["by_distance"])


def test_report_of_few_points_measures_no_errors() -> None:
    diagnosis = diagnose(frame_of(room(1), 0.0002), load("interpolate", "cpu"))
    assert diagnosis.errors is None
    assert "too few points" in as_text(diagnosis)


def test_lines_name_error_and_suspicions() -> None:
    scene = room(1)
    frame = Frame(image=scene.image, sparse=scene.random(0.05) * np.float32(1000), name="room")
    text = "\n".join(as_lines(diagnose(frame, load("interpolate", "cpu"), folds=1)))
    assert "REL" in text
    assert "millimeters" in text


@pytest.fixture
def files(tmp_path: Path) -> Path:
    scene = room(2)
    cv2.imwrite(str(tmp_path / "image.png"), scene.image[..., ::-1])
    np.save(tmp_path / "sparse.npy", scene.random(0.3))
    np.save(tmp_path / "shifted.npy", shifted(scene.random(0.3), 5, 0))
    points = backproject(shifted(scene.random(0.3), 5, 0), scene.K).astype(np.float32)
    np.concatenate([points, np.zeros((len(points), 1), np.float32)], axis=1).tofile(tmp_path / "scan.bin")
    calibration = {"K": scene.K.tolist(), "camera_from_lidar": np.eye(4).tolist()}
    (tmp_path / "calib.json").write_text(json.dumps(calibration))
    return tmp_path


def run(*words: object) -> str:
    result = CliRunner().invoke(app, ["doctor", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_command_prints_json_and_writes_picture(files: Path) -> None:
    camera = ("--intrinsics", 250, 250, 159.5, 119.5)
    picture = files / "out.png"
    text = run(files / "image.png", files / "shifted.npy", *camera, "--folds", 0, "--json", "--picture", picture)
    verdicts = {finding["check"]: finding["verdict"] for finding in json.loads(text)["findings"]}
    assert verdicts["calibration"] == "suspicious"
    assert verdicts["unit"] == "ok"
    assert cv2.imread(str(picture)).shape == (480, 320, 3)


def test_command_repairs_the_calibration_of_a_scan(files: Path) -> None:
    arguments = (files / "image.png", files / "scan.bin")
    text = run(*arguments, "--calib", files / "calib.json", "--folds", 0, "--write-calib", files / "new.json")
    assert "calibration       SUSPICIOUS" in text
    repaired = read_calibration(files / "new.json").camera_from_sensor
    assert np.degrees(np.arctan2(repaired[0, 2], repaired[2, 2])) == pytest.approx(np.degrees(-5 / 250), abs=0.3)
    again = run(*arguments, "--calib", files / "new.json", "--folds", 0)
    assert "calibration       SUSPICIOUS" not in again


def test_verify_of_a_sensor_command_names_suspicions(files: Path) -> None:
    words = [
        "lidar",
        files / "scan.bin",
        files / "image.png",
        "--calib",
        files / "calib.json",
        "--model",
        "interpolate",
    ]
    words += ["--output", files / "out", "--verify"]
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "doctor: REL" in result.output
    assert "doctor: calibration: Depth edges" in result.output


def test_command_writes_the_best_mixture(files: Path) -> None:
    out = files / "best.npy"
    text = run(files / "image.png", files / "sparse.npy", "--model", "interpolate", "--folds", 2, "--best", out)
    assert "linear interpolation" in text
    depth = np.load(out)
    assert depth.shape == (240, 320)
    assert (depth > 0).all()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("scan.bin",), "--calib"),
        (("sparse.npy", "--folds", "0", "--best", "best.npy"), "--folds"),
        (("sparse.npy", "--folds", "-1"), "--folds"),
        (("sparse.npy", "--write-calib", "new.json"), "--calib"),
        (("sparse.npy", "--picture", "out.npy"), "--picture"),
        (("sparse.npy", "--best", "best.ply"), "--intrinsics"),
        (("missing.npy",), "does not exist"),
    ],
)
def test_command_refuses_in_a_sentence(files: Path, words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(OmnidcError, match=sentence):
        run(files / "image.png", files / words[0], *words[1:])
