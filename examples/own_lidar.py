"""Project a LiDAR scan into a photograph and complete it. The scan is simulated from the bundled example's depth.

python examples/own_lidar.py
"""

from pathlib import Path

import numpy as np

import omnidc
from omnidc.geometry.camera import unproject
from omnidc.geometry.rasterize import project_to_depth
from omnidc.geometry.transforms import transform
from omnidc.io.depth import read_depth
from omnidc.io.images import read_image

DATA = Path(omnidc.__file__).parent / "examples"
K = np.array([[247.888, 0, 159.5], [0, 247.888, 119.5], [0, 0, 1]])
# The scanner is 10 cm above the camera; its axes are x forward, y left, z up.
CAMERA_FROM_LIDAR = np.array([[0, -1, 0, 0], [0, 0, -1, -0.1], [1, 0, 0, 0], [0, 0, 0, 1.0]])


def simulated_scan() -> np.ndarray:  # [N, 3], meters, in the scanner's frame
    """Every eighth row of the true depth, as points of the scanner."""
    truth = read_depth(DATA / "room_depth.png").depth
    points = unproject(truth, K)[4::8].reshape(-1, 3)
    return transform(np.linalg.inv(CAMERA_FROM_LIDAR), points)


def main(network: str = "compact") -> None:
    scan = simulated_scan()  # yours: omnidc.io.pointcloud.read_cloud("scan.pcd")
    image = read_image(DATA / "room.jpg")
    sparse, _ = project_to_depth(transform(CAMERA_FROM_LIDAR, scan), K, image.shape[:2])
    result = omnidc.load(network).complete(image, sparse, K)
    truth = read_depth(DATA / "room_depth.png").depth
    error = np.abs(result.depth - truth) / truth
    print(f"{len(scan):,} points, {(sparse > 0).sum():,} pixels measured, mean relative error {error.mean():.4f}")


if __name__ == "__main__":
    main()
