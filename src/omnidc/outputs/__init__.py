"""Files that leave (and depth files that enter): depth maps, point clouds, previews."""
