"""The node's core with plain objects as messages; no ROS, no DDS."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from omnidc.errors import ConfigError, InputError
from omnidc.ros.core import CoreOptions, MessageTypes, NodeCore, output_messages
from omnidc.ros.messages import decode_cloud, decode_depth, pixel_rows

SIZE = (6, 8)


def header(stamp: float, frame: str = "camera") -> SimpleNamespace:
    return SimpleNamespace(
        stamp=SimpleNamespace(sec=int(stamp), nanosec=round((stamp - int(stamp)) * 1e9)), frame_id=frame
    )


def image(values: np.ndarray, encoding: str, stamp: float = 1.0, frame: str = "camera") -> SimpleNamespace:
    data = np.ascontiguousarray(values).tobytes()
    height, width = values.shape[:2]
    return SimpleNamespace(
        header=header(stamp, frame), height=height, width=width, encoding=encoding, is_bigendian=0,
        step=len(data) // max(height, 1), data=data,
    )  # fmt: skip


def photo(stamp: float) -> SimpleNamespace:
    return image(np.full((*SIZE, 3), 90, np.uint8), "rgb8", stamp)


def sparse(stamp: float, value: float = 2.0) -> SimpleNamespace:
    depth = np.zeros(SIZE, np.float32)
    depth[2, 3] = value
    return image(depth, "32FC1", stamp)


def info(stamp: float = 0.0) -> SimpleNamespace:
    K = [10.0, 0, 3.5, 0, 10.0, 2.5, 0, 0, 1]
    return SimpleNamespace(
        header=header(stamp), height=SIZE[0], width=SIZE[1], distortion_model="plumb_bob", d=[0.0] * 5, k=K,
        p=[10.0, 0, 3.5, 0, 0, 10.0, 2.5, 0, 0, 0, 1, 0],
    )  # fmt: skip


class Constant:
    """A completer that returns the median of its measurements, with sky in the first row."""

    def complete(self, image: Any, sparse: Any, intrinsics: Any = None, sky: str = "mask") -> Any:
        depth = np.full(sparse.shape, np.median(sparse[sparse > 0]), np.float32)
        probability = np.zeros(sparse.shape, np.float32)
        probability[0] = 0.9
        if sky == "mask":
            depth[0] = 0
        confidence = np.where(sparse > 0, 1, np.nan).astype(np.float32)
        return SimpleNamespace(depth=depth, uncertainty=0.1 * depth, input_confidence=confidence, sky=probability)


TYPES = MessageTypes(*[SimpleNamespace] * 5)


def core(**options: Any) -> NodeCore:
    made = NodeCore(Constant(), TYPES, CoreOptions(**options))
    made.add_info(info())
    return made


def test_pair_keeps_stamp_and_frame_of_the_image() -> None:
    node = core()
    node.add_image(photo(1.25), 0.0)
    node.add_measurement(sparse(1.26))
    pair = node.take(0.0)
    assert pair is not None
    messages = dict(output_messages(node.process(pair)))
    assert set(messages) == {"depth", "camera_info", "points", "confidence", "uncertainty"}
    for message in messages.values():
        assert (message.header.stamp.sec, message.header.stamp.nanosec) == (1, 250_000_000)
        assert message.header.frame_id == "camera"
    depth = np.frombuffer(messages["depth"].data, "<f4").reshape(SIZE)
    assert np.isposinf(depth[0]).all()
    assert (depth[1:] == 2.0).all()
    points = decode_cloud(messages["points"])
    assert len(points) == depth[1:].size
    assert np.allclose(points[:, 2], 2.0)
    assert np.allclose(messages["camera_info"].k, [10.0, 0, 3.5, 0, 10.0, 2.5, 0, 0, 1])


def test_sky_depth_keeps_the_computed_value() -> None:
    node = core(sky="depth")
    node.add_image(photo(1), 0.0)
    node.add_measurement(sparse(1))
    pair = node.take(0.0)
    assert pair is not None
    assert (decode_depth(node.process(pair).depth) == 2.0).all()


def test_take_drops_older_frames_rather_than_lag() -> None:
    node = core()
    for k in range(5):
        node.add_image(photo(k), float(k))
        node.add_measurement(sparse(k))
    pair = node.take(5.0)
    assert pair is not None
    assert pair.image.header.stamp.sec == 4
    assert node.dropped == 4
    assert node.take(5.0) is None


def test_take_without_a_partner_in_time_waits() -> None:
    node = core(max_time_diff=0.01)
    node.add_image(photo(1.0), 0.0)
    node.add_measurement(sparse(1.5))
    assert node.take(0.0) is None
    node.add_measurement(sparse(1.005))
    assert node.take(0.0) is not None


def test_take_before_camera_info_waits() -> None:
    node = NodeCore(Constant(), TYPES)
    node.add_image(photo(1.0), 0.0)
    node.add_measurement(sparse(1.0))
    assert node.take(0.0) is None
    node.add_info(info())
    assert node.take(0.0) is not None


def test_rate_limits_what_is_computed() -> None:
    node = core(max_rate=2.0)
    taken = 0
    for k in range(20):
        node.add_image(photo(k / 10), k / 10)
        node.add_measurement(sparse(k / 10))
        taken += node.take(k / 10) is not None
    assert taken == 4


def test_clouds_go_through_static_transforms() -> None:
    node = core()
    record = np.zeros(1, [("x", "<f4"), ("y", "<f4"), ("z", "<f4")])
    record["x"] = 3.0  # forward in the lidar's frame
    fields = [SimpleNamespace(name=name, offset=4 * k, datatype=7, count=1) for k, name in enumerate("xyz")]
    cloud = SimpleNamespace(
        header=header(1.0, "lidar"), height=1, width=1, fields=fields, is_bigendian=False, point_step=12, row_step=12,
        data=record.tobytes(), is_dense=True,
    )  # fmt: skip
    node.add_image(photo(1.0), 0.0)
    node.add_measurement(cloud)
    pair = node.take(0.0)
    assert pair is not None
    with pytest.raises(InputError, match="no chain from 'lidar' to 'camera'"):
        node.process(pair)
    turn = SimpleNamespace(x=-0.5, y=0.5, z=-0.5, w=0.5)
    link = SimpleNamespace(
        header=header(0, "lidar"), child_frame_id="camera",
        transform=SimpleNamespace(translation=SimpleNamespace(x=0.5, y=0.0, z=0.0), rotation=turn),
    )  # fmt: skip
    node.add_transforms(SimpleNamespace(transforms=[link]))
    assert np.allclose(decode_depth(node.process(pair).depth)[1:], 2.5)


def test_depth_of_another_size_needs_its_camera_info() -> None:
    node = core()
    small = image(np.full((3, 4), 2000, np.uint16), "16UC1")
    node.add_image(photo(1.0), 0.0)
    node.add_measurement(small)
    pair = node.take(0.0)
    assert pair is not None
    with pytest.raises(InputError, match="not aligned"):
        node.process(pair)
    node.add_depth_info(info())
    assert np.allclose(decode_depth(node.process(pair).depth)[1:], 2.0)


# The cases of depth_image_proc's tests: empty and truncated images of both encodings.
@pytest.mark.parametrize(("encoding", "kind"), [("16UC1", np.uint16), ("32FC1", np.float32)])
def test_empty_depth_image_is_refused(encoding: str, kind: type) -> None:
    with pytest.raises(InputError, match="is empty"):
        decode_depth(image(np.zeros((0, 8), kind), encoding))
    with pytest.raises(InputError, match="is empty"):
        decode_depth(image(np.zeros((6, 0), kind), encoding))


@pytest.mark.parametrize(("encoding", "kind"), [("16UC1", np.uint16), ("32FC1", np.float32)])
@pytest.mark.parametrize("missing", [1, 17, 10_000])
def test_truncated_depth_image_is_refused(encoding: str, kind: type, missing: int) -> None:
    message = image(np.ones(SIZE, kind), encoding)
    message.data = message.data[: max(len(message.data) - missing, 0)]
    with pytest.raises(InputError, match="truncated"):
        decode_depth(message)


def test_step_shorter_than_a_row_is_refused() -> None:
    message = image(np.ones(SIZE, np.float32), "32FC1")
    message.step //= 2
    with pytest.raises(InputError, match="step is wrong"):
        pixel_rows(message, 4)


def test_padded_rows_are_cut() -> None:
    padded = np.zeros((2, 4), np.uint16)
    padded[:, :3] = 1500
    message = image(padded, "16UC1")
    message.width = 3
    assert decode_depth(message).tolist() == [[1.5] * 3] * 2


def test_big_endian_depth_is_read() -> None:
    message = image(np.array([[1.5, 2.5]], ">f4"), "32FC1")
    message.is_bigendian = 1
    assert decode_depth(message).tolist() == [[1.5, 2.5]]


@pytest.mark.parametrize("options", [{"max_time_diff": -1.0}, {"max_rate": 0.0}, {"sky": "blue"}])
def test_options_without_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        CoreOptions(**options)
