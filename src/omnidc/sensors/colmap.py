"""COLMAP models: sparse points become depth measurements of every registered photograph.

COLMAP puts the center of the upper left pixel at (0.5, 0.5); intrinsics are moved by −0.5 on the way in, and by
+0.5 on the way out. Photographs of cameras with distortion are undistorted to the pinhole camera that COLMAP's own
undistorter would choose.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError, InputError, MissingExtraError
from omnidc.frame import UNDISTORTED, Frame, LazyFrames, OriginalPixels, Unit, point_warnings
from omnidc.geometry.camera import Picture, centered_crop, mark_outside
from omnidc.geometry.orientation import Orientation
from omnidc.geometry.rasterize import project_to_depth
from omnidc.geometry.transforms import Array, inverse
from omnidc.io.colmap_model import Model, read_model
from omnidc.io.files import atomic_files
from omnidc.io.images import read_mask, read_photograph
from omnidc.io.sandbox import Answer, Sandbox
from omnidc.io.untrusted import untrusted
from omnidc.sensors.photo import find_mask_of
from omnidc.sensors.visibility import near_observed_surface

COLMAP_TO_OPENCV = np.array([[1.0, 0.0, -0.5], [0.0, 1.0, -0.5], [0.0, 0.0, 1.0]])  # COLMAP pixels to OpenCV pixels
PLACED_SHARE = 0.8  # of the photographs; a model with fewer is worth a warning


def import_pycolmap() -> Any:
    """Import pycolmap and take SIGTERM back from it.

    Its logging library prints the stack on SIGTERM and can wait for ever for a lock of malloc while it does so. The
    process then does not end.
    """
    first, before = "pycolmap" not in sys.modules, signal.getsignal(signal.SIGTERM)
    try:
        import pycolmap
    except ImportError as error:
        raise MissingExtraError("pycolmap", "colmap", "Reading COLMAP models") from error
    if first and before is not None:
        with suppress(ValueError):  # only the main thread may
            signal.signal(signal.SIGTERM, before)
    return pycolmap


@dataclass
class Filters:
    """Which points of the model count as measurements."""

    min_track: int = 3  # images that saw the point
    max_error: float = 2.0  # mean reprojection error, pixels of the original image
    observed_only: bool = False  # only points that COLMAP matched in the image itself
    occlusion_window: int | None = None  # hidden-point window; None = from the density, 0 = all points, no test


@dataclass(frozen=True)
class DensePoints:
    """Points that are added to a model."""

    points: Array  # [P, 3], world
    colors: npt.NDArray[np.uint8]  # [P, 3]
    seen: npt.NDArray[np.bool_]  # [P, V]
    files: list[str]  # [V], image files of the model


@dataclass
class ColmapModel:
    """A reconstruction, its photographs, and the points that passed the filters."""

    reconstruction: Any  # pycolmap.Reconstruction
    images: Path
    filters: Filters
    masks: Path | None = None  # folder of masks, by COLMAP's names
    points: Array = field(init=False)  # [N, 3], world
    point_ids: npt.NDArray[np.int64] = field(init=False)  # [N], sorted
    notes: list[str] = field(default_factory=list)
    # By image name: points [N] that depth has shown to be hidden there (`omnidc.interop.second_pass`).
    hidden: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    _maps: dict[int, npt.NDArray[np.float32]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Computed here: global mappers of COLMAP 4.0 stored errors in other units than pixels.
        self.reconstruction.update_point_3d_errors()
        chosen = [
            (key, point.xyz)
            for key, point in sorted(self.reconstruction.points3D.items())
            if point.track.length() >= self.filters.min_track
            and not (point.has_error() and point.error > self.filters.max_error)
        ]
        total = len(self.reconstruction.points3D)
        if total == 0:
            raise InputError(
                "The COLMAP model holds no 3D points; triangulate them from its poses with "
                "`omnidc colmap NEW IMAGES --run-sfm --poses MODEL`, or with COLMAP's point_triangulator."
            )
        if not chosen:
            raise InputError(
                f"None of the model's {total} points has a track of {self.filters.min_track} images and a reprojection "
                f"error of at most {self.filters.max_error:g} px; loosen --min-track or --max-error."
            )
        self.point_ids = np.array([key for key, _ in chosen], dtype=np.int64)
        self.points = np.array([xyz for _, xyz in chosen], dtype=np.float64)
        self.notes.append(
            f"{len(chosen)} of {total} points pass the filters (track >= {self.filters.min_track}, "
            f"error <= {self.filters.max_error:g} px)"
        )
        distorted = sorted({camera.model_name for camera in self._cameras() if not is_pinhole(camera)})
        if distorted:
            self.notes.append(f"images are undistorted to a pinhole camera (the model has {', '.join(distorted)})")
        self.notes.append("pixel centers moved from COLMAP's +0.5 to integers")

    def _cameras(self) -> Iterator[Any]:
        for image_id in self.reconstruction.reg_image_ids():
            yield self.reconstruction.images[image_id].camera

    def names(self) -> list[str]:
        """Return the names of the registered images, in order."""
        ids = self.reconstruction.reg_image_ids()
        return sorted(self.reconstruction.images[image_id].name for image_id in ids)

    def _undistort(self, picture: Picture, camera: Any) -> tuple[Picture, Array]:
        _, K = undistorted_camera(camera)
        if is_pinhole(camera):
            return picture, K
        if camera.camera_id not in self._maps:  # most models have one camera: its map serves all images
            self._maps = {camera.camera_id: undistortion_map(camera)}
        x, y = np.moveaxis(self._maps[camera.camera_id], 2, 0)
        out = cv2.remap(picture, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return np.asarray(out, dtype=np.uint8), K

    def frame(self, name: str) -> Frame:
        """Return the view of one registered image. Its name has no suffix."""
        image = self.reconstruction.find_image_with_name(name)
        photo = read_photograph(self.images / name)
        size = (image.camera.height, image.camera.width)
        # COLMAP itself counts stored pixels; some tools turn the photographs before they run it.
        turned = photo.shape != size and photo.orientation.shape(photo.shape) == size
        picture = photo.viewed if turned else photo.image
        if picture.shape[:2] != size:
            raise InputError(
                f"{self.images / name} is {picture.shape[1]}x{picture.shape[0]} but the model's camera is "
                f"{image.camera.width}x{image.camera.height}; give the images that COLMAP was run on."
            )
        mask_file, warnings = find_mask_of(self.masks, name)
        mask = None if mask_file is None else read_mask(mask_file, size)
        taken, pinhole = picture, is_pinhole(image.camera)
        picture, K = self._undistort(picture, image.camera)
        if mask is not None:
            levels = np.where(mask, np.uint8(255), np.uint8(0))
            # A pixel counts where every pixel that it was interpolated from does.
            mask = self._undistort(levels, image.camera)[0] == 255
        camera_from_world = np.eye(4)
        camera_from_world[:3] = image.cam_from_world().matrix()
        seen_ids = np.array([p.point3D_id for p in image.get_observation_points2D()], dtype=np.int64)
        seen = np.isin(self.point_ids, seen_ids)
        chosen = seen if self.filters.observed_only else np.ones(len(seen), dtype=bool)
        points = self.points[chosen] @ camera_from_world[:3, :3].T + camera_from_world[:3, 3]
        is_hidden = ~near_observed_surface(points, K, seen[chosen])
        if name in self.hidden:
            is_hidden |= self.hidden[name][chosen] & ~seen[chosen]
        sparse, count = project_to_depth(
            points,
            K,
            picture.shape[:2],
            occlusion_window=self.filters.occlusion_window,
            known_visible=seen[chosen],
            occluders_only=is_hidden,
        )
        frame = Frame(
            picture,
            sparse,
            intrinsics=K,
            pose=inverse(camera_from_world),
            unit=Unit.SCENE,
            name=str(Path(name).with_suffix("")),
            source=name,
            unit_reason="COLMAP's scale is arbitrary",
            warnings=(*point_warnings(sparse, Unit.SCENE), *warnings),
            notes=(count.summary(), *photo.notes),
            pixels="; ".join(_pixels(photo.orientation, turned, pinhole)),
            original=None if pinhole else OriginalPixels(taken, partial(original_places, image.camera)),
        )
        return frame if mask is None else frame.with_mask(mask)

    def colored_points(self) -> tuple[Array, npt.NDArray[np.uint8]]:
        """Return the points that passed the filters, [N, 3] in the world, and their colors [N, 3]."""
        colors = [self.reconstruction.points3D[int(key)].color for key in self.point_ids]
        return self.points, np.array(colors, dtype=np.uint8)

    def source(self) -> LazyFrames:
        return LazyFrames(
            {str(Path(name).with_suffix("")): partial(self.frame, name) for name in self.names()}, tuple(self.notes)
        )


def _pixels(orientation: Orientation, turned: bool, undistorted: bool) -> Iterator[str]:
    """Yield how a frame's pixels differ from those of its photograph."""
    if orientation:
        if turned:
            yield f"photo {orientation}, as its EXIF tag and the model's size say"
        else:
            yield f"photo as stored, which COLMAP counts; its EXIF tag ({orientation}) is not followed"
    if not undistorted:
        yield UNDISTORTED


def find_model(path: Path) -> Path:
    """Return the folder with the model: `path` itself, or `sparse/0`, `sparse` or `0` inside it."""
    for folder in (path, path / "sparse" / "0", path / "sparse", path / "0", path / "colmap" / "sparse" / "0"):
        if any((folder / f"cameras.{suffix}").is_file() for suffix in ("bin", "txt")):
            return folder
    raise FileError(
        f"There is no COLMAP model in {path}: cameras.bin (or .txt) is missing; "
        "give the folder that holds cameras, images and points3D, or make a model from photographs with "
        "`omnidc colmap NEW IMAGES --run-sfm`."
    )


def _check_camera_names(model: Model, folder: Path) -> None:
    """Name a camera model that pycolmap does not know; it would abort the process."""
    pycolmap = import_pycolmap()
    unknown = {camera.model for camera in model.cameras.values()} - set(pycolmap.CameraModelId.__members__)
    if unknown:
        raise InputError(
            f"The model in {folder} uses the camera model {min(unknown)!r}, which pycolmap {pycolmap.__version__} does "
            "not know; update pycolmap, or convert the camera to OPENCV or another model of COLMAP's list."
        )


TRIAL_SECONDS, BYTES_PER_SECOND = 4.0, 10 * 2**20  # slower than any computer that reads models


def make_sandbox() -> Sandbox:
    """Return the child process in which `open_model` tries a model first."""
    return Sandbox("omnidc.sensors.colmap", memory=64 * 2**30, imports=("pycolmap",))


def try_model(folder: Path) -> Answer:
    """Read a model and forget it; runs in a sandbox."""
    with untrusted(folder, "a COLMAP model", "copy it again"):
        import_pycolmap().Reconstruction(str(folder))
    return {}, []


def open_model(
    model: Path,
    images: Path,
    filters: Filters | None = None,
    masks: Path | None = None,
    sandbox: Sandbox | None = None,
) -> ColmapModel:
    """Read a binary or text model and match it with its photographs.

    sandbox: of this module, kept by a caller that opens many models, since a child takes a second to start.
    """
    pycolmap = import_pycolmap()
    folder = find_model(model)
    if not images.is_dir():
        raise FileError(f"There is no folder of images at {images}; check the path.")
    # pycolmap accepts cut files, and ends or hangs the process on some others: our own reader checks every record,
    # and a child process that may die tries pycolmap first.
    _check_camera_names(read_model(folder), folder)
    trial = sandbox or make_sandbox()
    try:
        size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
        trial.call("try_model", folder, timeout=TRIAL_SECONDS + size / BYTES_PER_SECOND)
    finally:
        if sandbox is None:
            trial.close()
    with untrusted(folder, "a COLMAP model", "copy it again"):
        reconstruction = pycolmap.Reconstruction(str(folder))
    if reconstruction.num_reg_images() == 0:
        raise InputError(f"The COLMAP model in {folder} has no registered images; run COLMAP's mapper first.")
    result = ColmapModel(reconstruction, images, filters or Filters(), masks)
    for camera in result._cameras():
        if camera.model_name == "EQUIRECTANGULAR":
            raise InputError(
                f"The model uses the camera model {camera.model_name}, which sees all around and has no pinhole view; "
                "cut the panoramas into perspective images before running COLMAP."
            )
    names = result.names()
    outside = [name for name in names if Path(name).is_absolute() or ".." in Path(name).parts]
    if outside:
        raise InputError(f"The model names an image outside its folder ({outside[0]}); make the names relative to it.")
    if len({Path(name).with_suffix("") for name in names}) < len(names):
        raise InputError("Two images of the model differ only in their suffix, so that results would collide; rename.")
    missing = [name for name in names if not (images / name).is_file()]
    if missing:
        raise InputError(
            f"{len(missing)} of the model's {len(names)} images are not in {images} (first: {missing[0]}); "
            "give the folder that the names in the model are relative to."
        )
    return result


def is_pinhole(camera: Any) -> bool:
    """Return True where lines are straight. pycolmap also calls fisheye cameras without coefficients undistorted."""
    return bool(camera.is_undistorted()) and "FISHEYE" not in camera.model_name


def undistorted_camera(camera: Any) -> tuple[Any, Array]:
    """Return COLMAP's undistorted camera and its 3×3 matrix with centers at integers."""
    pycolmap = import_pycolmap()
    straight = camera if is_pinhole(camera) else pycolmap.undistort_camera(pycolmap.UndistortCameraOptions(), camera)
    return straight, COLMAP_TO_OPENCV @ straight.calibration_matrix()


def undistortion_map(camera: Any) -> npt.NDArray[np.float32]:
    """Return where in the photograph each pixel of the undistorted camera lies, [H, W, 2] columns and rows (OpenCV)."""
    straight, _ = undistorted_camera(camera)
    columns, rows = np.meshgrid(np.arange(straight.width) + 0.5, np.arange(straight.height) + 0.5)
    pixels = np.stack([columns.ravel(), rows.ravel()], axis=1)
    rays = np.concatenate([straight.cam_from_img(pixels), np.ones((len(pixels), 1))], axis=1)
    source = np.asarray(camera.img_from_cam(rays)).reshape(straight.height, straight.width, 2) - 0.5
    return np.nan_to_num(source, nan=-1e6).astype(np.float32)


def original_places(camera: Any) -> npt.NDArray[np.float32]:
    """Return where each pixel of the photograph lies in the undistorted one, [H, W, 2] (OpenCV); NaN = outside."""
    straight, K = undistorted_camera(camera)
    columns, rows = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    plane = np.asarray(camera.cam_from_img(np.stack([columns.ravel(), rows.ravel()], axis=1)), np.float64)
    places = plane * [K[0, 0], K[1, 1]] + [K[0, 2], K[1, 2]]
    return mark_outside(
        places.reshape(camera.height, camera.width, 2).astype(np.float32), (straight.height, straight.width)
    )


def write_pinhole_model(
    model: ColmapModel,
    folder: Path,
    names: Sequence[str] | None = None,  # image files to keep; None = all
    *,
    centered: bool = False,  # crop each camera until its principal point is in the middle (`centered_crop`)
    rename: Mapping[str, str] | None = None,  # new names of the image files
    dense: DensePoints | None = None,  # points to add
) -> None:
    """Write the model as its frames are: pinhole cameras, same poses, points and names.

    Splatting tools and COLMAP's dense steps want the model of the undistorted images. Keypoints are moved along.
    """
    source = model.reconstruction
    pycolmap = import_pycolmap()
    copy = _without_rigs(source, set(model.names() if names is None else names))
    for camera_id, camera in source.cameras.items():
        straight, matrix = undistorted_camera(camera)
        K = straight.calibration_matrix()
        top, left, height, width = 0, 0, straight.height, straight.width
        if centered:
            top, left, height, width = centered_crop(matrix, (height, width))
        target = copy.cameras[camera_id]
        target.model = pycolmap.CameraModelId.PINHOLE
        target.width, target.height = width, height
        target.params = [K[0, 0], K[1, 1], K[0, 2] - left, K[1, 2] - top]
        for image in copy.images.values():
            if image.camera_id != camera_id or not image.points2D:
                continue
            pixels = np.array([point.xy for point in image.points2D])
            rays = np.asarray(camera.cam_from_img(pixels))
            moved = np.nan_to_num(rays, nan=-1.0) * [K[0, 0], K[1, 1]] + [K[0, 2], K[1, 2]]
            for point, xy in zip(image.points2D, moved - [left, top]):
                point.xy = xy
    if dense is not None:
        _add_points(copy, dense)
    for image in copy.images.values():
        image.name = (rename or {}).get(image.name, image.name)
    copy.update_point_3d_errors()
    with atomic_files(folder) as fresh:
        copy.write_binary(str(fresh))


def _without_rigs(source: Any, names: set[str]) -> Any:
    """Return a copy of a reconstruction with these images, each with a pose of its own instead of its rig's.

    Leaving one image of a rig out of COLMAP's own copy would leave out the others of its frame, too.
    """
    pycolmap = import_pycolmap()
    copy = pycolmap.Reconstruction()
    for camera in source.cameras.values():
        copy.add_camera_with_trivial_rig(camera)
    for image_id in source.reg_image_ids():
        image = source.images[image_id]
        if image.name in names:
            keypoints = np.array([point.xy for point in image.points2D]).reshape(-1, 2)
            fresh = pycolmap.Image(
                name=image.name, keypoints=keypoints, camera_id=image.camera_id, image_id=image.image_id
            )
            copy.add_image_with_trivial_frame(fresh, image.cam_from_world())
    kept = set(copy.images)
    for point in source.points3D.values():
        elements = [element for element in point.track.elements if element.image_id in kept]
        if len(elements) > 1:
            copy.add_point3D(point.xyz, pycolmap.Track(elements), point.color)
    return copy


def _add_points(reconstruction: Any, dense: DensePoints) -> None:
    """Add points with tracks: each view that sees a point gets a keypoint where the point projects."""
    pycolmap = import_pycolmap()
    tracks: list[list[Any]] = [[] for _ in dense.points]
    for column, file in enumerate(dense.files):
        image = reconstruction.find_image_with_name(file)
        rows = np.flatnonzero(dense.seen[:, column])
        local = dense.points[rows] @ image.cam_from_world().rotation.matrix().T + image.cam_from_world().translation
        for row, xy in zip(rows, np.asarray(image.camera.img_from_cam(local))):
            tracks[row].append(pycolmap.TrackElement(image.image_id, len(image.points2D)))
            image.points2D.append(pycolmap.Point2D(xy))
    for xyz, color, track in zip(dense.points, dense.colors, tracks):
        reconstruction.add_point3D(xyz, pycolmap.Track(track), color)
