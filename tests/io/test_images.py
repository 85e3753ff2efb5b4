from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omnidc.errors import FileError, InputError
from omnidc.io.images import as_rgb, find_images, find_mask, read_image, read_mask

RGB = np.random.default_rng(0).integers(0, 256, (7, 9, 3)).astype(np.uint8)


def test_color_gray_rgba_and_palette_become_rgb(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(RGB).save(path)
    assert (read_image(path) == RGB).all()
    Image.fromarray(RGB[..., 0]).save(path)
    assert (read_image(path) == RGB[..., :1]).all()
    Image.fromarray(np.dstack([RGB, np.full((7, 9), 3, np.uint8)])).save(path)
    assert (read_image(path) == RGB).all()
    Image.fromarray(RGB).quantize(256).save(path)
    assert read_image(path).shape == (7, 9, 3)


@pytest.mark.parametrize("bits", [10, 12, 14, 16])
def test_image_16_bit_gray_keeps_brightness(bits: int, tmp_path: Path) -> None:
    values = RGB[..., 0].astype(np.uint16) << (bits - 8)
    values[0, 0] = 2**bits - 1
    Image.fromarray(values).save(tmp_path / "a.png")
    expected = RGB[..., 0].copy()
    expected[0, 0] = 255
    assert (read_image(tmp_path / "a.png") == expected[..., None]).all()


def test_arrays_of_any_layout_become_rgb() -> None:
    assert (as_rgb(RGB) == RGB).all()
    assert (as_rgb(np.moveaxis(RGB, 2, 0)) == RGB).all()
    assert (as_rgb(RGB / np.float32(255)) == RGB).all()
    assert (as_rgb(RGB.astype(np.int64)) == RGB).all()
    assert as_rgb(RGB[..., 0]).shape == RGB.shape
    assert as_rgb(np.ones((1, 1), bool)).tolist() == [[[255, 255, 255]]]


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(5),
        np.zeros((4, 4, 2)),
        np.full((4, 4), np.nan),
        np.full((4, 4), -1),
        np.full((4, 4), 7.0),
        np.zeros((0, 4)),
    ],
    ids=["line", "two channels", "nan", "negative", "floats above 1", "empty"],
)
def test_arrays_that_are_no_image_are_refused(array: np.ndarray) -> None:
    with pytest.raises(InputError):
        as_rgb(array)


def test_orientation_of_the_camera_is_followed(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90° clockwise to view
    Image.fromarray(RGB).save(tmp_path / "a.jpg", exif=exif)
    assert read_image(tmp_path / "a.jpg").shape == (9, 7, 3)
    assert read_image(tmp_path / "a.jpg", apply_exif=False).shape == (7, 9, 3)


@pytest.mark.parametrize("content", [b"", b"not an image", None])
def test_what_is_not_an_image_is_named(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileError, match=r"a\.jpg"):
        read_image(path)


def test_a_truncated_image_is_refused(tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)).save(tmp_path / "a.jpg")
    data = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(data[: len(data) // 2])
    with pytest.raises(FileError, match="truncated"):
        read_image(tmp_path / "a.jpg")


def test_find_images_sorts_names_as_people_count(tmp_path: Path) -> None:
    for name in ("frame10.png", "frame2.png", "a.png", "notes.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in find_images(tmp_path)] == ["a.png", "frame2.png", "frame10.png"]


def test_masks_are_false_where_black(tmp_path: Path) -> None:
    gray = np.array([[0, 1, 255], [0, 0, 7]], np.uint8)
    color = np.stack([gray, 0 * gray, 0 * gray], axis=2)
    for name, values in (("gray", gray), ("color", color)):
        Image.fromarray(values).save(tmp_path / f"{name}.jpg.png")
        path = find_mask(tmp_path, f"{name}.jpg")
        assert path is not None
        np.testing.assert_array_equal(read_mask(path, (2, 3)), gray > 0)
    assert find_mask(tmp_path, "none.jpg") is None
    with pytest.raises(InputError, match="is 3x2 but its image is 4x4"):
        read_mask(tmp_path / "gray.jpg.png", (4, 4))
