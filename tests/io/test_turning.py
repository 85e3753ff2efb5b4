"""EXIF orientations: what fits only the stored pixels is turned along, contradictions are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omnidc.errors import InputError
from omnidc.io.images import read_photograph
from omnidc.pipeline import make_frame

PIXELS = np.random.default_rng(0).integers(0, 256, (30, 48, 3)).astype(np.uint8)
STORED_K = (40.0, 41.0, 23.0, 14.0)  # near the middle of 48x30
VIEWED_K = (41.0, 40.0, 15.0, 23.0)  # near the middle of 30x48


def tagged(folder: Path, number: int) -> Path:
    exif = Image.Exif()
    exif[0x0112] = number
    path = folder / "photo.png"
    Image.fromarray(PIXELS).save(path, exif=exif)
    return path


def one_point(shape: tuple[int, int], row: int, column: int) -> np.ndarray:
    depth = np.zeros(shape, np.float32)
    depth[row, column] = 2
    return depth


def test_exif_depth_of_stored_pixels_is_turned_along(tmp_path: Path) -> None:
    frame = make_frame(tagged(tmp_path, 6), one_point((30, 48), 5, 7), STORED_K)
    assert frame.image.shape[:2] == (48, 30)
    assert frame.measurements()[7, 30 - 1 - 5] == 2
    assert np.array_equal(frame.image, np.rot90(PIXELS, -1))
    assert "turned by 90° clockwise" in frame.pixels
    assert "measurements and camera with it" in frame.pixels
    assert frame.intrinsics is not None
    assert frame.intrinsics[:2, 2].tolist() == [30 - 1 - 14, 23]


def test_exif_depth_of_viewed_pixels_stays(tmp_path: Path) -> None:
    depth = one_point((48, 30), 7, 24)
    frame = make_frame(tagged(tmp_path, 6), depth, VIEWED_K)
    assert np.array_equal(frame.measurements(), depth)
    assert "turned by 90° clockwise" in frame.pixels
    assert "with it" not in frame.pixels
    assert frame.intrinsics is not None
    assert frame.intrinsics[:2, 2].tolist() == [15, 23]


def test_exif_ignored_keeps_stored_pixels(tmp_path: Path) -> None:
    depth = one_point((30, 48), 5, 7)
    frame = make_frame(tagged(tmp_path, 6), depth, ignore_exif=True)
    assert np.array_equal(frame.image, PIXELS)
    assert np.array_equal(frame.measurements(), depth)
    assert frame.pixels == ""


def test_exif_depth_and_camera_that_disagree_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="depth map fits the photograph as it is stored, but the camera as its EXIF"):
        make_frame(tagged(tmp_path, 8), one_point((30, 48), 5, 7), VIEWED_K)


def test_exif_half_turn_is_warned_of(tmp_path: Path) -> None:
    frame = make_frame(tagged(tmp_path, 3), one_point((30, 48), 5, 7))
    assert np.array_equal(frame.image, PIXELS[::-1, ::-1])
    assert any("fit either way" in warning and "--ignore-exif" in warning for warning in frame.warnings)


def test_exif_low_resolution_depth_is_turned_along(tmp_path: Path) -> None:
    frame = make_frame(tagged(tmp_path, 6), one_point((15, 24), 2, 3), resize_sparse=True)
    assert frame.image.shape[:2] == (48, 30)
    assert (frame.measurements() > 0).sum() == 1


def test_exif_mask_of_stored_pixels_is_turned_along(tmp_path: Path) -> None:
    mask = np.ones((30, 48), np.uint8)
    mask[:, :10] = 0
    for depth in (one_point((30, 48), 5, 3), one_point((48, 30), 3, 24)):
        frame = make_frame(tagged(tmp_path, 6), depth, mask=mask)
        assert frame.mask is not None
        assert np.array_equal(frame.mask, np.rot90(mask, -1).astype(bool))
        assert not frame.measurements().any()


def test_exif_mirror_with_a_camera_is_taken_as_stored(tmp_path: Path) -> None:
    frame = make_frame(tagged(tmp_path, 2), one_point((30, 48), 5, 7), STORED_K)
    assert np.array_equal(frame.image, PIXELS)
    assert any("mirrors" in warning for warning in frame.warnings)


def test_photograph_of_12_bits_is_stretched_with_a_note(tmp_path: Path) -> None:
    import cv2

    deep = np.random.default_rng(0).integers(0, 4096, (20, 30, 3)).astype(np.uint16)
    deep[0, 0] = 4095
    for name in ("a.png", "a.tiff", "a.ppm"):
        cv2.imwrite(str(tmp_path / name), deep[..., ::-1])
        photo = read_photograph(tmp_path / name)
        assert np.array_equal(photo.image, (deep >> 4).astype(np.uint8)), name
        assert photo.notes == ("image of 12 bits in a 16-bit file, stretched to 8 bits",)
    assert make_frame(tmp_path / "a.png", None).notes == photo.notes
