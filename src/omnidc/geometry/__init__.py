"""Cameras, rigid transforms, rasterizing of points and depth surfaces: NumPy only, no files."""
