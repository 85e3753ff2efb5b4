"""Meshes from nothing: boxes, tubes, lathed vessels, terrain, rocks, cards. NumPy only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from omnidc.scenes.description import Array, Mesh, Rng

Box = tuple[float, float, float, float, float, float]  # x0, y0, z0, x1, y1, z1

UP = np.array([0.0, 0.0, 1.0])
_CORNERS = np.array([(x, y, z) for z in (0, 1) for y in (0, 1) for x in (0, 1)])
_SIDES = np.array([(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (1, 3, 7, 5), (3, 2, 6, 7), (2, 0, 4, 6)], dtype=np.int32)


def mesh(
    vertices: npt.ArrayLike,  # [N, 3]
    quads: npt.ArrayLike = (),  # [Q, 4]
    triangles: npt.ArrayLike = (),  # [T, 3]
    smooth: bool = False,
    uv: npt.ArrayLike | None = None,
) -> Mesh:
    """Make a mesh of anything array-like."""
    return Mesh(
        np.asarray(vertices, dtype=np.float32).reshape(-1, 3),
        np.asarray(quads, dtype=np.int32).reshape(-1, 4),
        np.asarray(triangles, dtype=np.int32).reshape(-1, 3),
        smooth,
        None if uv is None else np.asarray(uv, dtype=np.float32).reshape(-1, 2),
    )


def merge(parts: Iterable[Mesh]) -> Mesh:
    """Merge several meshes into one; smooth if the first is, uv only if all have it."""
    parts = list(parts)
    offsets = np.cumsum([0] + [len(part.vertices) for part in parts])
    uv = None
    if all(part.uv is not None for part in parts):
        corners = [(part.uv, 4 * len(part.quads)) for part in parts]
        uv = np.concatenate([u[:n] for u, n in corners if u is not None] + [u[n:] for u, n in corners if u is not None])
    return mesh(
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.quads + start for part, start in zip(parts, offsets)]),
        np.concatenate([part.triangles + start for part, start in zip(parts, offsets)]),
        parts[0].smooth,
        uv,
    )


def transformed(shape: Mesh, offset: Sequence[float] = (0, 0, 0), matrix: npt.ArrayLike | None = None) -> Mesh:
    """Transform the mesh by a 3×3 matrix and a shift."""
    vertices = shape.vertices if matrix is None else shape.vertices @ np.asarray(matrix, dtype=np.float32).T
    return Mesh(
        np.asarray(vertices + np.asarray(offset, dtype=np.float32), dtype=np.float32),
        shape.quads,
        shape.triangles,
        shape.smooth,
        shape.uv,
    )


def turned(angle: float) -> npt.NDArray[np.float64]:
    """Return the matrix that turns by `angle` about the vertical."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def boxes(extents: Iterable[Box]) -> Mesh:
    """Make axis-aligned boxes in one mesh; boxes without volume are left out."""
    limits = np.array(list(extents), dtype=np.float64).reshape(-1, 2, 3)
    limits = limits[(limits[:, 1] - limits[:, 0] > 1e-4).all(axis=1)]
    vertices = limits[:, None, 0] + _CORNERS * (limits[:, 1] - limits[:, 0])[:, None]
    quads = _SIDES + 8 * np.arange(len(limits), dtype=np.int32)[:, None, None]
    return mesh(vertices, quads)


def box(width: float, depth: float, height: float) -> Mesh:
    """Make a box that stands on z = 0, centered in x and y."""
    return boxes([(-width / 2, -depth / 2, 0, width / 2, depth / 2, height)])


def chamfered_box(width: float, depth: float, height: float, bevel: float) -> Mesh:
    """Make a box whose edges are cut by `bevel` meters: edges catch light, as on real things."""
    half = np.array([width, depth, height]) / 2
    bevel = min(bevel, 0.49 * float(half.min()) * 2)
    vertices = []
    for sign in _CORNERS * 2 - 1:  # three vertices a corner, each pulled in along two axes
        for axis in range(3):
            pulled = np.where(np.arange(3) == axis, half, half - bevel)
            vertices.append(sign * pulled)
    points = np.array(vertices) + UP * half[2]
    quads = [tuple(3 * corner + axis for corner in side) for side, axis in zip(_SIDES, (2, 2, 1, 0, 1, 0))]
    for a, b, axis in _edges():
        others = [k for k in range(3) if k != axis]
        quads.append((3 * a + others[0], 3 * b + others[0], 3 * b + others[1], 3 * a + others[1]))
    triangles = [(3 * k, 3 * k + 1, 3 * k + 2) for k in range(8)]
    return outward(mesh(points, quads, triangles), np.array([0, 0, half[2]]))


def _edges() -> list[tuple[int, int, int]]:
    return [(a, a | (1 << axis), axis) for a in range(8) for axis in range(3) if not a & (1 << axis)]


def outward(shape: Mesh, center: npt.NDArray[np.floating]) -> Mesh:
    """Turn the faces of a convex mesh away from `center`."""

    def turned(faces: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        if not len(faces):
            return faces
        corners = shape.vertices[faces]  # [F, k, 3]
        normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        inward = ((corners.mean(axis=1) - center) * normal).sum(axis=1) < 0
        return np.where(inward[:, None], faces[:, ::-1], faces).astype(np.int32)

    return Mesh(shape.vertices, turned(shape.quads), turned(shape.triangles), shape.smooth, shape.uv)


def grid(xs: npt.ArrayLike, ys: npt.ArrayLike, heights: npt.ArrayLike) -> Mesh:
    """Make terrain: heights [len(ys), len(xs)] over a grid, smooth, facing up."""
    heights = np.asarray(heights, dtype=np.float32)
    x, y = np.meshgrid(np.asarray(xs, dtype=np.float32), np.asarray(ys, dtype=np.float32))
    index = np.arange(heights.size, dtype=np.int32).reshape(heights.shape)
    quads = np.stack([index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1]], axis=-1)
    return mesh(np.stack([x, y, heights], axis=-1), quads, smooth=True)


def tube(
    path: npt.ArrayLike,  # [P, 3]
    radius: float | npt.ArrayLike,  # one, or one per point
    sides: int = 6,
    caps: bool = True,
) -> Mesh:
    """Make a pipe along a path: wires, rods, branches, rails."""
    points = np.asarray(path, dtype=np.float64)
    radii = np.broadcast_to(np.asarray(radius, dtype=np.float64), (len(points),))
    tangents = np.gradient(points, axis=0)
    tangents /= np.maximum(np.linalg.norm(tangents, axis=1, keepdims=True), 1e-9)
    # one fixed helper axis keeps neighboring rings untwisted
    helper = np.eye(3)[np.abs(tangents.mean(axis=0)).argmin()]
    first = np.cross(tangents, helper)
    first /= np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-9)
    second = np.cross(tangents, first)
    angle = np.arange(sides) * 2 * np.pi / sides
    ring = np.cos(angle)[:, None] * first[:, None] + np.sin(angle)[:, None] * second[:, None]
    vertices = points[:, None] + radii[:, None, None] * ring  # [P, S, 3]
    quads = _ring_quads(len(points), sides)
    triangles = []
    if caps:
        last = (len(points) - 1) * sides
        triangles = [(0, k, k + 1) for k in range(1, sides - 1)]
        triangles += [(last, last + k + 1, last + k) for k in range(1, sides - 1)]
    return mesh(vertices, quads, triangles, smooth=True)


def _ring_quads(rings: int, sides: int) -> npt.NDArray[np.int32]:
    index = np.arange(rings * sides, dtype=np.int32).reshape(rings, sides)
    right = np.roll(index, -1, axis=1)
    return np.stack([index[:-1], index[1:], right[1:], right[:-1]], axis=-1).reshape(-1, 4)


def lathe(profile: npt.ArrayLike, sides: int = 24) -> Mesh:
    """Turn a profile [P, 2] of (radius, height), from bottom to top, about z: bottles, bowls, lamp shades."""
    points = np.asarray(profile, dtype=np.float64)
    angle = np.arange(sides) * 2 * np.pi / sides
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    radius, height = points[:, 0], points[:, 1]
    xy = radius[:, None, None] * circle  # [P, S, 2]
    vertices = np.concatenate([xy, np.broadcast_to(height[:, None, None], (*xy.shape[:2], 1))], axis=2)
    quads = _ring_quads(len(points), sides)[:, ::-1]
    return mesh(vertices, quads, smooth=True)


def cylinder(radius: float, height: float, top: float | None = None, sides: int = 20) -> Mesh:
    """Make a cylinder or cone on z = 0; `top` is its upper radius."""
    upper = radius if top is None else top
    rings = [(1e-4, 0), (radius, 0), (radius, 1e-4), (upper, height - 1e-4), (upper, height), (1e-4, height)]
    shape = lathe(rings, sides)
    return Mesh(shape.vertices, shape.quads, shape.triangles, smooth=False)


def sphere(radius: float, rings: int = 12, sides: int = 20) -> Mesh:
    """Make a ball that rests on z = 0."""
    angle = np.linspace(-np.pi / 2, np.pi / 2, rings + 1)
    profile = np.stack([np.maximum(np.cos(angle), 1e-4), np.sin(angle) + 1], axis=1) * radius
    return lathe(profile, sides)


def rock(rng: Rng, rings: int = 16, sides: int = 24, roughness: float = 0.25) -> Mesh:
    """Make a boulder of about one meter across, centered on the origin: a ball shaped by waves of several lengths."""
    ball = sphere(0.5, rings, sides)
    points = ball.vertices - np.array([0, 0, 0.5], dtype=np.float32)
    swell = np.zeros(len(points))
    for octave in range(4):
        for _ in range(4):
            wave = rng.normal(size=3) * 4 * 2**octave
            swell += np.sin(points @ wave + rng.uniform(0, 6.3)) * 0.5**octave
    points *= (1 + roughness * swell / 3)[:, None]
    # a few planes cut flat faces, as stone breaks
    for _ in range(int(rng.integers(0, 5))):
        normal = rng.normal(size=3)
        normal /= np.linalg.norm(normal)
        over = np.maximum(points @ normal - rng.uniform(0.25, 0.45), 0)
        points -= (over[:, None] * normal).astype(np.float32)
    return mesh(points, ball.quads, smooth=bool(rng.random() < 0.7))


def cards(
    centers: npt.NDArray[np.floating],  # [N, 3]
    along: npt.NDArray[np.floating],  # [N, 3], half length
    across: npt.NDArray[np.floating],  # [N, 3], half width
) -> Mesh:
    """Make rectangles with uv, such as leaves."""
    corners = np.stack(
        [centers - along - across, centers - along + across, centers + along + across, centers + along - across], axis=1
    )
    quads = np.arange(4 * len(centers), dtype=np.int32).reshape(-1, 4)
    uv = np.tile(np.array([(0, 0), (1, 0), (1, 1), (0, 1)], dtype=np.float32), (len(centers), 1))
    return mesh(corners, quads, uv=uv)


def diamonds(
    centers: npt.NDArray[np.floating], along: npt.NDArray[np.floating], across: npt.NDArray[np.floating]
) -> Mesh:
    """Make pointed leaves: four corners each, no texture needed. Arguments as `cards`."""
    corners = np.stack([centers - along, centers + across, centers + along, centers - across], axis=1)
    return mesh(corners, np.arange(4 * len(centers), dtype=np.int32).reshape(-1, 4))


def folded_sheet(width: float, height: float, depth: float, folds: float, rng: Rng) -> Mesh:
    """Make a curtain that hangs from z = `height` to 0, centered in x, its folds `depth` meters deep."""
    xs = np.linspace(-width / 2, width / 2, 48)
    zs = np.linspace(0, height, 5)
    phase = rng.uniform(0, 6.3)
    wave = np.sin(xs / width * folds * 2 * np.pi + phase) + 0.4 * np.sin(xs / width * folds * 4.7 + 2 * phase)
    sway = 1 + 0.25 * np.sin(zs[:, None] * 2 + phase)
    y = depth * wave[None] * sway
    vertices = np.stack([np.broadcast_to(xs, y.shape), y, np.broadcast_to(zs[:, None], y.shape)], axis=-1)
    index = np.arange(y.size, dtype=np.int32).reshape(y.shape)
    quads = np.stack([index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1]], axis=-1)
    return mesh(vertices, quads, smooth=True)


def hanging(start: npt.ArrayLike, end: npt.ArrayLike, sag: float, points: int = 12) -> npt.NDArray[np.float64]:
    """Return the path [points, 3] of a wire that sags by `sag` meters in its middle (a parabola)."""
    t = np.linspace(0, 1, points)[:, None]
    path = (1 - t) * np.asarray(start, dtype=np.float64) + t * np.asarray(end, dtype=np.float64)
    path[:, 2] -= sag * 4 * (t * (1 - t))[:, 0]
    return path


def lying_cable(rng: Rng, start: Sequence[float], length: float, radius: float) -> Mesh:
    """Make a cable that wanders over the plane z = start[2]."""
    turns = np.cumsum(rng.normal(0, 0.35, 40)) + rng.uniform(0, 6.3)
    steps = np.stack([np.cos(turns), np.sin(turns)], axis=1) * length / 40
    path = np.concatenate([np.cumsum(steps, axis=0), np.zeros((40, 1))], axis=1) + start
    path[:, 2] += radius
    return tube(path, radius, sides=5)


def fractal_noise(rng: Rng, size: int, exponent: float) -> Array:
    """Make noise [size, size] in 0…1 whose amplitude falls with frequency^exponent; it tiles."""
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None])
    frequency[0, 0] = 1
    spectrum = (rng.standard_normal(frequency.shape) + 1j * rng.standard_normal(frequency.shape)) / frequency**exponent
    spectrum[0, 0] = 0
    noise = np.fft.irfft2(spectrum, (size, size))
    return np.asarray((noise - noise.min()) / (np.ptp(noise) + 1e-9), dtype=np.float32)
