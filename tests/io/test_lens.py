from __future__ import annotations

import io
import math
from typing import Any

import pytest
from PIL import Image

from omnidc.io.lens import (
    EXIF_IFD,
    FOCAL_35MM,
    FOCAL_LENGTH,
    PIXEL_WIDTH,
    PLANE_RESOLUTION,
    PLANE_UNIT,
    exif_focal,
)


def stored(size: tuple[int, int], tags: dict[int, Any]) -> Image.Image:
    """A JPEG picture with these tags, written and opened."""
    exif = Image.Exif()
    exif.get_ifd(EXIF_IFD).update(tags)
    stream = io.BytesIO()
    Image.new("RGB", size).save(stream, "JPEG", exif=exif)
    return Image.open(stream)


@pytest.mark.parametrize("size", [(400, 300), (300, 400), (600, 400)], ids=["4:3", "portrait", "3:2"])
def test_focal_of_film_compares_diagonals(size: tuple[int, int]) -> None:
    focal = exif_focal(stored(size, {FOCAL_35MM: 26}))
    assert focal == pytest.approx(26 / math.hypot(36, 24) * math.hypot(*size))


def test_focal_of_film_of_a_full_frame_camera_is_exact() -> None:
    assert exif_focal(stored((360, 240), {FOCAL_35MM: 50})) == pytest.approx(500)


def test_focal_from_the_sensor_follows_a_smaller_picture() -> None:
    tags = {FOCAL_LENGTH: 5.0, PLANE_RESOLUTION: 25400.0, PLANE_UNIT: 2, PIXEL_WIDTH: 4000}  # 1000 pixels a mm
    assert exif_focal(stored((400, 300), tags)) == pytest.approx(500)


@pytest.mark.parametrize(
    "tags",
    [{}, {FOCAL_35MM: 0}, {FOCAL_LENGTH: 4.2}, {FOCAL_35MM: 60000}, {FOCAL_LENGTH: 4.0, PLANE_RESOLUTION: 0.0}],
    ids=["none", "unknown", "no sensor", "implausible", "no resolution"],
)
def test_focal_without_usable_tags_is_none(tags: dict[int, Any]) -> None:
    assert exif_focal(stored((400, 300), tags)) is None


def test_focal_of_a_damaged_block_is_none() -> None:
    class Damaged:
        size = (400, 300)

        def getexif(self) -> Any:
            raise SyntaxError("not a TIFF file")

    assert exif_focal(Damaged()) is None
