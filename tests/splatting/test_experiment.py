from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("numba")
from omnidc.splatting.experiment import evaluate
from omnidc.splatting.numba_backend import rasterize
from worlds import NEAR, views, world


def test_evaluate_empty_pixels_have_no_depth() -> None:
    view = views(1)[0]
    away = view.camera.pose.copy()
    away[2, 3] = -12.0  # the wall covers the middle of the picture only
    far = replace(view, camera=replace(view.camera, view=np.linalg.inv(away)), depth=None, gt_depth=None)
    near_result, far_result = evaluate(world(), [view, far], rasterize, NEAR)
    assert (near_result.depth > 0).mean() > 0.95
    assert far_result.depth[15, 20] == pytest.approx(14.0, rel=0.05)  # the board
    assert (far_result.depth[:2] == 0).all()
