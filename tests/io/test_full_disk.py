from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from omnidc.io.depth import CODECS

# The kernel refuses to let any file grow beyond 2 kB, as a full disk would half-way.
CODE = """
import resource, signal
from pathlib import Path
import cv2, numpy as np, OpenEXR, PIL.Image
from omnidc.errors import FileError
from omnidc.io.depth import write_depth
from omnidc.io.pointcloud import write_ply
from omnidc.io.mesh import write_glb

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
depth = np.random.default_rng(0).uniform(1, 2, (64, 96)).astype(np.float32)
colors = np.zeros((64, 96, 3), np.uint8)
clouds = {".ply": write_ply, ".glb": write_glb}
for path in sorted(Path().iterdir()):
    try:
        if path.suffix in clouds:
            clouds[path.suffix](path, depth, (90, 90, 47.5, 31.5), colors, keep_flying_pixels=True)
        else:
            write_depth(path, depth)
    except FileError as error:
        print(error)
"""


def test_no_format_leaves_a_half_written_file_on_a_full_disk(tmp_path: Path) -> None:
    names = {f"depth{suffix}" for suffix in (*CODECS, ".ply", ".glb")}
    for name in names:
        (tmp_path / name).write_bytes(b"the old result")
    run = subprocess.run([sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, check=True)
    sentences = run.stdout.splitlines()
    assert len(sentences) == len(names), run.stdout
    assert all(sentence.startswith("Cannot write depth") for sentence in sentences)
    assert {path.name for path in tmp_path.iterdir()} == names
    assert all(path.read_bytes() == b"the old result" for path in tmp_path.iterdir())


# The last byte of every file finds no room: some writers do not look whether it was taken.
LAST_BYTE = """
import os, resource, signal, sys
from pathlib import Path
import numpy as np
from omnidc.errors import FileError
from omnidc.io.depth import CODECS, write_depth
from omnidc.io.files import atomic_files, atomic_new, atomic_path
from omnidc.io.images import write_picture
from omnidc.io.mesh import write_glb
from omnidc.io.pointcloud import write_ply

rng = np.random.default_rng(0)
depth = rng.uniform(1, 2, (64, 96)).astype(np.float32)
colors = rng.integers(0, 255, (64, 96, 3), np.uint8)

def save(path):
    with atomic_path(path) as temporary:
        np.save(temporary, depth)

def save_all(path):
    with atomic_files(path) as folder:
        np.save(folder / "a.npy", depth)

def save_new(path):
    with atomic_new(path) as folder:
        folder.mkdir()
        np.save(folder / "a.npy", depth)

cloud = lambda write: lambda path: write(path, depth, (90, 90, 47.5, 31.5), colors, keep_flying_pixels=True)
writers = {f"depth{suffix}": lambda path: write_depth(path, depth) for suffix in CODECS}
pictures = ("jpg", "png", "webp", "tiff", "bmp")
writers |= {f"picture.{suffix}": lambda path: write_picture(path, colors) for suffix in pictures}
writers |= {"cloud.ply": cloud(write_ply), "mesh.glb": cloud(write_glb), "bare.npy": save}
writers |= {"folder": save_all, "new": save_new}
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for name, write in writers.items():
    whole = Path("whole") / name
    write(whole)
    size = max(file.stat().st_size for file in (whole, *whole.rglob("*")) if file.is_file())
    for limit in (size - 1, size - 100, size // 2):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            write(Path("cut") / name)
            print(f"{name}: {limit} of {size} bytes, and no error")
        except FileError as error:
            assert str(error).startswith("Cannot write cut"), error
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(sorted(str(path) for path in Path("cut").rglob("*") if path.is_file()))
"""


def test_a_file_without_its_last_byte_is_noticed(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", LAST_BYTE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "[]\n", run.stdout
