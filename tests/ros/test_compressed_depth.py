from __future__ import annotations

import struct
from contextlib import suppress

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from omnidc.errors import InputError
from omnidc.ros.compressed_depth import HEADER, decode_compressed_depth, decode_rvl


def encode_rvl(image: NDArray[np.uint16]) -> bytes:
    """The format's obvious encoder, pixel by pixel and group by group."""
    groups: list[int] = []

    def put(number: int) -> None:
        while True:
            low, number = number & 7, number >> 3
            groups.append(low | (8 if number else 0))
            if not number:
                return

    values = [int(value) for value in image.ravel()]
    position, last = 0, 0
    while position < len(values):
        zeros = position
        while zeros < len(values) and values[zeros] == 0:
            zeros += 1
        end = zeros
        while end < len(values) and values[end] != 0:
            end += 1
        put(zeros - position)
        put(end - zeros)
        for value in values[zeros:end]:
            delta, last = value - last, value
            put(2 * delta if delta >= 0 else -2 * delta - 1)
        position = end
    groups += [0] * (-len(groups) % 8)
    words = [sum(group << (28 - 4 * k) for k, group in enumerate(groups[i : i + 8])) for i in range(0, len(groups), 8)]
    return struct.pack("<II", image.shape[1], image.shape[0]) + struct.pack(f"<{len(words)}I", *words)


def depth_image(seed: int = 0) -> NDArray[np.uint16]:
    rng = np.random.default_rng(seed)
    image = (1500 + 400 * np.sin(np.arange(37 * 53) / 50)).reshape(37, 53).astype(np.uint16)
    image[rng.random(image.shape) < 0.3] = 0
    image[5:9] = 0
    image[20, 20] = 65535
    return image


def packed(stream: bytes, a: float = 0.0, b: float = 0.0) -> bytes:
    return HEADER.pack(0, a, b) + stream


def png(image: NDArray[np.uint16]) -> bytes:
    return cv2.imencode(".png", image)[1].tobytes()


@pytest.mark.parametrize("seed", range(3))
def test_rvl_decodes_what_the_plain_encoder_wrote(seed: int) -> None:
    image = depth_image(seed)
    assert np.array_equal(decode_rvl(encode_rvl(image)), image)


def test_rvl_of_extreme_images_is_exact() -> None:
    for image in (np.zeros((3, 5), np.uint16), np.full((4, 4), 65535, np.uint16), np.eye(7, dtype=np.uint16) * 9):
        assert np.array_equal(decode_rvl(encode_rvl(image)), image)


@pytest.mark.parametrize("kind", ["16UC1; compressedDepth png", "16UC1; compressedDepth", "16UC1; compressedDepth rvl"])
def test_16uc1_becomes_meters(kind: str) -> None:
    image = depth_image()
    stream = encode_rvl(image) if kind.endswith("rvl") else png(image)
    assert np.allclose(decode_compressed_depth(kind, packed(stream)), image / 1000)


@pytest.mark.parametrize("codec", ["png", "rvl"])
def test_32fc1_is_dequantized_by_its_header(codec: str) -> None:
    depth = np.linspace(0.5, 9.0, 240, dtype=np.float32).reshape(12, 20)
    depth[3, 4] = 0
    # As the publisher quantizes: depth_quantization 100, depth_max 10.
    a = 100.0 * 101.0
    b = 1.0 - a / 10.0
    quantized = np.where(depth > 0, a / np.where(depth > 0, depth, 1) + b, 0).astype(np.uint16)
    stream = png(quantized) if codec == "png" else encode_rvl(quantized)
    result = decode_compressed_depth(f"32FC1; compressedDepth {codec}", packed(stream, a, b))
    assert result[3, 4] == 0
    assert np.allclose(result, depth, rtol=2e-3)


@pytest.mark.parametrize("kind", ["jpeg", "8UC1; compressedDepth png", "16UC1; compressedDepth zstd", ""])
def test_unknown_kind_is_refused(kind: str) -> None:
    with pytest.raises(InputError, match="is compressed as"):
        decode_compressed_depth(kind, packed(b"x" * 20))


def test_truncated_streams_are_refused() -> None:
    whole = encode_rvl(depth_image())
    for stop in (0, 4, 8, 12, len(whole) // 2, len(whole) - 8):
        with pytest.raises(InputError):
            decode_compressed_depth("16UC1; compressedDepth rvl", packed(whole[:stop]))
    with pytest.raises(InputError, match="not a PNG"):
        decode_compressed_depth("16UC1; compressedDepth png", packed(png(depth_image())[:60]))
    with pytest.raises(InputError, match="quantization"):
        decode_compressed_depth("32FC1; compressedDepth png", packed(png(depth_image()), np.nan, 0))


def test_rvl_with_random_bytes_never_crashes() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        stream = struct.pack("<II", 16, 12) + rng.bytes(int(rng.integers(0, 200)))
        with suppress(InputError):
            assert decode_rvl(stream).shape == (12, 16)
