"""Description of a scene without Blender: meshes, materials, lights and viewpoints.

World axes: x right, y ahead, z up, meters. Yaw turns about z, counter-clockwise seen from above. Colors are linear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Color = tuple[float, float, float]
Vec3 = tuple[float, float, float]
Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class Mesh:
    """Polygons. Items that share one `Mesh` share its memory and its ray-tracing tree, however often they stand.

    vertices: float32 [N, 3]. quads: int32 [Q, 4]. triangles: int32 [T, 3]. Outward faces turn counter-clockwise.
    uv: float32 [4 Q + 3 T, 2], one per corner, quads first; None = textures are projected from six sides.
    """

    vertices: Array
    quads: npt.NDArray[np.int32]
    triangles: npt.NDArray[np.int32]
    smooth: bool = False
    uv: Array | None = None

    @property
    def bounds(self) -> Array:
        """[2, 3]: lowest and highest corner."""
        return np.stack([self.vertices.min(axis=0), self.vertices.max(axis=0)])


@dataclass(frozen=True)
class Model:
    """A model of an asset package, scaled to its catalog size (meters), standing on z = 0, centered in x and y.

    top: height on which small things can stand; 0 = none. elevation: where it hangs (a lamp, a wall cabinet).
    """

    path: Path
    name: str
    category: str
    source: str
    width: float
    depth: float
    height: float
    top: float = 0.0
    elevation: float = 0.0
    rotation: tuple[float, ...] = ()
    up: str = "Y"


@dataclass(frozen=True, eq=False)
class Texture:
    """A picture: a file, or pixels uint8 [H, W, 3] that were made for this scene."""

    path: Path | None = None
    pixels: npt.NDArray[np.uint8] | None = None


@dataclass(frozen=True, eq=False)
class Material:
    """A surface. `tile` is the side of one repetition of the texture in meters.

    blotch: strength of large stains that hide repetition; breakup: mix two rotated copies of the texture for that.
    cutout: the texture's alpha cuts leaves out of cards (needs uv). translucent: share of light that shines through.
    """

    color: Color = (0.5, 0.5, 0.5)
    texture: Texture | None = None
    tile: float = 1.0
    hue: float = 0.0
    saturation: float = 1.0
    value: float = 1.0
    roughness: float = 0.6
    metallic: float = 0.0
    coat: float = 0.0
    emission: float = 0.0
    blotch: float = 0.0
    blotch_size: float = 1.0
    bump: float = 0.0
    breakup: bool = False
    cutout: bool = False
    translucent: float = 0.0


@dataclass(frozen=True, eq=False)
class Item:
    """One thing that stands in the scene. material None: a model keeps its own.

    rotation: Euler angles about x, y, z in radians, applied in this order; scale comes first.
    """

    shape: Mesh | Model
    material: Material | None = None
    position: Vec3 = (0.0, 0.0, 0.0)
    rotation: Vec3 = (0.0, 0.0, 0.0)
    scale: Vec3 = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class AreaLight:
    """A glowing rectangle that shines along its own −z; watts as Blender counts them."""

    position: Vec3
    size: tuple[float, float]
    power: float
    color: Color = (1.0, 1.0, 1.0)
    rotation: Vec3 = (0.0, 0.0, 0.0)
    visible: bool = False


@dataclass(frozen=True)
class PointLight:
    """A bulb of `radius` meters."""

    position: Vec3
    power: float
    color: Color = (1.0, 1.0, 1.0)
    radius: float = 0.05


@dataclass(frozen=True)
class Sun:
    """elevation and azimuth of the sun in radians; strength in W/m²; angle = its apparent size (soft shadows)."""

    elevation: float
    azimuth: float
    strength: float
    color: Color
    angle: float = 0.01


@dataclass(frozen=True)
class Sky:
    """What is behind everything: a panorama, or a computed atmosphere with clouds of noise.

    haze: extinction per meter of the air between camera and things; 0 = clear.
    """

    strength: float = 1.0
    panorama: Path | None = None
    turn: float = 0.0
    elevation: float = 0.6
    azimuth: float = 0.0
    air: float = 1.0
    dust: float = 1.0
    clouds: float = 0.0
    cloud_color: float = 0.8
    cloud_offset: Vec3 = (0.0, 0.0, 0.0)
    night: bool = False
    haze: float = 0.0


@dataclass(frozen=True)
class Viewpoint:
    """Where the camera stands and looks; roll in radians; lens names a lens of `camera.LENSES`."""

    eye: Vec3
    target: Vec3
    roll: float = 0.0
    lens: str = "indoor"


@dataclass
class Scene:
    """Everything of one scene. `viewpoints` draws one candidate view; `camera` decides whether it is taken.

    nearest: views with anything nearer than this (meters) at their test rays are refused.
    key: median brightness a developed picture aims at; nights stay dark.
    """

    world: str
    items: list[Item] = field(default_factory=list)
    lights: list[AreaLight | PointLight | Sun] = field(default_factory=list)
    sky: Sky = field(default_factory=Sky)
    viewpoints: Callable[[Rng], Viewpoint] = lambda rng: Viewpoint((0, 0, 1), (0, 1, 1))
    nearest: float = 0.3
    key: float = 0.18

    def add(
        self,
        shape: Mesh | Model,
        material: Material | None = None,
        position: Sequence[float] = (0.0, 0.0, 0.0),
        yaw: float = 0.0,
        rotation: Sequence[float] | None = None,
        scale: float | Sequence[float] = 1.0,
    ) -> Item:
        """Put one thing into the scene."""
        turned = (0.0, 0.0, float(yaw)) if rotation is None else rotation
        sides = (scale, scale, scale) if isinstance(scale, (int, float)) else scale
        item = Item(shape, material, vec3(position), vec3(turned), vec3(sides))
        self.items.append(item)
        return item


def vec3(values: Sequence[float]) -> Vec3:
    """Return three plain floats."""
    x, y, z = (float(value) for value in values)
    return x, y, z


def rotation_matrix(rotation: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return the matrix [3, 3] of Euler angles about x, then y, then z."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(rotation), np.sin(rotation)
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return np.asarray(about_z @ about_y @ about_x)


def euler_angles(matrix: npt.NDArray[np.float64]) -> Vec3:
    """Return the reverse of `rotation_matrix` (for turns about y of less than a quarter)."""
    return vec3(
        (np.arctan2(matrix[2, 1], matrix[2, 2]), -np.arcsin(matrix[2, 0]), np.arctan2(matrix[1, 0], matrix[0, 0]))
    )


def placed(item: Item, vertices: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return the vertices [N, 3] of an item's shape in the world."""
    return np.asarray((vertices * item.scale) @ rotation_matrix(item.rotation).T + item.position)
