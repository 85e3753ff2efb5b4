"""Simulated sensors: sparse measurements drawn from dense depth, for training and evaluation.

`parse` turns a string into a pattern; `omnidc.patterns.grammar` describes the strings. The functions beside it make
patterns and modifiers directly.
"""

from __future__ import annotations

from omnidc.patterns.boundary import mixed
from omnidc.patterns.grammar import Mixture, dense, parse
from omnidc.patterns.holes import blocks, depth_camera, hole, limit_range
from omnidc.patterns.keypoints import orb, sift
from omnidc.patterns.lidar import LidarDraw, draw_lidar, lidar, lidar_scan, scan_from_baseline, scan_pixels
from omnidc.patterns.noise import dropout, jitter, outliers, speckle, spikes
from omnidc.patterns.radar import radar
from omnidc.patterns.regions import clusters, ghosts, hidden, materials
from omnidc.patterns.sample import Modifier, Pattern, SparseSample
from omnidc.patterns.scatter import random, scatter
from omnidc.patterns.tof import phone, tof

__all__ = [
    "LidarDraw",
    "Mixture",
    "Modifier",
    "Pattern",
    "SparseSample",
    "blocks",
    "clusters",
    "dense",
    "depth_camera",
    "draw_lidar",
    "dropout",
    "ghosts",
    "hidden",
    "hole",
    "jitter",
    "lidar",
    "lidar_scan",
    "limit_range",
    "materials",
    "mixed",
    "orb",
    "outliers",
    "parse",
    "phone",
    "radar",
    "random",
    "scan_from_baseline",
    "scan_pixels",
    "scatter",
    "sift",
    "speckle",
    "spikes",
    "tof",
]
