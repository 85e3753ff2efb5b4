"""`omnidc complete`, `omnidc demo`, `omnidc info`."""

from __future__ import annotations

from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from omnidc.cli.engine import EngineOptions, is_remote, url_sink, url_source
from omnidc.cli.models import load_model
from omnidc.cli.options import expand
from omnidc.cli.run import ModelOptions, RunOptions, complete_all, describe, describe_result, draw_overlay
from omnidc.pipeline.options import CompleteOptions, WriteOptions


class Resize(str, Enum):
    nearest = "nearest"


def register(app: typer.Typer) -> None:
    app.command("complete")(expand(complete))
    app.command("demo")(expand(demo))
    app.command("info")(info)


def complete(
    image: Annotated[Path, typer.Argument(help="Photograph, or a folder of them.")],
    sparse: Annotated[
        Path,
        typer.Argument(help="Sparse depth: npy, npz, 16-bit png, exr, pfm, tiff, csv …; or a folder."),
    ],
    options: CompleteOptions,
    write: WriteOptions,
    run: RunOptions,
    engine: EngineOptions,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            help="File, written by its suffix (repeatable: -o depth.png -o cloud.ply), or a folder for all formats.",
        ),
    ] = None,
    depth_scale: Annotated[
        str, typer.Option(help="What stored depth is divided by: auto, 1, 100, 256, 1000, 5000 …")
    ] = "auto",
    intrinsics: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(metavar="FX FY CX CY", help="Camera in pixels, for clouds, meshes, exports and --ray-depth."),
    ] = None,
    camera: Annotated[Path | None, typer.Option(help="Camera from a file instead: txt, npy or json.")] = None,
    ray_depth: Annotated[bool, typer.Option("--ray-depth", help="The input is distance along the ray.")] = False,
    resize_sparse: Annotated[
        Resize | None, typer.Option(help="Move the points when the sparse map has another resolution.")
    ] = None,
    disparity: Annotated[bool, typer.Option("--disparity", help="The input is disparity of a stereo pair.")] = False,
    baseline: Annotated[float | None, typer.Option(help="With --disparity: meters between the cameras.")] = None,
    focal: Annotated[float | None, typer.Option(help="With --disparity: pixels; default: FX of --intrinsics.")] = None,
    disparity_offset: Annotated[
        float, typer.Option(help="With --disparity: pixels between the principal points (Middlebury's doffs).")
    ] = 0.0,
    confidence: Annotated[
        Path | None,
        typer.Option(help="Write the confidence maps here: npz (both) or a depth format (uncertainty); or a folder."),
    ] = None,
) -> None:
    """Complete sparse depth: one photograph, or a folder of them paired with depth files by name."""
    from omnidc.errors import ConfigError, FileError, InputError
    from omnidc.frame import LazyFrames
    from omnidc.pipeline.completion import CLOUD_SUFFIXES
    from omnidc.pipeline.sinks import METADATA, FileSink, FolderSink, MapsSink, Sink, TeeSink, check_writable
    from omnidc.pipeline.source import pair_frame, pair_source

    if is_remote([image, sparse, *(output or ())]):
        matrix = _camera(intrinsics, camera)
        scale: dict[str, Any] = {
            "depth_scale": parse_depth_scale(depth_scale),
            "ray_depth": ray_depth,
            "disparity": _stereo(disparity, baseline, focal, disparity_offset, matrix),
            "ignore_exif": run.ignore_exif,
        }
        source = url_source(image, sparse, matrix, scale).every(run.frame_step)
        sink = url_sink(output, write, run.name, options, run.resume)
        complete_all(source, sink, options, run, output=output[0] if output else Path(), engine=engine)
        return
    for path in (image, sparse):
        if not path.exists():
            raise FileError(f"{path} does not exist.")
    if image.is_dir() != sparse.is_dir():
        raise ConfigError("Give two files or two folders: one of IMAGE and SPARSE is a folder, the other is not.")
    many = image.is_dir()
    files, folder = _outputs(output, many)
    if folder is None and not files:
        folder = image.with_name(f"{image.name}_omnidc") if many else Path(f"{image.stem}_omnidc")
    if folder is None and write.formats != WriteOptions().formats:
        raise ConfigError("--format is for an output folder; with -o FILE the suffix says the format.")
    if many and confidence is not None and confidence.suffix:
        raise ConfigError(f"For folders --confidence is a folder, not the file {confidence}.")
    matrix = _camera(intrinsics, camera)
    clouds = [str(path) for path in files if path.suffix.lower() in CLOUD_SUFFIXES]
    if matrix is None and (clouds or (folder is not None and write.needs_camera())):
        what = clouds[0] if clouds else ", ".join(write.formats)
        raise InputError(f"Points ({what}) need the camera: give --intrinsics FX FY CX CY or --camera FILE.")
    reading: dict[str, Any] = {
        "depth_scale": parse_depth_scale(depth_scale),
        "ray_depth": ray_depth,
        "resize_sparse": resize_sparse is not None,
        "disparity": _stereo(disparity, baseline, focal, disparity_offset, matrix),
        "ignore_exif": run.ignore_exif,
    }
    if many:
        source = pair_source(image, sparse, matrix, run.mask, **reading).every(run.frame_step)
    else:
        load = partial(pair_frame, image, sparse, matrix, run.mask, name="depth", **reading)
        source = LazyFrames({"depth": load})
    if run.overlay is not None:
        draw_overlay(source, run.overlay)
        return

    sinks: list[Sink] = []
    written: list[Path] = []
    maps = None if many or confidence is None else confidence if confidence.suffix else confidence / "depth.npz"
    if files or maps is not None:
        sinks.append(FileSink(files, write, maps, typer.echo))
        written += [*files, *([] if maps is None else [maps])]
    if many and confidence is not None:
        sinks.append(MapsSink(confidence))
    if folder is not None:
        stored = FolderSink(
            folder,
            write,
            run.name,
            options,
            resume=run.resume,
            notes=source.notes,
            reading=run.reading({**reading, "intrinsics": matrix}),
            announce=typer.echo,
        )
        sinks.append(stored)
        written += [*([] if many else stored.paths("depth")), folder / METADATA]
    check_writable(written)
    complete_all(source, TeeSink(*sinks), options, run, output=folder or Path(), engine=engine)
    if not many:
        typer.echo(f"wrote {', '.join(str(path) for path in written)}")


def _outputs(output: list[Path] | None, many: bool) -> tuple[list[Path], Path | None]:
    """Return the files and the folder among the outputs."""
    from omnidc.errors import ConfigError

    files = [path for path in output or () if path.suffix and not path.is_dir()]
    folders = [path for path in output or () if path not in files]
    if len(folders) > 1:
        raise ConfigError(f"Give one output folder, not {len(folders)}.")
    if many and files:
        raise ConfigError(f"For folders give an output folder, not the file {files[0]}; choose with --format.")
    return files, folders[0] if folders else None


def demo(
    chosen: ModelOptions,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path("omnidc_demo"),
) -> None:
    """Complete the bundled example and compare it with the truth."""
    from dataclasses import replace

    import numpy as np

    import omnidc
    from omnidc.frame import Unit
    from omnidc.io.calibration import read_intrinsics
    from omnidc.io.depth import read_depth
    from omnidc.pipeline import make_frame
    from omnidc.pipeline.sinks import check_writable

    folder = Path(omnidc.__file__).parent / "examples"
    names = ("depth.npy", "depth.png", "depth_preview.png", "cloud.ply", "surface.glb", "metadata.json")
    paths = [output / name for name in names]
    check_writable(paths)
    camera = read_intrinsics(folder / "room_intrinsics.txt")
    frame = make_frame(folder / "room.jpg", folder / "room_sparse.npz", camera)
    frame = replace(frame, unit=Unit.METERS, unit_reason="meters, as the example says")
    describe(frame, typer.echo)
    result = load_model(chosen.model, chosen.device, chosen.runtime).complete(frame)
    for path in paths:
        result.save(path)
    gt_depth = read_depth(folder / "room_depth.png").depth
    valid = gt_depth > 0
    error = np.abs(result.depth - gt_depth)[valid]
    relative = error / gt_depth[valid]
    typer.echo(f"result: {describe_result(result)}")
    typer.echo(
        f"against the truth: mean error {100 * error.mean():.1f} cm or {100 * relative.mean():.1f} % of depth; "
        f"{100 * (relative < 0.25).mean():.1f} % of the pixels within 25 %"
    )
    typer.echo(f"wrote {', '.join(str(path) for path in paths)}")


def info(file: Annotated[Path, typer.Argument(help="Image, depth file, checkpoint or ONNX model.")]) -> None:
    """Say what a file holds: an image, depth (with the unit that would be assumed), a checkpoint, an ONNX model."""
    from omnidc.errors import FileError

    if not file.is_file():
        raise FileError(f"{file} is a folder, not a file." if file.is_dir() else f"{file} does not exist.")
    suffix = file.suffix.lower()
    if suffix == ".safetensors":
        lines = _describe_safetensors(file)
    elif suffix == ".onnx":
        lines = _describe_onnx(file)
    elif suffix in (".pt", ".pth", ".ckpt"):
        lines = [f"a PyTorch checkpoint of {file.stat().st_size / 1e6:.1f} MB: turn it into ours with  omnidc convert"]
    else:
        lines = _describe_picture(file)
    for line in lines:
        typer.echo(line)


def _describe_onnx(file: Path) -> list[str]:
    from dataclasses import asdict

    from omnidc.deploy.runtime import OnnxCompleter

    model = OnnxCompleter(file, "cpu")
    size = "any size" if model.fixed_size is None else "{}x{} (height x width)".format(*model.fixed_size)
    lines = [f"ONNX model: {file.stat().st_size / 1e6:.1f} MB, images of {size}, outputs {', '.join(model.outputs)}"]
    return lines + [f"  {key}: {value}" for key, value in asdict(model.info).items() if value not in (None, "")]


def _describe_picture(file: Path) -> list[str]:
    """Describe a picture as depth where it can be depth, else as a photograph; raise the likelier error for neither."""
    from omnidc.errors import InputError, OmnidcError
    from omnidc.io.depth import CODECS, is_disparity, read_depth
    from omnidc.io.images import SUFFIXES, read_image

    suffix = file.suffix.lower()
    if is_disparity(file) and suffix in CODECS:
        return ["disparity, going by its name; for depth give  omnidc complete … --disparity --baseline M --focal PX"]
    if suffix in CODECS:
        try:
            depth = read_depth(file)
        except InputError:
            if suffix not in SUFFIXES:
                raise
        else:
            import numpy as np

            from omnidc.frame import Frame

            blank = np.zeros((*depth.depth.shape, 3), np.uint8)
            frame = Frame(blank, depth.depth, unit=depth.unit, unit_reason=depth.note)
            lines = [f"depth: {frame.summary()}"]
            if depth.invalid:
                lines.append(f"{depth.invalid:,} NaN or infinite values count as 'no measurement'")
            return lines
    try:
        image = read_image(file)
    except OmnidcError as error:
        if suffix in SUFFIXES:
            raise
        known = ", ".join(sorted({*CODECS, *SUFFIXES, ".safetensors", ".pt"}))
        raise type(error)(f"{file} is not a file that is known here ({known}).") from error
    return [f"image: {image.shape[1]}x{image.shape[0]}, {image.shape[0] * image.shape[1] / 1e6:.2f} megapixels"]


def _describe_safetensors(file: Path) -> list[str]:
    """Describe a safetensors file by its header: 8 bytes of length, then JSON."""
    import json
    import math
    import struct

    from omnidc.errors import CheckpointError

    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > file.stat().st_size:
                raise ValueError("header longer than the file")
            header: dict[str, Any] = json.loads(stream.read(length))
        metadata = header.pop("__metadata__", {})
        count = sum(math.prod(entry["shape"]) for entry in header.values())
        end = 8 + length + max((entry["data_offsets"][1] for entry in header.values()), default=0)
    except (OSError, ValueError, struct.error, KeyError, TypeError) as error:
        raise CheckpointError(f"{file} is damaged or not a safetensors file: download it again.") from error
    if file.stat().st_size < end:
        raise CheckpointError(f"{file} is truncated ({file.stat().st_size} of {end} bytes): download it again.")
    lines = [f"checkpoint: {count / 1e6:.2f} million numbers in {len(header)} tensors, {end / 1e6:.1f} MB"]
    return lines + [f"  {key}: {value}" for key, value in sorted(metadata.items())]


def parse_depth_scale(text: str) -> float | None:
    from omnidc.errors import ConfigError

    if text == "auto":
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ConfigError(f"--depth-scale is auto or a positive number (1000 for millimeters), not {text!r}.")
    return value


def _stereo(disparity: bool, baseline: float | None, focal: float | None, offset: float, camera: Any) -> Any:
    from omnidc.errors import ConfigError
    from omnidc.geometry.stereo import Stereo

    if not disparity:
        if baseline is not None or focal is not None or offset:
            raise ConfigError("--baseline, --focal and --disparity-offset are options of --disparity: give it, too.")
        return None
    if focal is None and camera is not None:
        focal = float(camera[0, 0])
    if baseline is None or focal is None:
        raise ConfigError("--disparity needs --baseline METERS, and --focal PIXELS or --intrinsics FX FY CX CY.")
    return Stereo(baseline, focal, offset)


def _camera(intrinsics: tuple[float, float, float, float] | None, camera: Path | None) -> Any:
    from omnidc.errors import ConfigError

    if intrinsics is None and camera is None:
        return None
    from omnidc.geometry.camera import check_intrinsics
    from omnidc.io.calibration import read_intrinsics

    if intrinsics is not None and camera is not None:
        raise ConfigError("Give --intrinsics or --camera, not both.")
    return check_intrinsics(intrinsics) if camera is None else read_intrinsics(camera)
