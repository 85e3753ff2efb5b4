"""ROS bags, version 1 and 2, without ROS: image + PointCloud2 (or depth image) + CameraInfo + tf_static.

Messages are paired by their header stamps. Depth goes back as 32FC1 images in meters (REP 118), with a CameraInfo.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from omnidc.errors import FileError, InputError, MissingExtraError
from omnidc.frame import Frame, LazyFrames, point_warnings
from omnidc.geometry.rasterize import Map, PointCount, project_to_depth, register, scatter_lowres
from omnidc.geometry.surface import drop_flying_pixels
from omnidc.geometry.transforms import Array, transform
from omnidc.io.calibration import Calibration
from omnidc.io.files import atomic_new
from omnidc.io.images import Photograph
from omnidc.io.untrusted import untrusted
from omnidc.ros.messages import (
    chain,
    decode_cloud,
    decode_depth,
    decode_image,
    frame_of,
    parse_camera_info,
    transforms_of,
)
from omnidc.sensors.lidar import check_projection
from omnidc.sensors.photo import take_photo
from omnidc.sensors.stamps import closest_gap, nearest_stamps

IMAGE_TYPES = (
    "sensor_msgs/msg/Image",
    "sensor_msgs/msg/CompressedImage",
    "foxglove_msgs/msg/RawImage",
    "foxglove_msgs/msg/CompressedImage",
)
CLOUD_TYPE = "sensor_msgs/msg/PointCloud2"
INFO_TYPES = ("sensor_msgs/msg/CameraInfo", "foxglove_msgs/msg/CameraCalibration")
TF_TYPES = ("tf2_msgs/msg/TFMessage", "tf/msg/tfMessage")
SAME_LENS = 1e-3  # relative difference of the intrinsics of one lens


@contextmanager
def open_bag(path: Path) -> Iterator[Any]:
    """Open a .bag, a .mcap or .db3 file, or the folder of a ROS 2 bag."""
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ImportError as error:
        raise MissingExtraError("rosbags", "ros", "Reading ROS bags") from error
    if not path.exists():
        raise FileError(f"There is no bag at {path}; check the path.")
    place = path.parent if path.suffix in (".db3", ".mcap") and (path.parent / "metadata.yaml").is_file() else path
    with untrusted(path, "a ROS bag", "copy or record it again"):
        reader = AnyReader([place], default_typestore=get_typestore(Stores.ROS2_HUMBLE))
        reader.open()
        try:
            yield reader
        finally:
            reader.close()


def header_stamp(raw: bytes, is_ros2: bool) -> float:
    """Read the seconds of a message's header from its raw bytes: the header comes first in every stamped message."""
    if is_ros2:
        order = "<" if raw[1] & 1 else ">"
        seconds, nanoseconds = struct.unpack_from(f"{order}iI", raw, 4)
    else:
        seconds, nanoseconds = struct.unpack_from("<II", raw, 4)  # after the sequence number
    return float(seconds) + 1e-9 * float(nanoseconds)


def _topic(reader: Any, wanted: str | None, types: tuple[str, ...], what: str, flag: str) -> str:
    """Return the topic that was asked for, or the only one of its type."""
    found = sorted({c.topic for c in reader.connections if c.msgtype in types})
    kinds = {c.topic: c.msgtype for c in reader.connections}
    everything = ", ".join(sorted(kinds)) or "nothing"
    if wanted is not None:
        if wanted in kinds and wanted not in found:
            raise InputError(f"The topic {wanted} of the bag holds {kinds[wanted]}, not the {what} that {flag} names.")
        if wanted not in found:
            listed = f"its {what} topics: {', '.join(found)}" if found else f"all topics: {everything}"
            raise InputError(f"The bag has no topic {wanted} ({listed}); correct {flag}.")
        return wanted
    if not found:
        raise InputError(f"The bag has no {what} topic (all topics: {everything}).")
    if len(found) > 1:
        raise InputError(f"The bag has several {what} topics ({', '.join(found)}); choose one with {flag}.")
    return str(found[0])


@dataclass
class Stamped:
    """Where a message is: header stamp for pairing, log time for finding it again."""

    stamp: float
    log_time: int


def _index(reader: Any, topic: str) -> list[Stamped]:
    connections = [c for c in reader.connections if c.topic == topic]
    return [Stamped(header_stamp(raw, reader.is2), time) for _, time, raw in reader.messages(connections=connections)]


def _message(reader: Any, topic: str, log_time: int | None = None) -> Any:
    connections = [c for c in reader.connections if c.topic == topic]
    span = {} if log_time is None else {"start": log_time, "stop": log_time + 1}
    for connection, _, raw in reader.messages(connections=connections, **span):
        return reader.deserialize(raw, connection.msgtype)
    raise InputError(f"The topic {topic} of the bag holds no message.")


def static_transforms(reader: Any) -> dict[tuple[str, str], Array]:
    """Return parent_from_child of every static transform of the bag; /tf fills in what /tf_static lacks."""
    found: dict[tuple[str, str], Array] = {}
    for topic in ("/tf_static", "/tf"):
        connections = [c for c in reader.connections if c.topic == topic and c.msgtype in TF_TYPES]
        if not connections or (topic == "/tf" and found):
            continue
        for connection, _, raw in reader.messages(connections=connections):
            found.update(transforms_of(reader.deserialize(raw, connection.msgtype)))
            if topic == "/tf":
                break  # moving frames: only the first message, for rigs that publish no static ones
    return found


def _camera_from_sensor(reader: Any, camera: str, sensor: str) -> Array:
    try:
        return chain(static_transforms(reader), camera, sensor)
    except InputError as error:
        raise InputError(f"The bag's {error}; give the transform with --calib.") from error


@dataclass(frozen=True)
class BagOptions:
    """Topics (None = the only one of its type) and limits."""

    image_topic: str | None = None
    cloud_topic: str | None = None
    depth_topic: str | None = None  # instead of a cloud
    info_topic: str | None = None  # None = camera_info beside the image topic
    max_time_diff: float = 0.05  # seconds between image and cloud
    occlusion_window: int | None = None
    calibration: Calibration | None = None  # instead of CameraInfo and tf
    masks: Path | None = None  # folder of masks, by COLMAP's names


@dataclass(frozen=True)
class BagFrames(LazyFrames):
    """The frames of a bag."""

    frame_id: str = ""  # of the camera, for what is published in its place


def _info_for(reader: Any, topic: str, wanted: str | None, flag: str) -> str:
    """Return the camera_info topic that belongs to an image topic: beside it, else the only one."""
    if wanted is None:
        parents = [topic.rsplit("/", depth)[0] for depth in (1, 2)]
        beside = [f"{parent}/camera_info" for parent in parents]
        known = {c.topic for c in reader.connections if c.msgtype in INFO_TYPES}
        wanted = next((name for name in beside if name in known), None)
    return _topic(reader, wanted, INFO_TYPES, "CameraInfo", flag)


def bag_source(path: Path, options: BagOptions | None = None) -> BagFrames:
    """Pair the messages of a bag and return its frames, named after the image's time stamp."""
    options = options or BagOptions()
    with open_bag(path) as reader:
        depth_topic = options.depth_topic
        image_topic = _topic(reader, options.image_topic or _color_topic(reader), IMAGE_TYPES, "image", "--image-topic")
        if depth_topic is not None:
            points_topic = _topic(reader, depth_topic, IMAGE_TYPES, "depth image", "--depth-topic")
        else:
            _offer_depth(reader, options)
            points_topic = _topic(reader, options.cloud_topic, (CLOUD_TYPE,), "PointCloud2", "--cloud-topic")
        pictures, scans = _index(reader, image_topic), _index(reader, points_topic)
        if not pictures or not scans:
            raise InputError(f"The topic {image_topic if not pictures else points_topic} of {path} holds no message.")
        pairs = nearest_stamps([p.stamp for p in pictures], [s.stamp for s in scans], options.max_time_diff)
        if not pairs:
            gap = closest_gap([p.stamp for p in pictures], [s.stamp for s in scans])
            raise InputError(
                f"No message of {points_topic} is within {options.max_time_diff:g} s of an image of {image_topic} "
                f"(closest: {gap:.3g} s); raise --max-time-diff or check the clocks."
            )
        first, scan = _message(reader, image_topic), _message(reader, points_topic)
        depth_camera, same_view = None, False
        if options.calibration is not None:
            camera = options.calibration
        else:
            info = _message(reader, _info_for(reader, image_topic, options.info_topic, "--info-topic"))
            camera = parse_camera_info(info, rectified="rect" in image_topic)
            camera_frame = frame_of(first) or frame_of(info)
            if camera_frame.lstrip("/") != frame_of(scan).lstrip("/"):
                camera.camera_from_sensor = _camera_from_sensor(reader, camera_frame, frame_of(scan))
        if depth_topic is not None:
            depth_info = _message(reader, _info_for(reader, depth_topic, None, "--info-topic"))
            depth_camera = parse_camera_info(depth_info, rectified=True)
            bent = parse_camera_info(depth_info, rectified="rect" in depth_topic)
            same_view = np.array_equal(camera.camera_from_sensor, np.eye(4)) and _same_lens(camera, bent)
        frame_id = frame_of(first)
    loaders = {}
    for i, j in pairs:
        name = f"{pictures[i].stamp:.6f}"
        loaders[name] = partial(
            _bag_frame,
            path,
            name,
            (image_topic, pictures[i]),
            (points_topic, scans[j]),
            camera,
            depth_camera,
            same_view,
            options,
        )
    notes = [
        f"{len(pairs)} pairs of {image_topic} and {points_topic} within {options.max_time_diff:g} s; depth in meters"
    ]
    if len(pairs) < len(pictures):
        lone = len(pictures) - len(pairs)
        notes.append(f"{lone} of {len(pictures)} images have no partner in {points_topic} and are left out")
    if same_view:
        notes.append(f"{points_topic} shows the camera's own view: its pixels are copied")
    return BagFrames(loaders, tuple(notes), frame_id=frame_id)


def _color_topic(reader: Any) -> str | None:
    """Return the only image topic whose name does not say depth; refuse where there are several, or depth alone."""
    images = sorted({c.topic for c in reader.connections if c.msgtype in IMAGE_TYPES})
    colors = [topic for topic in images if "depth" not in topic]
    if len(colors) > 1:
        raise InputError(f"The bag has several image topics ({', '.join(colors)}); choose one with --image-topic.")
    if images and not colors:
        raise InputError(
            f"The bag has depth images only ({', '.join(images)}), going by their names; "
            "name the photographs' topic with --image-topic."
        )
    return colors[0] if colors else None


def _offer_depth(reader: Any, options: BagOptions) -> None:
    """Name --depth-topic where a bag has depth images and no cloud."""
    clouds = [c.topic for c in reader.connections if c.msgtype == CLOUD_TYPE]
    depths = sorted({c.topic for c in reader.connections if c.msgtype in IMAGE_TYPES and "depth" in c.topic})
    if options.cloud_topic is None and not clouds and depths:
        raise InputError(f"The bag has no PointCloud2 topic but depth images: give --depth-topic {depths[0]}.")


def _same_lens(camera: Calibration, other: Calibration) -> bool:
    """Return True for two cameras with the same view, at any resolution."""
    if camera.image_size is None or other.image_size is None:
        same = np.allclose(camera.K, other.K, rtol=SAME_LENS)
    else:
        shape = (camera.image_size[1], camera.image_size[0])
        aspect = camera.image_size[0] * other.image_size[1] / (camera.image_size[1] * other.image_size[0])
        same = abs(aspect - 1) < SAME_LENS and np.allclose(camera.K, other.for_image(shape), rtol=SAME_LENS)
    mine, theirs = (np.zeros(0) if c.distortion is None else c.distortion for c in (camera, other))
    return bool(same) and np.array_equal(mine, theirs)


def _bag_frame(
    path: Path,
    name: str,
    image_at: tuple[str, Stamped],
    scan_at: tuple[str, Stamped],
    camera: Calibration,
    depth_camera: Calibration | None,
    same_view: bool,  # the depth image shows the camera's own view
    options: BagOptions,
) -> Frame:
    with open_bag(path) as reader:
        image = _message(reader, image_at[0], image_at[1].log_time)
        scan = _message(reader, scan_at[0], scan_at[1].log_time)
        photo = take_photo(
            Photograph(np.array(decode_image(image))), camera, f"{name}.png", options.masks, straighten=not same_view
        )
        assert photo.K is not None
        if same_view:
            depth = drop_flying_pixels(decode_depth(scan))
            sparse = scatter_lowres(depth, photo.shape)
            measured = int((depth > 0).sum())
            count = PointCount(measured, measured, measured, 0, int((sparse > 0).sum()))
        elif depth_camera is not None:
            depth = drop_flying_pixels(decode_depth(scan))
            depth_K = depth_camera.for_image(depth.shape)
            sparse, count = register(depth, depth_K, photo.K, camera.camera_from_sensor, photo.shape)
        else:
            points = decode_cloud(scan)
            if not len(points):
                raise InputError(f"The scan at {scan_at[1].stamp:.6f} s of {scan_at[0]} is empty.")
            local = transform(camera.camera_from_sensor, points)
            sparse, count = project_to_depth(local, photo.K, photo.shape, options.occlusion_window)
    if not same_view:
        check_projection(count, f"the scan at {scan_at[1].stamp:.6f} s", f"the image at {name} s")
    gap = scan_at[1].stamp - image_at[1].stamp
    frame = Frame(
        photo.image,
        sparse,
        intrinsics=photo.K,
        name=name,
        timestamp=image_at[1].stamp,
        source=f"{name}.png",
        unit_reason="meters, by REP 118",
        warnings=(*point_warnings(sparse), *photo.warnings),
        returns=count.in_image,
        notes=(count.summary(), f"scan {gap:+.3f} s from the image", *photo.notes),
    )
    return photo.finish(frame)


@contextmanager
def _bag_errors() -> Iterator[None]:
    """Explain errors of SQLite, which stores ROS 2 bags and reports a full disk in its own way."""
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(str(error)) from error


def write_depth_bag(
    path: Path,  # ends in .bag for ROS 1; otherwise the folder of a ROS 2 bag
    frames: Iterable[tuple[float, Map, Array, str]],  # stamp in seconds, depth [H, W] in meters (0 = none), K, frame_id
    topic: str = "/omnidc/depth",
) -> int:
    """Write depth images (32FC1, meters; 0 becomes NaN) and their CameraInfo as a new bag; return how many."""
    try:
        from rosbags.rosbag1 import Writer as Writer1
        from rosbags.rosbag2 import Writer as Writer2
        from rosbags.typesys import Stores, get_typestore
    except ImportError as error:
        raise MissingExtraError("rosbags", "ros", "Writing ROS bags") from error
    if path.exists():
        raise FileError(f"{path} exists already; name another bag with --write-bag.")
    ros1 = path.suffix == ".bag"
    store = get_typestore(Stores.ROS1_NOETIC if ros1 else Stores.ROS2_HUMBLE)
    types: Any = store.types
    info_topic = f"{topic.rsplit('/', 1)[0]}/camera_info"
    serialize = store.serialize_ros1 if ros1 else store.serialize_cdr
    sequence = {"seq": 0} if ros1 else {}
    written = 0

    def bag_writer(place: Path) -> Any:
        return Writer1(place) if ros1 else Writer2(place, version=9)

    with atomic_new(path) as temporary, _bag_errors(), bag_writer(temporary) as writer:
        images = writer.add_connection(topic, IMAGE_TYPES[0], typestore=store)
        infos = writer.add_connection(info_topic, INFO_TYPES[0], typestore=store)
        for stamp, depth, K, frame_id in frames:
            log_time = round(stamp * 1e9)
            whole, nano = divmod(log_time, 1_000_000_000)
            time = types["builtin_interfaces/msg/Time"](sec=whole, nanosec=nano)
            header = types["std_msgs/msg/Header"](**sequence, stamp=time, frame_id=frame_id)
            height, width = depth.shape
            image = types[IMAGE_TYPES[0]](
                header=header,
                height=height,
                width=width,
                encoding="32FC1",
                is_bigendian=0,
                step=4 * width,
                data=np.where(depth > 0, depth, np.nan).astype("<f4").view(np.uint8).ravel(),
            )
            roi = types["sensor_msgs/msg/RegionOfInterest"](x_offset=0, y_offset=0, height=0, width=0, do_rectify=False)
            P = np.hstack([K, np.zeros((3, 1))]).ravel()
            numbers: dict[str, Any] = {"d": np.zeros(5), "k": K.ravel().copy(), "r": np.eye(3).ravel(), "p": P}
            if ros1:
                numbers = {name.upper(): value for name, value in numbers.items()}
            info = types[INFO_TYPES[0]](
                header=header,
                height=height,
                width=width,
                distortion_model="plumb_bob",
                binning_x=0,
                binning_y=0,
                roi=roi,
                **numbers,
            )
            writer.write(images, log_time, serialize(image, IMAGE_TYPES[0]))
            writer.write(infos, log_time, serialize(info, INFO_TYPES[0]))
            written += 1
    return written
