"""`omnidc doctor`: how good is the result on this data, and what may be wrong with the input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnidc.cli.complete import Resize, _camera, parse_depth_scale
from omnidc.cli.models import load_model
from omnidc.cli.options import expand
from omnidc.cli.run import ModelOptions, describe

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from omnidc.diagnose import Diagnosis
    from omnidc.frame import Frame
    from omnidc.io.calibration import Calibration
    from omnidc.pipeline.source import NamedCompleter

SCANS = (".bin", ".pcd", ".ply", ".las", ".laz", ".xyz")


def register(app: typer.Typer) -> None:
    app.command("doctor")(expand(doctor))


def doctor(
    image: Annotated[Path, typer.Argument(help="Photograph.")],
    sparse: Annotated[Path, typer.Argument(help="Sparse depth of the same pixels, or with --calib a LiDAR scan.")],
    chosen: ModelOptions,
    calib: Annotated[
        Path | None, typer.Option(help="Calibration of a scan: KITTI text, or JSON/YAML with K and camera_from_lidar.")
    ] = None,
    columns: Annotated[int | None, typer.Option(help="Numbers per point of a .bin: KITTI 4, nuScenes 5.")] = None,
    depth_scale: Annotated[str, typer.Option(help="What stored depth is divided by: auto, 1, 256, 1000 …")] = "auto",
    intrinsics: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(metavar="FX FY CX CY", help="Camera in pixels; several checks need it."),
    ] = None,
    camera: Annotated[Path | None, typer.Option(help="Camera from a file instead: txt, npy or json.")] = None,
    ray_depth: Annotated[bool, typer.Option("--ray-depth", help="The input is distance along the ray.")] = False,
    resize_sparse: Annotated[
        Resize | None, typer.Option(help="Move the points when the sparse map has another resolution.")
    ] = None,
    ignore_exif: Annotated[
        bool, typer.Option("--ignore-exif", help="Take the photograph as stored; with --calib it always is.")
    ] = False,
    folds: Annotated[int, typer.Option(help="How often a tenth of the points is hidden; 0 runs no network.")] = 5,
    speed: Annotated[
        float | None, typer.Option(help="Speed of the camera along its axis, m/s: time offsets are printed in ms.")
    ] = None,
    best: Annotated[
        Path | None, typer.Option(help="Write depth mixed from network and linear interpolation by their fold errors.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the points before and after the correction of the calibration.")
    ] = None,
    write_calib: Annotated[Path | None, typer.Option(help="Write the corrected calibration of a scan (json).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Measure errors on your own points, and check unit, camera, calibration and noise before a bug report."""
    import json

    from omnidc import diagnose
    from omnidc.errors import InputError

    _check_options(folds, calib, best, picture, write_calib)
    frame, scan, calibration = _read(
        image,
        sparse,
        calib,
        columns,
        camera,
        intrinsics,
        depth_scale,
        ray_depth,
        resize_sparse is not None,
        ignore_exif,
    )
    if best is not None and best.suffix.lower() in (".ply", ".glb") and frame.intrinsics is None:
        raise InputError(f"Points ({best}) need the camera: give --intrinsics FX FY CX CY or --camera FILE.")
    describe(frame, lambda text, err=False: typer.echo(text, err=True))
    completer = load_model(chosen.model, chosen.device, chosen.runtime) if folds else None
    result = _diagnose(frame, completer, folds, scan, speed, quiet=as_json)
    typer.echo(json.dumps(diagnose.as_json(result), indent=2) if as_json else diagnose.as_text(result), nl=as_json)
    wrote = []
    if best is not None:
        wrote.append(_write_best(best, frame, completer, result))
    if picture is not None:
        wrote.append(_write_picture(picture, frame, result))
    if write_calib is not None and calibration is not None:
        wrote.append(_write_calibration(write_calib, calibration, frame, result))
    for line in wrote:
        typer.echo(line, err=as_json)


def _check_options(
    folds: int, calib: Path | None, best: Path | None, picture: Path | None, write_calib: Path | None
) -> None:
    """Raise before the work, not after it, where an output cannot be made."""
    from omnidc.errors import ConfigError
    from omnidc.pipeline.completion import check_suffix
    from omnidc.pipeline.sinks import check_writable

    if folds < 0:
        raise ConfigError(f"--folds is a number of folds, or 0 for none, not {folds}.")
    if best is not None and folds == 0:
        raise ConfigError("--best weighs the methods by their fold errors: give --folds of at least 1.")
    if write_calib is not None and calib is None:
        raise ConfigError("--write-calib corrects the calibration of a scan: give the scan with --calib.")
    if write_calib is not None and write_calib.suffix.lower() != ".json":
        raise ConfigError(f"--write-calib writes a .json, not {write_calib}.")
    if picture is not None and picture.suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp"):
        raise ConfigError(f"--picture writes a .png or .jpg, not {picture}.")
    if best is not None:
        check_suffix(best)
    check_writable([path for path in (best, picture, write_calib) if path is not None])


def _read(
    image: Path,
    sparse: Path,
    calib: Path | None,
    columns: int | None,
    camera: Path | None,
    intrinsics: tuple[float, float, float, float] | None,
    depth_scale: str,
    ray_depth: bool,
    resize_sparse: bool,
    ignore_exif: bool,
) -> tuple[Frame, npt.NDArray[np.float64] | None, Calibration | None]:
    """Return the frame, and for a scan its points and its calibration."""
    from omnidc.errors import ConfigError

    if calib is not None:
        from omnidc.io.calibration import read_calibration
        from omnidc.io.pointcloud import read_cloud
        from omnidc.sensors.lidar import LidarOptions, lidar_frame

        calibration = read_calibration(calib)
        options = LidarOptions(columns, ignore_exif=True)  # a corrected calibration is for the axes of the given one
        return lidar_frame(sparse, image, calibration, options), read_cloud(sparse, columns), calibration
    if sparse.suffix.lower() in SCANS:
        raise ConfigError(f"{sparse} is a scan: give --calib FILE (KITTI text, or JSON/YAML, see docs/bridges.md).")
    from omnidc.pipeline import make_frame

    frame = make_frame(
        image,
        sparse,
        _camera(intrinsics, camera),
        depth_scale=parse_depth_scale(depth_scale),
        ray_depth=ray_depth,
        resize_sparse=resize_sparse,
        ignore_exif=ignore_exif,
        name=image.stem,
    )
    return frame, None, None


def _diagnose(
    frame: Frame, completer: NamedCompleter | None, folds: int, scan: Any, speed: float | None, quiet: bool
) -> Diagnosis:
    from tqdm import tqdm

    from omnidc.diagnose import diagnose

    with tqdm(total=folds, unit="fold", dynamic_ncols=True, leave=False, disable=quiet or folds == 0) as bar:
        return diagnose(frame, completer, folds=max(folds, 1), scan=scan, speed=speed, progress=lambda: _step(bar))


def _step(bar: Any) -> None:
    bar.update(1)


def _write_best(path: Path, frame: Frame, completer: NamedCompleter | None, result: Diagnosis) -> str:
    from omnidc import diagnose
    from omnidc.errors import InputError
    from omnidc.pipeline import CompleteOptions

    if result.errors is None or completer is None:
        raise InputError("--best needs fold errors: there are too few points to hide some of them.")
    completion = completer.complete(frame, CompleteOptions())
    diagnose.best(completion, result.errors.points).save(path)
    return f"wrote {path}"


def _write_picture(path: Path, frame: Frame, result: Diagnosis) -> str:
    from omnidc.diagnose.report import calibration_picture
    from omnidc.io.images import write_picture

    alignment = result.examination.alignment
    if alignment is None or frame.sparse is None:
        return f"{path} was not written: the points have too few depth edges to find a correction."
    write_picture(path, calibration_picture(frame.image, frame.sparse, alignment.best, frame.intrinsics))
    return f"wrote {path}: above the points as given, below as corrected"


def _write_calibration(path: Path, calibration: Calibration, frame: Frame, result: Diagnosis) -> str:
    from omnidc.diagnose.calibration import CALIBRATION, corrected_extrinsics
    from omnidc.io.files import write_json

    alignment, K = result.examination.alignment, frame.intrinsics
    suspects = [finding.check for finding in result.examination.suspicions]
    if alignment is None or K is None or CALIBRATION not in suspects:
        return f"{path} was not written: no displacement stands out."
    extrinsics = corrected_extrinsics(calibration.camera_from_sensor, alignment.best, K)
    table: dict[str, Any] = {"K": calibration.K.tolist(), "camera_from_lidar": extrinsics.tolist()}
    if calibration.distortion is not None:
        table["distortion"] = calibration.distortion.tolist()
        table["model"] = "fisheye" if calibration.fisheye else "pinhole"
    if calibration.image_size is not None:
        table["image_size"] = list(calibration.image_size)
    write_json(path, table)
    return f"wrote {path}: use it with --calib"
