"""Point clouds: .bin, .pcd, .ply, .npy, .las, .laz, .xyz and .csv in, binary PLY out."""

from __future__ import annotations

import mimetypes
import re
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError, InputError, MissingExtraError
from omnidc.geometry.camera import unproject
from omnidc.geometry.cloud import Cloud, voxel_downsample
from omnidc.geometry.surface import depth_normals, kept_pixels
from omnidc.geometry.transforms import Array
from omnidc.io.files import atomic_path
from omnidc.io.sandbox import Answer, Sandbox
from omnidc.io.untrusted import check_records, is_number, read_npy, read_text, untrusted


def read_cloud(
    path: Path,
    columns: int | None = None,  # of a .bin; None = 4 (KITTI: x y z intensity), or 5 for nuScenes' .pcd.bin
) -> Array:
    """Return the points [N, 3] of a scan. Points with NaN or infinite coordinates are left out."""
    if not path.is_file():
        raise FileError(f"There is no scan at {path}; check the path.")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        is_image = (mimetypes.guess_type(path.name)[0] or "").startswith("image/")
        order = " Give the scan first, then the photograph." if is_image else ""
        known = ", ".join(sorted(READERS))
        raise FileError(f"{path} is no point cloud that is known here; use one of {known}.{order}")
    if path.stat().st_size == 0:
        raise InputError(f"The scan {path} is empty.")
    with untrusted(path, f"a point cloud in the format {path.suffix.lower()}"):
        points = _bin(path, columns) if reader is _bin else reader(path)
    points = points[np.isfinite(points).all(axis=1)]
    # Scanners write "no return" as the origin.
    points = np.asarray(points[(points != 0).any(axis=1)])
    if len(points) == 0:
        raise InputError(f"The scan {path} is empty.")
    return points


def _bin(path: Path, columns: int | None = None) -> Array:
    width = columns or (5 if path.name.endswith(".pcd.bin") else 4)
    values = np.fromfile(path, dtype=np.float32)
    if path.stat().st_size % 4 or values.size % width or width < 3:
        raise InputError(
            f"{path} has {path.stat().st_size} bytes, no multiple of {width} floats of 4 bytes; "
            "say how many columns it has with --columns (KITTI 4, nuScenes 5, View-of-Delft radar 7)."
        )
    return np.asarray(values.reshape(-1, width)[:, :3], dtype=np.float64)


def _npy(path: Path) -> Array:
    values = read_npy(path, most=2**30)  # bounded by the file's own size, too
    if values.dtype.names:
        if not {"x", "y", "z"} <= set(values.dtype.names):
            raise InputError(f"{path} has the fields {', '.join(values.dtype.names)}, but x, y and z are needed.")
        return np.stack([values[name].ravel() for name in "xyz"], axis=1).astype(np.float64)
    values = values.reshape(-1, values.shape[-1]) if values.ndim == 3 else values
    if values.ndim != 2 or values.shape[1] < 3:
        raise InputError(f"{path} should be an array [N, 3 or more], but it is {list(values.shape)}.")
    return np.asarray(values[:, :3], dtype=np.float64)


def _text(path: Path) -> Array:
    """Read lines of x y z and more (.xyz, .csv): columns by the names in the first line, else the first three.

    A first line with a single number, the count of points, is left out, as are comments (#, //).
    """
    lines = [line for line in read_text(path, TEXT_BYTES).splitlines() if line.strip() and line.lstrip()[0] not in "#/"]
    rows = [re.split(r"[,;\s]+", line.strip().rstrip(",;")) for line in lines]
    if rows and len(rows[0]) == 1:
        rows = rows[1:]
    check_records(len(rows), path)
    places = [0, 1, 2]
    if rows and not is_number(rows[0][0]):
        names = [word.strip('"').lower() for word in rows[0]]
        if not {"x", "y", "z"} <= set(names):
            raise InputError(f"{path} has the columns {', '.join(names)[:80]}, but x, y and z are needed.")
        places, rows = [names.index(axis) for axis in "xyz"], rows[1:]
    return np.array([[float(row[place]) for place in places] for row in rows], dtype=np.float64).reshape(-1, 3)


TEXT_BYTES = 2**30  # of a cloud as text


def _ply(path: Path) -> Array:
    import plyfile

    with path.open("rb") as stream:
        header, end, _ = stream.read(2**16).partition(b"end_header")
    counts = [int(count) for count in re.findall(rb"^element \S+ (\d{1,18})\s*$", header, re.MULTILINE)]
    for count in counts:
        check_records(count, path)
    if not end or sum(counts) > path.stat().st_size:
        raise ValueError("no complete header, or fewer bytes than elements")
    vertex: Any = plyfile.PlyData.read(str(path))["vertex"]
    return np.stack([np.asarray(vertex[axis], dtype=np.float64) for axis in "xyz"], axis=1)


# Shortest record of each LAS point format, in bytes.
LAS_RECORDS = (20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67)


@dataclass(frozen=True)
class LasHeader:
    """The part of a LAS file's public header block that coordinates need."""

    start: int  # of the first record, bytes
    size: int  # of a record, bytes
    count: int
    scale: Array  # [3]
    offset: Array  # [3]


def read_las_header(path: Path) -> LasHeader:
    """Read and check the header of a LAS or LAZ file (LAS 1.0 to 1.4)."""
    with path.open("rb") as stream:
        data = stream.read(375)
    if data[:4] != b"LASF":
        raise ValueError("it does not start with LASF")
    minor, (header_size, start, records), (kind, size, count) = (
        data[25],
        struct.unpack_from("<HII", data, 94),
        struct.unpack_from("<BHI", data, 104),
    )
    if minor >= 4 and header_size >= 375:
        count = struct.unpack_from("<Q", data, 247)[0] or count
    kind &= 0x3F  # the upper bits say that the records are compressed
    if kind >= len(LAS_RECORDS) or size < LAS_RECORDS[kind]:
        raise ValueError(f"records of {size} bytes in point format {kind}")
    if header_size < 227 or not header_size + 54 * records <= start <= path.stat().st_size:
        raise ValueError("its header, variable records and points overlap or end early")
    check_records(count, path)
    scale, offset = np.frombuffer(data, "<f8", 6, 131).reshape(2, 3)
    if not (np.isfinite(scale) & (scale != 0) & np.isfinite(offset)).all():
        raise ValueError("scale factors or offsets that are no numbers")
    return LasHeader(start, size, count, scale, offset)


def _las(path: Path) -> Array:
    header = read_las_header(path)
    missing = header.start + header.count * header.size - path.stat().st_size
    if missing > 0:
        raise ValueError(f"{missing} bytes of its {header.count} points are missing")
    record = np.dtype({"names": ["xyz"], "formats": ["(3,)<i4"], "offsets": [0], "itemsize": header.size})
    stored = np.fromfile(path, record, header.count, offset=header.start)["xyz"]
    return stored * header.scale + header.offset


def _laz(path: Path) -> Array:
    try:
        import laspy  # noqa: F401
        import lazrs  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("laspy[lazrs]", "lidar", "Reading .laz files") from error
    header, size = read_las_header(path), path.stat().st_size
    # The records are allocated at once, before the first is unpacked.
    if header.count * header.size > max(LAZ_SMALL, LAZ_RATIO * size):
        raise ValueError(f"{header.count} points in {size} bytes")
    # Its decompressor aborts the process on some damaged files, and loops on others.
    with _LAZ_LOCK:
        _, [points] = _LAZ_SANDBOX.call("read_laz", path, timeout=LAZ_SECONDS + size / LAZ_BYTES_PER_SECOND)
    return points


def read_laz(path: Path) -> Answer:
    """Read the points of a compressed LAS file; runs in a sandbox."""
    import laspy

    with untrusted(path, "a LAZ file"):
        return {}, [np.asarray(laspy.read(path).xyz, dtype=np.float64)]


LAZ_SMALL = 2**26  # bytes of unpacked records that any file may claim
LAZ_RATIO = 1000  # unpacked bytes a packed byte of larger ones; clouds that sensors measured have 5 to 20
LAZ_SECONDS, LAZ_BYTES_PER_SECOND = 3.0, 2**20  # slower than any computer that reads LAZ
_LAZ_SANDBOX = Sandbox("omnidc.io.pointcloud", memory=16 * 2**30, imports=("laspy", "lazrs"))
_LAZ_LOCK = threading.Lock()


def _pcd(path: Path) -> Array:
    """Read Point Cloud Library files: ascii, binary, and binary_compressed (LZF, stored field by field)."""
    data = path.read_bytes()
    header: dict[str, list[str]] = {}
    position = 0
    while "DATA" not in header:
        end = data.find(b"\n", position)
        if end < 0:
            raise ValueError("no complete PCD header, no DATA line")
        words = data[position:end].decode("ascii", errors="replace").split()
        position = end + 1
        if words and not words[0].startswith("#"):
            header[words[0]] = words[1:]
    names = header["FIELDS"]
    counts = [int(word) for word in header.get("COUNT", ["1"] * len(names))]
    types = [np.dtype(PCD_TYPES[kind, size]) for kind, size in zip(header["TYPE"], header["SIZE"])]
    total = int(header["POINTS"][0]) if "POINTS" in header else int(header["WIDTH"][0]) * int(header["HEIGHT"][0])
    mode = header["DATA"][0].lower()
    if not {"x", "y", "z"} <= set(names):
        raise InputError(f"{path} has the fields {', '.join(names)}, but x, y and z are needed.")
    if not len(names) == len(counts) == len(types) == len(set(names)) or min(counts) < 1 or sum(counts) > 4096:
        raise ValueError("FIELDS, TYPE, SIZE and COUNT do not fit together")
    if total < 0:
        raise ValueError(f"{total} points")
    check_records(total, path)
    place = {name: index for index, name in enumerate(names)}
    if mode == "ascii":
        starts = np.cumsum([0, *counts])
        rows = [line.split() for line in data[position:].decode("ascii").splitlines() if line.strip()]
        if len(rows) < total:
            raise ValueError(f"{len(rows)} points where its header says {total}")
        columns = [starts[place[name]] for name in "xyz"]
        if any(len(row) != starts[-1] for row in rows[:total]):
            raise ValueError(f"a line that has not {starts[-1]} numbers")
        return np.array([[float(row[column]) for column in columns] for row in rows[:total]]).reshape(-1, 3)
    if mode == "binary":
        record = np.dtype([(f"{i}", kind, (count,)) for i, (kind, count) in enumerate(zip(types, counts))])
        table = np.frombuffer(data, dtype=record, count=total, offset=position)
        return np.stack([table[f"{place[name]}"][:, 0].astype(np.float64) for name in "xyz"], axis=1)
    if mode == "binary_compressed":
        packed, size = (int(value) for value in np.frombuffer(data, dtype="<u4", count=2, offset=position))
        body = lzf_decompress(data[position + 8 : position + 8 + packed], size)
        offsets = np.cumsum([0, *[kind.itemsize * count * total for kind, count in zip(types, counts)]])
        return np.stack(
            [
                np.frombuffer(body, types[place[name]], total * counts[place[name]], int(offsets[place[name]])).astype(
                    np.float64
                )[:: counts[place[name]]]
                for name in "xyz"
            ],
            axis=1,
        )
    raise ValueError(f"its data are stored as {mode!r}, not ascii, binary or binary_compressed")


def lzf_decompress(data: bytes, size: int) -> bytes:
    """Undo LibLZF: a byte < 32 announces that many + 1 literals, another a copy from up to 8 kB back."""
    out = bytearray()
    position = 0
    while position < len(data):
        control = data[position]
        position += 1
        if control < 32:
            out += data[position : position + control + 1]
            position += control + 1
            continue
        if len(out) > size:
            break
        length = control >> 5
        if length == 7:
            length += data[position]
            position += 1
        start = len(out) - ((control & 31) << 8) - data[position] - 1
        position += 1
        if start < 0:
            raise ValueError("a reference points before the data's start")
        length += 2
        if start + length <= len(out):
            out += out[start : start + length]
        else:  # the copy overlaps what it writes: a run
            piece = bytes(out[start:])
            out += (piece * (length // len(piece) + 1))[:length]
    if len(out) != size:
        raise ValueError(f"{len(out)} bytes unpacked where {size} were promised")
    return bytes(out)


PCD_TYPES = {
    **{("F", str(size)): f"<f{size}" for size in (4, 8)},
    **{("I", str(size)): f"<i{size}" for size in (1, 2, 4, 8)},
    **{("U", str(size)): f"<u{size}" for size in (1, 2, 4, 8)},
}

READERS: dict[str, Callable[[Path], Array]] = {
    ".bin": _bin,
    ".npy": _npy,
    ".ply": _ply,
    ".las": _las,
    ".laz": _laz,
    ".pcd": _pcd,
    ".xyz": _text,
    ".csv": _text,
}


def write_points(
    path: str | Path,
    points: npt.NDArray[np.floating],  # [N, 3]
    colors: npt.NDArray[np.uint8] | None = None,  # [N, 3]
    normals: npt.NDArray[np.floating] | None = None,  # [N, 3]
    uncertainty: npt.NDArray[np.floating] | None = None,  # [N]
    comment: str = "omnidc",
) -> None:
    """Write a binary PLY with whatever is known of each point."""
    import plyfile

    fields: list[tuple[str, str, npt.NDArray[np.generic]]] = [
        (axis, "<f4", points[:, i]) for i, axis in enumerate("xyz")
    ]
    if normals is not None:
        fields += [(f"n{axis}", "<f4", normals[:, i]) for i, axis in enumerate("xyz")]
    if colors is not None:
        fields += [(name, "u1", colors[:, i]) for i, name in enumerate(("red", "green", "blue"))]
    if uncertainty is not None:
        fields.append(("uncertainty", "<f4", uncertainty))
    table = np.empty(len(points), dtype=[(name, kind) for name, kind, _ in fields])
    for name, _, values in fields:
        table[name] = values
    vertices = plyfile.PlyElement.describe(table, "vertex")
    with atomic_path(path) as temporary:
        plyfile.PlyData([vertices], byte_order="<", comments=[comment]).write(str(temporary))


def write_ply(
    path: str | Path,
    depth: npt.NDArray[np.float32],  # [H, W]
    intrinsics: npt.NDArray[np.float64],
    colors: npt.NDArray[np.uint8],  # [H, W, 3]
    uncertainty: npt.NDArray[np.float32] | None = None,  # [H, W], Laplace scale, unit of the depth
    *,
    keep_flying_pixels: bool = False,
    stride: int = 1,  # every n-th pixel in both directions
    voxel: float | None = None,  # one point for each cell of this size; None = all points
) -> int:
    """Write a depth map as points with colors, normals and uncertainty; return their number.

    The frame is the camera's: x right, y down, z forward.
    """
    keep = np.zeros(depth.shape, dtype=bool)
    keep[::stride, ::stride] = kept_pixels(depth, keep_flying_pixels)[::stride, ::stride]
    cloud = Cloud(
        unproject(depth, intrinsics)[keep].astype(np.float64),
        colors[keep],
        depth_normals(depth, intrinsics)[keep],
        None if uncertainty is None else uncertainty[keep],
    )
    if voxel is not None:
        cloud = voxel_downsample(cloud, voxel)
    comment = "omnidc; camera frame: x right, y down, z forward"
    write_points(path, cloud.points, cloud.colors, cloud.normals, cloud.uncertainty, comment)
    return len(cloud.points)
