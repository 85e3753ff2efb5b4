"""Cycles: light and exact depth of one view. Imports bpy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy
import mathutils
import numpy as np
import numpy.typing as npt

from omnidc.scenes.camera import View
from omnidc.scenes.description import Array

FAR = 3000.0  # meters; what is farther is sky
_TO_BLENDER = np.diag([1.0, -1.0, -1.0])  # OpenCV camera axes to Blender's


@dataclass(frozen=True)
class Rendered:
    """light: float32 [H, W, 3], linear. depth: float32 [H, W], z-depth at pixel centers, 0 = sky."""

    light: Array
    depth: Array


class Renderer:
    """Render settings and the way out of Blender: two files in memory, read back and removed."""

    def __init__(self, samples: int, folder: Path, threads: int = 1) -> None:
        self.folder = folder  # best in memory
        scene = bpy.context.scene
        scene.render.engine = "CYCLES"
        cycles = scene.cycles
        cycles.device = "CPU"
        cycles.samples = samples
        cycles.use_adaptive_sampling = False
        cycles.use_denoising = True
        cycles.denoiser = "OPENIMAGEDENOISE"
        cycles.denoising_input_passes = "RGB_ALBEDO_NORMAL"
        cycles.denoising_prefilter = "FAST"
        cycles.denoising_quality = "BALANCED"
        cycles.max_bounces, cycles.diffuse_bounces, cycles.glossy_bounces = 4, 3, 2
        cycles.transmission_bounces, cycles.transparent_max_bounces, cycles.volume_bounces = 2, 8, 0
        cycles.caustics_reflective = cycles.caustics_refractive = False
        cycles.sample_clamp_indirect, cycles.blur_glossy = 4.0, 1.0
        cycles.use_light_tree = True
        render = scene.render
        render.resolution_percentage = 100
        render.threads_mode, render.threads = "FIXED", threads
        render.use_persistent_data = True
        render.use_sequencer = False
        scene.view_settings.view_transform = "Raw"
        layer = scene.view_layers[0]
        layer.use_pass_z = True
        layer.pass_alpha_threshold = 0.5  # what is more clear than opaque has no depth of its own
        self._outputs()

    def _outputs(self) -> None:
        scene = bpy.context.scene
        scene.render.use_compositing = True
        scene.use_nodes = True
        tree = scene.node_tree
        tree.nodes.clear()
        layers = tree.nodes.new("CompositorNodeRLayers")
        out = tree.nodes.new("CompositorNodeOutputFile")
        out.base_path = str(self.folder)
        out.format.file_format, out.format.color_depth, out.format.exr_codec = "OPEN_EXR", "32", "NONE"
        out.file_slots.clear()
        for name, socket in (("light", "Image"), ("depth", "Depth")):
            out.file_slots.new(name)
            tree.links.new(layers.outputs[socket], out.inputs[name])

    def render(self, camera: Any, view: View, seed: int) -> Rendered:
        """Render a view with Blender's camera object."""
        scene = bpy.context.scene
        scene.render.resolution_x, scene.render.resolution_y = view.width, view.height
        place(camera, view)
        scene.cycles.seed = seed
        scene.frame_set(1)
        scene.update_tag()
        bpy.ops.render.render(write_still=False)
        depth = self._read("depth", view)[..., 0]
        depth = np.where(np.isfinite(depth) & (depth < FAR), depth, 0).astype(np.float32)
        return Rendered(self._read("light", view)[..., :3], depth)

    def _read(self, name: str, view: View) -> npt.NDArray[np.float32]:
        path = next(self.folder.glob(f"{name}*.exr"))
        image = bpy.data.images.load(str(path))
        pixels = np.empty(view.height * view.width * 4, dtype=np.float32)
        image.pixels.foreach_get(pixels)
        bpy.data.images.remove(image)
        path.unlink()
        return pixels.reshape(view.height, view.width, 4)[::-1]  # Blender's first row is the lowest


def place(camera: Any, view: View) -> None:
    """Set Blender's camera to a view."""
    rotation = mathutils.Matrix((view.pose[:3, :3] @ _TO_BLENDER).tolist())
    camera.rotation_mode = "QUATERNION"
    camera.location = view.pose[:3, 3].tolist()
    camera.rotation_quaternion = rotation.to_quaternion()
    camera.data.sensor_fit = "AUTO"
    larger = max(view.width, view.height)
    camera.data.angle = 2 * float(np.arctan(larger / 2 / view.intrinsics[0, 0]))
    center = view.intrinsics[:2, 2]  # Blender wants how far the picture lies from the axis, not the axis in the picture
    camera.data.shift_x = float((view.width - 1) / 2 - center[0]) / larger
    camera.data.shift_y = float(center[1] - (view.height - 1) / 2) / larger
