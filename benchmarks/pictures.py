"""Pictures of README and docs: four sensors side by side, and what the model is bad at. All frames are rendered.

    omnidc scenes render -o FRAMES/street --count 20 --size 320x240 --seed 909 --worlds street --views 2 \\
        --scenes-per-shard 1 --assets ASSETS
    omnidc scenes render -o FRAMES/indoor --count 14 --size 320x240 --seed 909 --worlds room,office,kitchen --views 2 \\
        --scenes-per-shard 1 --assets ASSETS
    python benchmarks/pictures.py FRAMES --out docs/images [--model compact]

Nothing was trained on seed 909. The measurements are simulated with `omnidc.patterns` and the same in every run.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

import omnidc
from curves import draw
from omnidc.datasets.shards import Shards
from omnidc.evaluation.baselines import linear
from omnidc.frame import Frame
from omnidc.io.images import write_picture
from omnidc.viz.colormap import Scale, colorize, turbo
from omnidc.viz.preview import draw_points

Picture = npt.NDArray[np.uint8]  # [H, W, 3], RGB
FloatMap = npt.NDArray[np.float32]  # [H, W]

WIDTH, HEIGHT = 320, 240
MARGIN, HEAD, LEFT = 6, 24, 110
FULL_ERROR = 0.2  # relative error of the strongest color


@dataclass(frozen=True)
class Case:
    """One frame with a simulated sensor."""

    title: str
    key: str
    pattern: str


SENSORS = (
    Case("LiDAR, 16 lines", "street-909-000009_1", "lidar-16(400)"),
    Case("depth camera with holes", "room-909-000003_0", "camera"),
    Case("structure from motion", "room-909-000001_1", "sift & drop(0.6) & noise(0.02)"),
    Case("radar", "street-909-000004_1", "radar(150)"),
)
LIMITS = (
    Case("radar", "street-909-000002_1", "radar(100)"),
    Case("five points", "office-909-000000_0", "5"),
    Case("thin structures", "street-909-000001_1", "0.1%"),
    Case("behind windows", "room-909-000005_0", "0.1%"),
)


def error_picture(depth: FloatMap, truth: FloatMap) -> Picture:
    """Relative error, dark = none, bright = 20 % and more; light gray = no truth."""
    share = np.clip(np.abs(depth - truth) / np.maximum(truth, 1e-6) / FULL_ERROR, 0, 1)
    picture = turbo(1 - share)
    picture[truth <= 0] = 225
    return picture


def sensor_column(frame: Frame, sparse: FloatMap, depth: FloatMap) -> list[Picture]:
    """Input, linear interpolation, result; one color scale."""
    scale = Scale.of(depth)
    return [
        draw_points(frame.image // 2 + 96, sparse, scale),
        colorize(linear(frame.image, sparse), scale),
        colorize(depth, scale),
    ]


def limit_column(frame: Frame, sparse: FloatMap, depth: FloatMap) -> list[Picture]:
    """Input, result, truth, error; one color scale for depth."""
    assert frame.depth is not None
    scale = Scale.of(frame.depth)
    return [
        draw_points(frame.image, sparse, scale),
        colorize(depth, scale),
        colorize(frame.depth, scale),
        error_picture(depth, frame.depth),
    ]


def sheet(titles: list[str], rows: list[str], columns: list[list[Picture]]) -> Picture:
    """Columns of pictures under their titles, with the names of the rows at the left."""
    size = (LEFT + len(columns) * (WIDTH + MARGIN), HEAD + len(rows) * (HEIGHT + MARGIN))
    canvas = Image.new("RGB", size, (250, 250, 248))
    pen, font = ImageDraw.Draw(canvas), ImageFont.load_default(15)
    for k, (title, column) in enumerate(zip(titles, columns, strict=True)):
        x = LEFT + k * (WIDTH + MARGIN)
        pen.text((x, 4), title, fill=(40, 40, 44), font=font)
        for row, picture in enumerate(column):
            canvas.paste(Image.fromarray(picture).resize((WIDTH, HEIGHT)), (x, HEAD + row * (HEIGHT + MARGIN)))
    for row, name in enumerate(rows):
        pen.text((6, HEAD + row * (HEIGHT + MARGIN) + 8), name, fill=(40, 40, 44), font=font)
    return np.asarray(canvas)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frames", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="compact")
    options = parser.parse_args()
    completer = omnidc.load(options.model)
    sources = [Shards(options.frames / name) for name in ("street", "indoor")]
    frames = {key: (source, index) for source in sources for index, key in enumerate(source.keys)}
    for name, cases, make, rows in (
        ("sensors", SENSORS, sensor_column, ["input", "linear\ninterpolation", "omnidc"]),
        ("limits", LIMITS, limit_column, ["input", "omnidc", "truth", "error\n(red: 20 %)"]),
    ):
        columns = []
        for case in cases:
            source, index = frames[case.key]
            frame = source[index]
            sparse = draw(frame, case.pattern)
            columns.append(make(frame, sparse, completer.complete(frame.image, sparse).depth))
        write_picture(options.out / f"{name}.jpg", sheet([case.title for case in cases], rows, columns))


if __name__ == "__main__":
    main()
