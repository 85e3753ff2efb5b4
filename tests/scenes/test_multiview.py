"""Overlapping views of one scene, with rays through a world that needs no Blender."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pytest

from omnidc.errors import ConfigError
from omnidc.scenes.description import Rng, Scene, Viewpoint
from omnidc.scenes.develop import add_haze, air_luminance, develop, exposure_of
from omnidc.scenes.manifest import Settings
from omnidc.scenes.multiview import CLEARANCE, choose_views

HALF_WIDTH = 1.2  # of the corridor, meters


def corridor(eye: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, Sequence[Hashable]]:
    """Walls at x = ±HALF_WIDTH, an end at y = 5, floor z = 0 and ceiling z = 2.5; open behind."""
    planes = [(0, -HALF_WIDTH), (0, HALF_WIDTH), (1, 5.0), (2, 0.0), (2, 2.5)]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.stack([(place - eye[axis]) / directions[:, axis] for axis, place in planes])
    t = np.where(t > 1e-9, t, np.inf)
    return t.min(axis=0), t.argmin(axis=0).tolist()


def scene() -> Scene:
    def draw(rng: Rng) -> Viewpoint:
        return Viewpoint((rng.uniform(-0.3, 0.3), 0.0, 1.4), (rng.uniform(-0.5, 0.5), 4.0, 1.2))

    return Scene("test", viewpoints=draw, nearest=0.3)


@pytest.mark.parametrize("spread", [0.2, 0.5])
def test_choose_views_corridor_stay_inside_with_one_lens(spread: float) -> None:
    views = choose_views(np.random.default_rng(0), scene(), corridor, 64, 48, 10, spread)
    assert len(views) == 10
    eyes = np.array([view.pose[:3, 3] for view in views])
    assert (np.abs(eyes[:, 0]) < HALF_WIDTH - 0.5 * CLEARANCE).all()
    assert ((eyes[:, 2] > 0) & (eyes[:, 2] < 2.5)).all()
    assert all(np.array_equal(view.intrinsics, views[0].intrinsics) for view in views)
    assert views[0].intrinsics[0, 2] == 31.5  # no cut
    axes = np.array([view.pose[:3, 2] for view in views])
    assert (axes @ axes[0] > 0.6).all()


def test_choose_views_no_passable_view_is_empty() -> None:
    def nothing(eye: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, Sequence[Hashable]]:
        return np.full(len(directions), np.inf), [None] * len(directions)

    assert choose_views(np.random.default_rng(0), scene(), nothing, 64, 48, 4, 0.3) == []


def test_develop_one_exposure_keeps_ratios_between_views() -> None:
    dark = np.full((8, 8, 3), 0.02, dtype=np.float32)
    bright = np.full((8, 8, 3), 0.10, dtype=np.float32)
    exposure = exposure_of(np.stack([dark, bright]), 0.18)
    assert develop(bright, 0.18, exposure).mean() > develop(dark, 0.18, exposure).mean() + 30
    assert develop(bright, 0.18).mean() == pytest.approx(develop(dark, 0.18).mean(), abs=1)


def test_add_haze_given_air_is_the_same_for_all_views() -> None:
    depth = np.full((8, 8), 1e6, dtype=np.float32)
    dark, bright = np.full((8, 8, 3), 0.1), np.full((8, 8, 3), 0.9)
    air = air_luminance(np.stack([dark, bright]))
    assert np.allclose(add_haze(dark, depth, 0.1, air), add_haze(bright, depth, 0.1, air))


def test_settings_negative_spread_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match="spread"):
        Settings("somewhere", multiview=-1.0)
