"""`omnidc colmap`, `lidar`, `rgbd`, `radar`, `bag`: from what sensors write to dense depth in one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnidc.cli.bridge import EXPORTS, Job, check, fuse_views, run
from omnidc.cli.complete import FORMATS
from omnidc.cli.models import DeviceOption, ModelOption

if TYPE_CHECKING:
    from omnidc.interop.views import View
    from omnidc.sensors.colmap import ColmapModel

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")]
Check = Annotated[
    Path | None, typer.Option("--check", help="Only draw the points over the photographs into this picture.")
]
Formats = Annotated[
    list[str] | None, typer.Option("--format", "-f", help=f"What to write (repeatable): {', '.join(FORMATS)}.")
]
MaxSide = Annotated[int | None, typer.Option(help="Shrink images to this; results have the smaller size.")]
KeepInput = Annotated[str, typer.Option(help="soft: the network may overrule points; hard: pass through all of them.")]
Far = Annotated[float | None, typer.Option(help="Largest depth in the result.")]
KeepEdges = Annotated[bool, typer.Option("--keep-edges", help="Keep flying pixels at depth edges.")]
Confidence = Annotated[bool, typer.Option("--confidence", help="Also write uncertainty and input confidence (npz).")]
Resume = Annotated[bool, typer.Option("--resume", help="Skip frames that are already done.")]
Every = Annotated[int, typer.Option(help="Take every n-th frame.")]
Turntable = Annotated[bool, typer.Option("--turntable", help="Also write each cloud seen from eight sides.")]
Footprint = Annotated[
    int | None,
    typer.Option(help="Window of the hidden-point test in pixels; default: from the density; 0 keeps all points."),
]
Columns = Annotated[int | None, typer.Option(help="Numbers per point of a .bin: KITTI 4, nuScenes 5, VoD radar 7.")]
Calib = Annotated[Path | None, typer.Option(help="KITTI text, or JSON/YAML with K, distortion, camera_from_<sensor>.")]
Camera = Annotated[int, typer.Option(help="KITTI's colour camera, 2 or 3.")]
Fuse = Annotated[bool, typer.Option("--fuse", help="One cloud of all frames, where at least two others agree.")]
FuseTolerance = Annotated[float, typer.Option(help="Relative difference of depth that counts as agreement.")]
Export = Annotated[
    list[str] | None, typer.Option("--export", help=f"Folder for another tool (repeatable): {', '.join(EXPORTS)}.")
]


def register(app: typer.Typer) -> None:
    app.command("colmap")(colmap)
    app.command("lidar")(lidar)
    app.command("rgbd")(rgbd)
    app.command("radar")(radar)
    app.command("bag")(bag)


def colmap(
    model_folder: Annotated[Path, typer.Argument(metavar="MODEL", help="COLMAP model (or the project around it).")],
    images: Annotated[Path, typer.Argument(help="Folder of the photographs.")],
    output: Output = Path("omnidc_colmap"),
    min_track: Annotated[int, typer.Option(help="A point must be seen in this many images.")] = 3,
    max_error: Annotated[float, typer.Option(help="Largest mean reprojection error of a point, pixels.")] = 2.0,
    observed_only: Annotated[
        bool, typer.Option("--observed-only", help="Per image only the points that COLMAP matched in it.")
    ] = False,
    footprint: Footprint = None,
    run_sfm: Annotated[
        bool, typer.Option("--run-sfm", help="Make the model first, from the photographs; MODEL is its new folder.")
    ] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Also complete images without points (relative depth).")
    ] = False,
    export: Export = None,
    fuse: Fuse = False,
    fuse_tolerance: FuseTolerance = 0.03,
    check_picture: Check = None,
    max_long_side: MaxSide = None,
    every: Every = 1,
    formats: Formats = None,
    keep_input: KeepInput = "soft",
    far: Far = None,
    keep_edges: KeepEdges = False,
    confidence: Confidence = False,
    turntable: Turntable = False,
    resume: Resume = False,
    model: ModelOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Dense depth for every photograph of a COLMAP model, and folders for splatting tools."""
    from omnidc.sensors.colmap import Filters, open_model
    from omnidc.sensors.colmap import run_sfm as structure_from_motion

    job = Job(
        output, formats=formats or [], model=model, device=device, keep_input=keep_input, far=far,
        keep_edges=keep_edges, confidence=confidence, turntable=turntable, resume=resume, every=every,
        allow_empty=allow_empty, exports=export or [], fuse=fuse,
    )  # fmt: skip
    if run_sfm:
        model_folder = structure_from_motion(images, model_folder, lambda text: typer.echo(f"sfm: {text}"))
    opened = open_model(model_folder, images, Filters(min_track, max_error, observed_only, footprint), max_long_side)
    source = opened.source()
    if check_picture is not None:
        check(source, check_picture, every)
        return
    views = run(source, job)
    _export(views, job, opened)
    if fuse:
        fuse_views(views, output / "fused.ply", fuse_tolerance, keep_edges)


def _export(views: list[View], job: Job, model: ColmapModel | None) -> None:
    """Write the folders that were asked for; all but nerfstudio's hold a COLMAP model."""
    from omnidc.errors import ConfigError

    for name in job.exports:
        folder = job.output / name
        if name == "nerfstudio":
            from omnidc.interop.nerfstudio import write_nerfstudio

            points, colors = (None, None) if model is None else model.colored_points()
            write_nerfstudio(folder, views, points, colors)
        elif model is None:
            raise ConfigError(f"--export {name} needs a COLMAP model; for other posed frames use --export nerfstudio.")
        else:
            from omnidc.interop.colmap import write_dense
            from omnidc.interop.gaussian_splatting import write_dn_splatter, write_inria
            from omnidc.sensors.colmap import write_pinhole_model

            writers: dict[str, tuple[Any, str]] = {
                "inria": (write_inria, "sparse/0"),
                "dn-splatter": (write_dn_splatter, "colmap/sparse/0"),
                "colmap": (write_dense, "sparse"),
            }
            write, place = writers[name]
            write(folder, views)
            write_pinhole_model(model, folder / place, [view.file for view in views])
        typer.echo(f"wrote {folder} with {len(views)} images")


def lidar(
    scan: Annotated[Path, typer.Argument(help="Scan, folder of scans, or a whole KITTI folder (raw or object).")],
    image: Annotated[Path | None, typer.Argument(help="Photograph, or a folder with the scans' names.")] = None,
    calib: Calib = None,
    output: Output = Path("omnidc_lidar"),
    camera: Camera = 2,
    columns: Columns = None,
    footprint: Footprint = None,
    max_depth: Annotated[float | None, typer.Option(help="Ignore points farther than this, metres.")] = None,
    check_picture: Check = None,
    max_long_side: MaxSide = None,
    every: Every = 1,
    formats: Formats = None,
    keep_input: KeepInput = "soft",
    far: Far = None,
    keep_edges: KeepEdges = False,
    confidence: Confidence = False,
    turntable: Turntable = False,
    resume: Resume = False,
    model: ModelOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Dense depth from LiDAR scans and photographs; points that nearer things hide are dropped."""
    from functools import partial

    from omnidc.errors import ConfigError
    from omnidc.io.calibration import read_calibration
    from omnidc.sensors.lidar import Options, kitti_frames, lidar_frame, paired_frames
    from omnidc.sensors.source import Source

    job = Job(
        output, formats=formats or [], model=model, device=device, keep_input=keep_input, far=far,
        keep_edges=keep_edges, confidence=confidence, turntable=turntable, resume=resume, every=every,
    )  # fmt: skip
    options = Options(columns, max_long_side, footprint, max_depth)
    if image is None:
        if calib is not None:
            raise ConfigError("Give SCAN and IMAGE with --calib; a KITTI folder alone brings its own calibration.")
        source = kitti_frames(scan, camera, options)
    elif calib is None:
        raise ConfigError("A scan and an image need --calib FILE: KITTI text, or JSON/YAML (see docs/bridges.md).")
    else:
        calibration = read_calibration(calib, "lidar", camera)
        if scan.is_dir() and image.is_dir():
            source = paired_frames(scan, image, calibration, options)
        else:
            load = partial(lidar_frame, scan, image, calibration, options)
            source = Source({image.stem: load}, ["depth in metres, as the scan"])
    if check_picture is not None:
        check(source, check_picture, every)
    else:
        run(source, job)


def radar(
    scan: Annotated[Path, typer.Argument(help="Radar returns: .bin, .pcd, .ply or .npy.")],
    image: Annotated[Path, typer.Argument(help="Photograph.")],
    calib: Annotated[Path, typer.Option(help="KITTI text, or JSON/YAML with K and camera_from_radar.")],
    output: Output = Path("omnidc_radar"),
    columns: Columns = None,
    camera: Camera = 2,
    azimuth: Annotated[float, typer.Option(help="Half width of a return, degrees.")] = 0.5,
    elevation: Annotated[float, typer.Option(help="Half height of a return, degrees.")] = 1.0,
    spacing: Annotated[int, typer.Option(help="Pixels between the samples of a return.")] = 8,
    check_picture: Check = None,
    max_long_side: MaxSide = None,
    formats: Formats = None,
    keep_input: KeepInput = "soft",
    far: Far = None,
    keep_edges: KeepEdges = False,
    confidence: Confidence = False,
    turntable: Turntable = False,
    model: ModelOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Dense depth from a radar scan: each return is a patch as wide as its angle is uncertain."""
    from functools import partial

    from omnidc.io.calibration import read_calibration
    from omnidc.sensors.radar import radar_frame
    from omnidc.sensors.source import Source

    job = Job(
        output, formats=formats or [], model=model, device=device, keep_input=keep_input, far=far,
        keep_edges=keep_edges, confidence=confidence, turntable=turntable,
    )  # fmt: skip
    calibration = read_calibration(calib, "radar", camera)
    load = partial(radar_frame, scan, image, calibration, columns, azimuth, elevation, spacing, max_long_side)
    source = Source({image.stem: load}, ["depth in metres, as the scan"])
    if check_picture is not None:
        check(source, check_picture)
    else:
        run(source, job)


def rgbd(
    color: Annotated[Path, typer.Argument(help="Recording (folder), or colour image or folder of them.")],
    depth: Annotated[Path | None, typer.Argument(help="Depth file or folder, when not a recording.")] = None,
    output: Output = Path("omnidc_rgbd"),
    layout: Annotated[str | None, typer.Option(help="Layout of the recording; default: recognised.")] = None,
    calib: Annotated[
        Path | None, typer.Option(help="JSON/YAML with color, depth, color_from_depth, depth_scale.")
    ] = None,
    confidence_maps: Annotated[Path | None, typer.Option(help="ARKit confidence file or folder.")] = None,
    min_confidence: Annotated[int, typer.Option(help="Least ARKit confidence (0, 1, 2) of a pixel.")] = 2,
    max_depth: Annotated[float | None, typer.Option(help="Ignore depth beyond this, metres.")] = None,
    depth_scale: Annotated[float | None, typer.Option(help="Stored numbers per metre, if the layout errs.")] = None,
    tolerance: Annotated[float, typer.Option(help="Seconds between colour and depth (TUM).")] = 0.02,
    export: Export = None,
    fuse: Fuse = False,
    fuse_tolerance: FuseTolerance = 0.03,
    check_picture: Check = None,
    max_long_side: MaxSide = None,
    every: Every = 1,
    formats: Formats = None,
    keep_input: KeepInput = "soft",
    far: Far = None,
    keep_edges: KeepEdges = False,
    confidence: Confidence = False,
    turntable: Turntable = False,
    resume: Resume = False,
    model: ModelOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Fill and clean the depth of RGB-D recordings: TUM, ScanNet, 7-Scenes, BOP, ARKit apps, RealSense, Azure."""
    from omnidc.errors import ConfigError
    from omnidc.sensors.rgbd import Options, open_pairs, open_recording

    job = Job(
        output, formats=formats or [], model=model, device=device, keep_input=keep_input, far=far,
        keep_edges=keep_edges, confidence=confidence, turntable=turntable, resume=resume, every=every,
        exports=export or [], fuse=fuse,
    )  # fmt: skip
    for name in job.exports:
        if name != "nerfstudio":
            raise ConfigError(f"--export {name} needs a COLMAP model; for RGB-D recordings use --export nerfstudio.")
    options = Options(max_long_side, min_confidence, max_depth, keep_edges, depth_scale, tolerance)
    if depth is None:
        source = open_recording(color, options, layout, calib)
    else:
        source = open_pairs(color, depth, options, calib, confidence_maps)
    if check_picture is not None:
        check(source, check_picture, every)
        return
    views = run(source, job)
    _export(views, job, None)
    if fuse:
        fuse_views(views, output / "fused.ply", fuse_tolerance, keep_edges)


def bag(
    path: Annotated[Path, typer.Argument(metavar="BAG", help="ROS 1 .bag, or folder of a ROS 2 bag.")],
    output: Output = Path("omnidc_bag"),
    image_topic: Annotated[str | None, typer.Option(help="Default: the only image topic.")] = None,
    cloud_topic: Annotated[str | None, typer.Option(help="Default: the only PointCloud2 topic.")] = None,
    depth_topic: Annotated[str | None, typer.Option(help="Depth image topic, instead of a cloud.")] = None,
    info_topic: Annotated[str | None, typer.Option(help="Default: camera_info beside the image topic.")] = None,
    tolerance: Annotated[float, typer.Option(help="Seconds between image and scan.")] = 0.05,
    calib: Calib = None,
    to_bag: Annotated[
        Path | None, typer.Option(help="Also write depth as a bag: FILE.bag (ROS 1) or a folder (ROS 2).")
    ] = None,
    depth_out_topic: Annotated[str, typer.Option(help="Topic of the written depth images.")] = "/omnidc/depth",
    footprint: Footprint = None,
    check_picture: Check = None,
    max_long_side: MaxSide = None,
    every: Every = 1,
    formats: Formats = None,
    keep_input: KeepInput = "soft",
    far: Far = None,
    keep_edges: KeepEdges = False,
    confidence: Confidence = False,
    turntable: Turntable = False,
    resume: Resume = False,
    model: ModelOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Dense depth from a ROS bag: image + PointCloud2 (or depth image) + CameraInfo + tf_static."""
    from omnidc.errors import FileError
    from omnidc.io.calibration import read_calibration
    from omnidc.sensors.rosbag import BagOptions, bag_source, write_depth_bag

    job = Job(
        output, formats=formats or [], model=model, device=device, keep_input=keep_input, far=far,
        keep_edges=keep_edges, confidence=confidence, turntable=turntable, resume=resume, every=every,
    )  # fmt: skip
    if to_bag is not None:
        if to_bag.exists():
            raise FileError(f"{to_bag} exists already; name another bag with --to-bag.")
        if "npy" not in job.formats:
            job.formats.append("npy")
    calibration = None if calib is None else read_calibration(calib)
    options = BagOptions(
        image_topic, cloud_topic, depth_topic, info_topic, tolerance, max_long_side, footprint, calibration
    )
    source = bag_source(path, options)
    if check_picture is not None:
        check(source, check_picture, every)
        return
    run(source, job)
    if to_bag is not None:
        from omnidc.cli.bridge import finished

        written = write_depth_bag(to_bag, finished(output), depth_out_topic)
        typer.echo(f"wrote {written} depth images to {depth_out_topic} in {to_bag}")
