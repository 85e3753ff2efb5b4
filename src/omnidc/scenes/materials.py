"""Drawing surfaces and models: the `Kit` a world is furnished from."""

from __future__ import annotations

import colorsys
from dataclasses import replace

import numpy as np

from omnidc.scenes.assets import Library
from omnidc.scenes.description import Color, Material, Mesh, Model, Rng, Texture, vec3
from omnidc.scenes.objfile import read_obj, standing
from omnidc.scenes.textures import synthesize

# how often a role wears a synthesized picture although photographs are there: photographs are few and would be learned
SYNTHETIC_SHARE = {"wall": 0.6, "ceiling": 0.6, "fabric": 0.85, "print": 0.8, "photo": 0.4, "facade": 0.4, "floor": 0.4}
DEFAULT_SYNTHETIC_SHARE = 0.25
# meters per repetition: bounds of what such surfaces measure in life
TILES = {
    "wall": (0.8, 2.5),
    "ceiling": (0.8, 2.5),
    "floor": (0.8, 2.5),
    "facade": (1.5, 4.0),
    "roof": (1.0, 3.0),
    "road": (2.0, 6.0),
    "pavement": (0.8, 3.0),
    "grass": (1.0, 4.0),
    "soil": (1.0, 4.0),
    "rock": (0.8, 3.0),
    "bark": (0.4, 1.2),
    "wood": (0.3, 1.5),
    "metal": (0.3, 1.5),
    "fabric": (0.15, 0.8),
    "print": (0.15, 0.5),
    "photo": (0.3, 2.0),
}
LIVING = {"grass", "soil", "bark"}
GROUND = {"road", "pavement", "grass", "soil", "rock"}


def color(rng: Rng, saturation: tuple[float, float] = (0.0, 0.7), value: tuple[float, float] = (0.08, 0.85)) -> Color:
    """Draw a linear color."""
    return vec3(colorsys.hsv_to_rgb(rng.random(), rng.uniform(*saturation), rng.uniform(*value)))


def plain(rng: Rng) -> Material:
    """Paint, plastic or metal of one color."""
    metal = rng.random() < 0.1
    return Material(
        color=color(rng, (0, 0.25), (0.3, 0.9)) if metal else color(rng),
        roughness=float(rng.uniform(0.15, 0.5) if metal else rng.uniform(0.2, 0.95)),
        metallic=float(metal),
    )


def wall_paint(rng: Rng) -> Material:
    """Make a wall with nearly no texture, as most are: whites and pale tones, now and then a strong one."""
    strong = rng.random() < 0.12
    tone = color(rng, (0.3, 0.7), (0.1, 0.6)) if strong else color(rng, (0, 0.15), (0.45, 0.88))
    return Material(
        color=tone,
        roughness=float(rng.uniform(0.5, 0.95)),
        blotch=float(rng.choice([0, 0.06, 0.15])),
        blotch_size=float(rng.uniform(0.5, 3)),
    )


def steel(rng: Rng) -> Material:
    """Make bare or painted metal of rails, poles and wires."""
    if rng.random() < 0.5:
        return Material(color=(0.55, 0.55, 0.56), metallic=1.0, roughness=float(rng.uniform(0.2, 0.5)))
    return Material(color=color(rng, (0, 0.6), (0.02, 0.6)), roughness=float(rng.uniform(0.3, 0.7)))


def mirror() -> Material:
    """Make a mirror; its depth is that of its surface."""
    return Material(color=(0.9, 0.9, 0.9), metallic=1.0, roughness=0.02)


def dark_glass(rng: Rng) -> Material:
    """Make a window seen from outside: dark, glossy, opaque in depth."""
    shade = float(rng.uniform(0.005, 0.05))
    return Material(color=(shade, shade * 1.1, shade * 1.25), roughness=0.06, coat=1.0)


def glowing(tone: Color, strength: float) -> Material:
    """Make a lamp's face or a screen."""
    return Material(color=tone, emission=strength)


def foliage(rng: Rng, dry: float = 0.15) -> Material:
    """Make leaves or blades of one color."""
    hue = rng.uniform(0.04, 0.15) if rng.random() < dry else rng.uniform(0.2, 0.34)
    tone = vec3(colorsys.hsv_to_rgb(hue, rng.uniform(0.4, 0.85), rng.uniform(0.12, 0.55)))
    return Material(
        color=tone,
        roughness=float(rng.uniform(0.4, 0.8)),
        translucent=0.3,
        blotch=0.5,
        blotch_size=float(rng.uniform(0.3, 2)),
    )


class Kit:
    """Everything a world draws from: a library of assets, or nothing but noise."""

    def __init__(self, library: Library) -> None:
        self.library = library

    def texture(self, rng: Rng, role: str) -> Texture:
        """Choose a photograph of the role, or synthesize a picture."""
        files = self.library.pictures.get(role, ())
        share = SYNTHETIC_SHARE.get(role, DEFAULT_SYNTHETIC_SHARE)
        if not files or rng.random() < share:
            return Texture(pixels=synthesize(role, rng))
        return Texture(path=files[int(rng.integers(len(files)))])

    def material(self, rng: Rng, role: str, tile: float | None = None, fitted: bool = False) -> Material:
        """Make a surface of a role of `TILES`. `fitted`: one copy spans the object (uv or box), no stains."""
        low, high = TILES[role]
        ground = role in GROUND
        return Material(
            texture=self.texture(rng, role),
            tile=float(rng.uniform(low, high)) if tile is None else tile,
            hue=float(rng.normal(0, 0.02)),
            saturation=float(rng.uniform(0.8, 1.2) if role in LIVING else rng.uniform(0.4, 1.1)),
            value=float(rng.uniform(0.6, 1.35)),
            roughness=float(rng.uniform(0.15, 0.5) if role == "metal" else rng.uniform(0.3, 0.95)),
            metallic=float(role == "metal" and rng.random() < 0.7),
            blotch=0.0 if fitted else float(rng.uniform(0.3, 0.7) if ground else rng.choice([0, 0.15, 0.4])),
            blotch_size=float(rng.uniform(3, 15) if ground else rng.uniform(0.5, 3)),
            bump=0.0 if fitted or rng.random() < 0.5 else float(rng.uniform(0.05, 0.3)),
            breakup=ground,
        )

    def wall(self, rng: Rng) -> Material:
        """Make a wall: in three of five rooms just paint."""
        return wall_paint(rng) if rng.random() < 0.6 else self.material(rng, "wall")

    def anything(self, rng: Rng, tile: float | None = None) -> Material:
        """Make a surface for a thing of unknown kind."""
        if rng.random() < 0.35:
            return plain(rng)
        role = str(rng.choice(["wood", "metal", "fabric", "print", "photo", "photo", "wall", "floor"]))
        return self.material(rng, role, tile)

    def finishes(self, rng: Rng) -> list[Material]:
        """Draw the few surfaces that the furniture of one room shares."""
        wood = self.material(rng, "wood")
        second = replace(wood, value=wood.value * 0.8) if rng.random() < 0.5 else plain(rng)
        return [wood, second, self.material(rng, "fabric")]

    def model(
        self,
        rng: Rng,
        *kinds: str,
        widest: float = np.inf,
        highest: float = np.inf,
    ) -> Model | None:
        """Choose a model of one of the kinds, no wider, deeper or higher than said; None when there is none."""
        found = [
            model
            for kind in kinds
            for model in self.library.models.get(kind, ())
            if max(model.width, model.depth) <= widest and model.height <= highest
        ]
        return found[int(rng.integers(len(found)))] if found else None

    def solid(self, rng: Rng, size: float) -> Mesh | None:
        """Choose one of the random solid shapes, `size` meters long; None without that package."""
        if not self.library.solids:
            return None
        return standing(read_obj(self.library.solids[int(rng.integers(len(self.library.solids)))]), size)
