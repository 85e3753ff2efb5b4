"""Pictures of README and docs: four sensors side by side, what the model is bad at, a gallery, the network's stages.

    omnidc scenes render -o FRAMES/street --count 20 --size 320x240 --seed 909 --worlds street --views 2 \\
        --scenes-per-shard 1 --assets ASSETS
    omnidc scenes render -o FRAMES/indoor --count 14 --size 320x240 --seed 909 --worlds room,office,kitchen --views 2 \\
        --scenes-per-shard 1 --assets ASSETS
    python benchmarks/pictures.py FRAMES --out docs/images [--model compact]      # sensors.jpg, limits.jpg
    python benchmarks/pictures.py --out docs/images                               # gallery.jpg, stages.jpg

The last two need nothing but the bundled examples. All frames are rendered; nothing was trained on seed 909. The
measurements are simulated with `omnidc.patterns` and the same in every run.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

import omnidc
from curves import draw
from omnidc.datasets.shards import Shards
from omnidc.evaluation.baselines import linear
from omnidc.frame import Frame
from omnidc.io.depth import read_depth
from omnidc.io.images import read_image, write_picture
from omnidc.viz.colormap import Scale, colorize, turbo
from omnidc.viz.preview import draw_points

Picture = npt.NDArray[np.uint8]  # [H, W, 3], RGB
FloatMap = npt.NDArray[np.float32]  # [H, W]

WIDTH, HEIGHT = 320, 240
MARGIN, HEAD, LEFT = 6, 24, 110
BACKGROUND = (250, 250, 248)
COLUMNS = 3  # of the gallery
EXAMPLES = Path(omnidc.__file__).parent / "examples"
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
    canvas = Image.new("RGB", size, BACKGROUND)
    pen, font = ImageDraw.Draw(canvas), ImageFont.load_default(15)
    for k, (title, column) in enumerate(zip(titles, columns, strict=True)):
        x = LEFT + k * (WIDTH + MARGIN)
        pen.text((x, 4), title, fill=(40, 40, 44), font=font)
        for row, picture in enumerate(column):
            canvas.paste(Image.fromarray(picture).resize((WIDTH, HEIGHT)), (x, HEAD + row * (HEIGHT + MARGIN)))
    for row, name in enumerate(rows):
        pen.text((6, HEAD + row * (HEIGHT + MARGIN) + 8), name, fill=(40, 40, 44), font=font)
    return np.asarray(canvas)


def framed(picture: Picture) -> Picture:
    """The middle of a picture, in the shape of a cell."""
    height, width = picture.shape[:2]
    kept = min(width, height * WIDTH // HEIGHT)
    left = (width - kept) // 2
    return np.asarray(Image.fromarray(picture[:, left : left + kept]).resize((WIDTH, HEIGHT)))


def doubled(image: Picture, sparse: FloatMap) -> tuple[Picture, FloatMap]:
    """A small photograph at twice its size, so that its points, of a fixed size, hide less of it."""
    large = np.zeros((2 * sparse.shape[0], 2 * sparse.shape[1]), np.float32)
    large[::2, ::2] = sparse
    return image.repeat(2, axis=0).repeat(2, axis=1), large


def write_gallery(path: Path, completer: Any) -> None:
    """The bundled examples: photograph with its measurements, and the result below."""
    index = json.loads((EXAMPLES / "index.json").read_text(encoding="utf-8"))
    examples = list({example["image"]: example for example in reversed(index)}.values())[::-1]
    rows = []
    for first in range(0, len(examples), COLUMNS):
        titles, columns = [], []
        for example in examples[first : first + COLUMNS]:
            image = read_image(EXAMPLES / example["image"])
            sparse = read_depth(EXAMPLES / example["sparse"], example["depth_scale"]).depth
            result = completer.complete(image, sparse)
            scale = Scale.of(result.depth)
            titles.append(example["title"].replace("’", "'").replace("ç", "c"))  # what the font has
            if image.shape[1] < 2 * WIDTH:
                image, sparse = doubled(image, sparse)
            columns.append([framed(draw_points(image // 2 + 96, sparse, scale)), framed(colorize(result.depth, scale))])
        rows.append(sheet(titles, ["measured", "omnidc"], columns))
    write_picture(path, np.concatenate(rows))


def gray(values: FloatMap, low: float, high: float) -> Picture:  # [h, w]
    """Black at `low`, white at `high`, at the size of a cell."""
    level = np.clip((values - low) / (high - low), 0, 1)
    picture = Image.fromarray((255 * level).astype(np.uint8)).resize((WIDTH, HEIGHT), Image.Resampling.NEAREST)
    return np.repeat(np.asarray(picture)[..., None], 3, axis=2)


def write_stages(path: Path) -> None:
    """What the stages of the network compute for the bundled room, a tenth of whose measurements were made wrong."""
    import torch

    image, depth = read_image(EXAMPLES / "room.jpg"), read_depth(EXAMPLES / "room_depth.png").depth
    sparse = draw(Frame(image, depth=depth, name="room"), "400 & noise(0.1)")
    network = omnidc.load("compact", "cpu", "torch").network  # type: ignore[union-attr]
    with torch.inference_mode():
        pixels = torch.from_numpy(image).permute(2, 0, 1)[None] / 255
        found = network(pixels, torch.from_numpy(sparse)[None, None])
    assert found.fields.weights is not None
    assert found.laplace_scale is not None
    slope, weight = (level[0, 0, :120, :160].numpy() for level in (found.fields.gradients[0], found.fields.weights[0]))
    confidence = found.fields.confidence[0, 0].numpy()
    solution = (found.log_depth[0, 0, :120, :160].exp() * found.median[0, 0]).numpy()
    result, deviation = found.depth[0, 0].numpy(), found.laplace_scale[0, 0].numpy()
    scale, reach = Scale.of(depth), float(np.quantile(np.abs(slope), 0.98))
    points = image // 2 + 96
    judged = points.copy()
    for y, x in np.argwhere(sparse > 0):
        right = confidence[y, x] >= 0.5
        judged[max(y - 2, 0) : y + 3, max(x - 2, 0) : x + 3] = (30, 150, 70) if right else (220, 40, 40)
    columns = [
        [draw_points(points, sparse, scale), judged],
        [gray(slope, -reach, reach), gray(np.log(weight), *np.quantile(np.log(weight), (0.02, 0.98)))],
        [colorize(solution, scale), colorize(result, scale)],
        [gray(np.log(deviation / result), np.log(0.003), np.log(0.3)), error_picture(result, depth)],
    ]
    upper = ["measurements, 10 % wrong", "2. gradient in x", "3. integrated, 1/2 size", "uncertainty, 0.3 to 30 %"]
    lower = ["1. confidence: red < 0.5", "2. edge weight (black: low)", "4. refined", "error (red: 20 %)"]
    parts = [sheet(titles, [""], [[column[k]] for column in columns]) for k, titles in enumerate((upper, lower))]
    write_picture(path, np.concatenate(parts)[:, LEFT - MARGIN :])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frames", type=Path, nargs="?", help="rendered frames; without them the bundled examples")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="compact")
    options = parser.parse_args()
    completer = omnidc.load(options.model)
    if options.frames is None:
        write_gallery(options.out / "gallery.jpg", completer)
        write_stages(options.out / "stages.jpg")
        return
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
