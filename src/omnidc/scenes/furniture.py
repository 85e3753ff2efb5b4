"""Pieces that stand on a floor: built from boxes and tubes, or taken from the asset library.

A piece's front is −y and its back +y, as in the asset catalog.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from omnidc.scenes.description import Material, Mesh, Model, Rng, Scene, euler_angles, rotation_matrix
from omnidc.scenes.layout import Footprint
from omnidc.scenes.materials import Kit, steel
from omnidc.scenes.primitives import (
    Box,
    boxes,
    chamfered_box,
    cylinder,
    lathe,
    merge,
    transformed,
    tube,
)

SEATS = re.compile("chair|sofa|couch|bed|futon|stool|piano|puff|bench")


@dataclass(frozen=True)
class Shelf:
    """A horizontal surface of a piece on which things can stand, in the piece's own axes."""

    x: float
    y: float
    z: float
    width: float
    depth: float
    clearance: float = 1.0


@dataclass
class Piece:
    """Parts in their own axes, standing on z = 0, and the size of the whole."""

    width: float
    depth: float
    height: float
    parts: list[tuple[Mesh | Model, Material | None]]
    shelves: list[Shelf] = field(default_factory=list)
    elevation: float = 0.0

    def stand(self, scene: Scene, x: float, y: float, z: float = 0.0, yaw: float = 0.0, tilt: float = 0.0) -> None:
        """Put all parts into the scene; `tilt` about the world's x axis lays it on a slope along y."""
        rotation = euler_angles(rotation_matrix((tilt, 0, 0)) @ rotation_matrix((0, 0, yaw)))
        for shape, material in self.parts:
            scene.add(shape, material, (x, y, z + self.elevation), rotation=rotation)

    def supports(self, x: float, y: float, z: float = 0.0, yaw: float = 0.0) -> list[tuple[Footprint, float, float]]:
        """Return footprint, height and clearance of each of its shelves once it stands."""
        turn = rotation_matrix((0, 0, yaw))
        found = []
        for shelf in self.shelves:
            px, py, _ = turn @ (shelf.x, shelf.y, 0)
            spot = Footprint(float(x + px), float(y + py), shelf.width, shelf.depth, yaw)
            found.append((spot, z + self.elevation + shelf.z, shelf.clearance))
        return found


def from_model(model: Model) -> Piece:
    """Take a piece of the library; its top is a shelf when the catalog says so and it is no seat."""
    shelves = []
    if 0.3 < model.top < 1.3 and model.width > 0.3 and model.depth > 0.25 and not SEATS.search(model.name):
        shelves = [Shelf(0, 0, model.top, model.width * 0.85, model.depth * 0.8)]
    return Piece(model.width, model.depth, model.height, [(model, None)], shelves, model.elevation)


def _legs(rng: Rng, width: float, depth: float, height: float, inset: float) -> Mesh:
    x, y = width / 2 - inset, depth / 2 - inset
    corners = [(sx * x, sy * y) for sx in (-1, 1) for sy in (-1, 1)]
    if rng.random() < 0.5:
        side = rng.uniform(0.03, 0.07) / 2
        return boxes([(cx - side, cy - side, 0, cx + side, cy + side, height) for cx, cy in corners])
    radius, splay = rng.uniform(0.012, 0.03), rng.choice([1.0, 1.12])
    paths = [np.array([(cx * splay, cy * splay, 0), (cx, cy, height)]) for cx, cy in corners]
    return merge([tube(path, radius, 8) for path in paths])


def table(rng: Rng, finish: Sequence[Material], width: float, depth: float, height: float) -> Piece:
    """Make a table or desk: top on four legs, or round on a foot; sometimes with drawers."""
    thick = float(rng.uniform(0.018, 0.05))
    legs = steel(rng) if rng.random() < 0.3 else finish[0]
    parts: list[tuple[Mesh | Model, Material | None]] = []
    shelves = [Shelf(0, 0, height, width * 0.92, depth * 0.9)]
    if rng.random() < 0.15 and abs(width - depth) < 0.5:
        side = min(width, depth)
        parts.append((transformed(cylinder(side / 2, thick, sides=40), (0, 0, height - thick)), finish[0]))
        foot = lathe([(0.28 * side, 0), (0.28 * side, 0.02), (0.04, 0.06), (0.035, height - thick)])
        return Piece(side, side, height, [*parts, (foot, legs)], [Shelf(0, 0, height, side * 0.65, side * 0.65)])
    parts.append((transformed(chamfered_box(width, depth, thick, 0.006), (0, 0, height - thick)), finish[0]))
    parts.append((_legs(rng, width, depth, height - thick, 0.05), legs))
    if rng.random() < 0.3 and width > 1:
        x = width / 2 - 0.27
        parts.append(
            (boxes([(x - 0.2, -depth / 2 + 0.04, 0.15, x + 0.2, depth / 2 - 0.04, height - thick)]), finish[1])
        )
    return Piece(width, depth, height, parts, shelves)


def chair(rng: Rng, finish: Sequence[Material]) -> Piece:
    """Make a chair with legs and a back of slats or a board."""
    side, seat, back = rng.uniform(0.38, 0.48), rng.uniform(0.42, 0.48), rng.uniform(0.8, 1.05)
    half = side / 2
    bars: list[Box] = [
        (-half, half - 0.03, seat, -half + 0.03, half, back),
        (half - 0.03, half - 0.03, seat, half, half, back),
    ]
    if rng.random() < 0.5:
        count = int(rng.integers(2, 5))
        for z in np.linspace(seat + 0.15, back - 0.06, count):
            bars.append((-half, half - 0.025, z, half, half - 0.008, z + 0.05))
    else:
        bars.append((-half, half - 0.03, seat + 0.12, half, half - 0.01, back))
    cushion = transformed(chamfered_box(side, side, rng.uniform(0.02, 0.06), 0.01), (0, 0, seat - 0.02))
    upholstery = finish[2] if rng.random() < 0.5 else finish[0]
    return Piece(
        side,
        side,
        back,
        [(_legs(rng, side, side, seat, 0.02), finish[0]), (boxes(bars), finish[0]), (cushion, upholstery)],
    )


def bookcase(rng: Rng, finish: Sequence[Material], width: float, depth: float, height: float) -> Piece:
    """Make a bookcase: boards between two sides; with or without a back."""
    board = 0.022
    levels = max(2, int(height / rng.uniform(0.28, 0.42)))
    bars: list[Box] = [
        (
            s * (width / 2) - (board if s > 0 else 0),
            -depth / 2,
            0,
            s * (width / 2) + (0 if s > 0 else board),
            depth / 2,
            height,
        )
        for s in (-1, 1)
    ]
    zs = np.linspace(0.06, height - board, levels)
    bars += [(-width / 2, -depth / 2, z, width / 2, depth / 2, z + board) for z in zs]
    if width > 1.2:
        bars.append((-board / 2, -depth / 2, 0, board / 2, depth / 2, height))
    if rng.random() < 0.8:
        bars.append((-width / 2, depth / 2 - 0.006, 0, width / 2, depth / 2, height))
    gap = float(zs[1] - zs[0] - board)
    halves = (-width / 4, width / 4) if width > 1.2 else (0.0,)
    wide = width / len(halves) - 2 * board
    shelves = [
        Shelf(x, -0.01, float(z + board), wide, depth - 0.04, gap if z < zs[-1] else 0.4) for z in zs for x in halves
    ]
    return Piece(width, depth, height, [(boxes(bars), finish[0])], shelves)


def cabinet(
    rng: Rng, finish: Sequence[Material], width: float, depth: float, height: float, plinth: float = 0.08
) -> Piece:
    """Make a cabinet: a closed body with doors or drawers, gaps between them, and handles."""
    front = -depth / 2
    body = boxes([(-width / 2, front + 0.02, plinth, width / 2, depth / 2, height)])
    base = boxes([(-width / 2 + 0.02, front + 0.05, 0, width / 2 - 0.02, depth / 2, plinth)])
    columns = max(1, round(width / rng.uniform(0.4, 0.6)))
    rows = int(rng.integers(2, 5)) if rng.random() < 0.4 else 1
    doors: list[Box] = []
    handles: list[Box] = []
    for i in range(columns):
        for j in range(rows):
            x0, x1 = -width / 2 + width * i / columns + 0.003, -width / 2 + width * (i + 1) / columns - 0.003
            z0 = plinth + (height - plinth) * j / rows + 0.003
            z1 = plinth + (height - plinth) * (j + 1) / rows - 0.003
            doors.append((x0, front, z0, x1, front + 0.02, z1))
            if rows > 1:
                middle = (x0 + x1) / 2
                handles.append((middle - 0.07, front - 0.03, z1 - 0.06, middle + 0.07, front - 0.018, z1 - 0.048))
            else:
                x = x1 - 0.04 if i % 2 == 0 else x0 + 0.04
                top = min(z1 - 0.1, z0 + 1.05) if height > 1.3 else z1 - 0.08
                handles.append((x - 0.006, front - 0.03, top - 0.13, x + 0.006, front - 0.018, top))
    shelves = [Shelf(0, 0, height, width * 0.95, depth * 0.85)] if height < 1.5 else []
    return Piece(
        width,
        depth,
        height,
        [
            (body, finish[0]),
            *([(base, finish[1])] if plinth else []),
            (boxes(doors), finish[0]),
            (boxes(handles), steel(rng)),
        ],
        shelves,
    )


def sofa(rng: Rng, finish: Sequence[Material], seats: int) -> Piece:
    """Make a sofa: cushions on a block between two arms."""
    seat = rng.uniform(0.55, 0.75)
    width, depth = seats * seat + 0.4, rng.uniform(0.8, 1.0)
    height, sit = rng.uniform(0.7, 0.95), rng.uniform(0.36, 0.46)
    cloth = finish[2]
    parts: list[tuple[Mesh | Model, Material | None]] = [
        (transformed(chamfered_box(width, depth, sit - 0.14, 0.03), (0, 0, 0.05)), cloth),
        (transformed(chamfered_box(width, 0.22, height - 0.05, 0.06), (0, depth / 2 - 0.11, 0.05)), cloth),
    ]
    for s in (-1, 1):
        arm = chamfered_box(0.18, depth, rng.uniform(0.5, 0.65), 0.05)
        parts.append((transformed(arm, (s * (width / 2 - 0.09), 0, 0.05)), cloth))
    for k in range(seats):
        x = (k - (seats - 1) / 2) * seat
        parts.append((transformed(chamfered_box(seat - 0.01, depth - 0.22, 0.16, 0.05), (x, -0.1, sit - 0.1)), cloth))
        lean = rotation_matrix((-0.2, 0, 0))
        parts.append(
            (transformed(chamfered_box(seat - 0.03, 0.16, 0.42, 0.06), (x, depth / 2 - 0.3, sit), lean), cloth)
        )
    return Piece(width, depth, height, parts)


def bed(rng: Rng, kit: Kit, finish: Sequence[Material]) -> Piece:
    """Make a bed: frame, mattress, blanket, pillows, headboard; the head is at the wall (+y)."""
    width, depth = float(rng.choice([0.9, 1.4, 1.6, 1.8])), 2.05
    low = float(rng.uniform(0.25, 0.4))
    blanket = kit.material(rng, "fabric", tile=float(rng.uniform(0.3, 1.2)))
    parts: list[tuple[Mesh | Model, Material | None]] = [
        (
            boxes(
                [
                    (-width / 2, -depth / 2, 0.08, width / 2, depth / 2, low),
                    (-width / 2, depth / 2 - 0.05, 0, width / 2, depth / 2, rng.uniform(0.7, 1.2)),
                ]
            ),
            finish[0],
        ),
        (
            transformed(chamfered_box(width - 0.04, depth - 0.1, 0.2, 0.05), (0, -0.02, low)),
            Material(color=(0.8, 0.8, 0.78), roughness=0.9),
        ),
        (transformed(chamfered_box(width + 0.04, depth * 0.68, 0.14, 0.05), (0, -depth * 0.15, low + 0.1)), blanket),
    ]
    for x in (-width / 4, width / 4) if width > 1.2 else (0.0,):
        pillow = transformed(chamfered_box(0.55, 0.36, 0.13, 0.06), (x, depth / 2 - 0.32, low + 0.18))
        parts.append((pillow, blanket if rng.random() < 0.3 else Material(color=(0.75, 0.75, 0.76), roughness=0.9)))
    return Piece(width + 0.04, depth, 1.0, parts)


def floor_lamp(rng: Rng) -> Piece:
    """Make a floor lamp: a thin pole under a shade."""
    height = float(rng.uniform(1.3, 1.8))
    pole = merge([tube([(0, 0, 0.02), (0, 0, height - 0.05)], 0.012, 8), cylinder(0.14, 0.025)])
    low, high = rng.uniform(0.14, 0.24), rng.uniform(0.08, 0.2)
    shade = lathe([(low, height - 0.3), (high, height)])
    tone = Material(color=(0.8, 0.75, 0.65), roughness=0.9, emission=float(rng.choice([0, 0, 1.5])), translucent=0.4)
    return Piece(0.4, 0.4, height, [(pole, steel(rng)), (shade, tone)])


def thin_stand(rng: Rng) -> Piece:
    """Make a clothes rack, easel or rail with thin rods."""
    width, depth, height = rng.uniform(0.5, 1.4), rng.uniform(0.3, 0.5), rng.uniform(0.7, 1.7)
    radius = float(rng.uniform(0.005, 0.016))
    x, y = width / 2, depth / 2
    bars = [
        [(-x, -y, 0), (-x, 0, height)],
        [(-x, y, 0), (-x, 0, height)],
        [(x, -y, 0), (x, 0, height)],
        [(x, y, 0), (x, 0, height)],
    ]
    bars += [
        [(-x, 0, z), (x, 0, z)] for z in np.linspace(rng.uniform(0.3, 0.9) * height, height, int(rng.integers(1, 8)))
    ]
    return Piece(
        float(width), float(depth), float(height), [(merge([tube(bar, radius, 6) for bar in bars]), steel(rng))]
    )


def make(rng: Rng, kit: Kit, finish: Sequence[Material], kind: str) -> Piece:
    """Make a piece by the name of its kind; from the library when it has one and chance says so."""
    if rng.random() < 0.72:
        model = kit.model(rng, kind, highest=2.3)
        if model is not None:
            return from_model(model)
    return BUILDERS[kind](rng, kit, finish)


BUILDERS: dict[str, Callable[[Rng, Kit, Sequence[Material]], Piece]] = {
    "chair": lambda rng, kit, f: chair(rng, f),
    "office chair": lambda rng, kit, f: chair(rng, f),
    "stool": lambda rng, kit, f: Piece(
        0.35,
        0.35,
        0.6,
        [(_legs(rng, 0.35, 0.35, 0.58, 0.03), f[0]), (transformed(cylinder(0.18, 0.04), (0, 0, 0.58)), f[2])],
    ),
    "armchair": lambda rng, kit, f: sofa(rng, f, 1),
    "sofa": lambda rng, kit, f: sofa(rng, f, int(rng.integers(2, 4))),
    "table": lambda rng, kit, f: table(rng, f, rng.uniform(0.8, 2.0), rng.uniform(0.7, 1.0), rng.uniform(0.7, 0.78)),
    "coffee table": lambda rng, kit, f: table(
        rng, f, rng.uniform(0.6, 1.2), rng.uniform(0.5, 0.8), rng.uniform(0.3, 0.5)
    ),
    "desk": lambda rng, kit, f: table(rng, f, rng.uniform(1.1, 1.8), rng.uniform(0.6, 0.8), rng.uniform(0.7, 0.76)),
    "bed": lambda rng, kit, f: bed(rng, kit, f),
    "bedside": lambda rng, kit, f: cabinet(rng, f, rng.uniform(0.35, 0.5), 0.4, rng.uniform(0.4, 0.6)),
    "wardrobe": lambda rng, kit, f: cabinet(rng, f, rng.uniform(0.9, 2.2), 0.6, rng.uniform(1.8, 2.25)),
    "bookcase": lambda rng, kit, f: bookcase(
        rng, f, rng.uniform(0.6, 1.8), rng.uniform(0.25, 0.4), rng.uniform(0.9, 2.2)
    ),
    "tv stand": lambda rng, kit, f: cabinet(rng, f, rng.uniform(1.0, 1.8), 0.42, rng.uniform(0.4, 0.6)),
    "floor lamp": lambda rng, kit, f: floor_lamp(rng),
    "base cabinet": lambda rng, kit, f: cabinet(rng, f, 0.6, 0.6, 0.88),
    "appliance": lambda rng, kit, f: Piece(
        0.6,
        0.62,
        1.8,
        [
            (
                chamfered_box(0.6, 0.62, rng.uniform(0.85, 1.9), 0.015),
                Material(color=(0.6, 0.6, 0.6), roughness=0.3, metallic=float(rng.random() < 0.4)),
            )
        ],
    ),
    "filing cabinet": lambda rng, kit, f: cabinet(rng, f, 0.45, 0.6, rng.uniform(0.6, 1.3)),
    "thin stand": lambda rng, kit, f: thin_stand(rng),
    "box": lambda rng, kit, f: Piece(
        0.4, 0.3, 0.3, [(chamfered_box(0.4, 0.3, 0.3, 0.004), kit.material(rng, "print"))]
    ),
}
