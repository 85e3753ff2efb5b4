"""`omnidc colmap`, `lidar`, `rgbd`, `radar`, `bag`: from what sensors write to dense depth in one command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnidc.cli.options import expand
from omnidc.cli.run import RunOptions, complete_all, draw_overlay
from omnidc.pipeline.options import CompleteOptions, WriteOptions

if TYPE_CHECKING:
    from omnidc.frame import LazyFrames
    from omnidc.pipeline.base import BaseCompleter
    from omnidc.pipeline.sinks import ExportSink, FolderSink
    from omnidc.sensors.colmap import ColmapModel

EXPORTS = ("nerfstudio", "dn-splatter", "inria", "colmap", "colmap-dense-points")

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")]
AllowEmpty = Annotated[
    bool, typer.Option("--allow-empty", help="Also complete frames without points, as relative depth.")
]
OcclusionWindow = Annotated[
    int | None,
    typer.Option(help="Window of the hidden-point test in pixels; default: from the density; 0 keeps all points."),
]
Columns = Annotated[int | None, typer.Option(help="Numbers per point of a .bin: KITTI 4, nuScenes 5, VoD radar 7.")]
Calib = Annotated[Path | None, typer.Option(help="Calibration: KITTI text, or JSON/YAML (see docs/bridges.md).")]
KittiCamera = Annotated[int, typer.Option("--kitti-camera", help="KITTI's color camera, 2 or 3.")]
MaxInputDepth = Annotated[float | None, typer.Option(help="Ignore measurements farther than this, meters.")]
MaxTimeDiff = Annotated[float, typer.Option(help="Most seconds between an image and its depth.")]


OriginalPixelsFlag = Annotated[
    bool,
    typer.Option("--original-pixels", help="Bring depth back to the camera's own pixels, with their distortion."),
]


@dataclass(frozen=True)
class FusionOptions:
    """What is made of all frames of a source with poses."""

    fuse: bool = field(default=False, metadata={"help": "One cloud of all frames, where at least two others agree."})
    fuse_tolerance: float = field(
        default=0.03, metadata={"help": "Relative difference of depth that counts as agreement."}
    )
    mesh: bool = field(default=False, metadata={"help": "One mesh of all frames (TSDF), with voxels of --voxel."})


@dataclass(frozen=True)
class ColmapExports(FusionOptions):
    """Folders for other tools, all of which can be made of a COLMAP model."""

    export: tuple[str, ...] = field(
        default=(), metadata={"help": f"Folder for another tool (repeatable): {', '.join(EXPORTS)}."}
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "export", _export_names(self.export, EXPORTS))


@dataclass(frozen=True)
class PosedExports(FusionOptions):
    """Folders for other tools that need poses and no COLMAP model."""

    export: tuple[str, ...] = field(default=(), metadata={"help": "Folder for another tool: nerfstudio."})

    def __post_init__(self) -> None:
        object.__setattr__(self, "export", _export_names(self.export, EXPORTS[:1]))


def _export_names(given: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    from omnidc.errors import ConfigError

    names = tuple(name.strip().lower() for entry in given for name in entry.split(","))
    for name in names:
        if name not in known:
            reason = "needs a COLMAP model" if name in EXPORTS else "is not known"
            raise ConfigError(f"--export {name} {reason}: choose from {', '.join(known)}.")
    return names


def register(app: typer.Typer) -> None:
    for command in (colmap, lidar, rgbd, radar, bag):
        app.command(command.__name__)(expand(command))


def colmap(
    model_folder: Annotated[Path, typer.Argument(metavar="MODEL", help="COLMAP model (or the project around it).")],
    images: Annotated[Path, typer.Argument(help="Folder of the photographs.")],
    options: CompleteOptions,
    write: WriteOptions,
    run: RunOptions,
    exports: ColmapExports,
    output: Output = Path("omnidc_colmap"),
    min_track: Annotated[int, typer.Option(help="A point must be seen in this many images.")] = 3,
    max_error: Annotated[float, typer.Option(help="Largest mean reprojection error of a point, pixels.")] = 2.0,
    observed_only: Annotated[
        bool, typer.Option("--observed-only", help="Per image only the points that COLMAP matched in it.")
    ] = False,
    occlusion_window: OcclusionWindow = None,
    second_pass: Annotated[
        bool, typer.Option("--second-pass", help="Complete twice: first to drop points that lie behind the depth.")
    ] = False,
    run_sfm: Annotated[
        bool, typer.Option("--run-sfm", help="Make the model first, from the photographs; MODEL is its new folder.")
    ] = False,
    sequential: Annotated[
        bool, typer.Option("--sequential", help="With --run-sfm: match neighbors in the order of names, for video.")
    ] = False,
    poses: Annotated[
        Path | None,
        typer.Option(help="With --run-sfm: known cameras and poses (COLMAP model, transforms.json); only triangulate."),
    ] = None,
    calib: Annotated[
        Path | None, typer.Option(help="With --run-sfm: known intrinsics of all photographs, JSON or YAML.")
    ] = None,
    original_pixels: OriginalPixelsFlag = False,
    allow_empty: AllowEmpty = False,
) -> None:
    """Compute dense depth for every photograph of a COLMAP model, and folders for splatting tools."""
    from omnidc.errors import ConfigError
    from omnidc.sensors.colmap import Filters, open_model

    if run_sfm:
        from omnidc.io.calibration import parse_camera, read_table
        from omnidc.sensors.sfm import SfmOptions
        from omnidc.sensors.sfm import run_sfm as structure_from_motion

        how = SfmOptions(sequential, None if calib is None else parse_camera(read_table(calib), calib), poses)
        model_folder = structure_from_motion(images, model_folder, lambda text: typer.echo(f"sfm: {text}"), options=how)
    elif sequential or poses or calib:
        given = "--sequential" if sequential else "--poses" if poses else "--calib"
        raise ConfigError(f"{given} is an option of --run-sfm; give both, or neither.")
    filters = Filters(min_track, max_error, observed_only, occlusion_window)
    if second_pass and (observed_only or occlusion_window == 0):
        other = "--observed-only" if observed_only else "--occlusion-window 0"
        raise ConfigError(f"--second-pass tests points for visibility, and {other} asks for no test: leave one out.")
    model = open_model(model_folder, images, filters, run.mask)
    reading = run.reading({**asdict(filters), "original_pixels": original_pixels, "second_pass": second_pass})
    completer = _hide_points(model, options, run) if second_pass else None
    _run(model.source(), output, options, write, run, allow_empty, reading, exports, model, completer=completer)


def _hide_points(model: ColmapModel, options: CompleteOptions, run: RunOptions) -> BaseCompleter:
    """Complete all photographs once, to find points that are hidden in them; return what completed them."""
    from tqdm import tqdm

    from omnidc.cli.models import load_model
    from omnidc.interop.second_pass import hide_points

    completer, names = load_model(run.model, run.device, run.runtime), model.names()
    with tqdm(total=len(names), unit="image", dynamic_ncols=True, disable=None) as bar:
        count = hide_points(model, lambda frame: completer.complete(frame, options).depth, lambda _: bar.update())
    typer.echo(f"first pass: on average {count / len(names):.0f} points of a photograph lie behind its depth")
    return completer


def lidar(
    scan: Annotated[Path, typer.Argument(help="Scan, folder of scans, or a whole KITTI folder (raw or object).")],
    options: CompleteOptions,
    write: WriteOptions,
    run: RunOptions,
    image: Annotated[Path | None, typer.Argument(help="Photograph, or a folder with the scans' names.")] = None,
    calib: Calib = None,
    output: Output = Path("omnidc_lidar"),
    kitti_camera: KittiCamera = 2,
    columns: Columns = None,
    occlusion_window: OcclusionWindow = None,
    max_input_depth: MaxInputDepth = None,
    original_pixels: OriginalPixelsFlag = False,
    allow_empty: AllowEmpty = False,
) -> None:
    """Compute dense depth from LiDAR scans and photographs; points that nearer things hide are dropped."""
    from omnidc.errors import ConfigError
    from omnidc.frame import LazyFrames
    from omnidc.io.calibration import read_calibration
    from omnidc.sensors.lidar import LidarOptions, kitti_frames, lidar_frame, paired_frames

    reading = LidarOptions(columns, occlusion_window, max_input_depth, run.mask, run.ignore_exif)
    if image is None:
        if calib is not None:
            raise ConfigError("Give SCAN and IMAGE with --calib; a KITTI folder alone brings its own calibration.")
        source = kitti_frames(scan, kitti_camera, reading)
    elif calib is None:
        raise ConfigError("A scan and an image need --calib FILE: KITTI text, or JSON/YAML (see docs/bridges.md).")
    else:
        calibration = read_calibration(calib, "lidar", kitti_camera)
        if scan.is_dir() and image.is_dir():
            source = paired_frames(scan, image, calibration, reading)
        else:
            source = LazyFrames({image.stem: partial(lidar_frame, scan, image, calibration, reading)})
    where = {"calib": calib, "kitti_camera": kitti_camera, "original_pixels": original_pixels}
    choices = run.reading({**asdict(reading), **where})
    _run(source, output, options, write, run, allow_empty, choices)


def radar(
    scan: Annotated[Path, typer.Argument(help="Radar returns: .bin, .pcd, .ply or .npy.")],
    image: Annotated[Path, typer.Argument(help="Photograph.")],
    options: CompleteOptions,
    write: WriteOptions,
    run: RunOptions,
    calib: Calib = None,
    output: Output = Path("omnidc_radar"),
    columns: Columns = None,
    kitti_camera: KittiCamera = 2,
    azimuth: Annotated[float, typer.Option(help="Half width of a return, degrees.")] = 0.5,
    elevation: Annotated[float, typer.Option(help="Half height of a return, degrees.")] = 1.0,
    spacing: Annotated[int, typer.Option(help="Pixels between the samples of a return.")] = 8,
    original_pixels: OriginalPixelsFlag = False,
    allow_empty: AllowEmpty = False,
) -> None:
    """Compute dense depth from a radar scan: each return is a patch as wide as its angle is uncertain."""
    from omnidc.errors import ConfigError
    from omnidc.frame import LazyFrames
    from omnidc.io.calibration import read_calibration
    from omnidc.sensors.radar import radar_frame

    if calib is None:
        raise ConfigError("A radar scan needs --calib FILE: KITTI text, or JSON/YAML with camera_from_radar.")
    calibration = read_calibration(calib, "radar", kitti_camera)
    load = partial(
        radar_frame, scan, image, calibration, columns, azimuth, elevation, spacing, run.mask, run.ignore_exif
    )
    spread = {"azimuth": azimuth, "elevation": elevation, "spacing": spacing}
    reading = run.reading({**spread, "calib": calib, "columns": columns, "original_pixels": original_pixels})
    _run(LazyFrames({image.stem: load}), output, options, write, run, allow_empty, reading)


def rgbd(
    color: Annotated[Path, typer.Argument(help="Recording (folder), or color image or folder of them.")],
    options: CompleteOptions,
    write: WriteOptions,
    run: RunOptions,
    exports: PosedExports,
    depth: Annotated[Path | None, typer.Argument(help="Depth file or folder, when not a recording.")] = None,
    output: Output = Path("omnidc_rgbd"),
    layout: Annotated[str | None, typer.Option(help="Layout of the recording; default: recognized.")] = None,
    calib: Calib = None,
    intrinsics: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(metavar="FX FY CX CY", help="Camera in pixels, for clouds, meshes, exports and --ray-depth."),
    ] = None,
    poses: Annotated[
        Path | None,
        typer.Option(help="Trajectory: TUM text, transforms.json, 3x4 or 4x4 matrices per line, .log, or a folder."),
    ] = None,
    confidence_maps: Annotated[Path | None, typer.Option(help="ARKit confidence file or folder.")] = None,
    min_confidence: Annotated[int, typer.Option(help="Least ARKit confidence (0, 1, 2) of a pixel.")] = 2,
    max_input_depth: MaxInputDepth = None,
    depth_scale: Annotated[
        str, typer.Option(help="What stored depth is divided by: auto, 1, 100, 256, 1000, 5000 …")
    ] = "auto",
    max_time_diff: MaxTimeDiff = 0.02,
    original_pixels: OriginalPixelsFlag = False,
    allow_empty: AllowEmpty = False,
) -> None:
    """Fill and clean the depth of RGB-D recordings: TUM, ScanNet, 7-Scenes, BOP, ARKit apps, RealSense, Azure."""
    from omnidc.cli.complete import parse_depth_scale
    from omnidc.geometry.camera import check_intrinsics
    from omnidc.sensors.rgbd import RgbdOptions, open_pairs, open_recording

    reading = RgbdOptions(
        min_confidence,
        max_input_depth,
        write.keep_flying_pixels,
        parse_depth_scale(depth_scale),
        max_time_diff,
        run.mask,
        run.ignore_exif,
        None if intrinsics is None else check_intrinsics(intrinsics),
        poses,
    )
    if depth is None:
        source = open_recording(color, reading, layout, calib)
    else:
        source = open_pairs(color, depth, reading, calib, confidence_maps)
    choices = run.reading({**asdict(reading), "calib": calib, "original_pixels": original_pixels})
    _run(source, output, options, write, run, allow_empty, choices, exports)


def bag(
    path: Annotated[Path, typer.Argument(metavar="BAG", help="ROS 1 .bag, or folder of a ROS 2 bag.")],
    options: CompleteOptions,
    write: WriteOptions,
    run: RunOptions,
    output: Output = Path("omnidc_bag"),
    image_topic: Annotated[str | None, typer.Option(help="Default: the only image topic.")] = None,
    cloud_topic: Annotated[str | None, typer.Option(help="Default: the only PointCloud2 topic.")] = None,
    depth_topic: Annotated[str | None, typer.Option(help="Depth image topic, instead of a cloud.")] = None,
    info_topic: Annotated[str | None, typer.Option(help="Default: camera_info beside the image topic.")] = None,
    max_time_diff: MaxTimeDiff = 0.05,
    calib: Calib = None,
    write_bag: Annotated[
        Path | None, typer.Option(help="Also write depth as a bag: FILE.bag (ROS 1) or a folder (ROS 2).")
    ] = None,
    depth_out_topic: Annotated[str, typer.Option(help="Topic of the written depth images.")] = "/omnidc/depth",
    occlusion_window: OcclusionWindow = None,
    original_pixels: OriginalPixelsFlag = False,
    allow_empty: AllowEmpty = False,
) -> None:
    """Compute dense depth from a ROS bag: image + PointCloud2 (or depth image) + CameraInfo + tf_static."""
    from omnidc.errors import FileError
    from omnidc.io.calibration import read_calibration
    from omnidc.sensors.rosbag import BagOptions, bag_source

    if write_bag is not None:
        if write_bag.exists():
            raise FileError(f"{write_bag} exists already; name another bag with --write-bag.")
        write = write.adding("confidence")  # knows the sky
    calibration = None if calib is None else read_calibration(calib)
    source = bag_source(
        path,
        BagOptions(
            image_topic, cloud_topic, depth_topic, info_topic, max_time_diff, occlusion_window, calibration, run.mask
        ),
    )

    def as_bag(results: FolderSink | ExportSink) -> ExportSink:
        from omnidc.interop.rosbag import bag_sink

        assert write_bag is not None
        return bag_sink(results, write_bag, depth_out_topic, source.frame_id, typer.echo)

    wrap = as_bag if write_bag is not None else None
    topics = {"image_topic": image_topic, "cloud_topic": cloud_topic, "depth_topic": depth_topic, "calib": calib}
    reading = run.reading({**topics, "occlusion_window": occlusion_window, "original_pixels": original_pixels})
    _run(source, output, options, write, run, allow_empty, reading, wrap=wrap)


def _run(
    source: LazyFrames,
    output: Path,
    options: CompleteOptions,
    write: WriteOptions,
    run: RunOptions,
    allow_empty: bool,
    reading: dict[str, Any],  # how the input is read, for --resume
    exports: ColmapExports | PosedExports | None = None,
    model: ColmapModel | None = None,
    wrap: Callable[[FolderSink | ExportSink], ExportSink] | None = None,  # one more sink around
    completer: BaseCompleter | None = None,  # None = the one that `run` names is loaded
) -> None:
    """Complete a source into a folder and its exports, or only draw its points."""
    from omnidc.errors import ConfigError
    from omnidc.interop.sinks import export_sink, fusion_sink, mesh_sink
    from omnidc.pipeline.options import FORMATS
    from omnidc.pipeline.original import OriginalPixelsSink
    from omnidc.pipeline.sinks import METADATA, FolderSink, check_writable

    suffix = output.suffix.lower().lstrip(".")
    if suffix in FORMATS and not output.is_dir():
        raise ConfigError(f"Results go into a folder, and {output} is the name of a file: give -o FOLDER -f {suffix}.")
    source = source.every(run.frame_step)
    if run.overlay is not None:
        draw_overlay(source, run.overlay)
        return
    exports = exports or PosedExports()
    posed = bool(exports.export or exports.fuse or exports.mesh)
    original = bool(reading["original_pixels"])
    if original:
        _check_pinhole(write, posed or wrap is not None)
        brought = "results are brought back to the camera's own pixels, with their distortion (--original-pixels)"
        source = replace(source, notes=(*source.notes, brought))
    if posed:
        _check_poses(source, exports)
    if posed or wrap is not None:
        write = write.adding("npy")  # the exports read the results back
    if posed and options.sky != "mask":
        write = write.adding("confidence")  # knows the sky
        typer.echo(f"note: --sky {options.sky} is for the depth maps; exports, clouds and meshes leave the sky out")
    sink: FolderSink | ExportSink = FolderSink(
        output,
        write,
        run.name,
        options,
        resume=run.resume,
        keep_images=posed,
        notes=source.notes,
        reading=reading,
        announce=typer.echo,
    )
    for name in exports.export:
        sink = export_sink(sink, name, output / name, model, typer.echo)
    if exports.fuse:
        path = output / "fused.ply"
        sink = fusion_sink(sink, path, exports.fuse_tolerance, write, typer.echo)
    if exports.mesh:
        sink = mesh_sink(sink, output / "mesh.ply", write.voxel, typer.echo)
    if wrap is not None:
        sink = wrap(sink)
    check_writable([output / METADATA])
    target = OriginalPixelsSink(sink) if original else sink
    complete_all(source, target, options, run, output=output, allow_empty=allow_empty, model=completer)


def _check_pinhole(write: WriteOptions, exported: bool) -> None:
    from omnidc.errors import ConfigError

    if exported or write.needs_camera():
        raise ConfigError(
            "Clouds, meshes, exports and bags need a pinhole camera, which distorted pixels do not have: "
            "leave out --original-pixels."
        )


def _check_poses(source: LazyFrames, exports: FusionOptions) -> None:
    """Raise before the first frame where the last step could not work."""
    from omnidc.errors import ConfigError

    if source.posed is None:
        return
    count, least = len(source.posed.intersection(source.names)), 3 if exports.fuse else 2 if exports.mesh else 1
    if count < least:
        what = "--fuse" if exports.fuse else "--mesh" if exports.mesh else "--export"
        if len(source.names) < least:
            raise ConfigError(f"{what} needs {least} frames or more, not {len(source.names)}.")
        raise ConfigError(
            f"{what} needs poses and cameras of {least} frames or more, but {count} of {len(source.names)} have both: "
            "give --poses FILE, and --intrinsics FX FY CX CY or --calib FILE."
        )
