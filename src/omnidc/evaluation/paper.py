"""The tables of the OMNI-DC paper as data, with the published numbers we have a source for.

Data. `--data ROOT` holds, for each part of a table, either the released test set (a folder of the uniformat release,
such as `ROOT/NYU_test_500`: then the inputs are those of the paper) or the original data set in a folder of its
registry name (`ROOT/nyuv2-h5`; see `omnidc data list`), from which our patterns draw with a seed fixed per frame.

Sources. The authors' README (github.com/princeton-vl/OMNI-DC, comparison of v1.0 and v1.1) for OMNI-DC itself, where
v1.0 is the paper's model. The paper's rows of other methods are known to us only as far as notes on it quote them
(papernotes.org, ICCV 2025); where those notes and the README overlap (five numbers of v1.0) they agree. Every other
cell stays empty until somebody reads it off the paper (arXiv 2411.19278).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from omnidc.errors import FileError, InputError
from omnidc.evaluation.metrics import known_pixels
from omnidc.evaluation.protocols import EvaluationProtocol, Published
from omnidc.evaluation.sample import FrameRef, Sample
from omnidc.frame import Frame

README = "github.com/princeton-vl/OMNI-DC, README, comparison of v1.0 and v1.1"
NOTES = "arXiv 2411.19278 as quoted by the notes on it at papernotes.org (ICCV 2025)"


@dataclass(frozen=True)
class Part:
    """One data set (or part of it) with one sparse input: one cell of a table before averaging."""

    group: str  # "data set" or "data set/part"
    pattern: str  # the table's name of the sparse input
    released: str | None  # folder of the uniformat release
    dataset: str  # name in `omnidc.datasets`
    options: Mapping[str, Any] = field(default_factory=dict)
    draw: str | None = None  # in the grammar of `omnidc.patterns`; None = the input stored with the frame
    farthest: float = float("inf")  # truth beyond it does not count

    def folder(self, root: Path) -> Path | None:
        """Where the part lies, the released test set first; None when it is not there."""
        names = [name for name in (self.released, self.dataset) if name is not None]
        return next((root / name for name in names if (root / name).is_dir()), None)

    def open(self, root: Path) -> Sequence[Frame]:
        from omnidc.datasets import open_dataset

        folder = self.folder(root)
        if folder is None:
            raise FileError(f"Neither {root / (self.released or self.dataset)} nor {root / self.dataset} is a folder.")
        if folder.name == self.released:
            frames: Sequence[Frame] = open_dataset("uniformat", folder)
        else:
            frames = open_dataset(self.dataset, folder, **self.options)
        return frames

    def sample(self, frame: Frame, stored: bool) -> Sample:
        if frame.depth is None:
            raise InputError(f"The frame {frame.name!r} has no truth to score against.")
        sparse, noise = frame.sparse, None
        if self.draw is not None and not stored:
            from omnidc.patterns import parse

            rng = np.random.default_rng(zlib.crc32(f"{frame.name}/{self.pattern}".encode()))
            drawn = parse(self.draw)(frame.depth, frame.image, rng)
            sparse, noise = drawn.sparse, drawn.outlier_mask
        if sparse is None:
            raise InputError(f"The frame {frame.name!r} has no sparse input.")
        scored = None
        if np.isfinite(self.farthest):
            scored = known_pixels(frame.depth) & (frame.depth <= self.farthest)
        return Sample(frame.image, sparse, frame.depth, frame.intrinsics, scored, noise, group=self.group)


def parts_frames(parts: Sequence[Part], root: Path, only: str) -> Sequence[FrameRef]:
    """The frames of all parts that `root` has; a part's frames are called "group/name"."""
    found: list[FrameRef] = []
    for part in parts:
        folder = part.folder(root)
        if folder is None:
            continue
        frames = part.open(root)
        stored = folder.name == part.released

        for index in range(len(frames)):
            name = f"{part.group}/{index:06d}"
            if only in name:
                found.append(FrameRef(name, (part.pattern,), _opener(part, frames, index, stored)))
    if all(part.folder(root) is None for part in parts):
        places = ", ".join(dict.fromkeys(str(root / (part.released or part.dataset)) for part in parts))
        raise FileError(f"{root} has none of this protocol's data: it needs one or more of {places}.")
    return found


def _opener(
    part: Part, frames: Sequence[Frame], index: int, stored: bool
) -> Callable[[], Callable[[str], Sample | None]]:
    def open_() -> Callable[[str], Sample | None]:
        sample = cache(lambda: part.sample(frames[index], stored))
        return lambda pattern: sample()

    return open_


@dataclass(frozen=True)
class PaperTable(EvaluationProtocol):
    parts: tuple[Part, ...] = ()


def table(name: str, title: str, rules: str, scores: tuple[str, ...], parts: Sequence[Part], **more: Any) -> PaperTable:
    """A protocol over parts; its patterns and groups are theirs, in order."""

    def missing(root: Path) -> list[str]:
        absent = (part.released or part.dataset for part in parts if part.folder(root) is None)
        return list(dict.fromkeys(absent))

    return PaperTable(
        name=name,
        title=title,
        rules=rules,
        patterns=tuple(dict.fromkeys(part.pattern for part in parts)),
        frames=lambda root, only: parts_frames(parts, root, only),
        scores=scores,
        groups=tuple(dict.fromkeys(part.group for part in parts)),
        missing=missing,
        parts=tuple(parts),
        **more,
    )


def cells(scores: tuple[str, ...], rows: Mapping[str, tuple[float, ...]]) -> dict[str, dict[str, float]]:
    """values[pattern][score] from one tuple per pattern."""
    return {pattern: dict(zip(scores, values)) for pattern, values in rows.items()}


MASK = "Every pixel with a truth above 1e-4 counts, no depth cap, prediction not clamped; "

# --- Table 1: real sparse inputs -------------------------------------------------------------------------------------

TABLE1 = table(
    "table1",
    "Table 1: ETH3D with SfM points, KITTI with 64 to 8 laser lines",
    MASK + "ETH3D at 640x480 (middle 5120x3840 of the photographs), KITTI without its top 96 rows, first 749 of the "
    "1000 selected frames; mean over images; metres.",
    ("rmse", "mae", "rel"),
    total=False,
    parts=[
        *(
            Part(f"ETH3D-SfM/{place}", f"ETH3D-SfM {place}", f"ETH3D_SfM_{place.title()}_test", "eth3d-sfm",
                 {"part": place})
            for place in ("indoor", "outdoor")
        ),
        *(
            Part("KITTI", f"KITTI {lines} lines", f"KITTIDC_test_LiDAR_{lines}", "kitti-dc",
                 {"lines": lines, "split": "test"})
            for lines in (64, 32, 16, 8)
        ),
    ],
    published=(
        Published(
            "OMNI-DC v1.0",
            {
                **cells(("rmse", "rel"), {"ETH3D-SfM indoor": (0.605, 0.090), "ETH3D-SfM outdoor": (1.069, 0.053)}),
                **cells(
                    ("rmse", "mae"),
                    {
                        "KITTI 64 lines": (1.191, 0.270),
                        "KITTI 16 lines": (1.682, 0.441),
                        "KITTI 8 lines": (2.058, 0.597),
                    },
                ),
            },
            README,
        ),
        Published(
            "OMNI-DC v1.1",
            {
                **cells(("rmse", "rel"), {"ETH3D-SfM indoor": (0.488, 0.061), "ETH3D-SfM outdoor": (1.092, 0.035)}),
                **cells(
                    ("rmse", "mae"),
                    {
                        "KITTI 64 lines": (1.235, 0.276),
                        "KITTI 16 lines": (1.659, 0.430),
                        "KITTI 8 lines": (1.897, 0.546),
                    },
                ),
            },
            README,
        ),
        Published("Marigold", cells(("rmse",), {"ETH3D-SfM outdoor": (1.883,)}), NOTES),
    ),
)  # fmt: skip

# --- Table 2: ten synthetic patterns on four data sets ---------------------------------------------------------------

VIRTUAL: Mapping[str, tuple[str, str]] = {  # pattern: (folder suffix of the release, our grammar)
    "0.7%": ("2150", "2150"),
    "0.1%": ("300", "300"),
    "0.03%": ("100", "100"),
    "5% noise": ("noise0.05", "2150 & noise(0.05)"),
    "10% noise": ("noise0.1", "2150 & noise(0.1)"),
    "ORB": ("orb", "orb"),
    "SIFT": ("sift", "sift"),
    "LiDAR-64": ("LiDAR_64", "lidar-64"),
    "LiDAR-16": ("LiDAR_16", "lidar-16"),
    "LiDAR-8": ("LiDAR_8", "lidar-8"),
}
VIRTUAL_SETS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {  # group: (release, registry, options)
    "iBims": ("iBims", "ibims", {}),
    "ARKitScenes": ("ARKitScenes", "arkitscenes", {}),
    "ETH3D/indoor": ("ETH3D_Indoor", "eth3d", {"part": "indoor"}),
    "ETH3D/outdoor": ("ETH3D_Outdoor", "eth3d", {"part": "outdoor"}),
    "DIODE/indoor": ("DIODE_Indoor", "diode", {"part": "indoor"}),
    "DIODE/outdoor": ("DIODE_Outdoor", "diode", {"part": "outdoor"}),
}

TABLE2 = table(
    "table2",
    "Table 2: ten synthetic patterns, mean of four data sets",
    MASK + "640x480; RMSE of the outdoor parts divided by 5; mean over images, then over the parts of a data set, then "
    "over data sets (how the paper weights the parts of one data set is not stated); metres.",
    ("rmse", "rel"),
    [
        Part(group, pattern, f"{release}_test_{suffix}", registry, options, grammar)
        for pattern, (suffix, grammar) in VIRTUAL.items()
        for group, (release, registry, options) in VIRTUAL_SETS.items()
    ],
    by_dataset=True,
    rmse_divisors={"ETH3D/outdoor": 5.0, "DIODE/outdoor": 5.0},
    published=(
        Published(
            "OMNI-DC v1.0",
            cells(
                ("rmse", "rel"),
                {
                    "0.7%": (0.135, 0.010),
                    "0.1%": (0.211, 0.020),
                    "0.03%": (0.289, 0.034),
                    "5% noise": (0.141, 0.010),
                    "10% noise": (0.147, 0.011),
                    "ORB": (0.247, 0.045),
                    "SIFT": (0.211, 0.037),
                    "LiDAR-64": (0.121, 0.008),
                    "LiDAR-16": (0.164, 0.014),
                    "LiDAR-8": (0.231, 0.023),
                },
            ),
            README,
        ),
        Published(
            "OMNI-DC v1.1",
            cells(
                ("rmse", "rel"),
                {
                    "0.7%": (0.126, 0.009),
                    "0.1%": (0.172, 0.016),
                    "0.03%": (0.213, 0.025),
                    "5% noise": (0.130, 0.010),
                    "10% noise": (0.134, 0.010),
                    "ORB": (0.176, 0.028),
                    "SIFT": (0.161, 0.024),
                    "LiDAR-64": (0.114, 0.008),
                    "LiDAR-16": (0.146, 0.012),
                    "LiDAR-8": (0.180, 0.017),
                },
            ),
            README,
        ),
        *(
            Published(
                method, cells(("rmse",), dict(zip(("0.7%", "0.03%", "10% noise", "SIFT", "LiDAR-8"), rmse))), NOTES
            )
            for method, rmse in {
                "OGNI-DC": ((0.187,), (0.557,), (0.333,), (0.524,), (0.415,)),
                "G2-MonoDepth": ((0.168,), (0.434,), (0.214,), (0.391,), (0.306,)),
                "Marigold": ((0.367,), (0.384,), (0.406,), (0.453,), (0.378,)),
            }.items()
        ),
    ),
)

# --- NYUv2 and VOID at several densities -----------------------------------------------------------------------------

NYU = table(
    "nyu",
    "NYUv2, 500 to 5 random points",
    MASK + "304x228, official 654 test frames; mean over images; metres.",
    ("rmse", "rel"),
    total=False,
    parts=[
        Part("NYUv2", f"{points} points", f"NYU_test_{points}", "nyuv2-h5", draw=str(points))
        for points in (500, 200, 100, 50, 5)
    ],
    published=tuple(
        Published(
            method,
            cells(("rmse", "rel"), dict(zip((f"{n} points" for n in (500, 200, 100, 50, 5)), values))),
            README,
        )
        for method, values in {
            "OMNI-DC v1.0": ((0.111, 0.014), (0.147, 0.021), (0.180, 0.029), (0.225, 0.041), (0.536, 0.142)),
            "OMNI-DC v1.1": ((0.112, 0.014), (0.143, 0.019), (0.167, 0.024), (0.193, 0.029), (0.330, 0.070)),
        }.items()
    ),
)

VOID = table(
    "void",
    "VOID, 1500 to 150 points of visual-inertial odometry",
    MASK + "640x480; mean over images; metres.",
    ("rmse", "mae"),
    total=False,
    parts=[
        Part("VOID", f"{points} points", f"VOID_sample{points}", "void", {"points": points})
        for points in (1500, 500, 150)
    ],
    published=tuple(
        Published(method, cells(("rmse", "mae"), dict(zip((f"{n} points" for n in (1500, 500, 150)), values))), README)
        for method, values in {
            "OMNI-DC v1.0": ((0.555, 0.150), (0.551, 0.164), (0.650, 0.211)),
            "OMNI-DC v1.1": ((0.540, 0.143), (0.512, 0.144), (0.581, 0.171)),
        }.items()
    ),
)

# --- Appendix: radar, night, weather; no source for the published numbers --------------------------------------------

RADAR = table(
    "radar",
    "ZJU-4DRadarCam: 4D radar, by range",
    "Every pixel with a laser truth up to the range counts; rows 240 to 539 as in the data set's own evaluation; mean "
    "over images; metres.",
    ("rmse", "mae", "rel"),
    [Part("ZJU-4DRadarCam", f"0-{far} m", None, "zju-4dradarcam", farthest=float(far)) for far in (50, 70, 80)],
)

WEATHER = table(
    "weather",
    "Night (CARLA-Night) and weather (DrivingStereo)",
    MASK
    + "CARLA-Night with its laser input; DrivingStereo at half size with 0.7 % random points of its truth, which is "
    "our choice; mean over images; metres.",
    ("rmse", "mae", "rel"),
    total=False,
    parts=[
        Part("CARLA-Night", "night", None, "carla-night"),
        *(
            Part("DrivingStereo", weather, None, "drivingstereo", {"weather": weather, "size": "half"}, "0.7%")
            for weather in ("sunny", "cloudy", "rainy", "foggy")
        ),
    ],
)
