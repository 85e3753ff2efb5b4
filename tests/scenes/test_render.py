"""What Blender makes of a scene. Needs bpy; each test runs it in a process of its own, since it can hang at exit."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from omnidc.datasets.shards import Shards
from omnidc.scenes.manifest import Settings

pytestmark = pytest.mark.skipif(importlib.util.find_spec("bpy") is None, reason="needs bpy")

DEPTH_OF_A_PLANE = """
import json, os, sys
from pathlib import Path
import numpy as np
from omnidc.scenes.blender import Stage
from omnidc.scenes.camera import View, cut, intrinsics, look_at
from omnidc.scenes.description import Scene, Sun
from omnidc.scenes.materials import plain
from omnidc.scenes.primitives import boxes
from omnidc.scenes.render import Renderer
rng = np.random.default_rng(0)
scene = Scene("test", lights=[Sun(0.8, 0.3, 3.0, (1, 1, 1))])
scene.add(boxes([(-50, -50, -1, 50, 50, 0)]), plain(rng))
scene.add(boxes([(-0.5, 3.0, 0, 0.5, 3.2, 1.0)]), plain(rng))
stage, renderer = Stage(), Renderer(2, Path(sys.argv[1]).parent)
stage.build(scene)
matrix = intrinsics(64, 48, 70)
if sys.argv[2] == "cut":
    matrix = cut(matrix, (64, 48), 0.6, np.array([0.35, 0.1]))
view = View(look_at((0.2, -1, 1.4), (0, 3, 0.6), 0.1), matrix, 64, 48, "indoor")
seen = renderer.render(stage.camera, view, 1)
again = renderer.render(stage.camera, view, 1)
np.savez(sys.argv[1], depth=seen.depth, light=seen.light, again=again.light, pose=view.pose, K=view.intrinsics)
os._exit(0)
"""


ONLY_EDGES = """
import json, os, sys
from pathlib import Path
from omnidc.scenes import worker
from omnidc.scenes.manifest import Settings
worker.fault = lambda image, depth: worker.TOO_MANY_EDGES
settings = Settings(
    sys.argv[1], seed=3, width=64, height=48, views=5, samples=1, scenes_per_shard=1, worlds=("display",)
)
events = []
worker.render_shard(settings, 0, Path(sys.argv[1]), events.append)
print("reports", json.dumps([event["event"] for event in events]), flush=True)
os._exit(0)
"""


def test_scene_of_leaves_is_given_up_after_two_frames(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ONLY_EDGES, str(tmp_path)], check=True, capture_output=True, text=True)
    reports = next(line for line in done.stdout.splitlines() if line.startswith("reports"))
    assert json.loads(reports.partition(" ")[2]) == ["refused", "refused"]


@pytest.mark.parametrize("window", ["whole", "cut"])
def test_depth_is_exact_at_pixel_centers_and_sky_is_zero(tmp_path: Path, window: str) -> None:
    file = tmp_path / "out.npz"
    subprocess.run([sys.executable, "-c", DEPTH_OF_A_PLANE, str(file), window], check=True, capture_output=True)
    out = np.load(file)
    depth, pose = out["depth"], out["pose"]
    pixels = np.stack([*np.meshgrid(np.arange(64), np.arange(48)), np.ones((48, 64))], axis=-1)
    rays = pixels @ np.linalg.inv(out["K"]).T @ pose[:3, :3].T  # z-depth 1, in the world
    with np.errstate(divide="ignore"):
        floor = -pose[2, 3] / rays[..., 2]
        wall = (3.0 - pose[1, 3]) / rays[..., 1]
    at_floor = pose[:3, 3] + rays * floor[..., None]
    at_wall = pose[:3, 3] + rays * wall[..., None]
    on_floor = (floor > 0) & (np.abs(at_floor[..., :2]) < 50).all(axis=-1)
    on_wall = (wall > 0) & (np.abs(at_wall[..., 0]) < 0.5) & (at_wall[..., 2] > 0) & (at_wall[..., 2] < 1)
    expected = np.where(on_floor, floor, np.inf)
    expected = np.where(on_wall & (wall < expected), wall, expected)
    expected = np.where(np.isfinite(expected), expected, 0)
    error = np.abs(depth - expected) / np.maximum(expected, 1)
    assert (depth == 0).any()
    # pixels whose center is within rounding of an edge, or on the thin upper side of the wall, may differ
    assert (error < 5e-4).mean() > 0.98
    assert np.array_equal(out["light"], out["again"])


def test_a_worker_renders_a_shard_without_assets(tmp_path: Path) -> None:
    settings = Settings(
        str(tmp_path), seed=3, width=64, height=48, views=2, samples=1, scenes_per_shard=1, worlds=("display",)
    )
    job = tmp_path / "scratch" / "00000" / "job.json"
    job.parent.mkdir(parents=True)
    job.write_text(json.dumps({"settings": settings.to_json(), "shard": 0, "parent": os.getpid()}))
    done = subprocess.run(
        [sys.executable, "-m", "omnidc.scenes.worker", str(job)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"event": "failed"' not in done.stdout
    frames = Shards(tmp_path)
    assert len(frames) >= 1
    frame = frames[0]
    assert frame.depth is not None
    assert (frame.height, frame.width) == (48, 64)
    assert frames.meta(0)["world"] == "display"
    assert np.array_equal(frame.sky, frame.depth == 0)
    assert frame.normals is not None
    lengths = np.linalg.norm(frame.normals, axis=2)
    assert ((lengths == 0) | (np.abs(lengths - 1) < 0.02)).all()
