"""BlendedMVS, BlendedMVS+ and BlendedMVS++: photographs blended with renderings of their reconstruction, 768x576.

    ROOT/5a3ca9cb270f0e3f14d0eddb/blended_images/00000000.jpg
    ROOT/5a3ca9cb270f0e3f14d0eddb/rendered_depth_maps/00000000.pfm
    ROOT/5a3ca9cb270f0e3f14d0eddb/cams/00000000_cam.txt       extrinsic (world to camera), intrinsic; optional

Scenes may lie up to two folders deeper. The scale of each scene is arbitrary (unit "scene"). Depth 0 is unknown.
Checked: the layout against the dataset's own documentation; not against the data (none at hand).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from omnidc.datasets.decode import read_depth, read_image, read_lines, valid
from omnidc.datasets.source import Frames, need_entries, nested, safe_name
from omnidc.frame import Frame, Unit
from omnidc.io.untrusted import untrusted


def open_frames(root: Path) -> Frames:
    entries = [
        image
        for folder in nested(root, "blended_images")
        for image in sorted(folder.glob("*.jpg"))
        if not image.stem.endswith("_masked")
    ]
    layout = "5a3ca9cb270f0e3f14d0eddb/blended_images/00000000.jpg"
    return Frames(need_entries(entries, root, layout), partial(read_frame, root))


def read_camera(path: Path) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Read (intrinsics [3, 3], pose [4, 4] camera to world) from an MVSNet camera file."""
    lines = read_lines(path, "a camera file")
    with untrusted(path, "a camera file"):
        extrinsic, intrinsic = lines.index("extrinsic"), lines.index("intrinsic")
        world_to_camera = np.array([[float(w) for w in line.split()] for line in lines[extrinsic + 1 : extrinsic + 5]])
        K = np.array([[float(w) for w in line.split()] for line in lines[intrinsic + 1 : intrinsic + 4]])
        if world_to_camera.shape != (4, 4) or K.shape != (3, 3):
            raise ValueError("its matrices are not 4x4 and 3x3")
        return K, np.linalg.inv(world_to_camera)


def read_frame(root: Path, image_path: Path) -> Frame:
    scene = image_path.parents[1]
    depth_path = scene / "rendered_depth_maps" / f"{image_path.stem}.pfm"
    camera_path = scene / "cams" / f"{image_path.stem}_cam.txt"
    K, pose = read_camera(camera_path) if camera_path.is_file() else (None, None)
    return Frame(
        read_image(image_path), depth=valid(read_depth(depth_path)), intrinsics=K, pose=pose, unit=Unit.SCENE,
        name=safe_name(image_path, root), source=str(image_path),
    )  # fmt: skip
