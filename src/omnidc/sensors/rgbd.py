"""Depth cameras: recordings in the layouts that tools write, as frames with the depth in the colour camera.

Depth that is already registered may be of lower resolution than colour (ARKit): its pixels are put at their place in
the photograph and the rest stays empty. Depth of another camera is moved with both intrinsics and the extrinsics.
Confidence below the asked level, flying pixels at edges and lone speckles are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from natsort import natsorted

from omnidc.errors import FileError, InputError
from omnidc.frame import Frame, LazyFrames, point_warnings
from omnidc.geometry.camera import Picture, intrinsics_matrix
from omnidc.geometry.rasterize import Map, register, scatter_lowres
from omnidc.geometry.surface import drop_flying_pixels
from omnidc.geometry.transforms import Array, inverse, pose_from_quaternion, rigid
from omnidc.io.calibration import Calibration, parse_camera, read_matrix, read_table
from omnidc.io.depth import CODECS, read_depth
from omnidc.io.images import find_images, read_photo
from omnidc.io.untrusted import open_picture, read_text, untrusted
from omnidc.sensors.photo import take_photo

OPENGL_TO_OPENCV = np.diag([1.0, -1.0, -1.0, 1.0])


@dataclass(frozen=True)
class RgbdOptions:
    """What the user may choose for any layout."""

    min_confidence: int = 2  # of ARKit's 0, 1, 2
    max_input_depth: float | None = None  # metres
    keep_flying_pixels: bool = False  # keep flying pixels
    depth_scale: float | None = None  # stored numbers per metre; None = the layout's own
    max_time_diff: float = 0.02  # seconds between colour and depth (TUM)
    masks: Path | None = None  # folder of masks, by COLMAP's names


@dataclass
class Rig:
    """The cameras of a recording. Without a depth camera the depth map shows the colour camera's own view."""

    color: Calibration | None = None
    depth: Calibration | None = None
    color_from_depth: Array = field(default_factory=lambda: np.eye(4))
    depth_scale: float | None = None


@dataclass
class RgbdRecord:
    """The files of one view."""

    name: str
    color: Path | Callable[[], Picture]
    depth: Path
    confidence: Path | None = None
    pose: Array | None = None  # camera to world
    rig: Rig = field(default_factory=Rig)
    note: str = ""


def load_record(record: RgbdRecord, options: RgbdOptions) -> Frame:
    """Read, clean and register one view."""
    with untrusted(record.depth.parent, "part of a recording", "copy it again"):
        return _load_record(record, options)


def _load_record(record: RgbdRecord, options: RgbdOptions) -> Frame:
    picture = record.color() if callable(record.color) else read_photo(record.color)
    rig = record.rig
    file = read_depth(record.depth, options.depth_scale or rig.depth_scale)
    depth = file.depth
    if file.scale > 1:  # the largest 16-bit number is how several drivers write "nothing"
        depth = np.where(depth >= 65535 / file.scale, 0, depth).astype(np.float32)
    if record.confidence is not None:
        depth = filter_confidence(depth, record.confidence, options.min_confidence)
    if options.max_input_depth is not None:
        depth = np.where(depth > options.max_input_depth, 0, depth).astype(np.float32)
    measured = int((depth > 0).sum())
    if not options.keep_flying_pixels:
        depth = drop_flying_pixels(depth)
    flying = measured - int((depth > 0).sum())

    source = f"{record.name}.png" if callable(record.color) else record.color.name
    # A registered depth map bends with its colour image; only a separate depth camera allows straightening colour.
    photo = take_photo(picture, rig.color, source, options.masks, straighten=rig.depth is not None)
    notes = [record.note] if record.note else []
    if flying:
        notes.append(f"{flying} flying pixels and speckles dropped")
    why = file.note
    if options.depth_scale is None and rig.depth_scale is not None:
        why = f"metres, stored × {rig.depth_scale:g} as the recording's layout or calibration says"
    if rig.depth is not None:
        if photo.K is None:
            raise InputError(f"{record.name}: depth can only be moved to colour when the colour intrinsics are known.")
        depth_K = rig.depth.for_image(depth.shape)
        sparse, count = register(
            depth, depth_K, photo.K, rig.color_from_depth, photo.shape, rig.depth.distortion, rig.depth.fisheye
        )
        notes.append(count.summary())
    else:
        full = photo.shape
        if abs(depth.shape[1] / depth.shape[0] - full[1] / full[0]) > 0.02 * full[1] / full[0]:
            raise InputError(
                f"{record.name}: depth is {depth.shape[1]}x{depth.shape[0]} and colour {full[1]}x{full[0]}, another "
                "shape, so they are not the same view; give both cameras with --calib."
            )
        sparse = scatter_lowres(depth, full)
    frame = Frame(
        photo.image,
        sparse,
        intrinsics=photo.K,
        pose=record.pose,
        name=record.name,
        source=source,
        unit_reason=why,
        warnings=(*point_warnings(sparse), *photo.warnings),
        notes=(*notes, *photo.notes),
    )
    return photo.finish(frame)


def filter_confidence(
    depth: Map,  # [h, w]
    path: Path,
    least: int,
) -> Map:
    """Drop depth whose ARKit confidence (0, 1, 2; some apps store 0, 127, 255) is below `least`."""
    with open_picture(path, "a confidence map") as picture:
        levels = np.asarray(picture.convert("L"))
    if levels.shape != depth.shape:
        raise InputError(
            f"{path} is {levels.shape[1]}x{levels.shape[0]} but the depth map is {depth.shape[1]}x{depth.shape[0]}."
        )
    ranks = np.asarray(levels if levels.max() <= 2 else np.rint(levels / 127.5))
    return np.where(ranks < least, 0, depth).astype(np.float32)


def _source(records: Sequence[RgbdRecord], options: RgbdOptions, notes: list[str], where: Path) -> LazyFrames:
    if not records:
        raise InputError(f"No colour image in {where} has a depth map of the same name; check the folder.")
    return LazyFrames({record.name: partial(load_record, record, options) for record in records}, tuple(notes))


def _depth_of(folder: Path, stem: str) -> Path | None:
    found = [folder / f"{stem}{suffix}" for suffix in CODECS if (folder / f"{stem}{suffix}").is_file()]
    return found[0] if found else None


def _pose_file(path: Path) -> Array | None:
    """A 4×4 camera-to-world text file; lost tracking is written as -inf and gives None."""
    if not path.is_file():
        return None
    matrix = read_matrix(path)
    return rigid(matrix, f"The pose in {path}") if np.isfinite(matrix).all() else None


# What a layout's reader finds: the views, and what it assumed, for the user.
Layout = tuple[list[RgbdRecord], str]


# --- the layouts --------------------------------------------------------------------------------------------------

# Published calibrations of the three TUM cameras (fx, fy, cx, cy); 0 = the driver's default.
TUM_CAMERAS = {
    1: (517.3, 516.5, 318.6, 255.3),
    2: (520.9, 521.0, 325.1, 249.7),
    3: (535.4, 539.2, 320.1, 247.6),
    0: (525.0, 525.0, 319.5, 239.5),
}


def _stamped(path: Path) -> list[tuple[float, list[str]]]:
    rows = [line.split() for line in read_text(path).splitlines() if line.strip() and not line.startswith("#")]
    with untrusted(path, "a list of time stamps and values", "correct the line"):
        for row in rows:
            if len(row) < 2:
                raise ValueError(f"the line {row[0][:40]!r} has a stamp only")
        return [(float(row[0]), row[1:]) for row in rows]


def nearest_stamps(
    first: Sequence[float],
    second: Sequence[float],
    tolerance: float,
) -> list[tuple[int, int]]:
    """Pair time stamps: each of `first` with the nearest of `second` within `tolerance`, none of `second` twice."""
    if not len(first) or not len(second):
        return []
    order = np.argsort(second, kind="stable")
    sorted_second = np.asarray(second, dtype=np.float64)[order]
    candidates = []
    for i, stamp in enumerate(first):
        place = int(np.searchsorted(sorted_second, stamp))
        for j in (place - 1, place):
            if 0 <= j < len(sorted_second) and abs(sorted_second[j] - stamp) <= tolerance:
                candidates.append((abs(float(sorted_second[j]) - stamp), i, int(order[j])))
    pairs: dict[int, int] = {}
    used: set[int] = set()
    for _, i, j in sorted(candidates):
        if i not in pairs and j not in used:
            pairs[i] = j
            used.add(j)
    return sorted(pairs.items())


def closest_gap(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the smallest difference between a stamp of one list and one of the other."""
    ordered = np.sort(np.asarray(second, dtype=np.float64))
    place = np.searchsorted(ordered, first)
    below, above = ordered[np.maximum(place - 1, 0)], ordered[np.minimum(place, len(ordered) - 1)]
    return float(np.minimum(np.abs(below - first), np.abs(above - first)).min())


def tum(folder: Path, options: RgbdOptions) -> Layout:
    """TUM RGB-D: rgb.txt, depth.txt, groundtruth.txt; depth ÷ 5000, registered to colour by the driver."""
    # A download is often cut down: files that the lists name but that are not there are left out.
    colors = [(t, words[0]) for t, words in _stamped(folder / "rgb.txt") if (folder / words[0]).is_file()]
    depths = [(t, words[0]) for t, words in _stamped(folder / "depth.txt") if (folder / words[0]).is_file()]
    if not colors or not depths:
        raise InputError(f"None of the files that rgb.txt and depth.txt name is in {folder}.")
    pairs = nearest_stamps([t for t, _ in colors], [t for t, _ in depths], options.max_time_diff)
    if not pairs:
        gap = closest_gap([t for t, _ in colors], [t for t, _ in depths])
        raise InputError(
            f"No depth map of {folder} is within {options.max_time_diff:g} s of a colour image (closest: {gap:.3g} s); "
            "raise --max-time-diff or check the clocks."
        )
    poses: list[tuple[float, list[str]]] = []
    if (folder / "groundtruth.txt").is_file():
        poses = _stamped(folder / "groundtruth.txt")
    match = re.search(r"(?:freiburg|fr)_?([123])", folder.name)
    camera = int(match[1]) if match else 0
    rig = Rig(color=Calibration(intrinsics_matrix(TUM_CAMERAS[camera], "TUM")), depth_scale=5000.0)
    times = np.array([t for t, _ in poses])
    records = []
    for i, j in pairs:
        stamp, name = colors[i]
        pose = None
        if len(times):
            k = int(np.abs(times - stamp).argmin())
            if abs(times[k] - stamp) <= options.max_time_diff:
                with untrusted(folder / "groundtruth.txt", "a list of poses (stamp x y z qx qy qz qw)", "correct it"):
                    x, y, z, *quaternion = (float(word) for word in poses[k][1][:7])
                    pose = pose_from_quaternion((x, y, z), quaternion)
        records.append(RgbdRecord(Path(name).stem, folder / name, folder / depths[j][1], pose=pose, rig=rig))
    which = f"freiburg{camera}" if camera else "the driver's default (the folder's name has no freiburg number)"
    return records, f"TUM RGB-D: depth ÷ 5000, intrinsics of {which}, images as recorded"


def scannet(folder: Path, options: RgbdOptions) -> Layout:
    """ScanNet's export: color/, depth/ (mm), pose/, intrinsic/ with both cameras."""
    home = folder / "intrinsic"
    color = Calibration(intrinsics_matrix(read_matrix(home / "intrinsic_color.txt"), "intrinsic_color.txt"))
    depth = Calibration(intrinsics_matrix(read_matrix(home / "intrinsic_depth.txt"), "intrinsic_depth.txt"))
    move = np.eye(4)
    if (home / "extrinsic_color.txt").is_file() and (home / "extrinsic_depth.txt").is_file():
        to_color = rigid(read_matrix(home / "extrinsic_color.txt"), "extrinsic_color.txt")
        move = inverse(to_color) @ rigid(read_matrix(home / "extrinsic_depth.txt"), "extrinsic_depth.txt")
    rig = Rig(color, depth, move, 1000.0)
    records = []
    for image in find_images(folder / "color"):
        path = _depth_of(folder / "depth", image.stem)
        if path is not None:
            pose = _pose_file(folder / "pose" / f"{image.stem}.txt")
            records.append(RgbdRecord(image.stem, image, path, pose=pose, rig=rig))
    return records, "ScanNet layout: depth in mm, registered with both intrinsics"


# 7-Scenes publishes no calibration of its colour camera. This one was estimated on red kitchen by this project.
SEVEN_SCENES = Rig(
    color=Calibration(intrinsics_matrix((529.0, 529.0, 321.0, 239.0), "7-Scenes colour")),
    depth=Calibration(intrinsics_matrix((585.0, 585.0, 320.0, 240.0), "7-Scenes depth")),
    color_from_depth=np.array(
        [[1.0, 0.0, 0.0, -0.02556], [0.0, 1.0, 0.0, 0.0001], [0.0, 0.0, 1.0, 0.00203], [0.0, 0.0, 0.0, 1.0]]
    ),
    depth_scale=1000.0,
)


def seven_scenes(folder: Path, options: RgbdOptions) -> Layout:
    """7-Scenes: frame-N.color.*, frame-N.depth.png (mm, not registered), frame-N.pose.txt; in one folder or three."""
    colors = find_images(folder, "*.color.*") or find_images(folder / "images", "*.color.*")
    depth_home = folder / "depth" if (folder / "depth").is_dir() else folder
    pose_home = folder / "pose" if (folder / "pose").is_dir() else folder
    to_depth = inverse(SEVEN_SCENES.color_from_depth)
    records = []
    for image in colors:
        stem = image.name.split(".color.")[0]
        path = _depth_of(depth_home, f"{stem}.depth")
        if path is not None:
            pose = _pose_file(pose_home / f"{stem}.pose.txt")  # of the depth camera
            moved = pose @ to_depth if pose is not None else None
            records.append(RgbdRecord(stem, image, path, pose=moved, rig=SEVEN_SCENES))
    note = "7-Scenes: depth in mm, registered with a colour calibration that we estimated (none is published)"
    return records, note


def _bop_camera(entry: dict[str, Any], path: Path) -> tuple[Rig, Array | None]:
    try:
        K = intrinsics_matrix(entry["cam_K"], f"cam_K in {path}")
        # BOP's depth_scale takes stored numbers to millimetres.
        rig = Rig(color=Calibration(K), depth_scale=1000.0 / float(entry.get("depth_scale", 1.0)))
        pose = None
        if "cam_R_w2c" in entry and "cam_t_w2c" in entry:
            R, t = np.reshape(entry["cam_R_w2c"], (3, 3)), np.reshape(entry["cam_t_w2c"], (3, 1)) / 1000.0
            pose = inverse(rigid(np.hstack([R, t]), f"cam_R_w2c in {path}"))
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise FileError(f"{path} is no BOP camera file ({error} is missing or wrong).") from error
    return rig, pose


def bop(folder: Path, options: RgbdOptions) -> Layout:
    """BOP: a scene (rgb/, depth/, scene_camera.json), or one view (rgb.png, depth.png, camera.json)."""
    records = []
    if (folder / "scene_camera.json").is_file():
        table = read_table(folder / "scene_camera.json")
        home = folder / "rgb" if (folder / "rgb").is_dir() else folder / "gray"
        for image in find_images(home):
            path = _depth_of(folder / "depth", image.stem)
            entry = table.get(str(int(image.stem))) if image.stem.isdecimal() else None
            if path is not None and entry is not None:
                rig, pose = _bop_camera(entry, folder / "scene_camera.json")
                records.append(RgbdRecord(image.stem, image, path, pose=pose, rig=rig))
    else:
        rig, pose = _bop_camera(read_table(folder / "camera.json"), folder / "camera.json")
        records.append(RgbdRecord(folder.name, folder / "rgb.png", folder / "depth.png", pose=pose, rig=rig))
    return records, "BOP: depth_scale and intrinsics of the camera file, depth registered"


def _video_frame(path: Path, index: int) -> Picture:
    capture = cv2.VideoCapture(str(path))
    try:
        capture.set(cv2.CAP_PROP_POS_FRAMES, index)
        good, frame = capture.read()
    finally:
        capture.release()
    if not good:
        raise FileError(f"Frame {index} of {path} cannot be read; extract the frames to a folder rgb/ with ffmpeg.")
    return np.ascontiguousarray(frame[..., ::-1], dtype=np.uint8)


def stray(folder: Path, options: RgbdOptions) -> Layout:
    """Stray Scanner (iPhone, iPad): rgb.mp4 or rgb/, depth/ (mm, low resolution), confidence/, odometry.csv."""
    rig = Rig(
        color=Calibration(intrinsics_matrix(read_matrix(folder / "camera_matrix.csv"), "camera_matrix.csv")),
        depth_scale=1000.0,
    )
    poses: dict[int, Array] = {}
    if (folder / "odometry.csv").is_file():
        lines = [line.split(",") for line in read_text(folder / "odometry.csv").splitlines()[1:] if line.strip()]
        with untrusted(folder / "odometry.csv", "Stray Scanner's list of poses"):
            for words in lines:
                numbers = [float(word) for word in words[1:9]]
                poses[int(numbers[0])] = pose_from_quaternion(numbers[1:4], numbers[4:8])
    images = {path.stem: path for path in find_images(folder / "rgb")} if (folder / "rgb").is_dir() else {}
    records = []
    for path in natsorted(folder.joinpath("depth").iterdir(), key=lambda p: p.name):
        if path.suffix.lower() not in CODECS or not path.stem.isdecimal():
            continue
        if images and path.stem not in images:
            continue
        color = images.get(path.stem) or partial(_video_frame, folder / "rgb.mp4", int(path.stem))
        sure = folder / "confidence" / f"{path.stem}.png"
        records.append(
            RgbdRecord(path.stem, color, path, sure if sure.is_file() else None, poses.get(int(path.stem)), rig)
        )
    return records, "Stray Scanner: depth in mm at low resolution, same view as colour"


def polycam(folder: Path, options: RgbdOptions) -> Layout:
    """Polycam's raw export: keyframes/ with (corrected_)images, depth (mm), confidence and (corrected_)cameras."""
    home = folder / "keyframes" if (folder / "keyframes").is_dir() else folder
    kind = "corrected_" if (home / "corrected_cameras").is_dir() and (home / "corrected_images").is_dir() else ""
    records = []
    for image in find_images(home / f"{kind}images"):
        path, camera = _depth_of(home / "depth", image.stem), home / f"{kind}cameras" / f"{image.stem}.json"
        if path is None or not camera.is_file():
            continue
        table = read_table(camera)
        try:
            pose = np.eye(4)
            pose[:3] = [[table[f"t_{row}{column}"] for column in range(4)] for row in range(3)]
            if "width" in table and "height" in table:
                table["image_size"] = [table["width"], table["height"]]
        except KeyError as error:
            raise FileError(f"{camera} has no {error}; is it a Polycam camera?") from error
        sure = home / "confidence" / f"{image.stem}.png"
        rig = Rig(color=parse_camera(table, camera), depth_scale=1000.0)
        records.append(
            RgbdRecord(
                image.stem,
                image,
                path,
                sure if sure.is_file() else None,
                rigid(pose, f"The pose in {camera}") @ OPENGL_TO_OPENCV,
                rig,
            )
        )
    return records, "Polycam: depth in mm at low resolution, same view as colour"


def arkitscenes(folder: Path, options: RgbdOptions) -> Layout:
    """ARKitScenes: lowres_wide/ or vga_wide/, lowres_depth/ (mm), confidence/, <images>_intrinsics/*.pincam."""
    home = next(folder / name for name in ("wide", "vga_wide", "lowres_wide") if (folder / name).is_dir())
    records = []
    for image in find_images(home):
        path = _depth_of(folder / "lowres_depth", image.stem)
        pincam = folder / f"{home.name}_intrinsics" / f"{image.stem}.pincam"
        if path is None:
            continue
        rig = Rig(depth_scale=1000.0)
        if pincam.is_file():
            width, height, *camera = read_matrix(pincam).ravel()
            rig.color = Calibration(intrinsics_matrix(camera, str(pincam)), image_size=(int(width), int(height)))
        sure = folder / "confidence" / f"{image.stem}.png"
        records.append(RgbdRecord(image.stem, image, path, sure if sure.is_file() else None, rig=rig))
    return records, "ARKitScenes: depth in mm at low resolution, same view as colour"


OPEN3D_FILES = ("camera_intrinsic.json", "intrinsic.json")


def open3d_recording(folder: Path, options: RgbdOptions) -> Layout:
    """RealSense and Azure Kinect recordings as Open3D's tools write them: color/, depth/ (aligned), intrinsic.json."""
    file = next(folder / name for name in OPEN3D_FILES if (folder / name).is_file())
    table = read_table(file)
    try:
        K = intrinsics_matrix(np.reshape(table["intrinsic_matrix"], (3, 3)).T, f"intrinsic_matrix in {file}")
        size = (int(table["width"]), int(table["height"])) if "width" in table else None
        rig = Rig(color=Calibration(K, image_size=size), depth_scale=float(table.get("depth_scale", 1000.0)))
    except (KeyError, TypeError) as error:
        raise FileError(f"{file} has no intrinsic_matrix of nine numbers ({error}).") from error
    note = f"RealSense / Azure Kinect recording: depth ÷ {rig.depth_scale:g}, aligned to colour"
    return _pairs(folder / "color", folder / "depth", rig), note


def _pairs(colors: Path, depths: Path, rig: Rig, confidences: Path | None = None) -> list[RgbdRecord]:
    """Match files by stem; by order when no stem is shared and the counts are equal (recorders that write stamps)."""
    images = find_images(colors)
    maps = [path for path in depths.iterdir() if path.suffix.lower() in CODECS] if depths.is_dir() else []
    maps = natsorted(maps, key=lambda path: path.name)
    by_stem = {path.stem: path for path in maps}
    sure = {path.stem: path for path in find_images(confidences)} if confidences is not None else {}
    records = [
        RgbdRecord(image.stem, image, by_stem[image.stem], sure.get(image.stem), rig=rig)
        for image in images
        if image.stem in by_stem
    ]
    if not records and maps and len(images) == len(maps):
        note = "paired by order, since no file names are shared"
        records = [RgbdRecord(image.stem, image, path, rig=rig, note=note) for image, path in zip(images, maps)]
    return records


def calibrated_rig(path: Path) -> Rig:
    """Read a rig from JSON or YAML: `color`, `depth` (cameras as for LiDAR), `color_from_depth`, `depth_scale`.

    Without `depth` (or with the colour camera's own keys at the top) the depth map is taken as registered.
    """
    with untrusted(path, "a calibration of two cameras", "docs/bridges.md shows one"):
        return _parse_rig(read_table(path), path)


def _parse_rig(table: dict[str, Any], path: Path) -> Rig:
    rig = Rig()
    top = table.get("color", table.get("colour"))
    if isinstance(top, dict):
        rig.color = parse_camera(top, path)
    elif "K" in table or "fx" in table:
        rig.color = parse_camera(table, path)
    if isinstance(table.get("depth"), dict):
        rig.depth = parse_camera(table["depth"], path)
    if "color_from_depth" in table:
        rig.color_from_depth = rigid(table["color_from_depth"], f"color_from_depth in {path}")
        if rig.depth is None:
            raise InputError(f"{path} gives color_from_depth but no depth camera; add depth with its K.")
    elif "depth_from_color" in table:
        rig.color_from_depth = inverse(rigid(table["depth_from_color"], f"depth_from_color in {path}"))
    elif rig.depth is not None:
        raise InputError(f"{path} has two cameras; add color_from_depth (4x4), which takes depth points to colour.")
    if "depth_scale" in table:
        rig.depth_scale = float(table["depth_scale"])
    return rig


def _has(*names: str) -> Callable[[Path], bool]:
    return lambda folder: all((folder / name).exists() for name in names)


LAYOUTS: dict[str, tuple[Callable[[Path], bool], Callable[[Path, RgbdOptions], Layout]]] = {
    "tum": (_has("rgb.txt", "depth.txt"), tum),
    "scannet": (_has("color", "depth", "intrinsic/intrinsic_color.txt"), scannet),
    "7scenes": (lambda f: any(f.glob("*.color.*")) or any(f.glob("images/*.color.*")), seven_scenes),
    "bop": (lambda f: _has("scene_camera.json", "depth")(f) or _has("rgb.png", "depth.png", "camera.json")(f), bop),
    "stray": (_has("depth", "camera_matrix.csv"), stray),
    "polycam": (lambda f: _has("keyframes/depth")(f) or _has("cameras", "images", "depth")(f), polycam),
    "arkitscenes": (lambda f: _has("lowres_depth")(f) and any(f.glob("*wide")), arkitscenes),
    "open3d": (lambda f: _has("color", "depth")(f) and any((f / n).is_file() for n in OPEN3D_FILES), open3d_recording),
}


def open_recording(
    folder: Path,
    options: RgbdOptions | None = None,
    layout: str | None = None,
    calibration: Path | None = None,
) -> LazyFrames:
    """Open a folder in one of the known layouts, which is recognised by its files unless named.

    With `calibration` the layout's own cameras are replaced. A folder with calibration.json (or .yaml), color/ and
    depth/ is ours; see docs/bridges.md.
    """
    options = options or RgbdOptions()
    if not folder.is_dir():
        raise FileError(f"There is no folder {folder}; check the path.")
    if layout is not None and layout not in LAYOUTS:
        raise InputError(f"The layout {layout!r} is not known; choose one of {', '.join(LAYOUTS)}.")
    own = [folder / f"calibration.{suffix}" for suffix in ("json", "yaml", "yml")]
    own = [path for path in own if path.is_file()]
    if layout is None and own:
        return open_pairs(folder / "color", folder / "depth", options, calibration or own[0], folder / "confidence")
    for name, (matches, reader) in LAYOUTS.items():
        if layout == name or (layout is None and matches(folder)):
            with untrusted(folder, f"a recording in the layout {name}", "copy it again"):
                records, note = reader(folder, options)
            notes = [note]
            if calibration is not None:
                rig = calibrated_rig(calibration)
                records = [
                    replace(s, rig=replace(rig, depth_scale=rig.depth_scale or s.rig.depth_scale)) for s in records
                ]
                notes.append(f"cameras of {calibration}")
            return _source(records, options, notes, folder)
    raise FileError(
        f"{folder} is in none of the known layouts ({', '.join(LAYOUTS)}); "
        "give the colour and the depth folder as two arguments, or put a calibration.json beside color/ and depth/."
    )


def open_pairs(
    color: Path,
    depth: Path,
    options: RgbdOptions | None = None,
    calibration: Path | None = None,
    confidence: Path | None = None,
) -> LazyFrames:
    """Open two files, or two folders whose files share their names."""
    options = options or RgbdOptions()
    rig = calibrated_rig(calibration) if calibration is not None else Rig()
    for path in (color, depth):
        if not path.exists():
            raise FileError(f"There is nothing at {path}; check the path.")
    if confidence is not None and not confidence.exists():
        confidence = None
    if color.is_file() != depth.is_file():
        raise InputError(f"Give two files or two folders: {color} and {depth} are one of each.")
    if color.is_file():
        records = [RgbdRecord(color.stem, color, depth, confidence, rig=rig)]
    else:
        records = _pairs(color, depth, rig, confidence)
    return _source(records, options, [], color)
