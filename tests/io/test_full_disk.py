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
