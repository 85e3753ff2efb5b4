"""The `.ply` of 3DGS: what viewers, editors and trainers read and write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from omnidc.errors import FileError
from omnidc.io.files import atomic_path
from omnidc.splatting.gaussians import Gaussians
from omnidc.splatting.sh import MAX_DEGREE, basis_count

HEADER_LIMIT = 65536  # bytes


def _columns(rest: int) -> list[str]:
    """Return the names of the properties, in the order that the original implementation writes."""
    return [
        "x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2",
        *(f"f_rest_{k}" for k in range(3 * rest)),
        "opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3",
    ]  # fmt: skip


def write_splat(path: Path, gaussians: Gaussians) -> None:
    """Write raw parameters as little-endian float32. Harmonics above degree 0 are stored channel by channel."""
    g = {name: tensor.detach().cpu().numpy() for name, tensor in gaussians.tensors().items()}
    n, rest = len(gaussians), gaussians.sh_rest.shape[1]
    quats = g["quats"] / np.linalg.norm(g["quats"], axis=1, keepdims=True)  # some viewers do not normalize
    by_channel = g["sh_rest"].transpose(0, 2, 1).reshape(n, 3 * rest)
    table = np.concatenate(
        [g["means"], np.zeros((n, 3)), g["sh_dc"], by_channel, g["logits"][:, None], g["log_scales"], quats], axis=1
    ).astype("<f4")
    lines = ["ply", "format binary_little_endian 1.0", "comment 3D Gaussians by omnidc", f"element vertex {n}"]
    lines += [f"property float {name}" for name in _columns(rest)]
    header = "\n".join([*lines, "end_header", ""]).encode("ascii")
    with atomic_path(path) as temporary:
        temporary.write_bytes(header + table.tobytes())


def read_splat(path: Path) -> Gaussians:
    """Read a `.ply` of 3DGS (binary, little-endian, float), whatever the order of its properties."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileError(f"Cannot read {path}: {error.strerror or error}.") from error
    mark = b"end_header\n"
    end = data[:HEADER_LIMIT].find(mark)
    lines = data[: max(end, 0)].decode("ascii", "replace").splitlines()
    kind = [line for line in lines if line.startswith("format")]
    counts = [line.split()[2] for line in lines if line.startswith("element vertex") and len(line.split()) == 3]
    names = [line.split()[-1] for line in lines if line.startswith("property float")]
    properties = [line for line in lines if line.startswith("property")]
    if kind != ["format binary_little_endian 1.0"] or len(counts) != 1 or not counts[0].isdigit():
        raise FileError(f"{path} is not a binary little-endian .ply of one list of vertices.")
    rest = sum(name.startswith("f_rest_") for name in names) // 3
    missing = [name for name in _columns(rest) if name not in names and name not in ("nx", "ny", "nz")]
    if missing or len(properties) != len(names) or rest + 1 not in [basis_count(d) for d in range(MAX_DEGREE + 1)]:
        raise FileError(f"{path} is not a .ply of 3D Gaussians: {missing[0] if missing else 'its properties'} differ.")
    body = data[end + len(mark) :]
    if len(body) != int(counts[0]) * len(names) * 4:
        raise FileError(f"{path} was cut off or has more than its header says; copy it again.")
    table = np.frombuffer(body, "<f4").reshape(int(counts[0]), len(names))

    def pick(*wanted: str) -> Tensor:
        columns: npt.NDArray[np.float32] = table[:, [names.index(name) for name in wanted]]
        return torch.from_numpy(np.array(columns))

    higher = pick(*(f"f_rest_{k}" for k in range(3 * rest))).reshape(len(table), 3, rest)
    return Gaussians(
        means=pick("x", "y", "z"),
        log_scales=pick("scale_0", "scale_1", "scale_2"),
        quats=pick("rot_0", "rot_1", "rot_2", "rot_3"),
        logits=pick("opacity")[:, 0],
        sh_dc=pick("f_dc_0", "f_dc_1", "f_dc_2"),
        sh_rest=higher.transpose(1, 2).contiguous(),
    )
