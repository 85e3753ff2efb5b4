"""One shard in one process: `python -m omnidc.scenes.worker JOB.json`. Imports bpy."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.datasets.shards import ShardWriter
from omnidc.scenes.assets import open_library
from omnidc.scenes.blender import Stage, skies_folder
from omnidc.scenes.camera import TOO_MANY_EDGES, View, choose_view, fault
from omnidc.scenes.description import Scene
from omnidc.scenes.develop import add_haze, air_luminance, develop, exposure_of
from omnidc.scenes.generate import MARK, end_with
from omnidc.scenes.manifest import Settings, frame_key
from omnidc.scenes.materials import Kit
from omnidc.scenes.multiview import choose_views
from omnidc.scenes.normals import normals_of
from omnidc.scenes.render import Rendered, Renderer
from omnidc.scenes.worlds import build_scene

MAX_EDGE_FAULTS = 2  # in a row, then the scene is given up: they are the slowest frames of all, and seldom come alone


def render_shard(settings: Settings, shard: int, folder: Path, report: Callable[[dict[str, Any]], None]) -> None:
    """Render all scenes of a shard. A scene that fails is reported and left out; a shard is whole or absent."""
    stage = Stage()
    kit = Kit(open_library(settings.assets_path, settings.copyleft, skies_folder()))
    renderer = Renderer(settings.samples, folder)
    with ShardWriter(settings.shard_path(shard)) as writer:
        for number in settings.scenes_of(shard):
            try:
                render = _render_multiview if settings.multiview else _render_scene
                render(settings, number, stage, kit, renderer, writer, report)
            except (RuntimeError, ValueError, KeyError, IndexError, OSError) as error:
                report({"event": "failed", "scene": number, "why": "".join(traceback.format_exception(error))})


def _render_scene(
    settings: Settings,
    number: int,
    stage: Stage,
    kit: Kit,
    renderer: Renderer,
    writer: ShardWriter,
    report: Callable[[dict[str, Any]], None],
) -> None:
    started, edge_faults = time.process_time(), 0
    scene, rng = build_scene(settings.seed, number, kit, settings.worlds)
    stage.build(scene)
    for index in range(settings.views):
        view = choose_view(rng, scene, stage.cast, settings.width, settings.height, settings.wide_driving)
        if view is None:
            report({"event": "refused", "scene": number, "world": scene.world, "why": "no passable view"})
            break
        seen = renderer.render(stage.camera, view, seed=number * 100 + index)
        image = develop(add_haze(seen.light, seen.depth, scene.sky.haze), scene.key)
        why = fault(image, seen.depth)
        if why is None:
            _add(writer, settings, scene, number, index, view, image, seen)
        now = time.process_time()
        event = {"event": "frame" if why is None else "refused", "scene": number, "world": scene.world, "why": why}
        report({**event, "cpu": round(now - started, 3)})
        started, edge_faults = now, edge_faults + 1 if why == TOO_MANY_EDGES else 0
        if edge_faults == MAX_EDGE_FAULTS:
            break


def _render_multiview(
    settings: Settings,
    number: int,
    stage: Stage,
    kit: Kit,
    renderer: Renderer,
    writer: ShardWriter,
    report: Callable[[dict[str, Any]], None],
) -> None:
    """Render overlapping views of one scene with one exposure and one haze, as a camera with fixed settings takes."""
    started = time.process_time()
    scene, rng = build_scene(settings.seed, number, kit, settings.worlds)
    stage.build(scene)
    views = choose_views(rng, scene, stage.cast, settings.width, settings.height, settings.views, settings.multiview)
    if not views:
        report({"event": "refused", "scene": number, "world": scene.world, "why": "no passable view"})
        return
    seen = [renderer.render(stage.camera, view, seed=number * 100 + index) for index, view in enumerate(views)]
    air = air_luminance(np.stack([one.light for one in seen]))
    hazy = [add_haze(one.light, one.depth, scene.sky.haze, air) for one in seen]
    exposure = exposure_of(np.stack(hazy), scene.key)
    cpu = (time.process_time() - started) / len(views)
    for index, (view, one, light) in enumerate(zip(views, seen, hazy)):
        # No view is refused for its looks: those of a reconstruction belong together, bare walls included.
        _add(writer, settings, scene, number, index, view, develop(light, scene.key, exposure), one)
        report({"event": "frame", "scene": number, "world": scene.world, "why": None, "cpu": round(cpu, 3)})


def _add(
    writer: ShardWriter,
    settings: Settings,
    scene: Scene,
    number: int,
    index: int,
    view: View,
    image: npt.NDArray[np.uint8],
    seen: Rendered,
) -> None:
    meta = {"world": scene.world, "lens": view.lens, "seed": settings.seed, "scene": number, "view": index}
    meta["night"] = scene.sky.night
    meta["pose"] = view.pose.round(6).tolist()
    key = frame_key(scene.world, settings.seed, number, index)
    normals = normals_of(seen.depth, view.intrinsics)
    writer.add(key, image, seen.depth, view.intrinsics, normals, seen.depth == 0, meta)


def main() -> None:
    """Run the process."""
    path = Path(sys.argv[1])
    job = json.loads(path.read_text(encoding="utf-8"))
    settings, shard = Settings.from_json(job["settings"]), int(job["shard"])

    def report(event: dict[str, Any]) -> None:
        print(MARK + json.dumps(event), flush=True)

    # Ctrl-C reaches the whole group: whoever started us decides. SIGTERM kills at once, even inside a render (a handler
    # in Python would have to wait for its end); what was begun is removed by whoever sent it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=end_with, args=(job["parent"], settings, shard, path.parent), daemon=True).start()
    code = 0
    try:
        render_shard(settings, shard, path.parent, report)
        report({"event": "done", "shard": shard})
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # Blender's own clean-up can hang


if __name__ == "__main__":
    main()
