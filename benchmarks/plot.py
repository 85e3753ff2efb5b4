"""Plots as SVG files, with nothing but text: lines with bands, and points of different sizes on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from omnidc.io.files import atomic_path

WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 34, 44
LETTER, LINE = 6.6, 11.0  # width of a letter and height of a line of small text, in pixels
COLORS = ("#3366aa", "#cc5533", "#338855", "#885599", "#998822", "#555555", "#2299aa", "#bb3377", "#000000")


@dataclass
class Panel:
    """One pair of axes. Ranges are in data units; `log_x` and `log_y` choose logarithmic axes."""

    title: str
    x_label: str
    y_label: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    log_x: bool = False
    log_y: bool = False
    x_ticks: Sequence[float] = ()  # empty: round numbers
    parts: list[str] = field(default_factory=list)
    points: list[tuple[float, float, float, str, str]] = field(default_factory=list)  # x, y, radius, color, name

    def _place(self, value: float, limits: tuple[float, float], log: bool) -> float:
        f: Callable[[float], float] = math.log if log else float
        low, high = map(f, limits)
        return (f(value) - low) / (high - low)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Data to pixels."""
        u, v = self._place(x, self.x_range, self.log_x), self._place(y, self.y_range, self.log_y)
        return LEFT + u * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - v * (HEIGHT - TOP - BOTTOM)

    def _path(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.at(x, y) for x, y in zip(xs, ys, strict=True)))

    def line(self, xs: Sequence[float], ys: Sequence[float], color: str) -> None:
        points = self._path(xs, ys)
        self.parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>')

    def band(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], color: str) -> None:
        outline = self._path([*xs, *reversed(xs)], [*low, *reversed(high)])
        self.parts.append(f'<polygon points="{outline}" fill="{color}" fill-opacity="0.25"/>')

    def point(self, x: float, y: float, radius: float, color: str, text: str = "") -> None:
        px, py = self.at(x, y)
        self.parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="{radius:.1f}" fill="{color}" fill-opacity="0.6"/>')
        self.points.append((px, py, radius, color, text))

    def _texts(self) -> list[str]:
        """The names of the points, in their colors, where they hide neither a point nor each other if possible."""
        taken = [(x - r, y - r, x + r, y + r) for x, y, r, _, _ in self.points]
        parts = []
        for x, y, radius, color, text in self.points:
            width = LETTER * len(text)
            right, left, middle = x + radius + 3, x - radius - 3 - width, x - width / 2
            beside = [(right, y + 4), (left, y + 4)]
            around = [(middle, y + step) for step in (-radius - 4, radius + LINE + 2, -radius - 16, radius + LINE + 14)]

            def box(place: tuple[float, float], width: float = width) -> tuple[float, float, float, float]:
                return place[0], place[1] - LINE + 2, place[0] + width, place[1] + 1

            def is_free(place: tuple[float, float]) -> bool:
                x0, y0, x1, y1 = box(place)
                inside = x0 > LEFT and x1 < WIDTH - RIGHT and y0 > TOP and y1 < HEIGHT - BOTTOM
                return inside and not any(x0 < b[2] and b[0] < x1 and y0 < b[3] and b[1] < y1 for b in taken)

            place = next(filter(is_free, [*beside, *around]), beside[0])
            taken.append(box(place))
            style = f'class="s" style="fill:{color}"'
            parts.append(f'<text x="{place[0]:.1f}" y="{place[1]:.1f}" {style}>{escape(text)}</text>')
        return parts

    def label(self, x: float, y: float, text: str, color: str) -> None:
        """Write the name of a line beside one of its points."""
        px, py = self.at(x, y)
        self.parts.append(
            f'<text x="{px + 8:.1f}" y="{py - 6:.1f}" class="s" style="fill:{color}">{escape(text)}</text>'
        )

    def svg(self) -> str:
        frame = (LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM)
        marks = ['<rect x="{}" y="{}" width="{}" height="{}" fill="none" stroke="#999"/>'.format(*frame)]
        for value in self.x_ticks or _ticks(self.x_range, self.log_x):
            x, y = self.at(value, self.y_range[0])
            marks.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle" class="s">{value:g}</text>')
        for value in _ticks(self.y_range, self.log_y):
            x, y = self.at(self.x_range[0], value)
            marks.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end" class="s">{value:g}</text>')
        marks.append(f'<text x="{LEFT}" y="{TOP - 12}" class="t">{escape(self.title)}</text>')
        marks.append(
            f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle" class="s">{escape(self.x_label)}</text>'
        )
        marks.append(f'<text x="14" y="{TOP - 12}" class="s">{escape(self.y_label)}</text>')
        return "".join([*marks, *self.parts, *self._texts()])


def _ticks(limits: tuple[float, float], log: bool) -> list[float]:
    low, high = limits
    if log:
        powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
        return [10.0**power for power in powers]
    step = 10 ** math.floor(math.log10((high - low) / 2))
    step = next(s for s in (step, 2 * step, 5 * step, 10 * step) if (high - low) / s <= 6)
    return [round(k * step, 12) for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def write(path: Path, panels: Sequence[Panel], columns: int = 2) -> None:
    """All panels in a grid, as one SVG file."""
    rows = -(-len(panels) // columns)
    size = f'width="{columns * WIDTH}" height="{rows * HEIGHT}"'
    style = "<style>text{font-family:sans-serif;fill:#222}.t{font-size:13px;font-weight:600}.s{font-size:11px}</style>"
    body = [
        f'<g transform="translate({index % columns * WIDTH},{index // columns * HEIGHT})">{panel.svg()}</g>'
        for index, panel in enumerate(panels)
    ]
    with atomic_path(path) as temporary:
        text = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{style}<rect {size} fill="white"/>{"".join(body)}</svg>\n'
        )
        temporary.write_text(text, encoding="utf-8")
