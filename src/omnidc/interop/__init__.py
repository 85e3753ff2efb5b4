"""Folders and files for other tools: nerfstudio, Gaussian splatting, COLMAP, fused clouds."""
