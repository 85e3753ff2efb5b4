"""Depth files: one table of codecs for reading and writing.

Read, a depth map is float32 [H, W] with 0 = no measurement. Files of whole numbers (16-bit PNG and TIFF, integer NumPy)
hold depth × scale; files of floating-point numbers hold depth itself, in the user's unit. Nothing is guessed silently:
`DepthFile.note` says which scale was taken and why.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError, InputError
from omnidc.frame import Unit
from omnidc.geometry.stereo import Stereo
from omnidc.io.files import atomic_path
from omnidc.io.untrusted import check_exr, check_pixels, open_picture, read_npy, read_npz, untrusted

Array = npt.NDArray[Any]
StrPath = str | os.PathLike[str]

# Our PNGs carry their scale in a text chunk of this name, so that reading one back needs no guess.
SCALE_KEY = "depth-scale"


@dataclass(frozen=True)
class DepthFile:
    """A depth map as read from a file."""

    depth: npt.NDArray[np.float32]  # [H, W] >= 0, 0 = no measurement
    note: str  # which scale was taken, and why; half a sentence for the sanity line
    scale: float  # what the stored numbers were divided by
    unit: Unit
    invalid: int = 0  # how many NaN and infinite values were turned into 0


@dataclass(frozen=True)
class Raw:
    """Numbers as they are stored."""

    values: Array  # [H, W]
    scale: float | None = None  # where the file itself names it
    meters: str = ""  # the encoding that they were decoded from to meters; empty = none


@dataclass(frozen=True)
class Codec:
    """How one kind of file is read and written. `read` may raise anything: `read_depth` makes it one sentence."""

    name: str
    read: Callable[[Path], Raw]
    write: Callable[[Path, Array, float], None]  # path, depth [H, W] float32, scale (only integer codecs use it)
    integer: bool = False  # stores whole numbers, depth × scale


# --- the codecs ---------------------------------------------------------------------------------------------------


def _read_npy(path: Path) -> Raw:
    return Raw(read_npy(path))


def _write_npy(path: Path, depth: Array, scale: float) -> None:
    with path.open("wb") as stream:
        np.lib.format.write_array(stream, np.ascontiguousarray(depth), allow_pickle=False)


def _read_npz(path: Path) -> Raw:
    arrays = read_npz(path)
    name = "depth" if "depth" in arrays else next(iter(arrays)) if len(arrays) == 1 else None
    if name is None:
        names = ", ".join(arrays)[:200] or "(none)"
        raise FileError(f"{path} holds the arrays {names}: name the depth map 'depth'.")
    return Raw(arrays[name].read())


def _write_npz(path: Path, depth: Array, scale: float) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, depth=depth)
    path.write_bytes(buffer.getbuffer())


def _read_picture(path: Path) -> Raw:
    """PNG, TIFF and PGM through Pillow, which (unlike OpenCV) refuses truncated files."""
    with open_picture(path, "a 16-bit PNG, TIFF or PGM", ("PNG", "TIFF", "PPM")) as picture:
        picture.load()
        mode = picture.mode
        text = str(picture.info.get(SCALE_KEY, ""))
        values = np.asarray(picture)
    if mode not in ("F", "I") and not mode.startswith("I;16"):
        kind = "an 8-bit gray picture" if mode in ("L", "1") else "a color picture"
        raise InputError(
            f"{path} is {kind}, which cannot hold depth: give the original depth as 16-bit PNG, npy, npz, EXR, PFM "
            "or TIFF (a color-mapped preview cannot be turned back)."
        )
    return Raw(values, _stored_scale(text))


def _read_png(path: Path) -> Raw:
    raw = _read_picture(path)
    if raw.scale is None and _is_rotated(raw.values):
        bits = raw.values.astype(np.uint16)
        return Raw(((bits >> 3) | (bits << 13)) / np.float32(1000), meters="SUN RGB-D's millimeters, rotated by 3 bits")
    return raw


def _is_rotated(values: Array) -> bool:
    """True for SUN RGB-D: millimeters rotated left by 3 bits, so that the low 3 bits are 0, or 1 beyond 8.192 m.

    Of plain millimeters a quarter has such bits; here all have them, at many different depths.
    """
    measured = values[values > 0]
    return measured.size > 0 and bool(((measured & 7) <= 1).all()) and len(np.unique(measured)) >= ROTATED_DEPTHS


ROTATED_DEPTHS = 50  # 0.25 to this power by chance


def _read_pgm(path: Path) -> Raw:
    with path.open("rb") as stream:
        comment = re.search(rb"^# " + SCALE_KEY.encode() + rb" (\S+)$", stream.read(200), re.MULTILINE)
    raw = _read_picture(path)
    swapped = raw.values.astype(np.uint16).byteswap()
    # NYU's raw files have the bytes of Kinect's 11-bit disparities in the wrong order.
    if comment is None and swapped.max() <= 2047 < raw.values.max():
        valid = swapped < 1092
        meters = np.where(valid, 351.3 / (1092.5 - np.where(valid, swapped, 0)), 0).astype(np.float32)
        return Raw(meters, meters="Kinect's raw disparities d as in NYU's files, 351.3 / (1092.5 - d)")
    return Raw(raw.values, None if comment is None else _stored_scale(comment[1].decode("latin-1")))


def _write_pgm(path: Path, depth: Array, scale: float) -> None:
    header = f"P5\n# {SCALE_KEY} {scale:g}\n{depth.shape[1]} {depth.shape[0]}\n65535\n"
    path.write_bytes(header.encode() + to_uint16(depth, scale).astype(">u2").tobytes())


def _stored_scale(text: str) -> float | None:
    """The scale that a PNG carries; None where it carries none, or a number that cannot be one."""
    scale = float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else 0.0
    return scale if 1e-6 <= scale <= 1e9 else None


def _write_png(path: Path, depth: Array, scale: float) -> None:
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    text = PngInfo()
    text.add_text(SCALE_KEY, f"{scale:g}")
    buffer = io.BytesIO()
    Image.fromarray(to_uint16(depth, scale)).save(buffer, format="PNG", pnginfo=text)
    path.write_bytes(buffer.getbuffer())


def _write_tiff(path: Path, depth: Array, scale: float) -> None:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(depth).save(buffer, format="TIFF", compression="tiff_adobe_deflate")
    path.write_bytes(buffer.getbuffer())


def _read_exr(path: Path) -> Raw:
    import OpenEXR

    check_exr(path)
    with OpenEXR.File(str(path), separate_channels=True) as file:
        channels = {name: np.array(channel.pixels) for name, channel in file.channels().items()}
    for name in ("Z", "Y", "depth", "depth.Z", "D", "V"):
        if name in channels:
            return Raw(channels[name])
    if "R" in channels:
        # Tools that know only color repeat depth in R, G and B; a real color picture has three different ones.
        for other in ("G", "B"):
            if other in channels and not np.array_equal(channels[other], channels["R"], equal_nan=True):
                raise InputError(f"{path} is a color picture, not a depth map: give an EXR with one channel, Z.")
        return Raw(channels["R"])
    if len(channels) == 1:
        return Raw(next(iter(channels.values())))
    raise FileError(f"{path} has the channels {', '.join(channels)}: none is named Z, so the depth is not known.")


def _write_exr(path: Path, depth: Array, scale: float) -> None:
    import OpenEXR

    header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
    try:
        OpenEXR.File(header, {"Z": np.ascontiguousarray(depth)}).write(str(path))
    except RuntimeError as error:  # its way of reporting the file system's errors
        raise OSError(str(error).rstrip(".")) from error


def _read_pfm(path: Path) -> Raw:
    """Portable float map: text header, then rows from the bottom up; a negative scale means little-endian."""
    data = path.read_bytes()
    header = re.match(rb"(P[Ff])\s+(\d+)\s+(\d+)\s+([-+.\deE]+)[ \t]*\r?\n", data)
    if header is None:
        raise ValueError("no PFM header")
    if header[1] == b"PF":
        raise InputError(f"{path} is a color PFM, not a depth map: give one with a single channel (Pf).")
    width, height = int(header[2]), int(header[3])
    check_pixels(width, height, path)
    values = np.frombuffer(data, "<f4" if float(header[4]) < 0 else ">f4", width * height, header.end())
    return Raw(values.reshape(height, width)[::-1])


def _write_pfm(path: Path, depth: Array, scale: float) -> None:
    height, width = depth.shape
    path.write_bytes(f"Pf\n{width} {height}\n-1.0\n".encode() + depth[::-1].astype("<f4").tobytes())


CODECS: dict[str, Codec] = {
    ".npy": Codec("NumPy array", _read_npy, _write_npy),
    ".npz": Codec("NumPy archive (key 'depth')", _read_npz, _write_npz),
    ".png": Codec("16-bit PNG", _read_png, _write_png, integer=True),
    ".exr": Codec("OpenEXR", _read_exr, _write_exr),
    ".pfm": Codec("portable float map", _read_pfm, _write_pfm),
    ".tiff": Codec("TIFF", _read_picture, _write_tiff),
    ".tif": Codec("TIFF", _read_picture, _write_tiff),
    ".pgm": Codec("16-bit PGM", _read_pgm, _write_pgm, integer=True),
}


# --- reading ------------------------------------------------------------------------------------------------------


def read_depth(path: StrPath, scale: float | None = None) -> DepthFile:
    """Read a depth file by its suffix; stored numbers are divided by `scale`, which is guessed when None."""
    path = Path(path)
    if scale is not None and not (np.isfinite(scale) and scale > 0):
        raise InputError(f"The depth scale must be a positive number, not {scale:g}.")
    raw = _read_raw(path)
    values = as_map(raw.values, str(path))
    if raw.meters:
        guess, note, unit = 1.0, f"meters, from {raw.meters}", Unit.METERS
    elif scale is not None:
        guess, note, unit = (
            float(scale),
            f"stored numbers ÷ {scale:g}, as asked",
            Unit.METERS if scale > 1 else Unit.UNKNOWN,
        )
    elif raw.scale is not None:
        guess, note, unit = raw.scale, f"meters, stored × {raw.scale:g} as the file itself says", Unit.METERS
    elif values.dtype.kind == "f":
        guess, note, unit = 1.0, "floating-point file, taken as it is", Unit.UNKNOWN
    else:
        guess, note, unit = guess_scale(values, path)
    depth, invalid = clean_depth(values, guess, str(path))
    return DepthFile(depth, note, guess, unit, invalid)


_DISPARITY = re.compile(r"(?<![a-z])disp(arity|arities)?(?![a-z])")


def is_disparity(path: Path) -> bool:
    """True where the name of a file or of its folder says disparity: `0001_disp.png`, `disp_occ_0/0001.png`."""
    return any(_DISPARITY.search(name.lower()) for name in (path.stem, path.parent.name))


def refuse_disparity(path: Path, remedy: str = "give --disparity with --baseline and --focal") -> None:
    """Raise where a file of disparities would be taken for depth."""
    if is_disparity(path):
        raise InputError(f"{path} holds disparities, going by its name: {remedy}, or rename it if it is depth.")


def read_disparity(path: StrPath, stereo: Stereo, scale: float | None = None) -> DepthFile:
    """Read a disparity map (pixels × scale) as depth; None: × 256 for whole numbers, as KITTI does, 1 otherwise."""
    path = Path(path)
    if scale is not None and not (np.isfinite(scale) and scale > 0):
        raise InputError(f"The scale of the disparities must be a positive number, not {scale:g}.")
    values = as_map(_read_raw(path).values, str(path))
    divisor = scale or (1.0 if values.dtype.kind == "f" else 256.0)
    depth = stereo.depth(values / divisor)
    depth, invalid = clean_depth(depth, 1.0, str(path))
    note = f"meters, {stereo.focal:g} px × {stereo.baseline:g} m / disparity, stored × {divisor:g}"
    return DepthFile(depth, note, divisor, Unit.METERS, invalid)


def _read_raw(path: Path) -> Raw:
    codec = CODECS.get(path.suffix.lower())
    if not path.exists():
        raise FileError(f"{path} does not exist.")
    if path.is_dir():
        raise FileError(f"{path} is a folder, not a depth file.")
    if codec is None:
        raise FileError(
            f"{path} is not a depth file that is known here ({_suffixes()}): convert it, or give the right file."
        )
    with untrusted(path, f"a {codec.name} file", "export it again"):
        return codec.read(path)


def as_map(values: Array, name: str) -> Array:
    """[H, W] numbers from what was stored; axes of length 1 beside a map are dropped. `name` is for the sentence."""
    if values.dtype.kind not in "fiu":
        raise InputError(f"{name} holds {values.dtype} values, not numbers: give depth as float or 16-bit integers.")
    if values.dtype.itemsize == 1:
        raise InputError(f"{name} holds 8-bit numbers, too coarse for depth: give float or 16-bit depth.")
    shape = values.shape
    if values.ndim == 3 and 1 in (shape[0], shape[2]):
        values = values[0] if shape[0] == 1 else values[..., 0]
    elif values.ndim == 4 and shape[:2] == (1, 1):
        values = values[0, 0]
    if values.ndim == 3 and 3 in (values.shape[0], values.shape[2]):
        raise InputError(f"{name} has three channels like a color picture: give a depth map of shape [H, W].")
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"{name} has shape {list(shape)}: give a depth map of shape [H, W].")
    return values


def clean_depth(values: Array, scale: float, name: str) -> tuple[npt.NDArray[np.float32], int]:
    """Divide by the scale; NaN, infinite and subnormal values become 0 and are counted; negative ones are an error."""
    finite = np.isfinite(values)
    negative = finite & (values < 0)
    if negative.any():
        count = int(negative.sum())
        raise InputError(
            f"{name} holds {count} negative depth{'s' if count > 1 else ''} (lowest {values[negative].min():g}): "
            "write 0 where there is no measurement."
        )
    with np.errstate(over="ignore"):  # float64 beyond float32's range becomes infinite, which the next line catches
        depth = np.where(finite, values / scale, 0).astype(np.float32)
    # Subnormal numbers carry few digits: their logarithm would be wrong.
    finite &= np.isfinite(depth) & ((values == 0) | (depth >= np.finfo(np.float32).tiny))
    depth[~finite] = 0
    return depth, int(depth.size - finite.sum())


# What folder and file names say of integer depth; looked up in the last parts of the path, first match wins.
_NAMES: tuple[tuple[str, float, str], ...] = (
    (r"vkitti|virtual.?kitti", 100.0, "Virtual KITTI"),
    (r"kitti|velodyne_raw|groundtruth_depth|proj_depth", 256.0, "KITTI"),
    (r"(?<![a-z])void(?![a-z])", 256.0, "VOID"),
    (r"(?<![a-z])tum(?![a-z])|freiburg", 5000.0, "TUM RGB-D"),
)


def guess_scale(values: Array, path: Path) -> tuple[float, str, Unit]:
    """Scale of integer depth, the reason, and the unit: by name, then by size, then by the range of depth cameras."""
    hint = "; give --depth-scale if that is wrong"
    name = "/".join(path.parts[-5:]).lower()
    for pattern, scale, dataset in _NAMES:
        if re.search(pattern, name):
            return scale, f"meters, stored × {scale:g} as in {dataset}, going by the path{hint}", Unit.METERS
    height, width = values.shape
    if 350 <= height <= 376 and 1200 <= width <= 1242:
        if values.max() == 65535:
            return 100.0, f"meters, stored × 100 as in Virtual KITTI, going by size and sky{hint}", Unit.METERS
        return 256.0, f"meters, stored × 256 as in KITTI, going by the image size{hint}", Unit.METERS
    measured = values[values > 0]
    middle = float(np.median(measured)) if measured.size else 0.0
    if middle > 10_000:
        return (
            5000.0,
            f"meters, stored × 5000 as in TUM RGB-D, since millimeters would be {middle / 1000:.0f} m{hint}",
            Unit.METERS,
        )
    if 0 < middle < 50 and path.suffix.lower() in (".npy", ".npz"):
        return 1.0, f"whole numbers as small as {middle:g}, taken as they are{hint}", Unit.UNKNOWN
    return 1000.0, f"meters, stored as millimeters like depth cameras do{hint}", Unit.METERS


# --- writing ------------------------------------------------------------------------------------------------------


def write_depth(path: StrPath, depth: Array, scale: float | None = None) -> float:
    """Write depth [H, W] by suffix; return the scale that was stored (1 for floating-point files).

    For 16-bit PNG, `scale` None takes the finest of 1000 (millimeters), 256 and 100 that holds the largest depth.
    0 and NaN mean "no depth" and are written as 0 there.
    """
    path = Path(path)
    codec = CODECS.get(path.suffix.lower())
    if codec is None:
        raise FileError(f"{path} has no suffix that depth can be written to ({_suffixes()}).")
    depth = np.asarray(depth, np.float32)
    if depth.ndim != 2:
        raise InputError(f"A depth map has shape [H, W], not {list(depth.shape)}.")
    stored = choose_scale(depth, scale, path) if codec.integer else 1.0
    with atomic_path(path) as temporary:
        codec.write(temporary, depth, stored)
    return stored


def choose_scale(depth: Array, scale: float | None, path: Path) -> float:
    """A scale at which depth fits into 16 bits, or an error that names one that would."""
    top = float(np.max(depth, initial=0, where=np.isfinite(depth)))
    if scale is not None and not (np.isfinite(scale) and scale > 0):
        raise InputError(f"The depth scale must be a positive number, not {scale:g}.")
    for candidate in (1000.0, 256.0, 100.0) if scale is None else (scale,):
        if top * candidate < 65535.5:
            return candidate
    raise InputError(
        f"Depth up to {top:g} does not fit into the 16 bits of {path}: write npy, EXR, PFM or TIFF, "
        f"or give a scale of at most {65535 / top:.3g}."
    )


def to_uint16(depth: Array, scale: float) -> npt.NDArray[np.uint16]:
    """depth × scale, rounded; a depth too small for the scale becomes 1, since 0 would say "none"."""
    valid = np.isfinite(depth) & (depth > 0)
    scaled = np.clip(np.rint(np.where(valid, depth, 0).astype(np.float64) * scale), 1, 65535)
    return np.where(valid, scaled, 0).astype(np.uint16)


def _suffixes() -> str:
    return ", ".join(CODECS)
