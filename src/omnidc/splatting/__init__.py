"""3D Gaussian splatting with depth supervision: rasterizers, training, novel-view metrics, `.ply` and a viewer page."""
