"""A page that shows a splat: one HTML file, which works offline and from a folder."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from omnidc.io.files import atomic_path
from omnidc.splatting.gaussians import Gaussians
from omnidc.splatting.sh import C0
from omnidc.splatting.view import SplatView

TEMPLATE = Path(__file__).with_name("viewer.html")


def pack(gaussians: Gaussians) -> bytes:
    """Return 32 bytes for each Gaussian: mean and scale as float32; color, opacity and quaternion as bytes.

    The color is that of degree 0, so it does not change with the direction of view.
    """
    table = np.zeros(
        len(gaussians), np.dtype([("mean", "<f4", 3), ("scale", "<f4", 3), ("rgba", "u1", 4), ("quat", "u1", 4)])
    )
    quats = gaussians.quats.detach().cpu().numpy()
    quats = quats / np.linalg.norm(quats, axis=1, keepdims=True)
    rgb = np.clip(gaussians.sh_dc.detach().cpu().numpy() * C0 + 0.5, 0, 1)
    alpha = gaussians.opacities.detach().cpu().numpy()
    table["mean"] = gaussians.means.detach().cpu().numpy()
    table["scale"] = gaussians.scales.detach().cpu().numpy()
    table["rgba"] = np.rint(np.concatenate([rgb, alpha[:, None]], axis=1) * 255)
    table["quat"] = np.rint(quats * 127 + 128)
    return table.tobytes()


def write_viewer(path: Path, gaussians: Gaussians, views: Sequence[SplatView], title: str = "splat") -> None:
    """Write the page with the splat and the cameras of its views inside."""
    cameras = [
        {
            "name": view.name,
            "focal": [view.camera.fx / view.camera.width, view.camera.fy / view.camera.height],
            "center": [(view.camera.cx + 0.5) / view.camera.width, (view.camera.cy + 0.5) / view.camera.height],
            "aspect": view.camera.width / view.camera.height,
            "view": view.camera.view.round(6).tolist(),
        }
        for view in views
    ]
    page = TEMPLATE.read_text(encoding="utf-8")
    safe = json.dumps({"title": title, "cameras": cameras}).replace("<", "\\u003c")  # no name can end the script
    page = page.replace("__SCENE__", safe).replace("__SPLAT__", base64.b64encode(pack(gaussians)).decode("ascii"))
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
