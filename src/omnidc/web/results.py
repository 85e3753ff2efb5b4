"""Results of the page: kept in memory for a while, and the files that can be downloaded of each."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from omnidc.io.files import atomic_path
from omnidc.io.images import write_picture
from omnidc.pipeline import Completion
from omnidc.web.errors import HttpError
from omnidc.web.responses import MEDIA_TYPES, Body, encode, file_body
from omnidc.web.settings import Settings
from omnidc.web.view import normal_colors, normal_map

KEPT_PER_PIXEL = 19  # bytes: four maps of float32, and the photograph


@dataclass(frozen=True)
class Kept:
    """A result, and what the browser was sent of it."""

    completion: Completion
    view: bytes
    camera_known: bool  # False: the camera of the completion was assumed


class ResultStore:
    """The last few results in memory, for a while, by names that cannot be guessed."""

    def __init__(self, settings: Settings, max_bytes: int) -> None:
        self._limit, self._seconds, self._max_bytes = settings.results, settings.result_seconds, max_bytes
        self._kept: OrderedDict[str, tuple[float, Kept]] = OrderedDict()

    def add(self, kept: Kept) -> str:
        name = secrets.token_urlsafe(18)
        self._kept[name] = time.monotonic(), kept
        self.tidy()
        return name

    def get(self, name: str) -> Kept:
        self.tidy()
        if name not in self._kept:
            raise HttpError("This result is no longer kept here: complete it again.", 404)
        return self._kept[name][1]

    def drop(self, name: str) -> None:
        self._kept.pop(name, None)

    def tidy(self) -> None:
        oldest = time.monotonic() - self._seconds
        while self._kept and (
            len(self._kept) > self._limit
            or next(iter(self._kept.values()))[0] < oldest
            or (
                len(self._kept) > 1
                and sum(KEPT_PER_PIXEL * kept.completion.depth.size for _, kept in self._kept.values())
                > self._max_bytes
            )
        ):
            self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)


def _save_uncertainty(result: Completion, path: Path) -> None:
    if result.uncertainty is None:
        raise HttpError(f"The model {result.details.model} gives no uncertainty.", 404)
    result.save_maps(path)


def _save_normals(result: Completion, path: Path) -> None:
    if result.intrinsics is None:
        raise HttpError("Normals need the camera.", 422)
    normals = normal_map(result.depth, result.intrinsics)
    if path.suffix == ".png":
        write_picture(path, normal_colors(normals))
        return
    with atomic_path(path) as temporary:
        np.save(temporary, normals)


def _save_mask(result: Completion, path: Path) -> None:
    """Write white where there is a depth, black where sky or an option left none: a mask by COLMAP's convention."""
    write_picture(path, np.where(result.depth > 0, 255, 0).astype(np.uint8))


# file name: media type, and what writes it
Writer = Callable[[Completion, Path], Any]
DOWNLOADS: dict[str, tuple[str, Writer]] = {
    "depth.exr": ("image/x-exr", Completion.save),
    "uncertainty.npy": (MEDIA_TYPES["npy"][0], _save_uncertainty),
    "uncertainty.exr": ("image/x-exr", _save_uncertainty),
    "normals.npy": (MEDIA_TYPES["npy"][0], _save_normals),
    "normals.png": ("image/png", _save_normals),
    "mask.png": ("image/png", _save_mask),
    "preview.jpg": ("image/jpeg", Completion.save),
}


def download(result: Completion, file: str) -> tuple[Body, str]:
    """Return the body of a download and its media type."""
    if file in DOWNLOADS:
        media_type, write = DOWNLOADS[file]
        return file_body(file, lambda path: write(result, path)), media_type
    stem, _, kind = file.rpartition(".")
    if stem != "depth" or kind not in MEDIA_TYPES:
        raise HttpError(f"There is no download {file[:20]!r}.", 404)
    return encode(result, kind), MEDIA_TYPES[kind][0]
