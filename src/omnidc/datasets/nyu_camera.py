"""The color camera of NYU Depth v2 at 640x480, from the dataset's toolbox."""

from __future__ import annotations

from omnidc.datasets.decode import camera

NYU_K = camera(518.857901, 519.469611, 325.582449, 253.736166)
