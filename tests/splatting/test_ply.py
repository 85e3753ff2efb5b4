from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from omnidc.errors import FileError
from omnidc.splatting.gaussians import Gaussians
from omnidc.splatting.ply import read_splat, write_splat


def random_splat(degree: int, n: int = 7) -> Gaussians:
    g = torch.Generator().manual_seed(degree)
    quats = torch.randn(n, 4, generator=g)
    return Gaussians(
        torch.randn(n, 3, generator=g), torch.randn(n, 3, generator=g), quats / quats.norm(dim=1, keepdim=True),
        torch.randn(n, generator=g), torch.randn(n, 3, generator=g),
        torch.randn(n, (degree + 1) ** 2 - 1, 3, generator=g),
    )  # fmt: skip


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_splat_ply_round_trip_is_exact(tmp_path: Path, degree: int) -> None:
    splat = random_splat(degree)
    write_splat(tmp_path / "a.ply", splat)
    again = read_splat(tmp_path / "a.ply")
    for name, tensor in splat.tensors().items():
        assert torch.allclose(tensor, again.tensors()[name], atol=1e-6), name


def test_splat_ply_columns_are_those_of_3dgs(tmp_path: Path) -> None:
    plyfile = pytest.importorskip("plyfile")
    splat = random_splat(3)
    write_splat(tmp_path / "a.ply", splat)
    vertices = plyfile.PlyData.read(str(tmp_path / "a.ply"))["vertex"]
    names = [p.name for p in vertices.properties]
    assert names[:9] == ["x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2"]
    assert names[9:54] == [f"f_rest_{k}" for k in range(45)]
    assert names[54:] == ["opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"]
    # f_rest holds all coefficients of red, then green, then blue
    assert np.allclose(vertices["f_rest_1"], splat.sh_rest[:, 1, 0])
    assert np.allclose(vertices["f_rest_15"], splat.sh_rest[:, 0, 1])


@pytest.mark.parametrize("damage", ["cut", "header", "columns", "absent"])
def test_read_splat_damaged_file_is_a_sentence(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.ply"
    write_splat(path, random_splat(1))
    data = path.read_bytes()
    changed = {
        "cut": data[:-5], "header": b"solid" + data[5:].replace(b"format", b"fermat"),
        "columns": data.replace(b"opacity", b"opacitx"),
    }  # fmt: skip
    if damage == "absent":
        path.unlink()
    else:
        path.write_bytes(changed[damage])
    with pytest.raises(FileError, match=r"a\.ply"):
        read_splat(path)
