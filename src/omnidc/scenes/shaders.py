"""`Material` → Blender node tree. Imports bpy."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from omnidc.scenes.description import Material, Texture

# angle, scale and offset of the second copy of a texture that hides the repetition of the first
BREAKUP = ((0.0, 0.0, 0.63), 0.37, (3.7, 1.3, 0.0))


class Shaders:
    """Materials and images of one process; pictures from files are kept from scene to scene, the rest is not."""

    def __init__(self) -> None:
        self._files: dict[str, Any] = {}
        self._made: dict[int, tuple[Texture, Any]] = {}
        self._materials: dict[int, tuple[Material, Any]] = {}

    def forget_scene(self) -> None:
        """Drop what only the last scene used."""
        for _, image in self._made.values():
            bpy.data.images.remove(image)
        self._made.clear()
        self._materials.clear()

    def file_image(self, path: str) -> Any:
        """Load an image of a file; None when it cannot be read."""
        if path not in self._files:
            try:
                image = bpy.data.images.load(path, check_existing=True)
            except RuntimeError:
                image = None
            if image is not None:
                image.use_fake_user = True
            self._files[path] = image
        return self._files[path]

    def image(self, texture: Texture) -> Any:
        """Return the Blender image of a texture."""
        if texture.path is not None:
            return self.file_image(str(texture.path))
        if id(texture) not in self._made:
            assert texture.pixels is not None
            height, width = texture.pixels.shape[:2]
            image = bpy.data.images.new("made", width, height)
            rgba = np.ones((height, width, 4), dtype=np.float32)
            rgba[..., :3] = texture.pixels[::-1] / np.float32(255)
            image.pixels.foreach_set(rgba.ravel())
            self._made[id(texture)] = texture, image  # the texture is kept so that its id stays its own
        return self._made[id(texture)][1]

    def material(self, look: Material) -> Any:
        """Return the Blender material of a description; one per scene."""
        if id(look) not in self._materials:
            self._materials[id(look)] = look, self._build(look)
        return self._materials[id(look)][1]

    def _build(self, look: Material) -> Any:
        material = bpy.data.materials.new("made")
        material.use_nodes = True
        tree = material.node_tree
        nodes, link = tree.nodes, tree.links.new
        surface = nodes["Principled BSDF"]
        inputs = surface.inputs
        inputs["Roughness"].default_value = look.roughness
        inputs["Metallic"].default_value = look.metallic
        inputs["Coat Weight"].default_value = look.coat
        inputs["Base Color"].default_value = (*look.color, 1)
        image = self.image(look.texture) if look.texture is not None else None
        color = None
        if image is not None:
            color, alpha = _picture(tree, look, image)
            if look.cutout:
                # a binary alpha keeps the depth pass exact
                cut = nodes.new("ShaderNodeMath")
                cut.operation = "GREATER_THAN"
                cut.inputs[1].default_value = 0.5
                link(alpha, cut.inputs[0])
                link(cut.outputs[0], inputs["Alpha"])
            if look.bump:
                bump = nodes.new("ShaderNodeBump")
                bump.inputs["Strength"].default_value = look.bump
                bump.inputs["Distance"].default_value = 0.004
                link(color, bump.inputs["Height"])
                link(bump.outputs[0], inputs["Normal"])
        elif look.bump:
            _waves(tree, look.bump, inputs["Normal"])
        if look.blotch:
            color = _blotched(tree, look, color)
        if color is not None:
            link(color, inputs["Base Color"])
        if look.emission:
            inputs["Emission Strength"].default_value = look.emission
            inputs["Emission Color"].default_value = (*look.color, 1)
            if color is not None:
                link(color, inputs["Emission Color"])
        if look.translucent:
            _translucent(tree, look, color)
        return material


def _sampled(
    tree: Any, look: Material, image: Any, rotation: tuple[float, ...], scale: float, offset: tuple[float, ...]
) -> Any:
    nodes, link = tree.nodes, tree.links.new
    picture = nodes.new("ShaderNodeTexImage")
    picture.image = image
    where = nodes.new("ShaderNodeTexCoord")
    if look.cutout:
        link(where.outputs["UV"], picture.inputs[0])
        picture.extension = "CLIP"
        return picture
    mapping = nodes.new("ShaderNodeMapping")
    mapping.inputs["Scale"].default_value = [scale / look.tile] * 3
    mapping.inputs["Rotation"].default_value = rotation
    mapping.inputs["Location"].default_value = offset
    picture.projection = "BOX"
    picture.projection_blend = 0.05
    link(where.outputs["Object"], mapping.inputs["Vector"])
    link(mapping.outputs[0], picture.inputs[0])
    return picture


def _noise(tree: Any, size: float, detail: float) -> Any:
    nodes = tree.nodes
    where, noise = nodes.new("ShaderNodeTexCoord"), nodes.new("ShaderNodeTexNoise")
    noise.inputs["Scale"].default_value = 1 / size
    noise.inputs["Detail"].default_value = detail
    tree.links.new(where.outputs["Object"], noise.inputs["Vector"])
    return noise.outputs[0]


def _picture(tree: Any, look: Material, image: Any) -> tuple[Any, Any]:
    """Return color and alpha sockets of the tinted texture."""
    nodes, link = tree.nodes, tree.links.new
    first = _sampled(tree, look, image, (0, 0, 0), 1.0, (0.13, 0.29, 0.07))
    color = first.outputs["Color"]
    if look.breakup:
        second = _sampled(tree, look, image, *BREAKUP)
        mix = nodes.new("ShaderNodeMix")
        mix.data_type = "RGBA"
        sharpen = nodes.new("ShaderNodeMapRange")
        sharpen.inputs["From Min"].default_value, sharpen.inputs["From Max"].default_value = 0.4, 0.6
        link(_noise(tree, look.tile * 1.7, 2), sharpen.inputs["Value"])
        link(sharpen.outputs[0], mix.inputs["Factor"])
        link(color, mix.inputs["A"])
        link(second.outputs["Color"], mix.inputs["B"])
        # Mix keeps sockets of all data types; 6, 7 and output 2 are those of color
        link(color, mix.inputs[6])
        link(second.outputs["Color"], mix.inputs[7])
        color = mix.outputs[2]
    tint = nodes.new("ShaderNodeHueSaturation")
    tint.inputs["Hue"].default_value = 0.5 + look.hue
    tint.inputs["Saturation"].default_value = look.saturation
    tint.inputs["Value"].default_value = look.value
    link(color, tint.inputs["Color"])
    return tint.outputs[0], first.outputs["Alpha"]


def _blotched(tree: Any, look: Material, color: Any) -> Any:
    nodes, link = tree.nodes, tree.links.new
    mix = nodes.new("ShaderNodeMix")
    mix.data_type = "RGBA"
    mix.blend_type = "MULTIPLY"
    mix.inputs["Factor"].default_value = look.blotch
    mix.inputs[6].default_value = (*look.color, 1)
    if color is not None:
        link(color, mix.inputs[6])
    ramp = nodes.new("ShaderNodeMapRange")
    ramp.inputs["From Min"].default_value, ramp.inputs["From Max"].default_value = 0.25, 0.65
    link(_noise(tree, look.blotch_size, 4), ramp.inputs["Value"])
    link(ramp.outputs[0], mix.inputs[7])
    return mix.outputs[2]


def _waves(tree: Any, strength: float, socket: Any) -> None:
    bump = tree.nodes.new("ShaderNodeBump")
    bump.inputs["Strength"].default_value = strength
    bump.inputs["Distance"].default_value = 0.1
    tree.links.new(_noise(tree, 0.8, 3), bump.inputs["Height"])
    tree.links.new(bump.outputs[0], socket)


def _translucent(tree: Any, look: Material, color: Any) -> None:
    nodes, link = tree.nodes, tree.links.new
    through, mix = nodes.new("ShaderNodeBsdfTranslucent"), nodes.new("ShaderNodeMixShader")
    through.inputs["Color"].default_value = (*look.color, 1)
    if color is not None:
        link(color, through.inputs["Color"])
    mix.inputs[0].default_value = look.translucent
    link(nodes["Principled BSDF"].outputs[0], mix.inputs[1])
    link(through.outputs[0], mix.inputs[2])
    link(mix.outputs[0], nodes["Material Output"].inputs["Surface"])


def mend_imported(material: Any) -> None:
    """Make an imported material safe: no missing (magenta) pictures, no half-transparent faces, binary cut-outs."""
    if material is None or not material.use_nodes:
        return
    tree = material.node_tree
    surface = tree.nodes.get("Principled BSDF")
    if surface is None:
        return
    alpha = surface.inputs["Alpha"]
    for node in [node for node in tree.nodes if node.type == "TEX_IMAGE"]:
        if node.image is None or node.image.size[0] == 0:
            tree.nodes.remove(node)
            continue
        node.image.use_fake_user = True
        if node.image.channels == 4 and node.image.depth in (32, 64) and not alpha.is_linked:
            cut = tree.nodes.new("ShaderNodeMath")
            cut.operation = "GREATER_THAN"
            cut.inputs[1].default_value = 0.5
            tree.links.new(node.outputs["Alpha"], cut.inputs[0])
            tree.links.new(cut.outputs[0], alpha)
    if alpha.is_linked:
        return
    if alpha.default_value < 0.99:  # glass: depth would be a lottery, so it is opaque and glossy
        alpha.default_value = 1.0
        surface.inputs["Roughness"].default_value = 0.08
        base = surface.inputs["Base Color"]
        if not base.is_linked:
            base.default_value = [0.25 * value for value in base.default_value[:3]] + [1]
