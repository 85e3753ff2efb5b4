"""A robot's loop: each image with the newest LiDAR scan becomes dense depth.

python examples/robot_loop.py SCANS IMAGES CALIBRATION      folders with the same names, docs/bridges.md
"""

import sys
from pathlib import Path

import omnidc
from omnidc.io.images import read_image
from omnidc.sensors import project_to_depth, read_calibration, read_cloud, transform


def main(scans: str, images: str, calibration: str, network: str = "compact") -> None:
    rig = read_calibration(Path(calibration))
    completer = omnidc.load(network)
    for path in sorted(Path(images).iterdir()):
        image = read_image(path)
        K = rig.for_image(image.shape[:2])
        points = transform(rig.camera_from_sensor, read_cloud(next(Path(scans).glob(f"{path.stem}.*"))))
        sparse, _ = project_to_depth(points, K, image.shape[:2])  # hidden points are dropped
        result = completer.complete(image, sparse, K)
        print(path.stem, result)  # result.depth [H, W] in meters, result.uncertainty, result.points()


if __name__ == "__main__":
    main(*sys.argv[1:])
