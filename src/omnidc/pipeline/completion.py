"""`Completion`: the result of one view, and its file formats."""

from __future__ import annotations

import base64
import io
import os
import warnings
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from omnidc.errors import ConfigError, FileError, InputError, require_torch
from omnidc.frame import Frame, Unit
from omnidc.geometry.camera import check_intrinsics, unproject
from omnidc.geometry.surface import SKY_PROBABILITY, kept_pixels
from omnidc.io.depth import CODECS, write_depth
from omnidc.io.files import atomic_path, write_json
from omnidc.io.images import write_picture
from omnidc.io.mesh import write_glb
from omnidc.io.pointcloud import write_ply
from omnidc.pipeline.maps import Maps
from omnidc.pipeline.options import CompleteOptions
from omnidc.viz.preview import preview

if TYPE_CHECKING:
    from torch import Tensor

FloatMap = npt.NDArray[np.float32]

SKY_CONFIDENCE = 0.5  # a pixel that was measured with more confidence is not sky
MAX_RESIDUAL = 1e-2  # relative, of the normal equations: above it the result is warned of

PREVIEW_SUFFIXES = (".jpg", ".jpeg", ".webp")
CLOUD_SUFFIXES = (".ply", ".glb")


@dataclass(frozen=True)
class RunDetails:
    """How a result was computed; goes into the metadata.

    unit_reason: which unit was assumed, and why. computed_width, computed_height: the working size. tile: side of the
    tiles in pixels; None = without tiles. solver_residual: ‖r‖ / ‖b‖ of the normal equations at the end.
    """

    model: str = ""
    keep_input: str = ""
    unit_reason: str = ""
    computed_width: int = 0
    computed_height: int = 0
    tile: int | None = None
    solver_iterations: int = 0
    solver_residual: float = 0.0


@dataclass(eq=False, repr=False)
class Completion:
    """Dense depth of one view. Maps have the size of the image that was given.

    depth: float32 [H, W] > 0, z-depth in the unit of the input; relative, around 1, where `relative` is True. 0 where
        the frame's mask, `sky` or `max_uncertainty` dropped a pixel.
    uncertainty: float32 [H, W] > 0, Laplace scale b of the depth in the same unit, so that |error| ≤ b ln 20 holds for
        95 % of the pixels of a calibrated network; None where the network has no such head.
    input_confidence: float32 [H, W] in [0, 1], the confidence in each measurement; NaN where there is none.
    sparse: float32 [H, W], the measurements as they were used (z-depth, 0 = none).
    image: uint8 [H, W, 3], RGB.
    intrinsics: float64 [3, 3] or None.
    unit: of the depth.
    sky: float32 [H, W] in [0, 1], probability that a pixel has no depth; None where the network does not predict it.
    returns: points of the sensor, as in `Frame`.
    warnings: what the user should know, each a sentence.
    details: how it was computed.

    >>> import tempfile
    >>> import omnidc
    >>> image, sparse = np.zeros((48, 64, 3), np.uint8), np.zeros((48, 64), np.float32)
    >>> sparse[::12, ::12] = 2.0
    >>> result = omnidc.load("interpolate").complete(image, sparse, intrinsics=(60, 60, 31.5, 23.5))
    >>> result.relative, result.metadata()["unit"], result.preview().ndim
    (False, "input's unit", 3)
    >>> bool(np.nanmax(np.abs(result.residual)) < 1e-3)
    True
    >>> points, colors = result.points()
    >>> points.shape, colors.shape, tuple(result.to_torch().shape)
    ((3072, 3), (3072, 3), (1, 1, 48, 64))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(f"{folder}/depth.png").name, result.save_maps(f"{folder}/maps.npz").name
    ('depth.png', 'maps.npz')
    """

    depth: FloatMap
    uncertainty: FloatMap | None
    input_confidence: FloatMap
    sparse: FloatMap
    image: npt.NDArray[np.uint8]
    intrinsics: npt.NDArray[np.float64] | None = None
    unit: Unit = Unit.METERS
    warnings: tuple[str, ...] = ()
    details: RunDetails = RunDetails()
    sky: FloatMap | None = None
    returns: int | None = None

    @classmethod
    def from_maps(cls, frame: Frame, maps: Maps, options: CompleteOptions, model: str) -> Completion:
        """Apply the options that change or drop pixels, in this order: sky, clip_depth, max_uncertainty, mask."""
        depth = maps.depth
        if maps.sky is not None and options.sky != "keep":
            no_depth = is_sky(maps.sky, maps.confidence)
            far = depth[~no_depth].max(initial=0) if options.clip_depth is None else options.clip_depth
            depth = np.where(no_depth, np.float32(0 if options.sky == "mask" else far), depth)
        if options.clip_depth is not None:
            depth = np.minimum(depth, np.float32(options.clip_depth))
        if options.max_uncertainty is not None:
            if maps.uncertainty is None:
                raise ConfigError(f"The model {model} gives no uncertainty: leave out max_uncertainty.")
            depth = np.where(maps.uncertainty <= options.max_uncertainty * depth, depth, np.float32(0))
        if frame.mask is not None:
            depth = np.where(frame.mask, depth, np.float32(0))
        warnings = frame.warnings
        if maps.residual > MAX_RESIDUAL:
            warnings += (f"The integrator stopped at a relative residual of {maps.residual:.0e}: use with care.",)
        sparse = frame.measurements()
        return cls(
            depth=depth,
            uncertainty=maps.uncertainty,
            input_confidence=maps.confidence,
            sparse=sparse,
            image=frame.image,
            intrinsics=frame.intrinsics,
            unit=frame.unit if (sparse > 0).any() else Unit.RELATIVE,
            warnings=warnings,
            details=RunDetails(
                model=model,
                keep_input=options.keep_input,
                unit_reason=frame.unit_reason,
                computed_width=maps.working_size[1],
                computed_height=maps.working_size[0],
                tile=maps.tile,
                solver_iterations=maps.iterations,
                solver_residual=maps.residual,
            ),
            sky=maps.sky,
            returns=frame.returns,
        )

    @property
    def relative(self) -> bool:
        """True when there was no measurement, so that the scale is arbitrary."""
        return self.unit == Unit.RELATIVE

    @property
    def residual(self) -> FloatMap:
        """Result minus measurement, [H, W]; NaN where there is no measurement, or no result."""
        return np.where((self.sparse > 0) & (self.depth > 0), self.depth - self.sparse, np.nan).astype(np.float32)

    def points(
        self, intrinsics: Any = None, *, keep_flying_pixels: bool = False, **renamed: bool
    ) -> tuple[FloatMap, npt.NDArray[np.uint8]]:
        """Return the points [N, 3] in the camera's frame (x right, y down, z forward) and their colors [N, 3].

        Flying pixels at depth edges are left out unless `keep_flying_pixels`.
        """
        camera = self._camera(intrinsics)
        keep = kept_pixels(self.depth, _keep_flying(keep_flying_pixels, renamed))
        return unproject(self.depth, camera)[keep], self.image[keep]

    def to_torch(self, name: Literal["depth", "uncertainty", "input_confidence", "sparse"] = "depth") -> Tensor:
        """Return a copy of one map as a float32 tensor [1, 1, H, W]."""
        require_torch("A tensor")
        import torch

        values = getattr(self, name)
        if values is None:
            raise InputError(f"This model gives no {name}.")
        return torch.from_numpy(values.copy())[None, None]

    def __eq__(self, other: object) -> bool:
        """Compare all fields, arrays by their values; NaN equals NaN."""
        if not isinstance(other, Completion):
            return NotImplemented
        return all(_same(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    __hash__ = None  # type: ignore[assignment]  # arrays can change

    def __repr__(self) -> str:
        height, width = self.depth.shape
        extent = _range(self.depth)
        text = "no depth" if extent is None else "depth {min:.3g} / {median:.3g} / {max:.3g}".format(**extent)
        unit = f" {self.unit.label}" if self.unit.label else ""
        points = int((self.sparse > 0).sum())
        return f"Completion({width}x{height}, {text}{unit} (min / median / max), {points:,} points)"

    def _repr_html_(self) -> str:
        """Show the preview in a notebook."""
        picture = base64.b64encode(_encode_picture(self.preview(), ".jpg")).decode()
        return f'<figure><img src="data:image/jpeg;base64,{picture}"><figcaption>{self!r}</figcaption></figure>'

    def preview(self) -> npt.NDArray[np.uint8]:
        """Draw a picture to look at: photograph with the points, colored depth, color bar. uint8 RGB."""
        sky = None if self.sky is None else is_sky(self.sky, self.input_confidence)
        return preview(self.image, self.depth, self.sparse, self.unit, sky=sky, returns=self.returns)

    def metadata(self) -> dict[str, Any]:
        """Return the numbers that belong to the files, ready for JSON."""
        from omnidc import __version__

        measured = (self.sparse > 0) & (self.depth > 0)
        data: dict[str, Any] = {
            "omnidc": __version__,
            "width": self.depth.shape[1],
            "height": self.depth.shape[0],
            "unit": self.unit.value,
            "points": int((self.sparse > 0).sum()),
            "depth": _range(self.depth),
            **asdict(self.details),
        }
        if measured.any():
            relative = np.abs(self.residual[measured]) / self.sparse[measured]
            data["input"] = _range(self.sparse[measured])
            data["residual_at_points"] = {
                "median_relative": float(np.median(relative)),
                "mean_absolute": float(np.abs(self.residual[measured]).mean()),
            }
            data["mean_input_confidence"] = float(self.input_confidence[measured].mean())
        if self.uncertainty is not None:
            data["uncertainty"] = _range(self.uncertainty)
        if self.intrinsics is not None:
            data["intrinsics"] = self.intrinsics.tolist()
        return {**data, "warnings": list(self.warnings)}

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        scale: float | None = None,
        keep_flying_pixels: bool = False,
        stride: int = 1,
        voxel: float | None = None,
        **renamed: bool,
    ) -> Path:
        """Write one file by its suffix and return its path. `stride` and `voxel` thin out a ply (`WriteOptions`).

        npy, npz, png (16 bits, × scale), exr, pfm, tiff: depth. ply, glb: points or surface (needs intrinsics).
        jpg, webp, and png whose name ends in "preview.png": the preview. json: the metadata.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        keep_flying_pixels = _keep_flying(keep_flying_pixels, renamed)
        if suffix in PREVIEW_SUFFIXES or path.name.lower().endswith("preview.png"):
            write_picture(path, self.preview())
        elif suffix == ".ply":
            write_ply(
                path,
                self.depth,
                self._camera(None),
                self.image,
                self.uncertainty,
                keep_flying_pixels=keep_flying_pixels,
                stride=stride,
                voxel=voxel,
            )
        elif suffix == ".glb":
            write_glb(path, self.depth, self._camera(None), self.image, keep_flying_pixels=keep_flying_pixels)
        elif suffix == ".json":
            write_json(path, self.metadata())
        elif suffix in CODECS:
            write_depth(path, self.depth, scale)
        else:
            check_suffix(path)
        return path

    def save_maps(self, path: str | os.PathLike[str]) -> Path:
        """Write the confidence maps: npz `input_confidence`, `uncertainty` and `sky`, other formats `uncertainty`."""
        path = Path(path)
        if path.suffix.lower() == ".npz":
            maps = {"input_confidence": self.input_confidence, "uncertainty": self.uncertainty, "sky": self.sky}
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **{name: values for name, values in maps.items() if values is not None})  # type: ignore[arg-type]
            with atomic_path(path) as temporary:
                temporary.write_bytes(buffer.getbuffer())
        elif self.uncertainty is None:
            raise InputError(
                f"This model gives no uncertainty; write {path.with_suffix('.npz')} for the input confidence."
            )
        else:
            write_depth(path, self.uncertainty)
        return path

    def _camera(self, intrinsics: Any) -> npt.NDArray[np.float64]:
        if intrinsics is not None:
            return check_intrinsics(intrinsics)
        if self.intrinsics is None:
            raise InputError("Points need the camera: give intrinsics (fx fy cx cy).")
        return self.intrinsics


def is_sky(
    probability: FloatMap,  # [H, W]
    confidence: FloatMap,  # [H, W], of the measurements; NaN = none
) -> npt.NDArray[np.bool_]:
    """Return the pixels [H, W] that have no depth: probably sky, and not measured with confidence."""
    return (probability > SKY_PROBABILITY) & ~(confidence > SKY_CONFIDENCE)


def _keep_flying(keep: bool, renamed: dict[str, bool]) -> bool:
    """Return `keep`, or the value of its old name `keep_edges`, which works for one release."""
    if not renamed:
        return keep
    if set(renamed) != {"keep_edges"}:
        raise TypeError(f"unexpected keyword argument {next(iter(renamed))!r}")
    warnings.warn("keep_edges is now keep_flying_pixels", DeprecationWarning, stacklevel=3)
    return renamed["keep_edges"]


def check_suffix(path: Path) -> None:
    """Raise unless `Completion.save` can write a file of this name."""
    known = (*CODECS, *CLOUD_SUFFIXES, *PREVIEW_SUFFIXES, ".json")
    if path.suffix.lower() not in known:
        raise FileError(f"{path} has no suffix that can be written ({', '.join(known)}).")


def _encode_picture(picture: npt.NDArray[np.uint8], suffix: str) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    kind = {".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}.get(suffix, "PNG")
    Image.fromarray(picture).save(buffer, format=kind, quality=92)
    return buffer.getvalue()


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
    return bool(type(first) is type(second) and first == second)


def _range(values: npt.NDArray[Any]) -> dict[str, float] | None:
    """Return the extent of the positive values; None where there is none."""
    values = values[values > 0]
    if not values.size:
        return None
    return {"min": float(values.min()), "median": float(np.median(values)), "max": float(values.max())}
