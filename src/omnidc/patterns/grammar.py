"""The strings that name patterns, as the paper writes its training mix, and a little more.

    mixture   = term "+" term …                 one term is drawn per frame, by weight
    term      = [weight "*"] chain
    chain     = source "&" modifier …           the modifiers act in turn
    modifier  = [probability "*"] name          applied to that part of the frames

    source                      measurements
    2150 · 100~2000             so many random points (per full picture; fewer where depth is unknown)
    0.7% · 0.03%~0.7%           that part of the known pixels, at random
    sift · orb                  keypoints; orb(3000, harris) limits them; fewest=0: no random points as a fallback
    lidar · lidar(8~64)         LiDAR beside the camera, 4–128 lines unless given ("velodyne" is the release's word)
    lidar(baseline=none)        the same where the camera is: no wrong points at boundaries
    lidar-16 · lidar-16(400)    the deterministic scan of the evaluation, 200 columns unless given
    radar · radar(20~100)       few points, poor angle, ghosts
    lidar(16, tilt=0.2~0.8)     … its lines oblique in the picture by so many radians
    camera                      a depth camera: dense, with holes at glass, dark and edges
    phone · phone(48~192)       a phone's LiDAR: a fine grid of so many rows, smooth at edges
    tof · tof(8) · tof(8~64)    a coarse grid of so many rows, quantized
    dense                       every known pixel

    modifier                    default
    noise(0~0.05)               that part of the measurements replaced by any depth of the scene
    jitter(0~0.02)              every measurement off by about that part of it
    drop(0~0.5)                 that part of the measurements lost
    hole(0.3~0.7)               no measurement in one rectangle, sides as parts of the picture's
    blocks(1~8, 0.05~0.3)       … in several
    crop(0.4~0.9)               no measurement beyond the nearest 40–90 % of the scene
    crop(near=0.1~0.3)          … and none nearer than the nearest 10–30 %
    clusters(0.05~0.5)          only that part of the measurements stays, in patches
    materials(1~3)              holes, or depths from behind, in so many evenly colored regions; black ones lost
    mixed(0~0.5, second=0~0.3)  that part of those at depth edges is of the other surface or between; second returns
    spikes(1~5)                 so many single measurements 1.5–10 times too near or too far
    speckle(0~0.02)             spots of any depth, that part of the pixels
    ghosts(0~0.1)               that part of the measurements, in patches, 1.15–3 times too far
    hidden(0~0.5)               that part of those with a surface farther away nearby has its depth, in patches

`a~b` is drawn evenly and includes both ends, `a~~b` evenly in the logarithm. A modifier without a source acts on
"0.7%": "hole" is "0.7% & hole". Modifiers that take away may leave nothing where there were few points.

    parse("0.5*100~2000+0.25*sift+0.25*lidar", noise="0~0.05")
    parse("1~~2000 & noise(0~0.05) & 0.3*hole + 0.2*lidar & drop")
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omnidc.errors import ConfigError
from omnidc.patterns import boundary, holes, keypoints, lidar, noise, radar, regions, scatter, tof
from omnidc.patterns.numbers import Span, fraction, whole
from omnidc.patterns.sample import Depth, Image, Modifier, Pattern, SparseSample, sample_at, sanitize

BASE = "0.7%"  # the source of a modifier that stands alone

NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\s*(%?)\s*(?:(~~?)\s*({NUMBER})\s*(%?))?")
CALL = re.compile(r"([a-z]+)(?:[-_](\d+))?\s*(?:\((.*)\))?", re.DOTALL)
WEIGHT = re.compile(rf"({NUMBER})\s*\*\s*(.+)", re.DOTALL)


def dense() -> Pattern:
    """Pattern: every pixel whose depth is known."""
    return lambda depth, image, rng: sample_at(sanitize(depth), sanitize(depth) > 0)


def fixed(value: Span | int, what: str, least: int = 1, most: int = 10**6) -> int:
    """A number of things that is not drawn per frame."""
    number = whole(value, what, least, most)
    if number.low != number.high:
        raise ConfigError(f"{what} must be one number, not a range.")
    return round(number.low)


def sift(fewest: Span | int = keypoints.FEWEST, **released: Any) -> Pattern:
    return keypoints.sift(fixed(fewest, "fewest of sift", least=0), **released)


def orb(
    features: Span | int = 100_000, score: str = "fast", fewest: Span | int = keypoints.FEWEST, **released: Any
) -> Pattern:
    return keypoints.orb(fixed(features, "features of orb"), score, fixed(fewest, "fewest of orb", least=0), **released)


SOURCES: dict[str, Callable[..., Pattern]] = {
    "sift": sift,
    "orb": orb,
    "lidar": lidar.lidar,
    "velodyne": lidar.lidar,
    "radar": radar.radar,
    "camera": holes.depth_camera,
    "tof": tof.tof,
    "phone": tof.phone,
    "dense": dense,
}
MODIFIERS: dict[str, Callable[..., Modifier]] = {
    "noise": noise.outliers,
    "jitter": noise.jitter,
    "drop": noise.dropout,
    "hole": holes.hole,
    "blocks": holes.blocks,
    "crop": holes.limit_range,
    "clusters": regions.clusters,
    "materials": regions.materials,
    "mixed": boundary.mixed,
    "spikes": noise.spikes,
    "speckle": noise.speckle,
    "ghosts": regions.ghosts,
    "hidden": regions.hidden,
}
RELEASED = {"lidar", "velodyne", "noise"}  # those that take the switch, besides keypoints and random points
NOISY = {"random", "sift", "orb"}  # those that the mix's `noise` applies to; the others make their own


@dataclass(frozen=True)
class Mixture:
    """A parsed string, itself a `Pattern`. Pickles as its text, so that data loaders can send it to their workers."""

    text: str
    noise: str | None
    released: bool
    terms: tuple[Pattern, ...] = field(repr=False, compare=False)
    weights: tuple[float, ...] = field(repr=False, compare=False)  # add up to 1

    def __call__(self, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        # One term needs no draw: its results then depend on the seed alone, not on how it was written.
        which = 0 if len(self.terms) == 1 else int(rng.choice(len(self.terms), p=self.weights))
        return self.terms[which](sanitize(depth), image, rng)

    def __reduce__(self) -> tuple[Any, ...]:
        return parse, (self.text, self.noise, self.released)


def parse(text: str, noise: str | None = None, released: bool = False) -> Mixture:
    """The pattern that `text` describes; this module's docstring is the grammar.

    noise: rate of outliers ("0~0.05", "5%") for every term of random points or keypoints that has none of its own.
    released: as in the released code wherever that departs from the paper.

    >>> depth, image = np.full((48, 64), 3.0, np.float32), np.zeros((48, 64, 3), np.uint8)
    >>> sample = parse("100 & noise(0.1)")(depth, image, np.random.default_rng(0))
    >>> int((sample.sparse > 0).sum())
    100
    """
    rate = None if noise is None else fraction(parse_span(noise), "The rate of noise")
    weighted = [weighted_part(part) for part in split(text, "+")]
    weights = [weight for weight, _ in weighted]
    if not 0 < sum(weights) < np.inf:
        raise ConfigError(f"The weights of {text!r} add up to nothing or to no number: give one term a weight above 0.")
    terms = tuple(parse_chain(part, rate, released) for _, part in weighted)
    return Mixture(text, noise, released, terms, tuple(weight / sum(weights) for weight in weights))


def parse_chain(text: str, rate: Span | None, released: bool) -> Pattern:
    """`source & modifier & …`; `rate` of outliers directly after a source that takes them, if none are asked for."""
    head, *tail = split(text, "&")
    modifiers = [parse_modifier(part, released) for part in tail]
    named = [call_parts(weighted_part(part)[1])[0] for part in tail]
    if RANGE.fullmatch(head):
        name, source = "random", scatter.random(parse_count(head), released)
    else:
        name, number, arguments = call_parts(head)
        if name in MODIFIERS:
            return parse_chain(f"{BASE} & {text}", rate, released)
        if name not in SOURCES:
            raise ConfigError(unknown(name))
        own_noise = rate if released and name in ("sift", "orb") and "noise" not in named else None
        source = build_source(name, number, arguments, released, own_noise)
        if own_noise is not None:
            return chain(source, modifiers)
    if rate is not None and name in NOISY and "noise" not in named:
        modifiers.insert(0, noise.outliers(rate, released))
    return chain(source, modifiers)


def build_source(name: str, number: int | None, arguments: str, released: bool, own_noise: Span | None) -> Pattern:
    if number is not None:
        if name not in ("lidar", "velodyne") or number < 1:
            raise ConfigError(f"{name}-{number} is no pattern: only lidar takes a number of lines, as in lidar-16.")
        scan: Pattern = build(scan_lines, name, arguments, {"lines": number})
        return scan
    switches: dict[str, Any] = {}
    if released and (name in RELEASED or name in ("sift", "orb")):
        switches["released"] = True
    if own_noise is not None:
        switches["released_noise"] = own_noise
    source: Pattern = build(SOURCES[name], name, arguments, switches)
    return source


def scan_lines(columns: Span | int = 200, *, lines: int) -> Pattern:
    lines = fixed(lines, "lines of lidar-N", most=lidar.MAX_LINES)
    return lidar.lidar_scan(lines, fixed(columns, "columns of lidar-N", most=lidar.MAX_COLUMNS))


def parse_modifier(text: str, released: bool) -> Modifier:
    share, call = weighted_part(text)
    if share > 1:
        raise ConfigError(f"In {text!r} the number is the part of the frames to be modified and cannot exceed 1.")
    name, number, arguments = call_parts(call)
    if name not in MODIFIERS or number is not None:
        raise ConfigError(f"There is no modifier {call!r}: after & comes one of {', '.join(MODIFIERS)}.")
    modifier: Modifier = build(
        MODIFIERS[name], name, arguments, {"released": True} if released and name in RELEASED else {}
    )
    return modifier if share == 1 else sometimes(modifier, share)


def sometimes(modifier: Modifier, share: float) -> Modifier:
    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        return modifier(sample, depth, image, rng) if rng.random() < share else sample

    return apply


def chain(source: Pattern, modifiers: list[Modifier]) -> Pattern:
    def draw(depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        sample = source(depth, image, rng)
        for modifier in modifiers:
            sample = modifier(sample, depth, image, rng)
        return sample

    return draw if modifiers else source


def build(maker: Callable[..., Any], name: str, arguments: str, switches: dict[str, Any]) -> Any:
    """`maker` called with the arguments of the text; wrong ones are the text's fault."""
    positional: list[Span | str] = []
    named: dict[str, Span | str] = {}
    for part in split(arguments, ",") if arguments.strip() else []:
        key, equals, value = (piece.strip() for piece in part.rpartition("="))
        argument = parse_span(value) if RANGE.fullmatch(value) else value
        if equals:
            named[key] = argument
        else:
            positional.append(argument)
    signature = inspect.signature(maker)
    public = [
        key
        for key, parameter in signature.parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and not key.startswith("released")
    ]
    if len(positional) > len(public) or any(key not in public for key in named):
        takes = f"takes {', '.join(public)}" if public else "takes nothing in brackets"
        raise ConfigError(f"{name}({arguments}) cannot be read: {name} {takes}.")
    try:
        bound = signature.bind(*positional, **named, **switches)
    except TypeError as error:
        raise ConfigError(f"{name}({arguments}) cannot be read: one value is given twice.") from error
    for key, value in bound.arguments.items():
        if isinstance(value, str) and not isinstance(signature.parameters[key].default, str):
            raise ConfigError(f"{name}({arguments}) cannot be read: {key} is a number or a range, not {value!r}.")
        if isinstance(value, Span) and isinstance(signature.parameters[key].default, str):
            raise ConfigError(f"{name}({arguments}) cannot be read: {key} is a word, not a number.")
    return maker(*bound.args, **bound.kwargs)


def parse_span(text: str) -> Span:
    """`5`, `0.05`, `5%`, `a~b`, `a~~b`; a percent sign on either end holds for both."""
    match = RANGE.fullmatch(text.strip())
    if not match:
        raise ConfigError(f"{text.strip()!r} is neither a number nor a range: write for example 500, 100~2000 or 0.7%.")
    low, first, tilde, high, second = match.groups()
    percent = bool(first or second)
    unit = 0.01 if percent else 1.0
    return Span(float(low) * unit, float(high or low) * unit, log=tilde == "~~", percent=percent)


def parse_count(text: str) -> Span:
    """Points: whole numbers, or a part of the known pixels in percent."""
    points = parse_span(text)
    if not points.percent and (points.low != round(points.low) or points.high != round(points.high)):
        raise ConfigError(f"{text.strip()} is no number of points: write a whole number, or a density such as 0.7%.")
    if points.percent and points.high > 1:
        raise ConfigError(f"{text.strip()} is more than all pixels: a density is at most 100%.")
    return points


def call_parts(text: str) -> tuple[str, int | None, str]:
    """`name-3(arguments)` as name, 3 or None, arguments."""
    match = CALL.fullmatch(text.strip().lower())
    if not match:
        raise ConfigError(unknown(text.strip()))
    name, number, arguments = match.groups()
    return name, None if number is None else int(number), arguments or ""


def weighted_part(text: str) -> tuple[float, str]:
    match = WEIGHT.fullmatch(text.strip())
    return (float(match[1]), match[2].strip()) if match else (1.0, text.strip())


def split(text: str, separator: str) -> list[str]:
    """`text` at each `separator` outside brackets (and outside exponents such as 1e+3); no part may be empty."""
    if not text.strip():
        raise ConfigError("The pattern is empty: write for example 100~2000, sift or lidar-16.")
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            break
        if letter == separator and depth == 0 and not re.search(r"\d[eE]$", text[:i]):
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    if depth:
        raise ConfigError(f"The brackets of the pattern {text!r} do not match.")
    if not all(part.strip() for part in parts):
        raise ConfigError(f"The pattern {text!r} has an empty part: something is missing beside a {separator!r}.")
    return [part.strip() for part in parts]


def unknown(name: str) -> str:
    names = ", ".join([*SOURCES, *MODIFIERS])
    return f"There is no pattern {name!r}: write a number of points, a density such as 0.7%, or one of {names}."
