"""Plant faults in real samples and count what `omnidc doctor` finds, without a network.

    python benchmarks/doctor.py --data SHARED/data --output verdicts.json --summary docs/results/doctor.json

Each sample of `real/*.npz` and of the originals in `formats/` is examined untouched and with each fault that it can
have. The output is written after every sample, and a second run goes on where the first one stopped. A fault is found
if the check that is responsible for it says "suspicious"; "cannot tell" and "ok" are counted apart. An untouched sample
with any suspicion is a false alarm.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from omnidc.diagnose import Verdict, examine
from omnidc.diagnose.doctor import CHECKS
from omnidc.geometry.camera import backproject, check_intrinsics
from omnidc.geometry.rasterize import project_to_depth
from omnidc.geometry.transforms import inverse, pose_from_quaternion, transform
from omnidc.io.calibration import kitti_object, read_intrinsics
from omnidc.io.files import write_json
from omnidc.io.images import read_image
from omnidc.io.pointcloud import read_cloud
from omnidc.patterns import SparseSample, outliers
from omnidc.pipeline import make_frame

Matrix = npt.NDArray[np.float64]

# Where the sky is, as fractions of width and height (left, right, top, bottom), marked by hand.
SKY = {
    "ddad_dgp_scene_01_camera_01": (0.05, 0.75, 0.02, 0.25),
    "ddad_dgp_scene_01_camera_05": (0.05, 0.95, 0.02, 0.3),
    "kitti_m3d_0000000050": (0.42, 0.58, 0.02, 0.25),
    "kitti_stereo_000001_10": (0.38, 0.5, 0.02, 0.25),
    "kittilidar_objvis_000001": (0.3, 0.7, 0.02, 0.3),
    "kittilidar_objvis_000002": (0.52, 0.72, 0.02, 0.2),
    "nogt_nuscenes_camfront": (0.4, 0.95, 0.02, 0.2),
    "vod_00549": (0.05, 0.4, 0.02, 0.28),
    "vod_01047": (0.43, 0.58, 0.05, 0.3),
    "waymo_002": (0.1, 0.7, 0.02, 0.2),
    "format_kitti_object": (0.3, 0.7, 0.02, 0.3),
    "format_vod": (0.05, 0.4, 0.02, 0.28),
}
DRIVING = ("ddad_", "kitti", "nogt_nuscenes", "vod_", "waymo_", "format_kitti", "format_vod")
FORWARD = ("ddad_dgp_scene_01_camera_01", *(name for name in DRIVING if name != "ddad_"))
LIDAR = ("ddad_", "kittilidar_", "nogt_nuscenes", "vod_", "waymo_", "format_kitti_object", "format_vod")
SPEED = 10.0  # m/s of the vehicles that the late LiDAR is planted in
TUM_K = (517.3, 516.5, 318.6, 255.3)  # freiburg1, published with the dataset
TUM_STAMP = 1305031231.197771


@dataclass(frozen=True)
class Case:
    name: str
    image: npt.NDArray[np.uint8]
    sparse: npt.NDArray[np.float32]
    intrinsics: Matrix | None = None
    scan: Matrix | None = None  # [N, 3], camera frame
    late: Matrix | None = None  # [4, 4], motion of the camera in 100 ms: camera later from camera now

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(self.name.encode()))

    def moved(self, motion: Matrix) -> Case | None:
        """The case with its points moved in the camera frame and projected again."""
        if self.intrinsics is None:
            return None
        points = backproject(self.sparse, self.intrinsics) if self.scan is None else self.scan
        points = transform(motion, points)
        occlusion_window = 0 if self.scan is None else None
        sparse, _ = project_to_depth(points, self.intrinsics, self.sparse.shape, occlusion_window)
        return replace(self, sparse=sparse, scan=None if self.scan is None else points)


def rotation(axis: int, degrees: float) -> Matrix:
    """[4, 4] about x (0), y (1) or z (2)."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    out = np.eye(4)
    i, j = [(1, 2), (2, 0), (0, 1)][axis]
    out[i, i], out[i, j], out[j, i], out[j, j] = c, -s, s, c
    return out


def forward(distance: float) -> Matrix:
    out = np.eye(4)
    out[2, 3] = -distance
    return out


def drawn(case: Case, columns: Matrix, rows: Matrix, depth: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    height, width = case.sparse.shape
    u, v = np.rint(columns).astype(int), np.rint(rows).astype(int)
    inside = (u >= 0) & (u < width) & (v >= 0) & (v < height)
    out = np.zeros_like(case.sparse)
    order = np.flatnonzero(inside)[np.argsort(-depth[inside], kind="stable")]
    out[v[order], u[order]] = depth[order]
    return out


def measured(case: Case) -> tuple[Matrix, Matrix, npt.NDArray[np.float32]]:
    rows, columns = np.nonzero(case.sparse > 0)
    return columns.astype(float), rows.astype(float), case.sparse[rows, columns]


# --- faults: each returns the case with the fault, or None where it cannot have it ---------------------------------


def scaled(factor: float) -> Callable[[Case], Case]:
    def plant(case: Case) -> Case:
        scan = None if case.scan is None else case.scan * factor
        return replace(case, sparse=(case.sparse * factor).astype(np.float32), scan=scan)

    return plant


def ray_for_z(case: Case) -> Case | None:
    if case.intrinsics is None:
        return None
    points = backproject(case.sparse, case.intrinsics)
    sparse = case.sparse.copy()
    sparse[sparse > 0] = np.linalg.norm(points, axis=1)
    return replace(case, sparse=sparse)


def swapped(case: Case) -> Case:
    columns, rows, depth = measured(case)
    return replace(case, sparse=drawn(case, rows, columns, depth))


def mirrored(case: Case) -> Case:
    return replace(case, image=np.ascontiguousarray(case.image[:, ::-1]))


def half_camera(case: Case) -> Case | None:
    if case.intrinsics is None:
        return None
    K = case.intrinsics.copy()
    K[:2] /= 2
    if case.scan is None:
        return replace(case, intrinsics=K)
    return replace(case, intrinsics=K, sparse=project_to_depth(case.scan, K, case.sparse.shape)[0])


def shifted(case: Case) -> Case:
    dx, dy = [(4, 0), (-4, 0), (0, 4), (0, -4)][int(case.rng.integers(4))]
    columns, rows, depth = measured(case)
    return replace(case, sparse=drawn(case, columns + dx, rows + dy, depth), scan=None)


def turned(axis: int) -> Callable[[Case], Case | None]:
    def plant(case: Case) -> Case | None:
        return case.moved(rotation(axis, 0.5 if case.rng.random() < 0.5 else -0.5))

    return plant


def late(case: Case) -> Case | None:
    if case.late is not None:
        return case.moved(case.late)
    return case.moved(forward(SPEED * 0.1)) if case.name.startswith(FORWARD) else None


def tenth_outliers(case: Case) -> Case:
    nothing = np.zeros(case.sparse.shape, np.bool_)
    sample = outliers(0.1)(SparseSample(case.sparse, nothing), case.sparse, case.image, case.rng)
    return replace(case, sparse=sample.sparse)


def sky_points(case: Case) -> Case | None:
    box = SKY.get(case.name.removesuffix("/sparse"))
    if box is None:
        return None
    height, width = case.sparse.shape
    rng, depths = case.rng, case.sparse[case.sparse > 0]
    count = max(20, len(depths) * 3 // 100)
    columns = rng.integers(int(box[0] * width), int(box[1] * width), count)
    rows = rng.integers(int(box[2] * height), int(box[3] * height), count)
    sparse = case.sparse.copy()
    sparse[rows, columns] = rng.uniform(*np.percentile(depths, [5, 95]), count)
    return replace(case, sparse=sparse)


def two_returns(case: Case) -> Case | None:
    """A tenth of the rays returns from a second surface, 1.2 to 2 times as far."""
    if not case.name.startswith(LIDAR) or "radar" in case.name:
        return None
    rng = case.rng
    if case.scan is not None:
        assert case.intrinsics is not None
        again = case.scan[rng.random(len(case.scan)) < 0.1]
        scan = np.concatenate([case.scan, again * rng.uniform(1.2, 2, (len(again), 1))])
        return replace(case, scan=scan, sparse=project_to_depth(scan, case.intrinsics, case.sparse.shape)[0])
    columns, rows, depth = measured(case)
    chosen = rng.random(len(depth)) < 0.1
    sparse = case.sparse.copy()
    behind = depth[chosen] * rng.uniform(1.2, 2, chosen.sum())
    sparse[rows[chosen].astype(int), np.minimum(columns[chosen].astype(int) + 1, sparse.shape[1] - 1)] = behind
    return replace(case, sparse=sparse)


def only(
    beginnings: tuple[str, ...], plant: Callable[[Case], Case | None], others: bool = False
) -> Callable[[Case], Case | None]:
    return lambda case: plant(case) if case.name.startswith(beginnings) != others else None


# Fault: how it is planted, and the checks that are responsible for it.
FAULTS: dict[str, tuple[Callable[[Case], Case | None], tuple[str, ...]]] = {
    "unit x1000": (scaled(1000), ("unit",)),
    "PNG scale 256 for 1000": (only(DRIVING, scaled(1000 / 256), others=True), ("PNG scale", "unit")),
    "PNG scale 1000 for 256": (only(DRIVING, scaled(256 / 1000)), ("PNG scale", "unit")),
    "ray for z-depth": (ray_for_z, ("ray depth",)),
    "x and y swapped": (swapped, ("swapped axes",)),
    "image mirrored": (mirrored, ("mirrored image",)),
    "K of half the resolution": (half_camera, ("camera matrix",)),
    "shifted by 4 px": (shifted, ("calibration",)),
    "turned by 0.5 deg (vertical axis)": (turned(1), ("calibration",)),
    "turned by 0.5 deg (optical axis)": (turned(2), ("calibration",)),
    "late by 100 ms": (late, ("calibration",)),
    "10 % outliers": (tenth_outliers, ("outliers",)),
    "points in the sky": (sky_points, ("points in the sky",)),
    "two returns": (two_returns, ("two returns",)),
}


# --- samples -------------------------------------------------------------------------------------------------------


def real_cases(folder: Path) -> Iterator[Callable[[], list[Case]]]:
    for path in sorted(folder.glob("*.npz")):

        def load(path: Path = path) -> list[Case]:
            with np.load(path) as file:
                K = file["K"].astype(np.float64) if "K" in file.files else None
                maps = [(path.stem, file["depth"])]
                if "sparse" in file.files:
                    maps.append((f"{path.stem}/sparse", file["sparse"]))
                return [Case(n, file["rgb"], d.astype(np.float32), K) for n, d in maps if (d > 0).any()]

        yield load


def format_cases(folder: Path) -> Iterator[Callable[[], list[Case]]]:
    def pair(name: str, image: str, depth: str, scale: float | None, K: object = None) -> Callable[[], list[Case]]:
        def load() -> list[Case]:
            picture = np.load(folder / image) if image.endswith(".npy") else read_image(folder / image)
            if picture.dtype != np.uint8:
                picture = np.clip(picture * (255 if picture.max() <= 1 else 1), 0, 255).astype(np.uint8)
            camera = read_intrinsics(folder / K) if isinstance(K, str) else None if K is None else check_intrinsics(K)
            given = make_frame(picture, folder / depth, camera, depth_scale=scale, resize_sparse=True)
            return [Case(f"format_{name}", given.image, given.measurements(), given.intrinsics)]

        return load

    def scan(name: str, root: str, number: str, suffix: str) -> Callable[[], list[Case]]:
        def load() -> list[Case]:
            base = folder / root
            calibration = kitti_object(base / f"calib/{number}.txt")
            image = read_image(base / f"image_2/{number}{suffix}")
            points = transform(calibration.camera_from_sensor, read_cloud(base / f"velodyne/{number}.bin"))
            sparse, _ = project_to_depth(points, calibration.K, image.shape[:2])
            return [Case(f"format_{name}", image, sparse, calibration.K, points)]

        return load

    def tum() -> list[Case]:
        base = folder / "tum_fr1_rpy"
        image, depth = base / "rgb/1305031231.197747.png", base / f"depth/{TUM_STAMP}.png"
        given = make_frame(image, depth, TUM_K, depth_scale=5000.0)
        rows = np.loadtxt(base / "groundtruth.txt")
        now, then = (rows[np.argmin(np.abs(rows[:, 0] - TUM_STAMP - delay))] for delay in (0.0, 0.1))
        poses = [pose_from_quaternion(row[1:4], row[4:8]) for row in (now, then)]
        return [
            Case("format_tum", given.image, given.measurements(), given.intrinsics, late=inverse(poses[1]) @ poses[0])
        ]

    rgbd = "open3d_testdata/src/Test/TestData/RGBD"
    phone = "iphone_promptda/assets/example_images"
    glass = "cleargrasp/data/sample_dataset/real-val/d435/000000080-transparent"
    yield pair("iphone", f"{phone}/image.jpg", f"{phone}/arkit_depth.png", 1000)
    yield pair("open3d", f"{rgbd}/color/00000.jpg", f"{rgbd}/depth/00000.png", 1000)
    yield pair("open3d_tum", f"{rgbd}/other_formats/TUM_color.png", f"{rgbd}/other_formats/TUM_depth.png", 5000)
    yield pair("cleargrasp", f"{glass}-rgb-img.jpg", f"{glass}-depth-img.exr", None)
    seven = "7scenes_tsdf/data"
    files = (f"{seven}/frame-000000.color.jpg", f"{seven}/frame-000000.depth.png")
    yield pair("7scenes", *files, 1000, f"{seven}/camera-intrinsics.txt")
    nyu = "nyu_metric3d/data/nyu_demo"
    yield pair("nyu", f"{nyu}/rgb/rgb_00000.jpg", f"{nyu}/depth/sync_depth_00000.png", 1000)
    yield pair("fastdepth", "nyu_fastdepth/rgb.npy", "nyu_fastdepth/depth.npy", None)
    kitti = "kitti_metric3d/data/kitti_demo"
    yield pair("kitti_metric3d", f"{kitti}/rgb/0000000005.png", f"{kitti}/depth/0000000005.png", 256)
    bop = "bop_sam6d/SAM-6D/Data/Example"
    yield pair("bop", f"{bop}/rgb.png", f"{bop}/depth.png", 1000, (572.4114, 573.57043, 325.2611, 242.04899))
    air = "tartanair_layout"
    files = (f"{air}/image_left/000000_left.png", f"{air}/depth_left/000000_left_depth.npy")
    yield pair("tartanair", *files, None, (320.0, 320.0, 320.0, 240.0))
    yield pair("omnidc_demo", "omnidc_demo/demo_rgb.png", "omnidc_demo/demo_sparse_depth.npy", None)
    yield scan("kitti_object", "kitti_object/training", "000001", ".png")
    yield scan("vod", "vod/lidar/training", "00549", ".jpg")
    yield tum


# --- run -----------------------------------------------------------------------------------------------------------


def verdicts(case: Case, checks: tuple[str, ...]) -> dict[str, str]:
    found = examine(case.image, case.sparse, case.intrinsics, scan=case.scan, checks=checks)
    return {finding.check: finding.verdict.value for finding in found.findings}


def summarize(results: dict[str, dict[str, dict[str, str]]]) -> dict[str, Any]:
    """Count the verdicts on each fault and on untouched samples; `benchmarks/tables.py` makes a table of them."""
    rows, every = [], Counter[str]()
    for fault, (_, checks) in FAULTS.items():
        outcome: Counter[str] = Counter()
        for result in results.values():
            if fault in result:
                said = {result[fault][check] for check in checks}
                key = next(v.value for v in (Verdict.SUSPICIOUS, Verdict.OK, Verdict.CANNOT_TELL) if v.value in said)
                # With two responsible checks, one that cannot tell outweighs one that is content.
                outcome[Verdict.CANNOT_TELL.value if key == "ok" and len(said) > 1 else key] += 1
        rows.append(_row(fault, outcome))
        every += outcome
    untouched = [result["untouched"] for result in results.values()]
    return {
        "rows": [*rows, _row("all", every)],
        "untouched": len(untouched),
        "false_alarms": sum(Verdict.SUSPICIOUS.value in verdicts.values() for verdicts in untouched),
        "false_alarms_by_check": Counter(c for verdicts in untouched for c, v in verdicts.items() if v == "suspicious"),
    }


def _row(name: str, outcome: Counter[str]) -> dict[str, str | int]:
    found, unknown, missed = (outcome[v.value] for v in (Verdict.SUSPICIOUS, Verdict.CANNOT_TELL, Verdict.OK))
    total = found + unknown + missed
    return {"fault": name, "samples": total, "found": found, "cannot_tell": unknown, "missed": missed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with real/ and formats/")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--summary", type=Path, required=True, help="file for the counts")
    options = parser.parse_args()
    results: dict[str, dict[str, dict[str, str]]] = {}
    if options.output.is_file():
        results = json.loads(options.output.read_text(encoding="utf-8"))
    loaders = [*real_cases(options.data / "real"), *format_cases(options.data / "formats")]
    # In random order, so that an interrupted run is a fair sample of all.
    for k in tqdm(np.random.default_rng(0).permutation(len(loaders)), unit="sample"):
        load = loaders[k]
        for case in load():
            result = results.setdefault(case.name, {})
            planted = {"untouched": (lambda case: case, CHECKS), **FAULTS}
            for fault, (plant, checks) in planted.items():
                if fault not in result:
                    faulty = plant(case)
                    if faulty is not None and (faulty.sparse > 0).any():
                        result[fault] = verdicts(faulty, checks)
            write_json(options.output, results)
    write_json(options.summary, summarize(results))


if __name__ == "__main__":
    main()
