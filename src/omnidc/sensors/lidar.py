"""LiDAR scans drawn into photographs: single pairs, and whole folders of KITTI's layouts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from omnidc.errors import FileError, InputError
from omnidc.frame import Frame, LazyFrames, point_warnings
from omnidc.geometry.rasterize import PointCount, project_to_depth
from omnidc.geometry.transforms import transform
from omnidc.io.calibration import Calibration, kitti_object, kitti_raw
from omnidc.io.images import find_images, read_photograph
from omnidc.io.pointcloud import read_cloud
from omnidc.sensors.photo import take_photo

UNIT_REASON = "meters, as scans are"


@dataclass(frozen=True)
class LidarOptions:
    """What the user may choose for any LiDAR source."""

    columns: int | None = None  # of a .bin; None = KITTI's 4
    occlusion_window: int | None = None  # hidden-point window; None = from the density, 0 = keep all
    max_input_depth: float | None = None  # meters
    masks: Path | None = None  # folder of masks, by COLMAP's names
    ignore_exif: bool = False  # take photographs as stored


def lidar_frame(
    scan: Path,
    image: Path,
    calibration: Calibration,
    options: LidarOptions | None = None,
    name: str | None = None,
) -> Frame:
    """Return one photograph with the points of one scan. Points that a nearer surface hides are dropped."""
    options = options or LidarOptions()
    points = read_cloud(scan, options.columns)
    photo = take_photo(read_photograph(image, ignore_exif=options.ignore_exif), calibration, image.name, options.masks)
    assert photo.K is not None
    local = transform(calibration.camera_from_sensor, points)
    if options.max_input_depth is not None:
        local = local[local[:, 2] <= options.max_input_depth]
        if not len(local):
            raise InputError(
                f"No point of {scan} is nearer than {options.max_input_depth:g} m; raise --max-input-depth."
            )
    sparse, count = project_to_depth(local, photo.K, photo.shape, options.occlusion_window)
    check_projection(count, str(scan), str(image))
    frame = Frame(
        photo.image,
        sparse,
        intrinsics=photo.K,
        name=name or image.stem,
        source=image.name,
        unit_reason=UNIT_REASON,
        warnings=(*point_warnings(sparse), *photo.warnings),
        returns=count.in_image,
        notes=(count.summary(), *photo.notes),
    )
    return photo.finish(frame)


def check_projection(count: PointCount, scan: str, image: str) -> None:
    """Refuse a scan of which nothing lands in the image, and say on which side it went."""
    if count.given and count.in_front == 0:
        raise InputError(
            f"All {count.given} points of {scan} lie behind the camera; "
            "the transform is probably inverted (camera_from_lidar takes LiDAR points to the camera)."
        )
    if count.in_image == 0:
        raise InputError(
            f"None of the {count.in_front} points of {scan} in front of the camera falls into {image}; "
            "check the calibration: axes (x right, y down, z forward in the camera), units and image size."
        )


def kitti_object_frames(
    folder: Path,  # holds image_2 (or image_3), velodyne and calib
    camera: int = 2,
    options: LidarOptions | None = None,
) -> LazyFrames:
    """Open a KITTI object folder (View-of-Delft uses the same layout)."""
    loaders = {}
    for image in find_images(folder / f"image_{camera}"):
        scan, calib = folder / "velodyne" / f"{image.stem}.bin", folder / "calib" / f"{image.stem}.txt"
        if scan.is_file():
            loaders[image.stem] = partial(_object_frame, scan, image, calib, camera, options)
    return _source(loaders, folder)


def _object_frame(scan: Path, image: Path, calib: Path, camera: int, options: LidarOptions | None) -> Frame:
    return lidar_frame(scan, image, kitti_object(calib, camera), options)


def _source(loaders: dict[str, partial[Frame]], folder: Path) -> LazyFrames:
    if not loaders:
        raise InputError(f"No image in {folder} has a scan of the same name; pairs are matched by name without suffix.")
    return LazyFrames(loaders)


def kitti_raw_frames(
    folder: Path,  # a drive (holds image_02 and velodyne_points) or a day with drives
    camera: int = 2,
    options: LidarOptions | None = None,
) -> LazyFrames:
    """Open a drive of KITTI raw data, or of all drives of a day."""
    drives = [folder] if (folder / "velodyne_points").is_dir() else sorted(folder.glob("*_drive_*"))
    loaders = {}
    for drive in drives:
        days = [path for path in (drive, drive.parent) if (path / "calib_cam_to_cam.txt").is_file()]
        if not days:
            raise FileError(f"There is no calib_cam_to_cam.txt beside {drive}; unpack the day's calibration there.")
        calibration = kitti_raw(days[0], camera)
        for image in find_images(drive / f"image_{camera:02d}" / "data"):
            scan = drive / "velodyne_points" / "data" / f"{image.stem}.bin"
            if scan.is_file():  # a few of KITTI's scans are missing
                name = f"{drive.name}/{image.stem}" if len(drives) > 1 else image.stem
                loaders[name] = partial(lidar_frame, scan, image, calibration, options, name)
    return _source(loaders, folder)


def kitti_layout(folder: Path, camera: int = 2) -> str | None:
    """Return "object" or "raw" when the folder is one of KITTI's, else None."""
    if (folder / f"image_{camera}").is_dir() and (folder / "velodyne").is_dir() and (folder / "calib").is_dir():
        return "object"
    if (folder / "velodyne_points").is_dir() or any(folder.glob("*_drive_*/velodyne_points")):
        return "raw"
    return None


def kitti_frames(
    folder: Path,
    camera: int = 2,
    options: LidarOptions | None = None,
) -> LazyFrames:
    """Open a KITTI folder of either layout; `folder/training` is found too."""
    for place in (folder, folder / "training"):
        layout = kitti_layout(place, camera)
        if layout == "object":
            return kitti_object_frames(place, camera, options)
        if layout == "raw":
            return kitti_raw_frames(place, camera, options)
    raise FileError(
        f"{folder} is no KITTI folder: neither image_{camera} + velodyne + calib (object) nor "
        f"image_{camera:02d}/data + velodyne_points/data (raw) is inside."
    )


def paired_frames(
    scans: Path,
    images: Path,
    calibration: Calibration,
    options: LidarOptions | None = None,
) -> LazyFrames:
    """Open a folder of scans and a folder of images that share their file stems and one calibration."""
    found = {path.name.removesuffix(".pcd.bin").removesuffix(path.suffix): path for path in sorted(scans.iterdir())}
    loaders = {
        image.stem: partial(lidar_frame, found[image.stem], image, calibration, options)
        for image in find_images(images)
        if image.stem in found
    }
    return _source(loaders, images)
