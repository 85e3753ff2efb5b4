from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from omnidc.errors import FileError, InputError
from omnidc.io.pointcloud import lzf_decompress, read_cloud

POINTS = np.random.default_rng(0).uniform(-20, 20, (50, 3)).astype(np.float32)
PCD = (
    "# .PCD v0.7\nVERSION 0.7\nFIELDS intensity x y z ring\nSIZE 4 4 4 4 2\nTYPE F F F F U\nCOUNT 1 1 1 1 2\n"
    "WIDTH {n}\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {n}\nDATA {kind}\n"
)


def lzf_literals(data: bytes) -> bytes:
    """The simplest valid LZF stream: literals only."""
    chunks = [data[i : i + 32] for i in range(0, len(data), 32)]
    return b"".join(bytes([len(chunk) - 1]) + chunk for chunk in chunks)


def write(path: Path, kind: str) -> Path:
    n = len(POINTS)
    if kind == "bin":
        np.hstack([POINTS, np.ones((n, 1), np.float32)]).tofile(path)
    elif kind == "npy":
        np.save(path, np.hstack([POINTS, POINTS]))
    elif kind.startswith("ply"):
        pytest.importorskip("plyfile")
        import trimesh

        path.write_bytes(trimesh.PointCloud(POINTS).export(file_type="ply"))
    elif kind == "csv":
        lines = ["intensity,x,y,z", *(f"7,{x},{y},{z}" for x, y, z in POINTS)]
        path.write_text("\n".join(lines))
    elif kind == "xyz":
        lines = [str(n), "# made by hand", *(f"{x} {y}\t{z} 1 2 3" for x, y, z in POINTS)]
        path.write_text("\n".join(lines))
    elif kind.startswith("pcd"):
        mode = kind.removeprefix("pcd ")
        header = PCD.format(n=n, kind=mode).encode()
        if mode == "ascii":
            body = "\n".join(f"0.5 {x} {y} {z} 3 4" for x, y, z in POINTS).encode()
        elif mode == "binary":
            record = np.zeros(n, [("i", "<f4"), ("p", "<f4", 3), ("r", "<u2", 2)])
            record["p"] = POINTS
            body = record.tobytes()
        else:
            columns = [np.zeros(n, "<f4"), *POINTS.T.astype("<f4"), np.zeros(2 * n, "<u2")]
            raw = b"".join(np.ascontiguousarray(column).tobytes() for column in columns)
            packed = lzf_literals(raw)
            body = np.array([len(packed), len(raw)], "<u4").tobytes() + packed
        path.write_bytes(header + body)
    else:
        laspy = pytest.importorskip("laspy")
        las = laspy.LasData(laspy.LasHeader(point_format=3, version="1.2"))
        las.header.scales = [1e-4] * 3
        las.x, las.y, las.z = (POINTS[:, i].astype(np.float64) for i in range(3))
        las.write(str(path))
    return path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.bin", "bin"),
        ("a.npy", "npy"),
        ("a.ply", "ply"),
        ("a.pcd", "pcd ascii"),
        ("a.pcd", "pcd binary"),
        ("a.pcd", "pcd binary_compressed"),
        ("a.las", "las"),
        ("a.laz", "laz"),
        ("a.xyz", "xyz"),
        ("a.csv", "csv"),
    ],
)
def test_every_format_gives_the_same_points(tmp_path: Path, name: str, kind: str) -> None:
    points = read_cloud(write(tmp_path / name, kind))
    assert points.shape == (50, 3)
    assert np.allclose(points, POINTS, atol=1e-4)


def test_bin_of_odd_size_asks_for_columns(tmp_path: Path) -> None:
    seven = np.hstack([POINTS[:49], np.zeros((49, 4), np.float32)])
    seven.tofile(tmp_path / "r.bin")
    assert np.allclose(read_cloud(tmp_path / "r.bin", columns=7), POINTS[:49])
    with pytest.raises(InputError, match="--columns"):
        read_cloud(tmp_path / "r.bin")
    five = np.hstack([POINTS, np.zeros((50, 2), np.float32)])
    five.tofile(tmp_path / "n.pcd.bin")
    assert np.allclose(read_cloud(tmp_path / "n.pcd.bin"), POINTS)


@pytest.mark.parametrize("bad", [np.zeros((0, 4)), np.zeros((5, 4)), np.full((5, 4), np.nan)])
def test_an_empty_scan_is_said_to_be_empty(tmp_path: Path, bad: npt.NDArray[np.float64]) -> None:
    bad.astype(np.float32).tofile(tmp_path / "a.bin")
    with pytest.raises(InputError, match="is empty"):
        read_cloud(tmp_path / "a.bin")


def test_files_that_are_no_clouds_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no scan at"):
        read_cloud(tmp_path / "a.bin")
    (tmp_path / "a.abc").write_text("1 2 3")
    with pytest.raises(FileError, match="no point cloud that is known"):
        read_cloud(tmp_path / "a.abc")
    for name, package in (("a.pcd", "numpy"), ("a.ply", "plyfile"), ("a.las", "laspy"), ("a.npy", "numpy")):
        pytest.importorskip(package)
        (tmp_path / name).write_bytes(b"nonsense\n")
        with pytest.raises(FileError, match=name):
            read_cloud(tmp_path / name)
    data = write(tmp_path / "b.pcd", "pcd binary").read_bytes()
    (tmp_path / "b.pcd").write_bytes(data[:-50])
    with pytest.raises(FileError, match=r"b\.pcd is damaged, truncated"):
        read_cloud(tmp_path / "b.pcd")
    np.save(tmp_path / "c.npy", np.zeros((4, 2)))
    with pytest.raises(InputError, match=r"\[N, 3"):
        read_cloud(tmp_path / "c.npy")


def test_lzf_copies_may_overlap_what_they_write() -> None:
    # "ab", then copy 9 bytes from 2 back: ab ab ab ab a; then a long copy (7 + n + 2 bytes).
    stream = bytes([1]) + b"ab" + bytes([(7 << 5) | 0, 0, 1]) + bytes([0]) + b"c"
    assert lzf_decompress(stream, 12) == b"ab" + b"ababababa" + b"c"
    with pytest.raises(ValueError, match="promised"):
        lzf_decompress(stream, 13)
    with pytest.raises(ValueError, match="before"):
        lzf_decompress(bytes([(1 << 5), 9]), 3)
