"""Decoding of uploads; runs in a `Sandbox`, so it imports neither torch nor the web framework.

Every function takes the path of a file with unknown contents and returns an `Answer` of the sandbox.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from omnidc.io.depth import read_depth, refuse_disparity
from omnidc.io.images import orientation_of, read_image
from omnidc.io.lens import exif_focal
from omnidc.io.sandbox import Answer
from omnidc.io.untrusted import Limits, limited, open_picture

IMAGE_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "PPM")  # none of them runs another program
MEMBERS = 32  # arrays of a NumPy archive


def photo_head(path: Path, pixels: int) -> Answer:
    """Return width and height after the turn that EXIF asks for, and EXIF's focal length, from the header alone."""
    with limited(Limits(pixels=pixels)), open_picture(path, "an image", IMAGE_FORMATS) as picture:
        width, height = picture.size
        height, width = orientation_of(picture).shape((height, width))
        return {"size": (width, height), "focal": exif_focal(picture)}, []


def photo(path: Path, pixels: int) -> Answer:
    """Decode the photograph, uint8 [H, W, 3]."""
    with limited(Limits(pixels=pixels)):
        return {}, [read_image(path)]


def depth(path: Path, pixels: int, scale: float | None) -> Answer:
    """Decode the fields of a `DepthFile`."""
    with limited(Limits(pixels=pixels, members=MEMBERS)):
        refuse_disparity(Path(path.name), "send depth")
        file = read_depth(path, scale)
    return {"note": file.note, "scale": file.scale, "unit": file.unit, "invalid": file.invalid}, [file.depth]


def preview(path: Path, pixels: int, long_side: int) -> Answer:
    """Make a PNG file, as bytes, of a photograph that a browser cannot show."""
    from PIL import Image

    with limited(Limits(pixels=pixels)):
        picture = Image.fromarray(read_image(path))
    picture.thumbnail((long_side, long_side))
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return {}, [np.frombuffer(stream.getvalue(), np.uint8)]
