"""`Frame`: one photograph with its depth measurements; `FrameSource`: many of them, read one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError

FEW_POINTS = 50
UNDISTORTED = "undistorted to a pinhole camera: depth is computed for the undistorted photograph"  # of `Frame.pixels`
CROWDED = 0.15  # share of the image below which the points leave most of it unmeasured


class Unit(str, Enum):
    """The unit of a depth map.

    >>> Unit("m") is Unit.METERS
    True
    >>> Unit.SCENE.label
    'scene units'
    """

    METERS = "m"
    SCENE = "scene"  # arbitrary but common to all frames of a source, as in structure from motion
    UNKNOWN = "input's unit"  # only the user knows it
    RELATIVE = "relative"  # no measurement, arbitrary for each frame

    __str__ = str.__str__

    @property
    def label(self) -> str:
        """The word after a number; empty where there is none."""
        return {Unit.METERS: "m", Unit.SCENE: "scene units", Unit.RELATIVE: "(relative)"}.get(self, "")


@dataclass(frozen=True, eq=False)
class OriginalPixels:
    """A photograph as the camera took it, and where its pixels lie in the undistorted one.

    image: uint8 [H, W, 3], RGB.
    places: float32 [H, W, 2], column and row in the undistorted photograph; NaN = its ray is not in there.
    """

    image: npt.NDArray[np.uint8]
    places: Callable[[], npt.NDArray[np.float32]]  # called when needed: most runs never do


@dataclass(frozen=True, eq=False)
class Frame:
    """One view. Maps share the image's height and width; see docs/conventions.md.

    image: uint8 [H, W, 3], RGB.
    sparse: float32 [H, W], z-depth, 0 = no measurement; None when a pattern is to be drawn from `depth`.
    depth: float32 [H, W], ground truth where it is known, 0 = unknown; None outside evaluation and training.
    intrinsics: float64 [3, 3], pixel centers at integers (OpenCV); None = not known.
    pose: float64 [4, 4], camera to world, OpenCV axes; None = not known.
    unit: of `sparse` and `depth`.
    name: file-system safe name without suffix, unique within its source; may hold "/" for sub-folders.
    sky: bool [H, W], True = no depth exists; None = not known.
    mask: bool [H, W], False = ignored: neither measured nor completed; None = all pixels count.
    normals: float32 [H, W, 3], unit vectors in the camera frame; None = not known.
    timestamp: seconds; None = not known.
    source: name of the photograph at its source, with suffix ("left/0001.jpg"); empty = none.
    returns: points of the sensor inside the image, several of which may share a pixel; None = one a pixel.
    unit_reason: which unit was assumed, and why.
    warnings: what the user should know, each a sentence.
    notes: what the reader did, each a clause.
    pixels: how the maps' pixels differ from the stored ones ("turned by 90° …"); empty = they do not.
    original: the photograph before its distortion was removed; None = its pixels are the maps' own.

    >>> import numpy as np
    >>> sparse = np.zeros((48, 64), np.float32)
    >>> sparse[10, 20] = 1.5
    >>> frame = Frame(np.zeros((48, 64, 3), np.uint8), sparse=sparse, name="a")
    >>> float(frame.measurements().sum())
    1.5
    >>> right = np.tile(np.arange(64) >= 32, (48, 1))  # the left half is ignored
    >>> bool(frame.with_mask(right).measurements().any())
    False
    """

    image: npt.NDArray[np.uint8]
    sparse: npt.NDArray[np.float32] | None = None
    depth: npt.NDArray[np.float32] | None = None
    intrinsics: npt.NDArray[np.float64] | None = None
    pose: npt.NDArray[np.float64] | None = None
    unit: Unit = Unit.METERS
    name: str = ""
    sky: npt.NDArray[np.bool_] | None = None
    mask: npt.NDArray[np.bool_] | None = None
    normals: npt.NDArray[np.float32] | None = None
    timestamp: float | None = None
    source: str = ""
    returns: int | None = None
    unit_reason: str = ""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    pixels: str = ""
    original: OriginalPixels | None = None

    def __post_init__(self) -> None:
        if self.image.ndim != 3 or self.image.shape[2] != 3 or self.image.dtype != np.uint8:
            raise InputError(
                f"Frame {self.name!r}: the image must be uint8 [H, W, 3], "
                f"not {self.image.dtype} {list(self.image.shape)}."
            )
        for label in ("sparse", "depth", "sky", "mask"):
            array = getattr(self, label)
            if array is not None and array.shape != self.image.shape[:2]:
                raise InputError(
                    f"Frame {self.name!r}: {label} is {array.shape[0]}x{array.shape[1]} but the image is "
                    f"{self.image.shape[0]}x{self.image.shape[1]} (rows x columns); resize one to the other."
                )
        object.__setattr__(self, "unit", Unit(self.unit))

    @property
    def height(self) -> int:
        return int(self.image.shape[0])

    @property
    def width(self) -> int:
        return int(self.image.shape[1])

    def measurements(self) -> npt.NDArray[np.float32]:
        """Return the sparse map [H, W]; an empty one where the frame has none."""
        return np.zeros(self.image.shape[:2], np.float32) if self.sparse is None else self.sparse

    def with_mask(self, mask: npt.NDArray[np.bool_]) -> Frame:  # [H, W], False = ignored
        """Return the frame without the measurements of ignored pixels."""
        masked = replace(self, mask=mask)  # checks the size first
        return masked if self.sparse is None else replace(masked, sparse=np.where(mask, self.sparse, np.float32(0)))

    def summary(self) -> str:
        """Return the sanity line: points, share of pixels, min / median / max, unit and why."""
        values = self.measurements()
        values = values[values > 0]
        reason = f" ({self.unit_reason})" if self.unit_reason else ""
        if not values.size:
            return f"no points in {self.width}x{self.height}{reason}"
        points = "1 point" if values.size == 1 else f"{values.size:,} points"
        return (
            f"{points}, {100 * values.size / (self.width * self.height):.3g} % of {self.width}x{self.height}; "
            f"min {values.min():.3g}, median {np.median(values):.3g}, max {values.max():.3g} {self.unit.label}".rstrip()
            + reason
        )


class FrameSource(Protocol):
    """Frames that are read when asked for, so that a finished one need not be opened again.

    >>> import numpy as np
    >>> def load() -> Frame:
    ...     return Frame(np.zeros((48, 64, 3), np.uint8), name="a")
    >>> source: FrameSource = LazyFrames({"a": load})
    >>> source.names, source["a"].name
    (['a'], 'a')
    """

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def notes(self) -> Sequence[str]:
        """What the reader assumed or changed; shown before the run."""
        ...

    def __getitem__(self, name: str) -> Frame: ...


@dataclass(frozen=True)
class LazyFrames:
    """The `FrameSource` of readers: a way to load the frame behind each name."""

    loaders: Mapping[str, Callable[[], Frame]]
    notes: tuple[str, ...] = ()
    posed: frozenset[str] | None = None  # names with pose and camera; None = not known before they are loaded

    @property
    def names(self) -> list[str]:
        return list(self.loaders)

    def __len__(self) -> int:
        return len(self.loaders)

    def __iter__(self) -> Iterator[Frame]:
        return (load() for load in self.loaders.values())

    def __getitem__(self, name: str) -> Frame:
        return self.loaders[name]()

    def every(self, step: int) -> LazyFrames:
        """Return every `step`-th frame."""
        if step < 1:
            raise InputError(f"The step between frames (--frame-step) must be at least 1, not {step}.")
        return replace(self, loaders=dict(list(self.loaders.items())[::step]))


def point_warnings(sparse: npt.NDArray[np.float32], unit: Unit = Unit.METERS) -> tuple[str, ...]:  # [H, W]
    """Return sentences on measurements that are too few, too crowded or in an odd range."""
    rows, columns = np.nonzero(sparse > 0)
    if not len(rows):
        return ("There are no depth points: the result is relative depth around 1, without a unit.",)
    found = []
    values = sparse[rows, columns]
    low, middle, high = float(values.min()), float(np.median(values)), float(values.max())
    if len(rows) < FEW_POINTS:
        found.append(f"Only {len(rows)} depth point{'s' if len(rows) > 1 else ''}: depth far from them is a guess.")
    elif low == high:
        found.append(f"All {len(rows):,} points have the same depth {low:g}: is it a placeholder?")
    # The box that holds the middle 90 % of the points in each direction.
    height, width = sparse.shape
    box = (np.ptp(np.quantile(rows, [0.05, 0.95])) + 1) * (np.ptp(np.quantile(columns, [0.05, 0.95])) + 1)
    share = float(box) / (height * width)
    if len(rows) >= FEW_POINTS and share < CROWDED:
        across = "left" if np.median(columns) < width / 2 else "right"
        down = "upper" if np.median(rows) < height / 2 else "lower"
        found.append(f"The points cover only {share:.0%} of the image ({down} {across}): depth elsewhere is a guess.")
    if high > 1e4 * low:
        found.append(f"The depths span a factor of {high / low:.0e}: check the unit, and the points for outliers.")
    if unit == Unit.UNKNOWN and middle > 300:
        found.append(
            f"A median depth of {middle:.0f} looks like millimeters: the result keeps the unit of the input; "
            "for meters give --depth-scale 1000 (depth_scale=1000)."
        )
    return tuple(found)
