"""Simulated sensors: sparse measurements drawn from dense depth, for training and evaluation.

`parse` turns a string into a pattern; `omnidc.patterns.grammar` describes the strings. The functions beside it make
patterns and modifiers directly.
"""

from __future__ import annotations

from omnidc.patterns.grammar import Mixture, dense, parse
from omnidc.patterns.holes import blocks, crop, depth_camera, hole
from omnidc.patterns.keypoints import orb, sift
from omnidc.patterns.lidar import LidarDraw, draw_lidar, lidar, lidar_scan, scan_from_baseline, scan_pixels
from omnidc.patterns.noise import dropout, jitter, outliers
from omnidc.patterns.radar import radar
from omnidc.patterns.sample import Modifier, Pattern, SparseSample
from omnidc.patterns.scatter import random, scatter
from omnidc.patterns.tof import tof

__all__ = [
    "LidarDraw",
    "Mixture",
    "Modifier",
    "Pattern",
    "SparseSample",
    "blocks",
    "crop",
    "dense",
    "depth_camera",
    "draw_lidar",
    "dropout",
    "hole",
    "jitter",
    "lidar",
    "lidar_scan",
    "orb",
    "outliers",
    "parse",
    "radar",
    "random",
    "scan_from_baseline",
    "scan_pixels",
    "scatter",
    "sift",
    "tof",
]
