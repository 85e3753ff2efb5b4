"""A robot's loop: each image with its LiDAR scan becomes dense depth. Without arguments three scans are simulated.

python examples/robot_loop.py [SCANS IMAGES CALIBRATION]      folders with the same names, docs/bridges.md
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import omnidc
from omnidc.geometry.camera import unproject
from omnidc.io.depth import read_depth
from omnidc.io.images import read_image
from omnidc.sensors import project_to_depth, read_calibration, read_cloud, transform

DATA = Path(omnidc.__file__).parent / "examples"
K = np.array([[247.888, 0, 159.5], [0, 247.888, 119.5], [0, 0, 1]])  # of the bundled room


def simulate(folder: Path) -> tuple[Path, Path, Path]:
    """Write scans, images and calibration: other rows of the bundled example's true depth in each scan."""
    scans, images, calibration = folder / "scans", folder / "images", folder / "calibration.json"
    scans.mkdir()
    images.mkdir()
    points = unproject(read_depth(DATA / "room_depth.png").depth, K)  # [H, W, 3], meters
    for k in range(3):
        np.save(scans / f"{k}.npy", points[k::8].reshape(-1, 3).astype(np.float32))
        (images / f"{k}.jpg").write_bytes((DATA / "room.jpg").read_bytes())
    calibration.write_text(json.dumps({"K": K.tolist(), "camera_from_lidar": np.eye(4).tolist()}))
    return scans, images, calibration


def run(scans: Path, images: Path, calibration: Path, network: str) -> None:
    rig = read_calibration(calibration)
    completer = omnidc.load(network)
    for path in sorted(images.iterdir()):
        image = read_image(path)
        K = rig.for_image(image.shape[:2])
        points = transform(rig.camera_from_sensor, read_cloud(next(scans.glob(f"{path.stem}.*"))))
        sparse, _ = project_to_depth(points, K, image.shape[:2])  # hidden points are dropped
        result = completer.complete(image, sparse, K)
        print(path.stem, result)  # result.depth [H, W] in meters, result.uncertainty, result.points()


def main(*paths: str, network: str = "compact") -> None:
    with TemporaryDirectory() as folder:
        scans, images, calibration = map(Path, paths) if paths else simulate(Path(folder))
        run(scans, images, calibration, network)


if __name__ == "__main__":
    main(*sys.argv[1:])
