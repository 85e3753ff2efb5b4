"""Files in and out: atomic writes, photographs, depth maps, point clouds, meshes, calibrations."""
