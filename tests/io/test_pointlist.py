from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from omnidc.errors import OmnidcError
from omnidc.io.pointlist import read_points
from omnidc.pipeline import make_frame

TEXTS = {
    "a.txt": "# u v depth\n3 4 2.5\n7.4 1.6 4\n",
    "b.csv": "3,4,2.5\n7.4,1.6,4\n",
    "c.csv": "id;row;col;depth\n1;4;3;2.5\n2;1.6;7.4;4\n",
    "d.json": json.dumps([[3, 4, 2.5], [7.4, 1.6, 4]]),
    "e.json": json.dumps({"points": [{"v": 4, "u": 3, "depth": 2.5}, {"v": 1.6, "u": 7.4, "depth": 4}]}),
}


@pytest.mark.parametrize("name", TEXTS)
def test_point_list_every_form_draws_the_same_map(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(TEXTS[name])
    frame = make_frame(np.zeros((10, 12, 3), np.uint8), tmp_path / name)
    expected = np.zeros((10, 12), np.float32)
    expected[4, 3], expected[2, 7] = 2.5, 4
    assert np.array_equal(frame.measurements(), expected)
    assert "a list of 2 points" in frame.unit_reason


def test_point_list_nearest_of_one_pixel_stays(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("3 4 2\n3.2 4.1 1\n3 3.9 5\n")
    assert read_points(tmp_path / "a.txt").draw((8, 8)).depth[4, 3] == 1


def test_point_list_depth_scale_gives_meters(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("3 4 2000\n")
    frame = make_frame(np.zeros((8, 8, 3), np.uint8), tmp_path / "a.txt", depth_scale=1000)
    assert frame.measurements()[4, 3] == 2
    assert frame.unit == "m"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no points"),
        ("3 4\n", "list of points"),
        ("x,y,z\n1,2,3\n", "points in space: use omnidc lidar"),
        ("u,v,intensity\n1,2,3\n", "none is called depth"),
        ("9 4 2\n40 1 3\n", "1 of 2 points lie outside"),
        ("nan 4 2\n", "no number"),
        ("3 4 -2\n", "negative depth"),
    ],
)
def test_point_list_bad_files_are_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(OmnidcError, match=words):
        make_frame(np.zeros((10, 12, 3), np.uint8), tmp_path / "a.csv")
