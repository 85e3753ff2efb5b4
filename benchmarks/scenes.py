"""CPU-seconds per frame of the scene generator, by world and by stage, everything included.

    python benchmarks/scenes.py --assets DIR --scenes 2 --views 3 --size 320x240

The cores may be shared: CPU time is counted, not the clock. 1,500 frames an hour on two cores are 4.8 CPU-seconds each.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from omnidc.datasets.shards import ShardWriter
from omnidc.scenes.assets import open_library
from omnidc.scenes.blender import Stage, skies_folder
from omnidc.scenes.camera import choose_view, fault
from omnidc.scenes.develop import add_haze, develop
from omnidc.scenes.materials import Kit
from omnidc.scenes.normals import normals_of
from omnidc.scenes.render import Renderer
from omnidc.scenes.scratch import Scratch
from omnidc.scenes.worlds import MIX, build_scene

STAGES = ("describe", "build", "choose", "render", "write")
BAR = 2 * 3600 / 1500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--assets", type=Path)
    parser.add_argument("--scenes", type=int, default=2)
    parser.add_argument("--views", type=int, default=3)
    parser.add_argument("--size", default="320x240")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worlds", default=",".join(MIX))
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    stage = Stage()
    kit = Kit(open_library(options.assets, skies=skies_folder()))
    scratch = Scratch()
    renderer = Renderer(options.samples, scratch.folder)
    lines, mixed = [], 0.0
    worlds = options.worlds.split(",")
    for world in worlds:
        spent = dict.fromkeys(STAGES, 0.0)
        frames = size = 0
        clock = time.process_time()

        def lap(name: str, spent: dict[str, float] = spent) -> None:
            nonlocal clock
            now = time.process_time()
            spent[name] += now - clock
            clock = now

        with tempfile.TemporaryDirectory() as folder, ShardWriter(Path(folder) / "one.tar") as writer:
            for number in range(options.scenes):
                scene, rng = build_scene(options.seed, number, kit, [world])
                lap("describe")
                stage.build(scene)
                lap("build")
                for index in range(options.views):
                    view = choose_view(rng, scene, stage.cast, width, height)
                    lap("choose")
                    if view is None:
                        continue
                    seen = renderer.render(stage.camera, view, index)
                    lap("render")
                    image = develop(add_haze(seen.light, seen.depth, scene.sky.haze), scene.key)
                    if fault(image, seen.depth) is None:
                        normals = normals_of(seen.depth, view.intrinsics)
                        writer.add(f"{number}_{index}", image, seen.depth, view.intrinsics, normals, seen.depth == 0)
                        frames += 1
                    lap("write")
            size = next(Path(folder).iterdir()).stat().st_size
        each = sum(spent.values()) / max(1, frames)
        mixed += MIX[world] * each
        kept = max(1, frames)
        parts = "  ".join(f"{name} {value / kept:5.2f}" for name, value in spent.items())
        lines.append(f"{world:<10}{frames:4d} frames {each:6.2f} CPU-s each ({parts}) {size / kept / 1e3:4.0f} KB")
        print("@", lines[-1], flush=True)
    mixed /= sum(MIX[world] for world in worlds)
    print("\n".join(lines))
    rate = 2 * 3600 / mixed
    print(f"mix: {mixed:.2f} CPU-s a frame, {rate:.0f} frames an hour on two free cores; {mixed / BAR:.2f} of the bar")
    sys.stdout.flush()
    scratch.close()
    os._exit(0)  # Blender's own clean-up can hang


if __name__ == "__main__":
    main()
