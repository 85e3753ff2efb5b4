"""`omnidc complete`, `omnidc demo`, `omnidc info`."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnidc.cli.models import DeviceOption, ModelOption, load_model

if TYPE_CHECKING:
    from omnidc.pipeline import Completion, DepthCompleter, Inputs

FORMATS = ("npy", "npz", "png", "exr", "pfm", "tiff", "ply", "glb", "preview")


class KeepInput(str, Enum):
    soft = "soft"
    hard = "hard"


class Resize(str, Enum):
    nearest = "nearest"


def register(app: typer.Typer) -> None:
    app.command("complete")(complete)
    app.command("demo")(demo)
    app.command("info")(info)


def complete(
    image: Annotated[Path, typer.Argument(help="Photograph, or a folder of them.")],
    sparse: Annotated[Path, typer.Argument(help="Sparse depth (npy, npz, 16-bit png, exr, pfm, tiff), or a folder.")],
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            help="File, written by its suffix (repeatable: -o depth.png -o cloud.ply), or a folder for all formats.",
        ),
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", "-f", help=f"What goes into an output folder (repeatable): {', '.join(FORMATS)}."),
    ] = None,
    depth_scale: Annotated[
        str, typer.Option(help="What stored depth is divided by: auto, 1, 100, 256, 1000, 5000 …")
    ] = "auto",
    png_scale: Annotated[
        float | None, typer.Option(help="What depth is multiplied by in a 16-bit png; default: 1000 if it fits.")
    ] = None,
    intrinsics: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(metavar="FX FY CX CY", help="Camera in pixels; needed for ply, glb and --ray-depth."),
    ] = None,
    camera: Annotated[Path | None, typer.Option(help="Camera from a file instead: txt, npy or json.")] = None,
    ray_depth: Annotated[bool, typer.Option("--ray-depth", help="The input is distance along the ray.")] = False,
    resize_sparse: Annotated[
        Resize | None, typer.Option(help="Move the points when the sparse map has another resolution.")
    ] = None,
    keep_input: Annotated[
        KeepInput, typer.Option(help="soft: the network may overrule points; hard: pass through all of them.")
    ] = KeepInput.soft,
    max_long_side: Annotated[
        int | None, typer.Option(help="Compute larger images at this size; without it, at what suits the model.")
    ] = None,
    tile: Annotated[str, typer.Option(help='Side of tiles for large images: "auto", "none" or pixels.')] = "auto",
    far: Annotated[float | None, typer.Option(help="Largest depth in the result.")] = None,
    prior: Annotated[
        str,
        typer.Option(help="Monocular depth or disparity to fuse with: a file, a folder, or module:callable."),
    ] = "",
    confidence: Annotated[
        Path | None,
        typer.Option(help="Write the confidence maps here: npz (both) or a depth format (uncertainty); or a folder."),
    ] = None,
    keep_edges: Annotated[bool, typer.Option("--keep-edges", help="Keep flying pixels in ply and glb.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Folders: skip what is already done.")] = False,
    model: ModelOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Complete sparse depth: one photograph, or a folder of them paired with depth files by name."""
    from omnidc.errors import ConfigError, FileError

    camera_matrix = _camera(intrinsics, camera)
    outputs = _Outputs(output, formats, confidence, png_scale, keep_edges)
    job = _Job(
        inputs={
            "intrinsics": camera_matrix,
            "depth_scale": _depth_scale(depth_scale),
            "ray_depth": ray_depth,
            "resize_sparse": resize_sparse is not None,
        },
        options={
            "keep_input": keep_input.value,
            "max_long_side": max_long_side,
            "tile": _tile(tile),
            "far": far,
        },
        outputs=outputs,
        prior=prior,
    )
    if not image.exists():
        raise FileError(f"{image} does not exist.")
    if not sparse.exists():
        raise FileError(f"{sparse} does not exist.")
    if image.is_dir() != sparse.is_dir():
        raise ConfigError("Give two files or two folders: one of IMAGE and SPARSE is a folder, the other is not.")
    outputs.check_camera(camera_matrix is not None)
    if image.is_dir():
        job.run_folder(image, sparse, model, device, resume)
    else:
        job.run_single(image, sparse, model, device)


class _Outputs:
    """Which files one view becomes."""

    def __init__(
        self,
        output: list[Path] | None,
        formats: list[str] | None,
        confidence: Path | None,
        png_scale: float | None,
        keep_edges: bool,
    ) -> None:
        from omnidc.errors import ConfigError

        self.confidence, self.png_scale, self.keep_edges = confidence, png_scale, keep_edges
        given = output or []
        self.files = [path for path in given if path.suffix and not path.is_dir()]
        folders = [path for path in given if path not in self.files]
        if len(folders) > 1:
            raise ConfigError(f"Give one output folder, not {len(folders)}.")
        self.folder: Path | None = folders[0] if folders else None
        self.formats = [name.strip().lower().lstrip(".") for entry in formats or () for name in entry.split(",")]
        for name in self.formats:
            if name not in FORMATS:
                raise ConfigError(f"The format {name!r} is not known: choose from {', '.join(FORMATS)}.")
        if self.formats and self.files and self.folder is None:
            raise ConfigError("--format is for an output folder; with -o FILE the suffix says the format.")
        self.formats = self.formats or ["npy", "preview"]

    def check_camera(self, known: bool) -> None:
        """Before any work: do the formats need a camera that was not given?"""
        from omnidc.errors import InputError
        from omnidc.pipeline.completion import CLOUD_SUFFIXES, check_suffix

        for path in self.files:
            check_suffix(path)
        clouds = [str(path) for path in self.files if path.suffix.lower() in CLOUD_SUFFIXES]
        clouds += [name for name in self.formats if f".{name}" in CLOUD_SUFFIXES]
        if clouds and not known:
            raise InputError(f"Points ({clouds[0]}) need the camera: give --intrinsics FX FY CX CY or --camera FILE.")

    def paths(self, folder: Path, stem: str) -> list[Path]:
        return [folder / (f"{stem}_preview.jpg" if name == "preview" else f"{stem}.{name}") for name in self.formats]

    def save(self, result: Completion, paths: list[Path]) -> None:
        for path in paths:
            scale = self.png_scale if path.suffix.lower() == ".png" else None
            result.save(path, scale=scale, keep_edges=self.keep_edges)


class _Job:
    """What to do with each view; the same for one and for many."""

    def __init__(self, inputs: dict[str, Any], options: dict[str, Any], outputs: _Outputs, prior: str = "") -> None:
        from omnidc.pipeline.prior import open_prior

        self.inputs, self.options, self.outputs = inputs, options, outputs
        self.prior = open_prior(prior) if prior else None

    def complete(self, completer: DepthCompleter, given: Inputs, image: Path) -> Completion:
        """The result for one view, fused with its prior where there is one."""
        from omnidc.pipeline.prior import fuse_completion

        [result] = completer.complete_inputs([given], **self.options)
        if self.prior is None:
            return result
        fused: Completion = fuse_completion(result, result.sparse, self.prior(image, result.image))
        return fused

    def prepare(self, image: Path, sparse: Path) -> Inputs:
        from omnidc.pipeline import prepare

        return prepare(image, sparse, **self.inputs)

    def run_single(self, image: Path, sparse: Path, model: str | None, device: str) -> None:
        outputs = self.outputs
        folder = outputs.folder
        if folder is None and not outputs.files:
            folder = Path(f"{image.stem}_omnidc")
        paths = list(outputs.files) if folder is None else [*outputs.files, *outputs.paths(folder, "depth")]
        maps = [] if outputs.confidence is None else [_maps_path(outputs.confidence, "depth")]
        _check_writable([*paths, *maps])

        given = self.prepare(image, sparse)
        typer.echo(f"input: {given.summary()}")
        _print_warnings(given.warnings)
        completer = load_model(model, device)
        result = self.complete(completer, given, image)
        _print_warnings(result.warnings[len(given.warnings) :])
        outputs.save(result, paths)
        for path in maps:
            result.save_maps(path)
        if folder is not None:
            paths.append(result.save(folder / "metadata.json"))
        typer.echo(f"result: {_describe(result)}")
        typer.echo(f"wrote {', '.join(str(path) for path in [*paths, *maps])}")

    def run_folder(self, images: Path, sparse: Path, model: str | None, device: str, resume: bool) -> None:
        import json

        from tqdm import tqdm

        from omnidc.errors import ConfigError, OmnidcError
        from omnidc.io.files import write_json

        outputs = self.outputs
        if outputs.files:
            raise ConfigError(
                f"For folders give an output folder, not the file {outputs.files[0]}; choose with --format."
            )
        folder = outputs.folder or images.with_name(f"{images.name}_omnidc")
        if outputs.confidence is not None and outputs.confidence.suffix:
            raise ConfigError(f"For folders --confidence is a folder, not the file {outputs.confidence}.")
        pairs = _pairs(images, sparse)
        _check_writable([folder / "metadata.json"])

        metadata = folder / "metadata.json"
        frames: dict[str, Any] = {}
        if resume and metadata.is_file():
            try:
                frames = json.loads(metadata.read_text(encoding="utf-8"))["frames"]
            except (ValueError, KeyError, OSError):
                typer.echo(f"warning: {metadata} cannot be read and is written anew.", err=True)
        todo = {}
        for stem, pair in pairs.items():
            paths = outputs.paths(folder, stem)
            maps = [] if outputs.confidence is None else [_maps_path(outputs.confidence, stem)]
            if not (resume and all(path.is_file() for path in [*paths, *maps])):
                todo[stem] = (*pair, paths, maps)
        if len(todo) < len(pairs):
            typer.echo(f"{len(pairs) - len(todo)} of {len(pairs)} are done already.")
        if not todo:
            return
        completer = load_model(model, device)
        failed: dict[str, str] = {}
        first = True
        try:
            with tqdm(todo.items(), unit="image", dynamic_ncols=True) as bar:
                for stem, (picture, depth, paths, maps) in bar:
                    try:
                        given = self.prepare(picture, depth)
                        if first or given.warnings:
                            bar.write(f"{stem}: {given.summary()}")
                            first = False
                        result = self.complete(completer, given, picture)
                        for warning in result.warnings:
                            bar.write(f"{stem}: {warning}")
                        outputs.save(result, paths)
                        for path in maps:
                            result.save_maps(path)
                        frames[stem] = result.metadata()
                    except OmnidcError as error:
                        failed[stem] = str(error)
        finally:  # also when the user stops it: --resume goes on from here
            write_json(metadata, {"frames": frames})
        typer.echo(f"{len(todo) - len(failed)} of {len(todo)} images completed into {folder}")
        for stem, reason in failed.items():
            typer.echo(f"failed: {stem}: {reason}", err=True)
        if failed:
            raise typer.Exit(1)


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path("omnidc_demo"),
    model: ModelOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Complete the bundled example and compare it with the truth."""
    import numpy as np

    import omnidc
    from omnidc.io.calibration import read_intrinsics
    from omnidc.io.depth import read_depth
    from omnidc.pipeline import prepare

    folder = Path(omnidc.__file__).parent / "examples"
    names = ("depth.npy", "depth.png", "depth_preview.png", "cloud.ply", "surface.glb", "metadata.json")
    paths = [output / name for name in names]
    _check_writable(paths)
    camera = read_intrinsics(folder / "room_intrinsics.txt")
    given = prepare(folder / "room.jpg", folder / "room_sparse.npz", camera)
    given.unit, given.note = "m", "metres, as the example says"
    typer.echo(f"input: {given.summary()}")
    completer = load_model(model, device)
    [result] = completer.complete_inputs([given])
    _print_warnings(result.warnings)
    for path in paths:
        result.save(path)
    truth = read_depth(folder / "room_depth.png").depth
    known = truth > 0
    error = np.abs(result.depth - truth)[known]
    relative = error / truth[known]
    typer.echo(f"result: {_describe(result)}")
    typer.echo(
        f"against the truth: mean error {100 * error.mean():.1f} cm or {100 * relative.mean():.1f} % of depth; "
        f"{100 * (relative < 0.25).mean():.1f} % of the pixels within 25 %"
    )
    typer.echo(f"wrote {', '.join(str(path) for path in paths)}")


def info(file: Annotated[Path, typer.Argument(help="Image, depth file or checkpoint.")]) -> None:
    """Say what a file holds: an image, a depth map (with the unit that would be assumed), or a checkpoint."""
    from omnidc.errors import FileError

    if not file.is_file():
        raise FileError(f"{file} is a folder, not a file." if file.is_dir() else f"{file} does not exist.")
    suffix = file.suffix.lower()
    if suffix == ".safetensors":
        lines = _describe_safetensors(file)
    elif suffix in (".pt", ".pth", ".ckpt"):
        lines = [f"a PyTorch checkpoint of {file.stat().st_size / 1e6:.1f} MB: turn it into ours with  omnidc convert"]
    else:
        lines = _describe_picture(file)
    for line in lines:
        typer.echo(line)


def _describe_picture(file: Path) -> list[str]:
    """Depth where it can be depth, a photograph otherwise; the error of the likelier one when it is neither."""
    from omnidc.errors import InputError, OmnidcError
    from omnidc.io.depth import CODECS, read_depth
    from omnidc.io.images import SUFFIXES, read_image

    suffix = file.suffix.lower()
    if suffix in CODECS:
        try:
            depth = read_depth(file)
        except InputError:
            if suffix not in SUFFIXES:
                raise
        else:
            import numpy as np

            from omnidc.pipeline.prepare import Inputs

            height, width = depth.depth.shape
            blank = np.zeros((height, width, 3), np.uint8)
            lines = [f"depth: {Inputs(blank, depth.depth, None, depth.unit, depth.note).summary()}"]
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
    """The header says it all: 8 bytes of length, then JSON."""
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


def _pairs(images: Path, sparse: Path) -> dict[str, tuple[Path, Path]]:
    """Photographs and depth files of the same stem, by name."""
    from omnidc.errors import FileError
    from omnidc.io.depth import CODECS
    from omnidc.io.images import SUFFIXES

    pictures = {p.stem: p for p in sorted(images.iterdir()) if p.suffix.lower() in SUFFIXES and p.is_file()}
    depths: dict[str, Path] = {}
    for path in sorted(sparse.iterdir()):
        if path.suffix.lower() in CODECS and path.is_file():
            depths.setdefault(path.stem, path)
    pairs = {stem: (pictures[stem], depths[stem]) for stem in pictures if stem in depths}
    if not pairs:
        raise FileError(
            f"No image of {images} ({len(pictures)} images) has a depth file of the same name in {sparse} "
            f"({len(depths)} depth files): pairs share the name before the suffix, as in 0001.jpg and 0001.npy."
        )
    if len(pairs) < len(pictures):
        typer.echo(
            f"{len(pictures) - len(pairs)} of {len(pictures)} images have no depth file and are left out.", err=True
        )
    return pairs


def _check_writable(paths: list[Path]) -> None:
    """Find out before the work, not after it, that a file cannot be written."""
    from omnidc.errors import FileError

    for folder in {path.parent for path in paths}:
        existing = folder
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        if not existing.is_dir():
            raise FileError(f"Cannot write into {folder}: {existing} is not a folder.")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise FileError(f"Cannot write into {folder}: permission denied. Choose another place with -o.")
    for path in paths:
        if path.is_dir():
            raise FileError(f"Cannot write {path}: it is a folder.")


def _maps_path(confidence: Path, stem: str) -> Path:
    return confidence if confidence.suffix else confidence / f"{stem}.npz"


def _depth_scale(text: str) -> float | None:
    from omnidc.errors import ConfigError

    if text == "auto":
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ConfigError(f"--depth-scale is auto or a positive number (1000 for millimetres), not {text!r}.")
    return value


def _tile(text: str) -> int | str | None:
    from omnidc.errors import ConfigError

    if text in ("auto", "none"):
        return None if text == "none" else text
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"--tile is auto, none or a number of pixels, not {text!r}.")
    return int(text)


def _camera(intrinsics: tuple[float, float, float, float] | None, camera: Path | None) -> Any:
    from omnidc.errors import ConfigError

    if intrinsics is None and camera is None:
        return None
    from omnidc.geometry.camera import check_intrinsics
    from omnidc.io.calibration import read_intrinsics

    if intrinsics is not None and camera is not None:
        raise ConfigError("Give --intrinsics or --camera, not both.")
    return check_intrinsics(intrinsics) if camera is None else read_intrinsics(camera)


def _print_warnings(warnings: list[str]) -> None:
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


def _describe(result: Completion) -> str:
    import numpy as np

    low, middle, high = (float(f(result.depth)) for f in (np.min, np.median, np.max))
    unit = "m" if result.unit == "m" else "(relative)" if result.relative else ""
    text = f"depth min {low:.3g}, median {middle:.3g}, max {high:.3g} {unit}".rstrip()
    if (result.sparse > 0).any():
        points = result.sparse > 0
        relative = np.abs(result.residual[points]) / result.sparse[points]
        text += f"; at the points off by {100 * float(np.median(relative)):.2g} % (median)"
    if result.uncertainty is not None:
        text += f"; uncertainty (Laplace scale) median {float(np.median(result.uncertainty)):.2g} {unit}".rstrip()
    return text
