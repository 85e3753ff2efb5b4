"""Structure from motion on the CPU with pycolmap: features, matching, mapping; with known poses triangulation."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnidc.errors import ConfigError, FileError, InputError
from omnidc.io.calibration import Calibration
from omnidc.io.colmap_model import Camera
from omnidc.io.files import atomic_new, write_json
from omnidc.io.images import SUFFIXES, read_image
from omnidc.io.untrusted import read_text, untrusted
from omnidc.sensors.colmap import PLACED_SHARE, import_pycolmap
from omnidc.sensors.known_views import KnownView, calibrated_camera, read_known_views

MIN_PHOTOS = 2
SETTINGS = "sfm.json"  # what the model in a workspace was made from


@dataclass(frozen=True)
class SfmOptions:
    """How a model is made from photographs."""

    sequential: bool = False  # match neighbors in the order of their names only, for video
    calibration: Calibration | None = None  # of all photographs; kept as it is
    poses: Path | None = None  # COLMAP model or transforms.json, kept as it is; only points are made

    def __post_init__(self) -> None:
        if self.calibration is not None and self.poses is not None:
            raise ConfigError("Known poses bring their cameras along: give --poses or --calib, not both.")

    def summary(self) -> dict[str, Any]:
        """Return what the model depends on, for the file in the workspace."""
        lens = None if self.calibration is None else self.calibration.distortion
        return {
            "sequential": self.sequential,
            "intrinsics": None if self.calibration is None else self.calibration.K.tolist(),
            "distortion": None if lens is None else lens.tolist(),
            "poses": None if self.poses is None else str(self.poses.resolve()),
        }


def run_sfm(
    images: Path,
    workspace: Path,
    progress: Callable[[str], None] = lambda text: None,
    names: Sequence[str] | None = None,  # photographs; None = all in `images`
    options: SfmOptions | None = None,
) -> Path:
    """Make a COLMAP model of photographs. Return its folder.

    A model that an earlier run with the same options left in `workspace` is used again.
    """
    pycolmap = import_pycolmap()
    options = options or SfmOptions()
    best = workspace / "sparse" / "0"
    if not images.is_dir():
        raise FileError(f"There is no folder of images at {images}; check the path.")
    found = sorted(path.relative_to(images).as_posix() for path in images.rglob("*") if path.suffix.lower() in SUFFIXES)
    chosen = list(names) if names is not None else found
    if (best / "cameras.bin").is_file():
        _check_settings(workspace / SETTINGS, options)
        count = pycolmap.Reconstruction(str(best)).num_reg_images()
        progress(f"using the model of an earlier run in {best}: placed {count} of {len(chosen)} photographs")
        return best
    if len(chosen) < MIN_PHOTOS:
        raise InputError(f"Structure from motion needs at least two photos, but {images} holds {len(chosen)}.")
    known = None if options.poses is None else _known_views(options.poses, images, chosen)
    workspace.mkdir(parents=True, exist_ok=True)
    database = workspace / "database.db"
    database.unlink(missing_ok=True)
    pycolmap.logging.minloglevel = pycolmap.logging.ERROR.value
    groups = _camera_groups(images, chosen if known is None else list(known), options.calibration, known)
    count = sum(len(group) for _, group in groups)
    progress(f"features of {count} photographs, {len(groups)} camera{'s' if len(groups) > 1 else ''}")
    for camera, group in groups:
        reader = pycolmap.ImageReaderOptions()
        if camera is not None:
            reader.camera_model = camera.model
            reader.camera_params = ",".join(repr(float(value)) for value in camera.params)
        pycolmap.extract_features(
            str(database),
            str(images),
            image_names=group,
            camera_mode=pycolmap.CameraMode.SINGLE,
            reader_options=reader,
            device=pycolmap.Device.cpu,
        )
    progress("matching neighbors" if options.sequential else "matching all pairs")
    match = pycolmap.match_sequential if options.sequential else pycolmap.match_exhaustive
    match(str(database), device=pycolmap.Device.cpu)
    scratch = workspace / "mapping"
    scratch.mkdir(exist_ok=True)
    if known is None:
        progress("incremental mapping")
        model = _map(database, images, scratch, keep_cameras=options.calibration is not None)
    else:
        progress("triangulation with the known poses")
        model = _triangulate(database, images, scratch, known)
    placed = model.num_reg_images()
    progress(f"placed {placed} of {len(chosen)} photographs, {model.num_points3D()} points")
    if placed < PLACED_SHARE * len(chosen):
        progress(
            f"warning: {len(chosen) - placed} photographs could not be placed and are left out; "
            + ("no pose of them is known" if known else "photographs with more overlap and texture help")
        )
    write_json(workspace / SETTINGS, options.summary())
    with atomic_new(best) as fresh:  # a half-written model would be used again
        fresh.mkdir()
        model.write_binary(str(fresh))
    shutil.rmtree(scratch)
    return best


def _check_settings(path: Path, options: SfmOptions) -> None:
    """Refuse to take a model for one of other options."""
    before = SfmOptions().summary()  # of a model that COLMAP made
    if path.is_file():
        with untrusted(path, "the settings of an earlier run", "delete it"):
            before = dict(json.loads(read_text(path)))
    changed = [name for name, value in options.summary().items() if before.get(name) != value]
    if changed:
        raise ConfigError(
            f"The model in {path.parent} was made with other {changed[0]}; "
            "name another folder for the new model, or delete that one."
        )


def _known_views(poses: Path, images: Path, chosen: Sequence[str]) -> dict[str, KnownView]:
    """Return the known views of the chosen photographs."""
    views = read_known_views(poses, images)
    known = {name: views[name] for name in chosen if name in views}
    if len(known) < MIN_PHOTOS:
        raise InputError(
            f"{poses} has poses of {len(views)} photographs (first: {min(views, default='none')}), but of those in "
            f"{images} only {len(known)} are named so; two at least are needed."
        )
    for name, view in known.items():  # COLMAP counts stored pixels, whatever EXIF says
        height, width, _ = read_image(images / name, apply_exif=False).shape
        if (width, height) != (view.camera.width, view.camera.height):
            raise InputError(
                f"{images / name} is {width}x{height} but its camera in {poses} is "
                f"{view.camera.width}x{view.camera.height}; give the images that the poses are of."
            )
    return known


def _camera_groups(
    images: Path, chosen: Sequence[str], calibration: Calibration | None, known: Mapping[str, KnownView] | None
) -> list[tuple[Camera | None, list[str]]]:
    """Return photographs that share a camera: of equal known parameters, else of equal size.

    Photos of one size are nearly always of one camera, and a shared one is estimated far better than many.
    """
    groups: dict[tuple[Any, ...], tuple[Camera | None, list[str]]] = {}
    for name in chosen:
        camera: Camera | None = None
        if known is not None:
            camera = known[name].camera
            key: tuple[Any, ...] = (camera.model, camera.width, camera.height, *map(float, camera.params))
        else:
            height, width, _ = read_image(images / name, apply_exif=False).shape
            camera = None if calibration is None else calibrated_camera(calibration, (height, width))
            key = (height, width)
        groups.setdefault(key, (camera, []))[1].append(name)
    return list(groups.values())


def _map(database: Path, images: Path, scratch: Path, keep_cameras: bool) -> Any:
    """Return the largest model of incremental mapping."""
    pycolmap = import_pycolmap()
    settings = pycolmap.IncrementalPipelineOptions()
    if keep_cameras:
        settings.ba_refine_focal_length = settings.ba_refine_extra_params = False
    models = pycolmap.incremental_mapping(str(database), str(images), str(scratch), settings)
    if not models:
        raise InputError(
            f"Structure from motion found no two photos in {images} that overlap enough; "
            "take photos with more overlap and texture, moving sideways between them."
        )
    return max(models.values(), key=lambda model: model.num_reg_images())


def _triangulate(database: Path, images: Path, scratch: Path, known: Mapping[str, KnownView]) -> Any:
    """Return the model with the known cameras and poses, which stay as they are, and triangulated points."""
    pycolmap = import_pycolmap()
    model = pycolmap.Reconstruction()
    # The ids of cameras, rigs, frames and images must be those of the database, where the matches are.
    with pycolmap.Database.open(str(database)) as stored:
        for camera in stored.read_all_cameras():
            model.add_camera(camera)
        for rig in stored.read_all_rigs():
            model.add_rig(rig)
        photographs = {image.image_id: image for image in stored.read_all_images()}
        for frame in stored.read_all_frames():
            (data,) = frame.data_ids  # feature extraction puts every image into a frame of its own
            frame.rig_from_world = pycolmap.Rigid3d(known[photographs[data.id].name].camera_from_world[:3])
            model.add_frame(frame)
        for image in photographs.values():
            model.add_image(image)
    for frame_id in list(model.frames):
        model.register_frame(frame_id)
    settings = pycolmap.IncrementalPipelineOptions()
    settings.triangulation.ignore_two_view_tracks = False  # with known poses they are sound; --min-track decides later
    model = pycolmap.triangulate_points(model, str(database), str(images), str(scratch), options=settings)
    if model.num_points3D() == 0:
        raise InputError(
            "No point could be triangulated from the known poses: check that they are of these photographs, "
            "and camera to world with OpenGL axes in a transforms.json, world to camera in a COLMAP model."
        )
    return model
