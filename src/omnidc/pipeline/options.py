"""Options of completing and writing frames. Python keywords and command-line options are made from these fields."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, cast

from omnidc.errors import ConfigError

KeepInput = Literal["soft", "hard"]
SkyOption = Literal["mask", "far", "keep"]
TileOption = int | Literal["auto"] | None

# File endings of the formats that are no suffix of their own.
ENDINGS = {"preview": "_preview.jpg", "confidence": "_confidence.npz", "turntable": "_turntable.jpg"}
FORMATS = ("npy", "npz", "png", "exr", "pfm", "tiff", "ply", "glb", *ENDINGS)
EXTRAS = ("confidence", "turntable")  # come on top of the depth, never instead

# Keywords that were renamed; the old ones work for one release.
RENAMED_KEYWORDS = {"far": "clip_depth"}


def parse_tile(text: str) -> TileOption:
    """Return the `tile` of a word: "auto", "none" or a number of pixels."""
    if text in ("auto", "none"):
        return None if text == "none" else "auto"
    if not text.isdecimal():
        raise ConfigError(f"--tile is auto, none or a number of pixels, not {text!r}.")
    return int(text)


@dataclass(frozen=True)
class CompleteOptions:
    """How the network is run and which pixels of its result are kept.

    The metadata of a field is for the command line: `help`, and `parse` (text to value) where its type does not say.

    keep_input: "soft" lets the network overrule measurements; "hard" makes the result pass through all of them.
    max_long_side: larger images are computed at this size, and the result is brought back to theirs. None: what suits
        the network (960 for "compact", which was trained on small pictures; no limit for the paper's).
    tile: of networks in stages (the paper's). "auto" runs images above 2.1 megapixels in tiles of 1024 pixels; a number
        sets the side; None never tiles. "compact" needs no tiles: it has no effect there.
    clip_depth: largest depth in the result, in its unit.
    sky: what becomes of pixels that the network takes for sky. "mask": 0 in depth maps, absent from clouds, meshes and
        exports. "far": `clip_depth`, or the largest depth of the others. "keep": the network's depth.
    max_uncertainty: pixels with a Laplace scale above this fraction of their depth are dropped: 0 in depth maps, absent
        from clouds and exports.

    >>> from omnidc.pipeline import CompleteOptions
    >>> options = CompleteOptions(keep_input="hard", clip_depth=80.0)
    >>> options.sky
    'mask'
    """

    keep_input: KeepInput = field(
        default="soft", metadata={"help": "soft: the network may overrule points; hard: pass through all of them."}
    )
    max_long_side: int | None = field(
        default=None,
        metadata={
            "help": "Compute larger images at this size; results keep the image's. Default: what suits the model."
        },
    )
    tile: TileOption = field(
        default="auto",
        metadata={
            "help": 'Side of the tiles of the paper\'s network: "auto", "none" or pixels; compact needs none.',
            "parse": parse_tile,
        },
    )
    clip_depth: float | None = field(default=None, metadata={"help": "Largest depth in the result."})
    sky: SkyOption = field(
        default="mask", metadata={"help": "Pixels of the sky: mask (no depth), far (the largest depth) or keep."}
    )
    max_uncertainty: float | None = field(
        default=None,
        metadata={"help": "Drop pixels whose uncertainty is above this fraction of their depth, such as 0.1."},
    )

    def __post_init__(self) -> None:
        if self.keep_input not in ("soft", "hard"):
            raise ConfigError(f'keep_input is "soft" or "hard", not {self.keep_input!r}.')
        if self.sky not in ("mask", "far", "keep"):
            raise ConfigError(f'sky is "mask", "far" or "keep", not {self.sky!r}.')
        if self.max_long_side is not None and not (isinstance(self.max_long_side, int) and self.max_long_side > 0):
            raise ConfigError(f"max_long_side is a positive number of pixels, not {self.max_long_side!r}.")
        if self.tile not in (None, "auto") and not (isinstance(self.tile, int) and self.tile > 0):
            raise ConfigError(f'tile is "auto", None or a positive number of pixels, not {self.tile!r}.')
        for name in ("clip_depth", "max_uncertainty"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
                raise ConfigError(f"{name} is a positive number, not {value!r}.")

    @classmethod
    def split_keywords(cls, keywords: dict[str, Any]) -> tuple[CompleteOptions, dict[str, Any]]:
        """Return the options among `keywords`, and the other keywords."""
        own: dict[str, Any] = {}
        others: dict[str, Any] = {}
        names = {each.name for each in fields(cls)}
        for keyword, value in keywords.items():
            name = RENAMED_KEYWORDS.get(keyword, keyword)
            if name != keyword:
                warnings.warn(f"{keyword} is now {name}", DeprecationWarning, stacklevel=4)
            (own if name in names else others)[name] = value
        return cls(**cast(Any, own)), others


@dataclass(frozen=True)
class WriteOptions:
    """What is written of each frame. The metadata of a field is for the command line.

    formats: names out of FORMATS, each of which may hold several with commas; empty = npy and preview.
    png_scale: what depth is multiplied by in 16-bit PNG; None = chosen at the first frame, the same for a whole run.
    keep_flying_pixels: clouds and meshes keep the pixels between foreground and background.
    stride: clouds take every n-th pixel in both directions.
    voxel: clouds have one point for each cell of this size, in the unit of the depth; None = all points.
    """

    formats: tuple[str, ...] = field(
        default=(), metadata={"help": f"What to write (repeatable): {', '.join(FORMATS)}.", "flags": ("--format", "-f")}
    )
    png_scale: float | None = field(
        default=None, metadata={"help": "What depth is multiplied by in 16-bit png; default: 1000, 256 or 100."}
    )
    keep_flying_pixels: bool = field(default=False, metadata={"help": "Keep flying pixels in clouds and meshes."})
    stride: int = field(default=1, metadata={"help": "Clouds (ply): every n-th pixel in both directions."})
    voxel: float | None = field(
        default=None, metadata={"help": "Clouds (ply): one point for each cell of this size, in the depth's unit."}
    )

    def __post_init__(self) -> None:
        names = [name.strip().lower().lstrip(".") for entry in self.formats for name in entry.split(",")]
        for name in names:
            if name not in FORMATS:
                raise ConfigError(f"The format {name!r} is not known: choose from {', '.join(FORMATS)}.")
        if not set(names) - set(EXTRAS):
            names = ["npy", "preview", *names]
        object.__setattr__(self, "formats", tuple(dict.fromkeys(names)))
        if self.png_scale is not None and not (math.isfinite(self.png_scale) and self.png_scale > 0):
            raise ConfigError(f"The depth scale of PNG files is a positive number, not {self.png_scale:g}.")
        if self.stride < 1:
            raise ConfigError(f"The stride of clouds (--stride) is at least 1 pixel, not {self.stride}.")
        if self.voxel is not None and not (math.isfinite(self.voxel) and self.voxel > 0):
            raise ConfigError(f"The voxel size of clouds (--voxel) is a positive number, not {self.voxel:g}.")

    def adding(self, name: str) -> WriteOptions:
        """Return the options with one more format."""
        return replace(self, formats=(*self.formats, name))

    def needs_camera(self) -> bool:
        """Return True where a format has points in space."""
        return bool(set(self.formats) & {"ply", "glb", "turntable"})
