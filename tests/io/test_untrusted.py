"""The door for files of unknown origin: one sentence for whatever a parser raises, sizes before contents."""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from omnidc.errors import CheckpointError, FileError, InputError, OmnidcError
from omnidc.io.untrusted import (
    Limits,
    TooLargeFileError,
    check_encoded,
    check_exr,
    check_png,
    limited,
    open_picture,
    read_npy,
    read_npz,
    read_text,
    untrusted,
)


class PanicException(BaseException):  # as pyo3 names it
    """What parsers in Rust raise."""


@pytest.mark.parametrize(
    "error",
    [
        zlib.error("invalid block type"),
        OverflowError("too large"),
        tokenize.TokenError("EOF", (1, 2)),
        AttributeError("no x"),
        SyntaxError("broken"),
        TypeError("a list"),
        ZeroDivisionError("width"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        KeyError("id"),
        IndexError(),
        RecursionError("deep"),
        PanicException("index out of bounds"),
        struct.error("short"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_untrusted_any_parser_error_is_a_file_error(error: BaseException) -> None:
    with (
        pytest.raises(FileError, match=r"^a\.bin is damaged, truncated or not a cloud \(.+\): export") as caught,
        untrusted("a.bin", "a cloud"),
    ):
        raise error
    assert caught.value.__cause__ is error
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), InputError("ours.")])
def test_untrusted_own_errors_and_exits_pass(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, untrusted("a.bin", "a cloud"):
        raise error
    assert caught.value is error


def test_untrusted_system_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"none\.txt does not exist"), untrusted(tmp_path, "a list"):
        (tmp_path / "none.txt").read_text()
    with pytest.raises(FileError, match="is a folder, not a list"), untrusted(tmp_path, "a list"):
        tmp_path.read_text()
    with pytest.raises(TooLargeFileError, match="more memory"), untrusted(tmp_path, "a list"):
        raise MemoryError
    with pytest.raises(CheckpointError), untrusted(tmp_path, "weights", refusal=CheckpointError):
        raise ValueError


def npy(shape: tuple[int, ...], data: bytes = b"", kind: str = "<f4") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": kind, "fortran_order": False, "shape": shape})
    return stream.getvalue() + data


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f4", ">f8", "<u2", "|b1"])
def test_read_npy_valid_file_is_what_numpy_reads(tmp_path: Path, order: Any, kind: str) -> None:
    values = np.asarray(np.arange(24).reshape(4, 6) % 7, kind, order=order)
    np.save(tmp_path / "a.npy", values)
    read = read_npy(tmp_path / "a.npy")
    np.testing.assert_array_equal(read, values)
    assert read.dtype == values.dtype
    read[0, 0] = 1  # can be written to


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (npy((3, 4), b"\0" * 40), "smaller"),
        (npy((2**31, 2**31)), "claims the shape"),
        (npy((3,), b"\0" * 24, "|O"), "Python objects"),
        (b"\x93NUMPY\x09\x00", "version"),
        (b"", "start"),
        (b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((((", "damaged"),
    ],
)
def test_read_npy_bad_file_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(FileError, match=words):
        read_npy(tmp_path / "a.npy")


def test_read_npz_bomb_is_refused_whatever_its_name(tmp_path: Path) -> None:
    for member in ("depth.npy", "depth"):
        with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member, npy((4000, 5000)) + b"\0" * 1000)
        with limited(Limits(pixels=10**6)), pytest.raises(TooLargeFileError):
            read_npz(tmp_path / "a.npz")["depth"].read()
        with pytest.raises(FileError, match="do not fit"):
            read_npz(tmp_path / "a.npz")["depth"].read()


def test_open_picture_claiming_too_much_is_refused(tmp_path: Path) -> None:
    from PIL import Image

    path = tmp_path / "a.png"
    Image.new("L", (300, 200)).save(path)
    with (
        limited(Limits(pixels=1000)),
        pytest.raises(TooLargeFileError, match="300x200"),
        open_picture(path, "an image"),
    ):
        pass
    Image.new("1", (30_000, 2000)).save(path)  # 60 megapixels of nothing
    with pytest.raises(FileError, match="30000x2000 pixels in"), open_picture(path, "an image"):
        pass


def test_check_exr_window_is_read_before_pixels(tmp_path: Path) -> None:
    window = struct.pack("<4i", 0, 0, 60_000, 60_000)
    head = b"v/1\x01" + struct.pack("<I", 2) + b"dataWindow\0box2i\0" + struct.pack("<I", 16) + window + b"\0"
    (tmp_path / "a.exr").write_bytes(head)
    with pytest.raises(TooLargeFileError, match="60001x60001"):
        check_exr(tmp_path / "a.exr")
    (tmp_path / "a.exr").write_bytes(head[:30])
    with pytest.raises(FileError, match="damaged"):
        check_exr(tmp_path / "a.exr")


def test_read_text_limits_size_and_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\r\nb")
    assert read_text(path) == "a\nb"
    with pytest.raises(TooLargeFileError):
        read_text(path, limit=3)
    path.write_bytes(b"\xff")
    with pytest.raises(FileError, match="UTF-8"):
        read_text(path)


def long_piece(pixels: Any) -> bytes:
    """A PNG whose pixels claim to be a piece of 2 GB."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    data = bytearray(stream.getvalue())
    struct.pack_into(">I", data, data.index(b"IDAT") - 4, 2**31 - 1)
    return bytes(data)


def test_check_png_piece_longer_than_the_file_is_refused() -> None:
    """OpenCV would allocate it."""
    from omnidc.ros.compressed_depth import _decode_png
    from omnidc.ros.messages import decode_image

    data = long_piece(np.zeros((4, 6), np.uint16))
    with pytest.raises(ValueError, match="longer than the file"):
        check_png(data)
    check_png(b"no PNG")
    with pytest.raises(OmnidcError, match="longer than the file"):
        check_encoded(data, "a frame")
    with pytest.raises(OmnidcError, match="longer than the file"):
        _decode_png(data)
    with pytest.raises(OmnidcError, match="cannot be decoded"):
        decode_image(SimpleNamespace(format="png", data=data))


def test_check_encoded_takes_jpeg_and_png_of_plausible_size() -> None:
    for kind in ("JPEG", "PNG"):
        stream = io.BytesIO()
        Image.new("RGB", (30, 20)).save(stream, kind)
        check_encoded(stream.getvalue(), "a frame")
    stream = io.BytesIO()
    Image.new("RGB", (30, 20)).save(stream, "BMP")
    for data in (stream.getvalue(), b""):
        with pytest.raises(OmnidcError, match="a frame is damaged"):
            check_encoded(data, "a frame")
    png = bytearray(long_piece(np.zeros((4, 6), np.uint8)))
    struct.pack_into(">I", png, png.index(b"IDAT") - 4, 0)
    struct.pack_into(">II", png, 16, 8000, 8000)
    with pytest.raises(OmnidcError):
        check_encoded(bytes(png), "a frame")
