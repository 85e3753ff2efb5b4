"""Our own frames on disk: shards of rendered views.

A shard is an uncompressed tar that WebDataset reads too. Each frame has a key and up to five members:

    KEY.jpg         the photograph, 4:4:4, quality 95
    KEY.depth.png   16-bit log depth: 0 = unknown or sky, else d = exp(lo + (k − 1) / 65534 · (hi − lo))
    KEY.normal.png  optional, 16-bit: 0 = unknown, else n = 2 (k − 1) / 65534 − 1 for x, y, z as R, G, B
    KEY.sky.png     optional, 8-bit: 255 where the sky is seen
    KEY.json        version, lo, hi, width, height, intrinsics (or null), sky (its share, or null), meta

lo and hi are the logarithms of the frame's own nearest and farthest depth, so the error of a depth is below 0.05 %
(half a step: 8e-5 when a frame spans 5 cm to 3 km). Keys are SCENE_VIEW: what comes before the last underscore names
the scene, and training holds out whole scenes by it.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import tarfile
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError, InputError
from omnidc.frame import Frame
from omnidc.io.files import atomic_path
from omnidc.io.untrusted import check_encoded

VERSION = 1
JPEG_QUALITY = 95
PNG = (cv2.IMWRITE_PNG_COMPRESSION, 6)  # OpenCV's own choice writes half as much again
STEPS = 65534  # the largest code is 1 + STEPS = 65535
MAX_RANGE = STEPS * 1e-3  # ln(farthest / nearest) above which half a step would exceed 0.05 %

_KEY = re.compile(r"[A-Za-z0-9_\-]+")
_TAR_END = 1024  # an archive that is whole ends with two empty blocks


def encode_log_depth(
    depth: npt.NDArray[np.floating[Any]],  # [H, W], 0 or not finite = unknown
) -> tuple[npt.NDArray[np.uint16], float, float]:
    """Return codes [H, W] and lo, hi. Depth that is unknown, not finite or not positive becomes code 0."""
    values = np.asarray(depth, dtype=np.float64)
    known = np.isfinite(values) & (values > 0)
    codes = np.zeros(values.shape, dtype=np.uint16)
    if not known.any():
        return codes, 0.0, 0.0
    logs = np.log(values[known])
    lo, hi = float(logs.min()), float(logs.max())
    if hi - lo > MAX_RANGE:
        raise InputError(
            f"Depth from {math.exp(lo):.3g} to {math.exp(hi):.3g} is too wide for 16-bit log depth; set outliers to 0."
        )
    span = hi - lo or 1.0
    codes[known] = 1 + np.rint((logs - lo) / span * STEPS).astype(np.uint16)
    return codes, lo, hi


@lru_cache(maxsize=1)
def _table(lo: float, hi: float) -> npt.NDArray[np.float32]:
    table = np.exp(lo + (np.arange(STEPS + 2) - 1) / STEPS * (hi - lo)).astype(np.float32)
    table[0] = 0.0
    table.setflags(write=False)
    return table


def decode_log_depth(codes: npt.NDArray[np.uint16], lo: float, hi: float) -> npt.NDArray[np.float32]:
    """Decode 16-bit codes to depth [H, W]; 0 stays 0 = unknown."""
    return _table(lo, hi)[codes]


def encode_normals(
    normals: npt.NDArray[np.floating[Any]],  # [H, W, 3], camera axes, 0 = unknown
) -> npt.NDArray[np.uint16]:
    """Encode unit normals as codes [H, W, 3]."""
    known = np.isfinite(normals).all(axis=2) & (np.abs(normals).max(axis=2) > 0)
    scaled = np.clip((np.nan_to_num(normals) + 1) / 2, 0, 1) * STEPS
    return np.where(known[..., None], 1 + np.rint(scaled), 0).astype(np.uint16)


def decode_normals(codes: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """Decode unit normals [H, W, 3]; (0, 0, 0) = unknown."""
    normals = 2 * (codes.astype(np.float32) - 1) / STEPS - 1
    return np.where(codes.max(axis=2, keepdims=True) > 0, normals, np.float32(0)).astype(np.float32)


def scene_of(key: str) -> str:
    """Return the scene that a key SCENE_VIEW belongs to; a key without underscore is a scene of its own."""
    return key.rpartition("_")[0] or key


def _encode(suffix: str, array: npt.NDArray[Any], *options: int) -> bytes:
    done, data = cv2.imencode(suffix, array, list(options))
    if not done:  # pragma: no cover - OpenCV refuses only formats it was built without
        raise InputError(f"OpenCV cannot encode {suffix} of {array.dtype} {list(array.shape)}.")
    return bytes(data.tobytes())


def _decode(data: bytes, flags: int, origin: str) -> npt.NDArray[Any]:
    check_encoded(data, origin)
    array = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), flags)
    if array is None:
        raise FileError(f"Cannot decode {origin}: the data is damaged; render or copy it again.")
    return np.asarray(array)


def _decode_photo(data: bytes, origin: str) -> npt.NDArray[np.uint8]:
    bgr = _decode(data, cv2.IMREAD_COLOR, origin)
    return np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), dtype=np.uint8)


class ShardWriter:
    """Write one shard; used as a context manager. The file appears under its name only when the block ends well."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._keys: set[str] = set()
        self._stack = ExitStack()
        self._tar: tarfile.TarFile | None = None

    def __enter__(self) -> ShardWriter:
        temporary = self._stack.enter_context(atomic_path(self.path))
        self._tar = self._stack.enter_context(tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._tar = None
        return self._stack.__exit__(kind, error, trace)

    def __len__(self) -> int:
        return len(self._keys)

    def add(
        self,
        key: str,  # SCENE_VIEW
        image: npt.NDArray[np.uint8],  # [H, W, 3], RGB
        depth: npt.NDArray[np.floating[Any]],  # [H, W], z-depth in meters, 0 = unknown or sky
        intrinsics: npt.NDArray[np.floating[Any]] | None = None,  # [3, 3], pixel centers at integers
        normals: npt.NDArray[np.floating[Any]] | None = None,  # [H, W, 3], camera axes, 0 = unknown
        sky: npt.NDArray[np.bool_] | None = None,  # [H, W], True where the sky is seen; its depth must be 0
        meta: dict[str, Any] | None = None,  # whatever json can hold
    ) -> None:
        """Append one frame."""
        if self._tar is None:
            raise InputError(f"{self.path} is not open for writing; use `with ShardWriter(path) as shard`.")
        if not _KEY.fullmatch(key):
            raise InputError(f"Shard key {key!r} may hold only letters, digits, - and _ (SCENE_VIEW).")
        if key in self._keys:
            raise InputError(f"Shard key {key!r} is already in {self.path}; give every frame its own.")
        Frame(image=image, depth=np.asarray(depth, dtype=np.float32), name=key)  # checks types and sizes
        codes, lo, hi = encode_log_depth(depth)
        bgr = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
        sampling = (cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444)
        members = {
            "jpg": _encode(".jpg", bgr, cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY, *sampling),
            "depth.png": _encode(".png", codes, *PNG),
        }
        if normals is not None:
            if normals.shape != image.shape:
                raise InputError(f"Shard key {key!r}: normals must be {list(image.shape)}, not {list(normals.shape)}.")
            members["normal.png"] = _encode(".png", np.ascontiguousarray(encode_normals(normals)[..., ::-1]), *PNG)
        if sky is not None:
            if sky.shape != codes.shape or bool((codes[sky] > 0).any()):
                raise InputError(f"Shard key {key!r}: sky must be [H, W] like the depth, and the depth 0 in it.")
            members["sky.png"] = _encode(".png", sky.astype(np.uint8) * 255, *PNG)
        about = {
            "version": VERSION,
            "lo": lo,
            "hi": hi,
            "width": image.shape[1],
            "height": image.shape[0],
            "intrinsics": None if intrinsics is None else np.asarray(intrinsics, dtype=float).tolist(),
            "sky": None if sky is None else float(sky.mean()),
            "meta": meta or {},
        }
        # json last: a frame without it was cut off
        members["json"] = json.dumps(about, separators=(",", ":")).encode()
        for suffix, data in members.items():
            info = tarfile.TarInfo(f"{key}.{suffix}")
            info.size = len(data)
            self._tar.addfile(info, io.BytesIO(data))
        self._keys.add(key)


Span = tuple[int, int]  # offset and size of a member's data
AUXILIARY = ("normal.png", "sky.png")


def index_shard(path: Path) -> dict[str, dict[str, Span]]:
    """Return where each frame's members lie: key → suffix → (offset, size). A shard that was cut off is an error."""
    frames: dict[str, dict[str, Span]] = {}
    end = 0
    try:
        size = path.stat().st_size
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                end = member.offset_data + -(-member.size // 512) * 512
                key, _, suffix = member.name.rpartition("/")[2].partition(".")
                if member.isfile() and suffix:
                    frames.setdefault(key, {})[suffix] = (member.offset_data, member.size)
        with path.open("rb") as file:
            file.seek(end)
            whole = end + _TAR_END <= size and file.read(_TAR_END) == bytes(_TAR_END)
    except tarfile.TarError as error:
        raise FileError(f"Cannot read the shard {path}: {error}; render or copy it again.") from error
    except OSError as error:
        raise FileError(f"Cannot read the shard {path}: {error.strerror or error}.") from error
    if not whole:
        raise FileError(f"The shard {path} was cut off; render or copy it again.")
    for key, members in frames.items():
        missing = {"jpg", "depth.png", "json"} - members.keys()
        if missing:
            raise FileError(f"The shard {path} lacks {key}.{min(missing)}; it is not one of omnidc's shards.")
    return frames


def _tar_files(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            # names with a dot in front are shards that are still being written
            files += sorted(file for file in path.glob("*.tar") if not file.name.startswith("."))
        elif path.is_file():
            files.append(path)
        else:
            raise FileError(f"{path} is neither a shard (.tar) nor a folder of shards.")
    return files


class Shards(Sequence[Frame]):
    """Frames of shards with random access. The index is made once; the object is small and can be pickled for workers.

    `frame.name` is SHARD/KEY. `auxiliary`: the optional members to read; without any a frame takes half the time.
    """

    def __init__(
        self, paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], auxiliary: Collection[str] = AUXILIARY
    ) -> None:
        self.auxiliary = auxiliary
        given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        self.files = _tar_files(given)
        if not self.files:
            raise FileError(f"No shard (.tar) in {', '.join(map(str, given)) or 'an empty list'}.")
        self.keys: list[str] = []
        self._index: list[tuple[int, dict[str, Span]]] = []
        for number, file in enumerate(self.files):
            for key, members in index_shard(file).items():
                self.keys.append(key)
                self._index.append((number, members))

    def __len__(self) -> int:
        return len(self._index)

    @property
    def names(self) -> list[str]:
        """`frame.name` of every frame."""
        return [f"{self.files[number].stem}/{key}" for key, (number, _) in zip(self.keys, self._index)]

    @property
    def scenes(self) -> list[str]:
        """The scene of every frame."""
        return [scene_of(key) for key in self.keys]

    def meta(self, index: int) -> dict[str, Any]:
        """Return what the generator wrote down of a frame: world, lights, camera."""
        found: dict[str, Any] = json.loads(self._read(index, ("json",))["json"]).get("meta", {})
        return found

    def _read(self, index: int, suffixes: Collection[str]) -> dict[str, bytes]:
        """Return the files of a frame by suffix, those that exist of `suffixes`."""
        number, members = self._index[index]
        file, data = self.files[number], {}
        try:
            with file.open("rb") as handle:
                for suffix, (offset, size) in members.items():
                    if suffix in suffixes:
                        handle.seek(offset)
                        data[suffix] = handle.read(size)
        except OSError as error:
            raise FileError(
                f"Cannot read {self.keys[index]} of the shard {file}: {error.strerror or error}."
            ) from error
        return data

    def __getitem__(self, index: int) -> Frame:  # type: ignore[override]
        number, members = self._index[index]
        file, key = self.files[number], self.keys[index]
        data = self._read(index, [name for name in members if name not in AUXILIARY or name in self.auxiliary])
        origin = f"{key} of the shard {file}"
        try:
            about = json.loads(data["json"])
            version, lo, hi = about["version"], about["lo"], about["hi"]
        except (ValueError, KeyError, TypeError) as error:
            raise FileError(f"Cannot decode {origin}: {key}.json is damaged; render it again.") from error
        if version != VERSION:
            raise FileError(f"{origin} has format {version}, this omnidc reads {VERSION}: upgrade omnidc.")
        normals = sky = None
        if "normal.png" in data:
            normals = decode_normals(_decode(data["normal.png"], cv2.IMREAD_UNCHANGED, origin)[..., ::-1])
        if "sky.png" in data:
            sky = _decode(data["sky.png"], cv2.IMREAD_UNCHANGED, origin) > 0
        intrinsics = about.get("intrinsics")
        return Frame(
            image=_decode_photo(data["jpg"], origin),
            depth=decode_log_depth(_decode(data["depth.png"], cv2.IMREAD_UNCHANGED, origin), lo, hi),
            intrinsics=None if intrinsics is None else np.array(intrinsics, dtype=np.float64),
            name=f"{file.stem}/{key}",
            sky=sky,
            normals=normals,
        )


def open_frames(path: str | os.PathLike[str], auxiliary: Collection[str] = AUXILIARY) -> Shards:
    """Open a shard or a folder of shards. `auxiliary`: the optional members to read."""
    return Shards(path, auxiliary)
