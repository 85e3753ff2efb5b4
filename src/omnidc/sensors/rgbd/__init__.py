"""Depth cameras: recordings in the layouts that tools write, as frames with the depth in the color camera.

Depth that is already registered may be of lower resolution than color (ARKit): its pixels are put at their place in
the photograph and the rest stays empty. Depth of another camera is moved with both intrinsics and the extrinsics.
Confidence below the asked level, flying pixels at edges and lone speckles are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from omnidc.errors import FileError, InputError
from omnidc.frame import LazyFrames
from omnidc.io.calibration import Calibration
from omnidc.io.trajectory import Trajectory, read_trajectory
from omnidc.io.untrusted import untrusted
from omnidc.sensors.rgbd import arkitscenes, bop, open3d, polycam, scannet, seven_scenes, stray, tum
from omnidc.sensors.rgbd.pairs import calibrated_poses, calibrated_rig, pair_records
from omnidc.sensors.rgbd.record import Layout, RgbdOptions, RgbdRecord, Rig, load_record

__all__ = ["LAYOUTS", "RgbdOptions", "open_pairs", "open_recording"]


def _source(records: Sequence[RgbdRecord], options: RgbdOptions, notes: list[str], where: Path) -> LazyFrames:
    if not records:
        raise InputError(f"No color image in {where} has a depth map of the same name; check the folder.")
    if options.intrinsics is not None:
        color = Calibration(options.intrinsics)
        records = [replace(record, rig=replace(record.rig, color=color)) for record in records]
    if options.poses is not None:
        records = _with_poses(records, read_trajectory(options.poses), options.poses, options, notes)
    return LazyFrames(
        {record.name: partial(load_record, record, options) for record in records},
        tuple(notes),
        frozenset(record.name for record in records if record.pose is not None and record.rig.color is not None),
    )


def _with_poses(
    records: Sequence[RgbdRecord], trajectory: Trajectory, path: Path, options: RgbdOptions, notes: list[str]
) -> list[RgbdRecord]:
    poses = trajectory.poses([record.name for record in records], options.max_time_diff, path)
    count = sum(pose is not None for pose in poses)
    notes.append(f"poses of {path} for {count} of {len(records)} frames")
    return [replace(record, pose=pose) for record, pose in zip(records, poses)]


def _has(*names: str) -> Callable[[Path], bool]:
    return lambda folder: all((folder / name).exists() for name in names)


LAYOUTS: dict[str, tuple[Callable[[Path], bool], Callable[[Path, RgbdOptions], Layout]]] = {
    "tum": (_has("rgb.txt", "depth.txt"), tum.read),
    "scannet": (_has("color", "depth", "intrinsic/intrinsic_color.txt"), scannet.read),
    "7scenes": (lambda f: any(f.glob("*.color.*")) or any(f.glob("images/*.color.*")), seven_scenes.read),
    "bop": (
        lambda f: _has("scene_camera.json", "depth")(f) or _has("rgb.png", "depth.png", "camera.json")(f),
        bop.read,
    ),
    "stray": (_has("depth", "camera_matrix.csv"), stray.read),
    "polycam": (lambda f: _has("keyframes/depth")(f) or _has("cameras", "images", "depth")(f), polycam.read),
    "arkitscenes": (lambda f: _has("lowres_depth")(f) and any(f.glob("*wide")), arkitscenes.read),
    "open3d": (lambda f: _has("color", "depth")(f) and any((f / n).is_file() for n in open3d.FILES), open3d.read),
}


def open_recording(
    folder: Path,
    options: RgbdOptions | None = None,
    layout: str | None = None,
    calibration: Path | None = None,
) -> LazyFrames:
    """Open a folder in one of the known layouts, which is recognized by its files unless named.

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
        "give the color and the depth folder as two arguments, or put a calibration.json beside color/ and depth/."
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
        records = pair_records(color, depth, rig, confidence)
    notes: list[str] = []
    trajectory = calibrated_poses(calibration) if calibration is not None and records else None
    if calibration is not None and trajectory is not None:
        records = _with_poses(records, trajectory, calibration, options, notes)
    return _source(records, options, notes, color)
