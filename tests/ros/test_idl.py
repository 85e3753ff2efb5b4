"""The DDS types against an independent implementation of ROS 2's wire format."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cyclonedds")
pytest.importorskip("rosbags")

from rosbags.typesys import Stores, get_typestore

from omnidc.ros import idl

STORE = get_typestore(Stores.ROS2_HUMBLE)
HEADER = idl.Header(idl.Time(12, 345), "camera")
LINK = idl.TransformStamped(HEADER, "lidar", idl.Transform(idl.Vector3(1, 2, 3), idl.Quaternion(0, 0, 0.6, 0.8)))
MESSAGES = {
    "sensor_msgs/msg/Image": idl.Image(HEADER, 2, 3, "16UC1", 0, 6, bytes(range(12))),
    "sensor_msgs/msg/CameraInfo": idl.CameraInfo(
        HEADER, 2, 3, "plumb_bob", [0.1, 0.2, 0.3], [float(k) for k in range(9)], [1.0] * 9, [0.5] * 12
    ),
    "sensor_msgs/msg/PointCloud2": idl.PointCloud2(
        HEADER, 1, 2, [idl.PointField("x", 0, 7, 1), idl.PointField("odd", 4, 8, 2)], False, 8, 16, bytes(16), True
    ),
    "tf2_msgs/msg/TFMessage": idl.TFMessage([LINK, LINK]),
}


def compare(ours: object, theirs: object) -> None:
    """Every field of ours has the same value in theirs."""
    for name in ours.__dataclass_fields__:  # type: ignore[attr-defined]
        mine, other = getattr(ours, name), getattr(theirs, name)
        if hasattr(mine, "__dataclass_fields__"):
            compare(mine, other)
        elif isinstance(mine, list) and mine and hasattr(mine[0], "__dataclass_fields__"):
            assert len(mine) == len(other)
            for pair in zip(mine, other):
                compare(*pair)
        elif isinstance(mine, bytes | list):
            assert np.array_equal(np.array(list(mine)), np.asarray(other)), name
        else:
            assert mine == other, name


@pytest.mark.parametrize("kind", MESSAGES)
def test_wire_format_equals_that_of_rosbags(kind: str) -> None:
    wire = MESSAGES[kind].serialize(use_version_2=False)
    theirs = STORE.deserialize_cdr(wire, kind)
    compare(MESSAGES[kind], theirs)
    again = type(MESSAGES[kind]).deserialize(bytes(STORE.serialize_cdr(theirs, kind)))
    compare(again, theirs)


def test_type_names_are_mangled_as_ros_does() -> None:
    names = {kind: type(message).__idl_typename__.replace(".", "::") for kind, message in MESSAGES.items()}
    for kind, name in names.items():
        package, _, short = kind.split("/")
        assert name == f"{package}::msg::dds_::{short}_"
