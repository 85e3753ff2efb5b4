"""`Scene` → Blender objects, and rays through them. Imports bpy."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import numpy.typing as npt

from omnidc.scenes.description import AreaLight, Item, Mesh, Model, PointLight, Scene, Sky, Sun
from omnidc.scenes.shaders import Shaders, mend_imported

_Y_UP = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]], dtype=np.float32)


def skies_folder() -> Path:
    """Return the folder of Blender's own panoramas (CC0)."""
    return Path(bpy.utils.resource_path("LOCAL")) / "datafiles" / "studiolights" / "world"


class Stage:
    """One Blender scene that is emptied and built anew; imported models stay in memory."""

    def __init__(self) -> None:
        bpy.ops.wm.read_factory_settings(use_empty=True)
        self.shaders = Shaders()
        self._models: dict[Path, Any] = {}
        self._meshes: dict[int, tuple[Mesh, Any]] = {}
        self.camera: Any = None

    def clear(self) -> None:
        """Remove everything of the last scene."""
        self._meshes.clear()
        for thing in list(bpy.data.objects):
            bpy.data.objects.remove(thing)
        for kind in ("meshes", "lights", "worlds", "cameras", "materials"):
            collection = getattr(bpy.data, kind)
            for block in [block for block in collection if block.users == 0]:
                collection.remove(block)
        self.shaders.forget_scene()

    def build(self, scene: Scene) -> None:
        """Put a scene on the stage."""
        self.clear()
        for item in scene.items:
            self._add(item)
        for light in scene.lights:
            _add_light(light)
        self._add_sky(scene.sky)
        camera = bpy.data.cameras.new("camera")
        camera.clip_start, camera.clip_end = 0.01, 4000
        self.camera = bpy.data.objects.new("camera", camera)
        bpy.context.collection.objects.link(self.camera)
        bpy.context.scene.camera = self.camera
        bpy.context.view_layer.update()

    def cast(
        self, eye: npt.NDArray[np.float64], directions: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.float64], Sequence[Hashable]]:
        """Return the first hits of rays, as `camera.RayCast`."""
        graph = bpy.context.evaluated_depsgraph_get()
        scene = bpy.context.scene
        distances = np.full(len(directions), np.inf)
        names: list[Hashable] = [None] * len(directions)
        origin = eye.tolist()
        for k, direction in enumerate(directions):
            hit, point, _, _, thing, _ = scene.ray_cast(graph, origin, direction.tolist())
            if hit:
                distances[k] = np.linalg.norm(np.array(point) - eye)
                names[k] = thing.name
        return distances, names

    def _add(self, item: Item) -> None:
        data = self._model(item.shape) if isinstance(item.shape, Model) else self._mesh(item.shape)
        if data is None:
            return
        thing = bpy.data.objects.new("item", data)
        bpy.context.collection.objects.link(thing)
        thing.location, thing.rotation_euler, thing.scale = item.position, item.rotation, item.scale
        if item.material is not None:
            made = self.shaders.material(item.material)
            if not data.materials:
                data.materials.append(None)
            for slot in thing.material_slots:  # on the object, so that things that share a mesh may differ
                slot.link = "OBJECT"
                slot.material = made

    def _mesh(self, shape: Mesh) -> Any:
        if id(shape) not in self._meshes:
            self._meshes[id(shape)] = shape, to_blender(shape)
        return self._meshes[id(shape)][1]

    def _model(self, model: Model) -> Any:
        if model.path not in self._models:
            self._models[model.path] = import_model(model)
        return self._models[model.path]

    def _add_sky(self, sky: Sky) -> None:
        world = bpy.data.worlds.new("sky")
        bpy.context.scene.world = world
        world.use_nodes = True
        world.cycles.sampling_method = "MANUAL"
        world.cycles.sample_map_resolution = 128
        nodes, link = world.node_tree.nodes, world.node_tree.links.new
        background = nodes["Background"]
        background.inputs[1].default_value = sky.strength
        image = self.shaders.file_image(str(sky.panorama)) if sky.panorama else None
        where = nodes.new("ShaderNodeTexCoord")
        mapping = nodes.new("ShaderNodeMapping")
        if image is not None:
            mapping.inputs["Rotation"].default_value = (0, 0, sky.turn)
            panorama = nodes.new("ShaderNodeTexEnvironment")
            panorama.image = image
            link(where.outputs["Generated"], mapping.inputs[0])
            link(mapping.outputs[0], panorama.inputs[0])
            link(panorama.outputs[0], background.inputs[0])
            return
        if sky.night:
            background.inputs[0].default_value = (0.35, 0.45, 1.0, 1)
            return
        atmosphere = nodes.new("ShaderNodeTexSky")
        atmosphere.sky_type = "NISHITA"
        atmosphere.sun_disc = False
        atmosphere.sun_elevation, atmosphere.sun_rotation = sky.elevation, sky.azimuth
        atmosphere.air_density, atmosphere.dust_density = sky.air, sky.dust
        background.inputs[1].default_value = sky.strength * 0.3
        color = atmosphere.outputs[0]
        if sky.clouds > 0:
            mapping.inputs["Scale"].default_value = (1, 1, 3)
            mapping.inputs["Location"].default_value = sky.cloud_offset
            noise = nodes.new("ShaderNodeTexNoise")
            noise.inputs["Scale"].default_value = 2.5
            noise.inputs["Detail"].default_value = 8
            noise.inputs["Roughness"].default_value = 0.6
            cover = nodes.new("ShaderNodeMapRange")
            start = 0.72 - 0.5 * sky.clouds
            cover.inputs["From Min"].default_value, cover.inputs["From Max"].default_value = start, start + 0.2
            mix = nodes.new("ShaderNodeMix")
            mix.data_type = "RGBA"
            gray = sky.cloud_color * 3
            mix.inputs[7].default_value = (gray, gray, gray * 1.03, 1)
            link(where.outputs["Generated"], mapping.inputs[0])
            link(mapping.outputs[0], noise.inputs["Vector"])
            link(noise.outputs[0], cover.inputs["Value"])
            link(cover.outputs[0], mix.inputs["Factor"])
            link(color, mix.inputs[6])
            color = mix.outputs[2]
        link(color, background.inputs[0])


def to_blender(shape: Mesh) -> Any:
    """Make a Blender mesh."""
    data = bpy.data.meshes.new("mesh")
    loops = np.concatenate([shape.quads.ravel(), shape.triangles.ravel()]).astype(np.int32)
    quads, triangles = len(shape.quads), len(shape.triangles)
    starts = np.concatenate([np.arange(quads) * 4, quads * 4 + np.arange(triangles) * 3]).astype(np.int32)
    data.vertices.add(len(shape.vertices))
    data.vertices.foreach_set("co", shape.vertices.astype(np.float32).ravel())
    data.loops.add(len(loops))
    data.loops.foreach_set("vertex_index", loops)
    data.polygons.add(quads + triangles)
    data.polygons.foreach_set("loop_start", starts)
    if shape.uv is not None:
        layer = data.uv_layers.new()
        layer.uv.foreach_set("vector", shape.uv.ravel())
    data.update(calc_edges=True)
    data.validate()
    if shape.smooth:
        data.shade_smooth()
    data.materials.append(None)
    return data


def import_model(model: Model) -> Any:
    """Import an OBJ as one mesh of its catalog size, standing on z = 0; None when Blender cannot read it."""
    before = set(bpy.data.objects)
    try:
        bpy.ops.wm.obj_import(
            filepath=str(model.path),
            forward_axis="NEGATIVE_Z",
            up_axis="Y",
            use_split_objects=False,
            use_split_groups=False,
        )
    except RuntimeError:
        return None
    found = [thing for thing in bpy.data.objects if thing not in before]
    meshes = [thing for thing in found if thing.type == "MESH"]
    if not meshes:
        return None
    data = meshes[0].data
    flat = np.empty(3 * len(data.vertices), dtype=np.float32)
    data.vertices.foreach_get("co", flat)
    points: npt.NDArray[np.floating] = (
        flat.reshape(-1, 3) @ np.array(meshes[0].matrix_world.to_3x3(), dtype=np.float32).T
    )
    if len(model.rotation) == 9:
        turn = np.array(model.rotation, dtype=np.float32).reshape(3, 3)  # given for y up
        points = points @ (_Y_UP @ turn @ _Y_UP.T).T
    low, high = points.min(axis=0), points.max(axis=0)
    size = np.array([model.width, model.depth, model.height], dtype=np.float32)
    points = (points - (low + high) / 2) * (size / np.maximum(high - low, 1e-6))
    points[:, 2] -= points[:, 2].min()
    data.vertices.foreach_set("co", np.ascontiguousarray(points, dtype=np.float32).ravel())
    data.update()
    for thing in found:
        bpy.data.objects.remove(thing)
    for material in data.materials:
        mend_imported(material)
        if material is not None:
            material.use_fake_user = True
    data.use_fake_user = True
    return data


def _add_light(light: AreaLight | PointLight | Sun) -> None:
    if isinstance(light, Sun):
        data = bpy.data.lights.new("sun", "SUN")
        data.energy, data.angle = light.strength, light.angle
        position = (0.0, 0.0, 0.0)
        rotation = (np.pi / 2 - light.elevation, 0.0, np.pi - light.azimuth)
    elif isinstance(light, AreaLight):
        data = bpy.data.lights.new("area", "AREA")
        data.shape, data.size, data.size_y = "RECTANGLE", *light.size
        data.energy, position, rotation = light.power, light.position, light.rotation
    else:
        data = bpy.data.lights.new("bulb", "POINT")
        data.energy, data.shadow_soft_size, position, rotation = light.power, light.radius, light.position, (0, 0, 0)
    data.color = light.color
    thing = bpy.data.objects.new("light", data)
    bpy.context.collection.objects.link(thing)
    thing.location, thing.rotation_euler = position, rotation
    thing.visible_camera = isinstance(light, AreaLight) and light.visible
