"""Sparse depth as a list of points: CSV, text with `u v depth`, or JSON."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError, InputError
from omnidc.frame import Unit
from omnidc.io.depth import DepthFile, clean_depth
from omnidc.io.untrusted import check_records, is_number, read_text, untrusted

SUFFIXES = (".csv", ".txt", ".json")

COLUMNS = (("u", "x", "col", "column"), ("v", "y", "row"), ("depth", "d", "z", "distance"))
REMEDY = "write one point a line as u v depth, or a table with the columns u, v and depth"


@dataclass(frozen=True)
class PointList:
    """Measurements at pixels of an image; pixel centers at integers."""

    points: npt.NDArray[np.float64]  # [N, 3]: column, row, depth as stored
    name: str  # of the file, for sentences

    def shape_of(self, candidates: tuple[tuple[int, int], tuple[int, int]]) -> tuple[int, int] | None:
        """Return the only one of two image shapes that holds all points; None if neither or both do."""
        inside = [bool(self._inside(shape).all()) for shape in candidates]
        return None if inside[0] == inside[1] else candidates[inside.index(True)]

    def _inside(self, shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
        u, v = self.points[:, 0], self.points[:, 1]
        return (u >= -0.5) & (u < shape[1] - 0.5) & (v >= -0.5) & (v < shape[0] - 0.5)

    def draw(self, shape: tuple[int, int], scale: float | None = None) -> DepthFile:
        """Return the points as a map: each at its nearest pixel; of several in one pixel the nearest depth stays."""
        if scale is not None and not (np.isfinite(scale) and scale > 0):
            raise InputError(f"The depth scale must be a positive number, not {scale:g}.")
        inside = self._inside(shape)
        if not inside.all():
            u, v, _ = self.points[~inside][0]
            raise InputError(
                f"{self.name}: {int((~inside).sum())} of {len(inside)} points lie outside the image of "
                f"{shape[1]}x{shape[0]} pixels (first: column {u:g}, row {v:g}): give its pixels, column first."
            )
        depth, invalid = clean_depth(self.points[:, 2], scale or 1.0, self.name)
        order = np.argsort(-depth, kind="stable")  # far to near: the last write stays
        order = order[depth[order] > 0]
        columns, rows = np.floor(self.points[order, :2] + 0.5).astype(np.int64).T
        drawn = np.zeros(shape, np.float32)
        drawn[rows, columns] = depth[order]
        how = ", taken as they are" if scale is None else f" ÷ {scale:g}, as asked"
        unit = Unit.METERS if scale is not None and scale > 1 else Unit.UNKNOWN
        return DepthFile(drawn, f"a list of {len(depth):,} points{how}", scale or 1.0, unit, invalid)


def read_points(path: Path) -> PointList:
    """Read a list of points by its suffix; columns are found by their names, or are u, v and depth in this order."""
    if not path.is_file():
        raise FileError(f"{path} does not exist.")
    with untrusted(path, "a list of points", REMEDY):
        text = read_text(path)
        rows = _json_rows(json.loads(text)) if path.suffix.lower() == ".json" else _text_rows(text)
        check_records(len(rows), path)
        names = [str(word).strip().strip('"').lower() for word in rows[0]] if rows else []
        places = [0, 1, 2]
        if rows and not is_number(rows[0][0]):
            if {"x", "y", "z"} <= set(names):
                raise InputError(f"{path} has the columns x, y and z, which are points in space: use omnidc lidar.")
            places, rows = [_column(names, known, path) for known in COLUMNS], rows[1:]
        points = np.array([[float(row[place]) for place in places] for row in rows], dtype=np.float64).reshape(-1, 3)
    if not len(points):
        raise InputError(f"{path} holds no points: {REMEDY}.")
    if not np.isfinite(points[:, :2]).all():
        raise InputError(f"{path} has a pixel that is no number: {REMEDY}.")
    return PointList(points, str(path))


def _text_rows(text: str) -> list[list[Any]]:
    """Read rows of CSV (comma, semicolon or tab) or of words; lines that start with # are comments."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    separator = next((mark for mark in (",", ";", "\t") if lines and mark in lines[0]), None)
    return [line.split() for line in lines] if separator is None else list(csv.reader(lines, delimiter=separator))


def _json_rows(data: Any) -> list[list[Any]]:
    """Read rows of [[u, v, depth], …], of [{"u": …, "v": …, "depth": …}, …], or of {"points": either}."""
    data = data.get("points") if isinstance(data, dict) else data
    if not isinstance(data, list):
        raise ValueError("no list of points")
    if data and isinstance(data[0], dict):
        names = list(data[0])
        return [names, *([point[name] for name in names] for point in data)]
    return data


def _column(names: list[str], known: tuple[str, ...], path: Path) -> int:
    found = [names.index(name) for name in known if name in names]
    if not found:
        raise InputError(f"{path} has the columns {', '.join(names)[:80]}, but none is called {' or '.join(known)}.")
    return found[0]
