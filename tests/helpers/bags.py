"""ROS bags of a wall in front of a camera and a LiDAR, written with `rosbags`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from makers import HEIGHT, WIDTH, wall

IMAGE, CLOUD = "sensor_msgs/msg/Image", "sensor_msgs/msg/PointCloud2"
INFO, TF = "sensor_msgs/msg/CameraInfo", "tf2_msgs/msg/TFMessage"
K = np.array([60.0, 0.0, 31.5, 0.0, 60.0, 23.5, 0.0, 0.0, 1.0])


class Maker:
    """Messages of one ROS version."""

    def __init__(self, ros1: bool) -> None:
        self.ros1 = ros1
        self.store = get_typestore(Stores.ROS1_NOETIC if ros1 else Stores.ROS2_HUMBLE)
        if ros1:  # ROS 1 bags carry their definitions; only this one is not in the store
            self.store.register(get_types_from_msg("geometry_msgs/TransformStamped[] transforms", TF))

    def make(self, message: str, /, **fields: Any) -> Any:
        return self.store.types[message](**fields)

    def header(self, stamp: float, frame: str) -> Any:
        nano = round(stamp * 1e9)
        time = self.make("builtin_interfaces/msg/Time", sec=nano // 10**9, nanosec=nano % 10**9)
        extra = {"seq": 0} if self.ros1 else {}
        return self.make("std_msgs/msg/Header", **extra, stamp=time, frame_id=frame)

    def image(self, stamp: float, pixels: np.ndarray, encoding: str = "rgb8", frame: str = "camera_optical") -> Any:
        height, width = pixels.shape[:2]
        data = np.ascontiguousarray(pixels).view(np.uint8).ravel()
        return self.make(
            IMAGE,
            header=self.header(stamp, frame),
            height=height,
            width=width,
            encoding=encoding,
            is_bigendian=0,
            step=data.size // height,
            data=data,
        )

    def cloud(self, stamp: float, points: np.ndarray, frame: str = "lidar") -> Any:
        record = np.zeros(len(points), [("i", "<f4"), ("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("pad", "<u4")])
        for axis, column in zip("xyz", points.T):
            record[axis] = column
        field = lambda name, offset: self.make(  # noqa: E731
            "sensor_msgs/msg/PointField", name=name, offset=offset, datatype=7, count=1
        )
        return self.make(
            CLOUD,
            header=self.header(stamp, frame),
            height=1,
            width=len(points),
            fields=[field("intensity", 0), field("x", 4), field("y", 8), field("z", 12)],
            is_bigendian=False,
            point_step=20,
            row_step=20 * len(points),
            data=record.view(np.uint8).ravel(),
            is_dense=True,
        )

    def info(self, stamp: float, frame: str = "camera_optical", d: tuple[float, ...] = (0.0,) * 5) -> Any:
        names = ("D", "K", "R", "P") if self.ros1 else ("d", "k", "r", "p")
        P = np.hstack([K.reshape(3, 3), np.zeros((3, 1))]).ravel()
        roi = self.make("sensor_msgs/msg/RegionOfInterest", x_offset=0, y_offset=0, height=0, width=0, do_rectify=False)
        return self.make(
            INFO,
            header=self.header(stamp, frame),
            height=HEIGHT,
            width=WIDTH,
            distortion_model="plumb_bob",
            binning_x=0,
            binning_y=0,
            roi=roi,
            **dict(zip(names, (np.array(d), K.copy(), np.eye(3).ravel(), P))),
        )

    def tf(self, links: list[tuple[str, str, tuple[float, ...], tuple[float, ...]]]) -> Any:
        transforms = [
            self.make(
                "geometry_msgs/msg/TransformStamped",
                header=self.header(0.0, parent),
                child_frame_id=child,
                transform=self.make(
                    "geometry_msgs/msg/Transform",
                    translation=self.make("geometry_msgs/msg/Vector3", x=t[0], y=t[1], z=t[2]),
                    rotation=self.make("geometry_msgs/msg/Quaternion", x=q[0], y=q[1], z=q[2], w=q[3]),
                ),
            )
            for parent, child, t, q in links
        ]
        return self.make(TF, transforms=transforms)


# base → lidar: 1 up. base → camera: 1 up, 0.5 forward, turned to optical axes (x right, y down, z forward).
LINKS = [
    ("base", "lidar", (0.0, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0)),
    ("base", "camera_optical", (0.5, 0.0, 1.0), (-0.5, 0.5, -0.5, 0.5)),
]


def write_bag(
    path: Path,
    ros1: bool,
    offset: float = 0.01,  # seconds from image to scan
    links: Any = LINKS,
    with_cloud: bool = True,
    depth: bool | np.ndarray = False,  # or the millimeters of the depth images
    empty: bool = False,
    lone_images: int = 0,  # more images, without scans
    compressed: tuple[str, bytes] | None = None,  # format and data of `compressedDepth` images
) -> Path:
    maker = Maker(ros1)
    writer: Any = Writer1(path) if ros1 else Writer2(path, version=9)
    serialize = maker.store.serialize_ros1 if ros1 else maker.store.serialize_cdr
    pixels = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8)
    camera = wall(np.random.default_rng(1), 300, 5.0, 2.0)  # 5 m in front of the camera
    lidar = np.stack([camera[:, 2] + 0.5, -camera[:, 0], -camera[:, 1]], axis=1)
    messages: list[tuple[float, str, str, Any]] = [(0.5, "/tf_static", TF, maker.tf(links))]
    for stamp in (1.0, 2.0):
        messages.append((stamp, "/camera/image_raw", IMAGE, maker.image(stamp, pixels)))
        messages.append((stamp, "/camera/camera_info", INFO, maker.info(stamp)))
        if with_cloud:
            points = np.zeros((4, 3)) if empty else lidar
            messages.append((stamp + 0.2, "/points", CLOUD, maker.cloud(stamp + offset, points)))
        if depth is not False:
            flat = np.full((HEIGHT, WIDTH), 3000, np.uint16) if depth is True else depth
            image = maker.image(stamp + offset, flat, "16UC1", "camera_optical")
            messages.append((stamp + 0.1, "/depth/image_rect_raw", IMAGE, image))
            messages.append((stamp + 0.1, "/depth/camera_info", INFO, maker.info(stamp)))
        if compressed is not None:
            packed = maker.make(
                "sensor_msgs/msg/CompressedImage",
                header=maker.header(stamp + offset, "camera_optical"),
                format=compressed[0],
                data=np.frombuffer(compressed[1], np.uint8),
            )
            messages.append(
                (stamp + 0.1, "/depth/image_rect/compressedDepth", "sensor_msgs/msg/CompressedImage", packed)
            )
            messages.append((stamp + 0.1, "/depth/camera_info", INFO, maker.info(stamp)))
    for i in range(lone_images):
        messages.append((3.0 + i, "/camera/image_raw", IMAGE, maker.image(3.0 + i, pixels)))
    with writer:
        kinds = {topic: kind for _, topic, kind, _ in messages}
        connections = {
            topic: writer.add_connection(topic, kind, typestore=maker.store) for topic, kind in kinds.items()
        }
        for time, topic, kind, message in sorted(messages, key=lambda entry: entry[0]):
            writer.write(connections[topic], round(time * 1e9), serialize(message, kind))
    return path
