"""Tiny datasets in the documented layouts: everything a reader needs, nothing more."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

Depth = npt.NDArray[np.float32]


class Maker:
    """Writes the files of small datasets below `root`, always the same ones."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.rng = np.random.default_rng(5)

    def path(self, name: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def image(self, name: str, height: int = 12, width: int = 16) -> npt.NDArray[np.uint8]:
        """A random picture; lossless unless the name says JPEG."""
        picture = self.rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(picture).save(self.path(name), **({"quality": 95} if name.lower().endswith("jpg") else {}))
        return picture

    def depth(self, height: int = 12, width: int = 16, low: float = 1.0, high: float = 9.0) -> Depth:
        """Random depths, one pixel in five unknown (0); the first one is known."""
        depth = self.rng.uniform(low, high, (height, width)).astype(np.float32)
        depth[self.rng.random((height, width)) < 0.2] = 0
        depth[0, 0] = (low + high) / 2
        return depth

    def png16(self, name: str, depth: npt.NDArray[np.floating], per_unit: float) -> Depth:
        """A 16-bit PNG; returns the depth it holds."""
        stored = np.rint(depth * per_unit).astype(np.uint16)
        assert cv2.imwrite(str(self.path(name)), stored)
        return stored.astype(np.float32) / np.float32(per_unit)

    def npy(self, name: str, array: npt.NDArray[np.generic]) -> None:
        np.save(self.path(name), array)

    def pfm(self, name: str, depth: Depth) -> None:
        header = f"Pf\n{depth.shape[1]} {depth.shape[0]}\n-1.0\n".encode()
        self.path(name).write_bytes(header + depth[::-1].astype("<f4").tobytes())

    def text(self, name: str, text: str) -> None:
        self.path(name).write_text(text, encoding="utf-8")


@pytest.fixture
def make(tmp_path: Path) -> Maker:
    return Maker(tmp_path)
