"""Sources and sinks behind URLs: folders and WebDataset shards on any file system of fsspec (S3, GCS, HTTP, local).

A shard is a tar file whose members share a key before the first dot: `0001.jpg` and `0001.npy` are a photograph and its
sparse depth. An index of offsets is read once, so that a frame needs two ranged reads.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from omnidc.errors import ConfigError, FileError, MissingExtraError
from omnidc.frame import Frame, LazyFrames
from omnidc.io.depth import CODECS
from omnidc.io.images import SUFFIXES
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.options import CompleteOptions, WriteOptions
from omnidc.pipeline.prepare import make_frame
from omnidc.pipeline.sinks import FolderSink

FRAMES_PER_SHARD = 256
SETTINGS = "_omnidc.json"  # beside the results: model and options, so that a run goes on only with the same


def as_url(path: str | Path) -> str | None:
    """Return the URL that a command-line path stands for; None for plain paths.

    `Path` turns "s3://bucket" into "s3:/bucket".
    """
    match = re.fullmatch(r"([a-z][a-z0-9+.-]+):/+(.*)", str(path))
    if match is None:
        return None
    return f"{match[1]}:///{match[2]}" if match[1] == "file" else f"{match[1]}://{match[2]}"


@dataclass(frozen=True)
class Place:
    """A folder of a file system, which is opened where it is used, so that places travel to other machines."""

    url: str

    def open(self) -> tuple[Any, str]:
        """Return the file system and the path on it."""
        try:
            import fsspec
        except ImportError as error:
            raise MissingExtraError("fsspec", "ray", "Reading and writing URLs") from error
        try:
            system, path = fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            raise ConfigError(f"{self.url} needs another package: {error}.") from error
        return system, str(path).rstrip("/")

    def list(self) -> dict[str, str]:
        """Return the paths of all files below, by their names relative to the folder."""
        system, root = self.open()
        with _reachable(self.url):
            # Listings are cached by some file systems; a resumed run must see what another process wrote.
            system.invalidate_cache()
            paths = system.find(root)
        return {str(path)[len(root) :].lstrip("/"): str(path) for path in paths}

    def read(self, name: str, start: int | None = None, end: int | None = None) -> bytes:
        system, root = self.open()
        with _reachable(f"{self.url}/{name}"):
            return bytes(system.cat_file(f"{root}/{name}" if name else root, start=start, end=end))

    def write(self, name: str, data: bytes) -> None:
        """Write a file whole: object stores do so by themselves, other file systems through a rename."""
        system, root = self.open()
        path = f"{root}/{name}"
        with _reachable(f"{self.url}/{name}"):
            if "file" in (system.protocol if isinstance(system.protocol, tuple) else (system.protocol,)):
                from omnidc.io.files import atomic_path

                with atomic_path(Path(path)) as temporary:
                    temporary.write_bytes(data)
            else:
                system.pipe_file(path, data)


class _reachable:  # noqa: N801
    """Turn what file systems raise into one sentence."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, OSError):  # also botocore's errors, which s3fs translates
            reason = " ".join(str(error).split())
            raise FileError(f"{self.what} cannot be reached ({reason}): check the address and the rights.") from error


def url_source(images: str, sparse: str, intrinsics: Any = None, **reading: Any) -> LazyFrames:
    """Pair the photographs below one URL with the depth files below another by their names before the suffix."""
    pictures = _by_stem(Place(images).list(), SUFFIXES)
    depths = _by_stem(Place(sparse).list(), tuple(CODECS))
    pairs = {stem: (pictures[stem], depths[stem]) for stem in pictures if stem in depths}
    if not pairs:
        raise FileError(
            f"No image below {images} ({len(pictures)} images) has a depth file of the same name below {sparse} "
            f"({len(depths)} depth files)."
        )
    lone = len(pictures) - len(pairs)
    notes = (f"{lone} of {len(pictures)} images have no depth file and are left out.",) if lone else ()
    return LazyFrames(
        {
            stem: partial(_url_frame, images, picture, sparse, depth, intrinsics, stem, reading)
            for stem, (picture, depth) in sorted(pairs.items())
        },
        notes,
    )


def shard_source(urls: Sequence[str], intrinsics: Any = None, **reading: Any) -> LazyFrames:
    """Open frames of WebDataset shards: of each key an image and a depth file."""
    loaders: dict[str, Callable[[], Frame]] = {}
    for url in urls:
        folder, _, name = url.rpartition("/")
        members = _index(Place(folder), name)
        keys: dict[str, dict[str, tuple[int, int]]] = {}
        for member, span in members.items():
            path = PurePosixPath(member)
            key, _, suffix = path.name.partition(".")
            keys.setdefault(str(path.with_name(key)), {})[f".{suffix.lower()}"] = span
        for key, files in keys.items():
            picture = next((suffix for suffix in files if suffix in SUFFIXES and suffix != ".png"), None)
            picture = picture or (".png" if ".png" in files else None)
            depth = next((suffix for suffix in files if suffix in CODECS and suffix != picture), None)
            if picture is None or depth is None:
                continue
            if key in loaders:
                raise FileError(f"The key {key} is in several shards; keys must differ within a dataset.")
            spans = (picture, *files[picture]), (depth, *files[depth])
            loaders[key] = partial(_shard_frame, folder, name, key, spans, intrinsics, reading)
    if not loaders:
        raise FileError(f"{urls[0] if urls else 'The list of shards'} holds no key with an image and a depth file.")
    return LazyFrames(loaders)


def expand_shards(url: str) -> list[str]:
    """Return the shards of a pattern with braces: "train-{000..012}.tar"."""
    match = re.fullmatch(r"(.*)\{(\d+)\.\.(\d+)\}(.*)", url)
    if match is None:
        return [url]
    first, last = int(match[2]), int(match[3])
    if last < first:
        raise ConfigError(f"The range of shards {match[2]}..{match[3]} runs backwards.")
    return [f"{match[1]}{number:0{len(match[2])}d}{match[4]}" for number in range(first, last + 1)]


class UrlSink:
    """Writes the files of each frame below a URL, its metadata last: a frame with metadata is whole."""

    def __init__(
        self,
        url: str,
        write: WriteOptions | None = None,
        model: str = "",
        options: CompleteOptions | None = None,
        *,
        resume: bool = False,
    ) -> None:
        self.place, self.options = Place(url), write or WriteOptions()
        self.settings = {"model": model, "options": asdict(options or CompleteOptions())}
        if "png" in self.options.formats and self.options.png_scale is None:
            raise ConfigError("16-bit png behind a URL needs --png-scale, since no frame is the first one there.")
        self.done: set[str] = set()
        if resume:
            self.done = {name[: -len(".json")] for name in self._check_settings() if name.endswith(".json")}

    def missing(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name not in self.done]

    def write(self, frame: Frame, completion: Completion) -> None:
        if not self.done:
            self.place.write(SETTINGS, json.dumps(self.settings).encode())
        for name, data in frame_files(frame, completion, self.options).items():
            self.place.write(name, data)
        self.done.add(frame.name)

    def close(self) -> None:
        pass

    def _check_settings(self) -> dict[str, str]:
        files = self.place.list()
        if SETTINGS in files:
            earlier = json.loads(self.place.read(SETTINGS))
            if earlier != json.loads(json.dumps(self.settings)):
                raise ConfigError(
                    f"{self.place.url} holds results of another model or other options: give the same, another place "
                    "with -o, or leave out --resume."
                )
        return {name: path for name, path in files.items() if name != SETTINGS}


class ShardSink(UrlSink):
    """Writes results as WebDataset shards of `FRAMES_PER_SHARD` frames; a shard appears when it is whole."""

    def __init__(self, url: str, *arguments: Any, frames_per_shard: int = FRAMES_PER_SHARD, **keywords: Any) -> None:
        self.frames_per_shard = frames_per_shard
        self._shards: list[str] = []
        super().__init__(url, *arguments, **keywords)
        self._buffer, self._count = io.BytesIO(), 0
        self._tar = tarfile.open(fileobj=self._buffer, mode="w")  # noqa: SIM115
        for shard in self._shards:
            members = _index(self.place, shard)
            self.done.update(name[: -len(".json")] for name in members if name.endswith(".json"))

    def write(self, frame: Frame, completion: Completion) -> None:
        if not self._shards and not self._count:
            self.place.write(SETTINGS, json.dumps(self.settings).encode())
        for name, data in frame_files(frame, completion, self.options).items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            self._tar.addfile(entry, io.BytesIO(data))
        self._count += 1
        self.done.add(frame.name)
        if self._count == self.frames_per_shard:
            self._flush()

    def close(self) -> None:
        self._flush()

    def _check_settings(self) -> dict[str, str]:
        self._shards = sorted(name for name in super()._check_settings() if name.endswith(".tar"))
        return {}

    def _flush(self) -> None:
        if self._count:
            self._tar.close()
            taken = [int(number) for name in self._shards if (number := Path(name).stem.rpartition("-")[2]).isdigit()]
            name = f"results-{max(taken, default=-1) + 1:06d}.tar"
            self.place.write(name, self._buffer.getvalue())
            self._shards.append(name)
            self._buffer, self._count = io.BytesIO(), 0
            self._tar = tarfile.open(fileobj=self._buffer, mode="w")  # noqa: SIM115


def frame_files(frame: Frame, completion: Completion, write: WriteOptions) -> dict[str, bytes]:
    """Return the files of one result by name, its metadata last."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sink = FolderSink(folder, write)
        sink.write(frame, completion)
        files = {str(path.relative_to(folder)): path.read_bytes() for path in sink.paths(frame.name)}
        record = json.dumps(sink.frames[frame.name], ensure_ascii=False).encode()
    return {**files, f"{frame.name}.json": record}


def _by_stem(files: dict[str, str], suffixes: Sequence[str]) -> dict[str, str]:
    """Return the names below a folder by their stems, "left/0001" for "left/0001.jpg"."""
    chosen: dict[str, str] = {}
    for name in sorted(files):
        path = PurePosixPath(name)
        if path.suffix.lower() in suffixes:
            chosen.setdefault(str(path.with_suffix("")), name)
    return chosen


def _url_frame(
    images: str, picture: str, sparse: str, depth: str, intrinsics: Any, stem: str, reading: dict[str, Any]
) -> Frame:
    parts = ((picture, Place(images).read(picture)), (depth, Place(sparse).read(depth)))
    return _frame_of_bytes(parts, intrinsics, stem, reading)


def _shard_frame(
    folder: str, shard: str, key: str, spans: Sequence[tuple[str, int, int]], intrinsics: Any, reading: dict[str, Any]
) -> Frame:
    place = Place(folder)
    parts = [(f"{key}{suffix}", place.read(shard, start, start + size)) for suffix, start, size in spans]
    return _frame_of_bytes(parts, intrinsics, key, reading)


def _frame_of_bytes(parts: Sequence[tuple[str, bytes]], intrinsics: Any, name: str, reading: dict[str, Any]) -> Frame:
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for role, (file, data) in zip(("image", "sparse"), parts):
            path = Path(folder) / role / PurePosixPath(file).name
            path.parent.mkdir()
            path.write_bytes(data)
            paths.append(path)
        return make_frame(paths[0], paths[1], intrinsics, name=name, **reading)


def _index(place: Place, shard: str) -> dict[str, tuple[int, int]]:
    """Return offset and size of each file of a tar."""
    system, root = place.open()
    try:
        with (
            _reachable(f"{place.url}/{shard}"),
            system.open(f"{root}/{shard}", "rb") as file,
            tarfile.open(fileobj=file, mode="r:") as tar,
        ):
            return {member.name: (member.offset_data, member.size) for member in tar if member.isfile()}
    except tarfile.TarError as error:
        raise FileError(f"{place.url}/{shard} is not a readable tar file ({error}).") from error
