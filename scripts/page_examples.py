"""Make the examples of the page again: rendered views, and what five kinds of sensors would measure in them.

    python scripts/page_examples.py --assets DIR        # a folder of `omnidc scenes setup`; some five CPU-minutes

Writes NAME.jpg and NAME_sparse.png of every view, and index.json, into src/omnidc/examples. The room was made earlier
(README.md beside the files) and is only listed. Rendered frames are kept in --frames and used again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

import omnidc
from omnidc import patterns
from omnidc.datasets.shards import Shards
from omnidc.frame import Frame
from omnidc.io.depth import write_depth
from omnidc.io.files import write_json
from omnidc.scenes.generate import launch_worker
from omnidc.scenes.manifest import Settings, frame_key

FOLDER = Path(omnidc.__file__).parent / "examples"
SEED = 909  # no frame of it was used for training
SIZE, SAMPLES, VIEWS = (640, 480), 24, 2

Map = npt.NDArray[np.float32]  # [H, W], meters, 0 = none
Rng = np.random.Generator


@dataclass(frozen=True)
class Place:
    """A view of the generator."""

    world: str
    scene: int
    view: int

    @property
    def worlds(self) -> tuple[str, ...]:
        """The worlds that the generator drew from."""
        return ("street",) if self.world == "street" else ("room", "office", "kitchen")


@dataclass(frozen=True)
class Situation:
    """One example: which view, which sensor, how it is called."""

    name: str
    title: str
    about: str  # {points} = number of measured pixels
    place: Place
    sensor: Callable[[Frame, Rng], Map]

    @property
    def depth_scale(self) -> float:
        """Of the PNG: KITTI's outdoors, millimeters indoors."""
        return 256.0 if self.place.world == "street" else 1000.0


def lidar_64(frame: Frame, rng: Rng) -> Map:
    """A spinning LiDAR of 64 lines (2° above the horizon to 25° below) on the roof, range 80 m, noise of 2 cm."""
    depth, camera = _truth(frame)
    draw = patterns.LidarDraw(
        baseline_x=0.06,
        baseline_y=-0.08,
        focal=float(camera[0, 0]),
        cx=float(camera[0, 2]),
        cy=float(camera[1, 2]),
        pitch_min=np.radians(-2.0),
        pitch_max=np.radians(24.8),
        lines=64,
        columns=2000,
    )
    return _noisy(patterns.scan_from_baseline(depth, draw), 0.02, rng, 80.0)


def phone_lidar(frame: Frame, rng: Rng) -> Map:
    """The depth map of a phone, 192 rows, range 5 m."""
    return _noisy(patterns.phone(192)(*_pattern_input(frame), rng).sparse, 0.0, rng, 5.0)


def sfm(frame: Frame, rng: Rng) -> Map:
    """Three fifths of the SIFT keypoints, as triangulated from a few photographs: noise of 0.5 %, 3 % wrong matches."""
    depth, image = _pattern_input(frame)
    sample = patterns.sift()(depth, image, rng)
    for modify in (patterns.dropout(0.4), patterns.jitter(0.005), patterns.outliers(0.03)):
        sample = modify(sample, depth, image, rng)
    return sample.sparse


def depth_camera(frame: Frame, rng: Rng) -> Map:
    """A stereo depth camera: holes at edges, in the dark and on even surfaces; range 0.4 to 6 m."""
    sparse = patterns.depth_camera()(*_pattern_input(frame), rng).sparse
    return np.where(sparse > 0.4, _noisy(sparse, 0.0, rng, 6.0), np.float32(0))


def radar(frame: Frame, rng: Rng) -> Map:
    """An automotive radar: 120 returns, poor in angle, one in ten a ghost."""
    return patterns.radar(120, 0.1)(*_pattern_input(frame), rng).sparse


SITUATIONS = (
    Situation(
        "street", "A street, LiDAR on the roof", "64 lines, {points} pixels hit", Place("street", 2, 0), lidar_64
    ),
    Situation("phone", "A living room, a phone’s LiDAR", "{points} smooth depths", Place("room", 1, 1), phone_lidar),
    Situation("facade", "A façade, structure from motion", "{points} points, some wrong", Place("street", 8, 1), sfm),
    Situation("holes", "A table, a depth camera", "{points} pixels, with holes", Place("room", 3, 0), depth_camera),
    Situation("radar", "A road, radar", "{points} returns, some of them ghosts", Place("street", 8, 0), radar),
)

ROOM = (
    ("A room, 500 points", "random pixels, exact", 1.0, 0.0),
    ("The room, 25 points", "a twentieth of them", 0.05, 0.0),
    ("The room, one point in five wrong", "drawn from the range of the others", 1.0, 0.2),
    ("The room, no points at all", "relative depth", 0.0, 0.0),
)


def _truth(frame: Frame) -> tuple[Map, npt.NDArray[np.float64]]:
    assert frame.depth is not None
    assert frame.intrinsics is not None
    return frame.depth, frame.intrinsics


def _pattern_input(frame: Frame) -> tuple[Map, npt.NDArray[np.uint8]]:
    return _truth(frame)[0], frame.image


def _noisy(sparse: Map, noise: float, rng: Rng, reach: float) -> Map:
    """Add noise (meters, standard deviation), and drop what lies beyond the sensor's reach."""
    noisy = (sparse + noise * rng.standard_normal(sparse.shape)).astype(np.float32)
    return np.where((sparse > 0) & (sparse < reach), noisy, np.float32(0))


def render(place: Place, frames: Path, assets: Path) -> Frame:
    """Render a scene of the generator, unless its shard is there, and return the view."""
    folder = frames / place.worlds[0]
    folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(
        str(folder),
        seed=SEED,
        width=SIZE[0],
        height=SIZE[1],
        views=VIEWS,
        samples=SAMPLES,
        scenes_per_shard=1,
        worlds=place.worlds,
        assets=str(assets),
    )
    shard = settings.shard_path(place.scene)
    if not shard.is_file():
        with TemporaryDirectory() as work:
            output, _ = launch_worker(settings, place.scene, Path(work)).communicate()
        if not shard.is_file():
            raise SystemExit(f"{shard} was not rendered:\n{output}")
    views = Shards([shard])
    return views[views.keys.index(frame_key(place.world, SEED, place.scene, place.view))]


def entry(
    title: str, about: str, name: str, suffix: str, camera: list[float], scale: float | None, **sliders: float
) -> dict[str, Any]:
    """One example as the page reads it."""
    files = {"image": f"{name}.jpg", "sparse": f"{name}_sparse.{suffix}"}
    return {"title": title, "about": about, **files, "intrinsics": camera, "depth_scale": scale, **sliders}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--assets", type=Path, required=True)
    parser.add_argument("--frames", type=Path, default=Path("page_frames"), help="folder of rendered shards")
    options = parser.parse_args()
    index = []
    for situation in SITUATIONS:
        frame = render(situation.place, options.frames, options.assets)
        rng = np.random.default_rng([SEED, situation.place.scene])
        sparse = situation.sensor(frame, rng)
        Image.fromarray(frame.image).save(FOLDER / f"{situation.name}.jpg", quality=88)
        write_depth(FOLDER / f"{situation.name}_sparse.png", sparse, situation.depth_scale)
        camera = _truth(frame)[1]
        numbers = [round(float(value), 3) for value in (camera[0, 0], camera[1, 1], camera[0, 2], camera[1, 2])]
        about = situation.about.format(points=f"{int((sparse > 0).sum()):,}")
        index.append(
            entry(situation.title, about, situation.name, "png", numbers, situation.depth_scale, keep=1.0, outliers=0.0)
        )
        print(f"{situation.name}: {about}")
    room = [float(word) for word in (FOLDER / "room_intrinsics.txt").read_text(encoding="utf-8").split()]
    for title, about, keep, outliers in ROOM:
        index.append(entry(title, about, "room", "npz", room, None, keep=keep, outliers=outliers))
    write_json(FOLDER / "index.json", index)
    print(json.dumps([file.name for file in sorted(FOLDER.iterdir())]))


if __name__ == "__main__":
    main()
