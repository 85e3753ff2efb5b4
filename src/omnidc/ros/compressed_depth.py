"""The `compressedDepth` transport of ROS: a PNG or RVL stream of 16-bit values after a header of 12 bytes.

16UC1 streams hold millimeters. 32FC1 streams hold quantized inverse depth q with the header's parameters a and b:

    depth = a / (q − b),   q = 0 means none.

RVL (Wilson, "Fast lossless depth image compression", 2017) is a stream of 4-bit groups. Each number is written in
groups of three bits, lowest first; the fourth bit says that another group follows. The numbers are, in turn, a count of
zeros, a count of other pixels, and for each of these the zigzag-coded difference from the last pixel that was not zero.
"""

from __future__ import annotations

import struct

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError
from omnidc.io.untrusted import check_pixels, check_png, untrusted

HEADER = struct.Struct("<iff")  # kind of compression (unused by readers), a, b


def decode_compressed_depth(
    kind: str,  # as in CompressedImage.format, "16UC1; compressedDepth png"
    data: bytes,
) -> npt.NDArray[np.float32]:
    """Return depth [H, W] in meters, 0 = none."""
    encoding, _, transport = kind.partition(";")
    encoding, words = encoding.strip(), transport.split()
    codec = words[1] if len(words) > 1 else "png"  # older publishers write no codec
    if encoding not in ("16UC1", "32FC1", "mono16") or words[:1] != ["compressedDepth"] or codec not in ("png", "rvl"):
        raise InputError(
            f"The depth topic is compressed as {kind!r}; compressedDepth of 16UC1 and 32FC1 as png or rvl is known."
        )
    if len(data) <= HEADER.size:
        raise InputError(f"A compressed depth image has only {len(data)} bytes; record or publish it again.")
    _, a, b = HEADER.unpack_from(data)
    stream = data[HEADER.size :]
    values = _decode_png(stream) if codec == "png" else decode_rvl(stream)
    if encoding != "32FC1":
        return values.astype(np.float32) / np.float32(1000)
    if not (np.isfinite(a) and np.isfinite(b) and a > 0):
        raise InputError(f"A compressed depth image has the quantization a = {a:g}, b = {b:g}; publish it again.")
    inverse = values.astype(np.float32) - np.float32(b)
    known = (values > 0) & (inverse > 0)
    return np.where(known, np.float32(a) / np.where(known, inverse, 1), 0).astype(np.float32)


def _decode_png(stream: bytes) -> npt.NDArray[np.uint16]:
    if len(stream) >= 24:  # the size is in the first chunk
        width, height = struct.unpack_from(">II", stream, 16)
        check_pixels(width, height, "A compressed depth image")
    with untrusted("A compressed depth image", "a PNG", "record or publish it again", InputError):
        check_png(stream)
    decoded = cv2.imdecode(np.frombuffer(stream, np.uint8), cv2.IMREAD_UNCHANGED)
    if decoded is None or decoded.dtype != np.uint16 or decoded.ndim != 2:
        raise InputError("A compressed depth image holds no 16-bit PNG; record or publish it again.")
    return np.asarray(decoded, np.uint16)


def decode_rvl(
    stream: bytes,  # width and height as uint32, then words of eight 4-bit groups, the highest first
) -> npt.NDArray[np.uint16]:
    """Return the 16-bit image [H, W] of an RVL stream."""
    broken = InputError("A compressed depth image holds no complete RVL stream; record or publish it again.")
    if len(stream) < 8:
        raise broken
    width, height = struct.unpack_from("<II", stream)
    total = width * height
    check_pixels(width, height, "A compressed depth image")
    if total == 0:
        raise broken
    words = np.frombuffer(stream, "<u4", (len(stream) - 8) // 4, 8)
    groups = ((words[:, None] >> np.arange(28, -1, -4, dtype=np.uint32)) & 15).astype(np.int64).ravel()
    ends = np.flatnonzero(groups < 8)  # the last group of each number
    starts = np.concatenate([[0], ends[:-1] + 1])[: len(ends)]
    if not len(ends) or (ends - starts).max() > 10:  # no count or difference needs more than 33 bits
        raise broken
    used = groups[: ends[-1] + 1]
    place = np.arange(len(used)) - np.repeat(starts, ends - starts + 1)
    numbers = np.add.reduceat((used & 7) << (3 * place), starts)

    known = np.zeros(total, bool)
    parts: list[npt.NDArray[np.int64]] = []
    pixel = index = 0
    while pixel < total:
        if index + 2 > len(numbers):
            raise broken
        zeros, count = int(numbers[index]), int(numbers[index + 1])
        index += 2
        first = pixel + zeros
        pixel = first + count
        if pixel > total or index + count > len(numbers) or zeros + count == 0:
            raise broken
        known[first:pixel] = True
        parts.append(numbers[index : index + count])
        index += count
    coded = np.concatenate(parts)
    image = np.zeros(total, np.uint16)
    image[known] = np.cumsum((coded >> 1) ^ -(coded & 1)).astype(np.uint16)
    return image.reshape(height, width)
