from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from omnidc.cli import app
from omnidc.datasets.shards import ShardWriter
from omnidc.frame import Frame
from omnidc.scenes.preview import depth_picture, frame_sheet
from omnidc.scenes.statistics import bare, measure, near_edges, summarize


def frame() -> Frame:
    rng = np.random.default_rng(0)
    image = np.full((48, 64, 3), 128, dtype=np.uint8)
    image[:, 32:] = rng.integers(0, 255, (48, 32, 3))
    depth = np.full((48, 64), 1.5, dtype=np.float32)
    depth[:, 32:] = 7.0
    return Frame(image, depth=depth, name="a")


def test_edges_are_where_depth_jumps_and_two_pixels_beside() -> None:
    found = near_edges(frame().depth)  # type: ignore[arg-type]
    assert found.all(axis=0).nonzero()[0].tolist() == list(range(29, 35))


def test_slopes_and_the_border_of_the_sky_are_no_edges() -> None:
    slope = np.tile(np.linspace(1, 2, 64, dtype=np.float32), (48, 1))
    slope[:10] = 0
    assert not near_edges(slope).any()


def test_bare_is_what_has_no_texture() -> None:
    found = bare(frame().image)
    assert found[:, :28].all()
    assert not found[:, 36:].any()


def test_figures_of_a_frame() -> None:
    one = measure(frame(), np.zeros((48, 64), dtype=bool))
    assert one.histogram.sum() == pytest.approx(1)
    assert one.histogram[2] == one.histogram[5] == 0.5  # 1–2 m and 5–10 m
    assert one.edges == pytest.approx(6 / 64)
    assert one.shallow == float(one.relief < 0.5)


def test_relief_tells_shallow_pictures_from_deep_ones() -> None:
    def ramp(far: float) -> Frame:
        depth = np.tile(np.linspace(1, far, 64, dtype=np.float32), (48, 1))
        return Frame(np.zeros((48, 64, 3), np.uint8), depth=depth)

    flat, deep = measure(ramp(1.2)), measure(ramp(9.0))
    assert flat.relief == pytest.approx(0.9 * 0.2 / 1.1, rel=0.05)
    group = summarize([flat, deep, deep])
    assert group.relief == deep.relief > 1
    assert group.shallow == pytest.approx(1 / 3)


def test_sparse_depth_has_no_edges_and_is_left_out_of_means() -> None:
    sparse = frame()
    assert sparse.depth is not None
    sparse.depth[::2] = 0
    sparse.depth[:, ::2] = 0
    one, other = measure(sparse), measure(frame())
    assert np.isnan(one.edges)
    assert summarize([one, other]).edges == other.edges
    assert summarize([one, other]).frames == 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with ShardWriter(tmp_path / "a.tar") as writer:
        for k in range(5):
            one = frame()
            writer.add(f"{'room' if k < 3 else 'pile'}-0-{k:06d}_0", one.image, one.depth)  # type: ignore[arg-type]
    return tmp_path


def test_a_sheet_shows_each_frame_once_with_its_depth_below(folder: Path) -> None:
    sheet = frame_sheet(folder, columns=3, rows=2, width=100)
    assert sheet.shape == (2 * 150, 300, 3)
    assert frame_sheet(folder, columns=3, rows=2, width=100, world="pile").shape == (150, 300, 3)
    picture = depth_picture(frame().depth)  # type: ignore[arg-type]
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) == 2


def test_commands_print_figures_and_write_a_sheet(folder: Path, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    np.savez(real / "x.npz", rgb=frame().image, depth=frame().depth)
    result = CliRunner().invoke(app, ["scenes", "stats", str(folder), "--real", str(real)])
    assert result.exit_code == 0, result.output
    assert [line.split("|")[1].strip() for line in result.output.splitlines()[2:]] == [
        "pile",
        "room",
        "all rendered",
        "real",
    ]
    sheet = tmp_path / "sheet.png"
    result = CliRunner().invoke(app, ["scenes", "preview", str(folder), "-o", str(sheet)])
    assert result.exit_code == 0, result.output
    assert sheet.stat().st_size > 500


def test_setup_says_what_is_missing_without_assets(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["scenes", "setup", "--assets", str(tmp_path)])
    assert result.exit_code == 0
    assert "--download" in result.output
    assert result.output.count("missing") >= 10
