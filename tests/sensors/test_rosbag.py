from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from makers import HEIGHT, WIDTH

pytest.importorskip("rosbags")

from bags import LINKS, Maker, write_bag
from omnidc.errors import FileError, InputError
from omnidc.io.calibration import Calibration
from omnidc.ros.compressed_depth import HEADER as HEADER_OF_COMPRESSED_DEPTH
from omnidc.ros.messages import chain, decode_depth, decode_image, parse_camera_info
from omnidc.sensors.rosbag import BagOptions, bag_source, write_depth_bag

BOTH = pytest.mark.parametrize("ros1", [True, False], ids=["ros1", "ros2"])


def bag(tmp_path: Path, ros1: bool, **options: object) -> Path:
    return write_bag(tmp_path / ("a.bag" if ros1 else "a"), ros1, **options)  # type: ignore[arg-type]


@BOTH
def test_a_bag_becomes_frames_through_its_own_calibration(tmp_path: Path, ros1: bool) -> None:
    source = bag_source(bag(tmp_path, ros1))
    assert source.names == ["1.000000", "2.000000"]
    frame = source["2.000000"]
    assert frame.sparse is not None
    values = frame.sparse[frame.sparse > 0]
    assert len(values) > 100
    assert np.allclose(values, 5.0, atol=1e-3)  # through base: turned and moved
    assert "scan +0.010 s from the image" in frame.notes
    assert frame.timestamp == 2.0
    assert frame.intrinsics is not None
    assert frame.intrinsics[0, 0] == 60.0
    assert np.array_equal(frame.image, np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8))


@BOTH
def test_depth_images_are_registered_too(tmp_path: Path, ros1: bool) -> None:
    path = bag(tmp_path, ros1, depth=True)
    frame = next(iter(bag_source(path, BagOptions(depth_topic="/depth/image_rect_raw"))))
    assert frame.sparse is not None
    assert (frame.sparse == 3.0).mean() > 0.9


@BOTH
def test_depth_goes_back_into_a_bag_that_can_be_read(tmp_path: Path, ros1: bool) -> None:
    K = np.array([[60.0, 0, 31.5], [0, 60.0, 23.5], [0, 0, 1.0]])
    depth = np.linspace(1, 9, HEIGHT * WIDTH, dtype=np.float32).reshape(HEIGHT, WIDTH)
    out = tmp_path / ("o.bag" if ros1 else "o")
    assert write_depth_bag(out, [(1.25, depth, K, "cam"), (2.5, depth + 1, K, "cam")]) == 2
    from rosbags.highlevel import AnyReader

    with AnyReader([out]) as reader:
        found = {c.topic: c for c in reader.connections}
        assert set(found) == {"/omnidc/depth", "/omnidc/camera_info"}
        messages = [reader.deserialize(raw, c.msgtype) for c, _, raw in reader.messages([found["/omnidc/depth"]])]
        [info, _] = [
            reader.deserialize(raw, c.msgtype) for c, _, raw in reader.messages([found["/omnidc/camera_info"]])
        ]
    assert messages[0].encoding == "32FC1"
    assert messages[0].header.frame_id == "cam"
    assert (messages[1].header.stamp.sec, messages[1].header.stamp.nanosec) == (2, 500_000_000)
    assert np.array_equal(decode_depth(messages[0]), depth)
    assert np.allclose(parse_camera_info(info, rectified=True).K, K)
    with pytest.raises(FileError, match="exists already"):
        write_depth_bag(out, [])


def test_a_missing_topic_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    path = bag(tmp_path, False, with_cloud=False)
    with pytest.raises(InputError, match=r"no PointCloud2 topic \(all topics: .*/camera/image_raw"):
        bag_source(path)
    with pytest.raises(InputError, match=r"no topic /nope \(its image topics: /camera/image_raw\).*--image-topic"):
        bag_source(path, BagOptions(image_topic="/nope"))
    both = write_bag(tmp_path / "b", False, depth=True)
    with pytest.raises(InputError, match=r"/points of the bag holds sensor_msgs/msg/PointCloud2, not the depth image"):
        bag_source(both, BagOptions(depth_topic="/points"))


def test_bag_with_depth_only_names_the_option(tmp_path: Path) -> None:
    path = bag(tmp_path, False, with_cloud=False, depth=True)
    with pytest.raises(InputError, match="give --depth-topic /depth/image_rect_raw"):
        bag_source(path)


@BOTH
def test_bag_depth_of_the_same_view_is_copied(tmp_path: Path, ros1: bool) -> None:
    depth = (1000 + np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) // WIDTH).astype(np.uint16)
    source = bag_source(bag(tmp_path, ros1, depth=depth), BagOptions(depth_topic="/depth/image_rect_raw"))
    frame = next(iter(source))
    assert np.allclose(frame.measurements(), depth / 1000)
    assert any("pixels are copied" in note for note in source.notes)


def test_bag_unpaired_images_are_counted(tmp_path: Path) -> None:
    source = bag_source(bag(tmp_path, False, lone_images=3))
    assert len(source) == 2
    assert any("3 of 5 images have no partner in /points" in note for note in source.notes)


def test_time_stamps_too_far_apart_are_refused(tmp_path: Path) -> None:
    path = bag(tmp_path, False, offset=0.3)
    with pytest.raises(InputError, match=r"within 0.05 s .*closest: 0.3 s.*--max-time-diff"):
        bag_source(path)
    assert len(bag_source(path, BagOptions(max_time_diff=0.4))) == 2


def test_bag_broken_frame_chain_needs_calibration(tmp_path: Path) -> None:
    path = bag(tmp_path, False, links=LINKS[:1])
    with pytest.raises(InputError, match=r"no chain from 'lidar' to 'camera_optical' .*--calib"):
        bag_source(path)
    K = np.array([[60.0, 0, 31.5], [0, 60.0, 23.5], [0, 0, 1.0]])
    axes = np.array([[0, -1.0, 0, 0], [0, 0, -1.0, 0], [1.0, 0, 0, -0.5], [0, 0, 0, 1.0]])
    frame = next(iter(bag_source(path, BagOptions(calibration=Calibration(K, axes)))))
    assert frame.sparse is not None
    assert np.allclose(frame.sparse[frame.sparse > 0], 5.0, atol=1e-3)


def test_empty_scans_and_files_that_are_no_bags_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is empty"):
        next(iter(bag_source(bag(tmp_path, True, empty=True))))
    with pytest.raises(FileError, match="no bag at"):
        bag_source(tmp_path / "none.bag")
    (tmp_path / "x.bag").write_bytes(b"not a bag at all")
    with pytest.raises(FileError, match="not a ROS bag"):
        bag_source(tmp_path / "x.bag")


def test_frames_are_chained_both_ways_along_the_tree() -> None:
    def move(x: float) -> np.ndarray:
        matrix = np.eye(4)
        matrix[0, 3] = x
        return matrix

    tree = {("a", "b"): move(1), ("b", "c"): move(2), ("a", "d"): move(5)}
    assert chain(tree, "d", "/c")[0, 3] == pytest.approx(1 + 2 - 5)
    assert np.allclose(chain(tree, "c", "c"), np.eye(4))


def test_encodings_come_out_as_rgb() -> None:
    maker = Maker(ros1=False)
    rgb = np.random.default_rng(0).integers(0, 256, (6, 8, 3)).astype(np.uint8)
    gray = rgb[..., 0]
    assert np.array_equal(decode_image(maker.image(0, rgb[..., ::-1], "bgr8")), rgb)
    alpha = np.concatenate([rgb, gray[..., None]], axis=2)
    assert np.array_equal(decode_image(maker.image(0, alpha, "rgba8")), rgb)
    assert np.array_equal(decode_image(maker.image(0, alpha[..., [2, 1, 0, 3]], "bgra8")), rgb)
    assert np.array_equal(decode_image(maker.image(0, gray, "mono8"))[..., 1], gray)
    assert np.array_equal(decode_image(maker.image(0, gray.astype(np.uint16) << 8, "mono16"))[..., 2], gray)
    good, packed = cv2.imencode(".png", rgb[..., ::-1])
    assert good
    assert np.array_equal(decode_image(SimpleNamespace(format="png", data=packed)), rgb)
    flat = np.full((6, 8), 90, np.uint8)
    assert (decode_image(maker.image(0, flat, "bayer_rggb8")) == 90).all()
    red = np.zeros((6, 8), np.uint8)
    red[::2, ::2] = 200  # in RGGB the first pixel is red
    assert decode_image(maker.image(0, red, "bayer_rggb8"))[2, 2].tolist() == [200, 0, 0]
    with pytest.raises(InputError, match="'odd'"):
        decode_image(maker.image(0, rgb, "odd"))


def test_32fc1_depth_turns_nan_and_infinity_into_nothing() -> None:
    values = np.array([[1.5, np.nan], [np.inf, -np.inf]], np.float32)
    assert decode_depth(Maker(False).image(0, values, "32FC1")).tolist() == [[1.5, 0], [0, 0]]
    with pytest.raises(InputError, match="'rgb8'"):
        decode_depth(Maker(False).image(0, np.zeros((2, 2, 3), np.uint8)))


def test_distortion_of_camera_info_is_used_unless_rectified() -> None:
    info = Maker(False).info(0, d=(-0.2, 0.0, 0.0, 0.0, 0.0))
    assert parse_camera_info(info, rectified=False).distortion is not None
    assert parse_camera_info(info, rectified=True).distortion is None
    info.distortion_model = "magic"
    with pytest.raises(InputError, match="'magic'"):
        parse_camera_info(info, rectified=False)


@BOTH
def test_compressed_depth_of_a_bag_is_registered(tmp_path: Path, ros1: bool) -> None:
    image = np.full((HEIGHT, WIDTH), 3000, np.uint16)
    data = HEADER_OF_COMPRESSED_DEPTH.pack(0, 0.0, 0.0) + cv2.imencode(".png", image)[1].tobytes()
    path = bag(tmp_path, ros1, compressed=("16UC1; compressedDepth png", data))
    frame = next(iter(bag_source(path, BagOptions(depth_topic="/depth/image_rect/compressedDepth"))))
    assert frame.sparse is not None
    assert (frame.sparse == 3.0).mean() > 0.9


def test_foxglove_images_of_a_bag_are_read(tmp_path: Path) -> None:
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import get_types_from_msg

    maker = Maker(ros1=False)
    raw = (
        "builtin_interfaces/Time timestamp\nstring frame_id\nuint32 width\nuint32 height\nstring encoding\n"
        "uint32 step\nuint8[] data\n"
    )
    camera = (
        "builtin_interfaces/Time timestamp\nstring frame_id\nuint32 width\nuint32 height\n"
        "string distortion_model\nfloat64[] D\nfloat64[9] K\nfloat64[9] R\nfloat64[12] P\n"
    )
    image_type, info_type = "foxglove_msgs/msg/RawImage", "foxglove_msgs/msg/CameraCalibration"
    maker.store.register(get_types_from_msg(raw, image_type))
    maker.store.register(get_types_from_msg(camera, info_type))
    info = maker.info(1.0)
    time = maker.header(1.0, "cam").stamp

    def image(pixels: np.ndarray, encoding: str) -> object:
        data = np.ascontiguousarray(pixels).view(np.uint8).ravel()
        return maker.make(
            image_type, timestamp=time, frame_id="cam", width=WIDTH, height=HEIGHT, encoding=encoding,
            step=data.size // HEIGHT, data=data,
        )  # fmt: skip

    calibration = maker.make(
        info_type, timestamp=time, frame_id="cam", width=WIDTH, height=HEIGHT, distortion_model="plumb_bob",
        D=info.d, K=info.k, R=info.r, P=info.p,
    )  # fmt: skip
    with Writer(tmp_path / "fox", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        for topic, kind, message in [
            ("/cam/image", image_type, image(np.full((HEIGHT, WIDTH, 3), 70, np.uint8), "rgb8")),
            ("/cam/depth", image_type, image(np.full((HEIGHT, WIDTH), 2.5, np.float32), "32FC1")),
            ("/cam/camera_info", info_type, calibration),
        ]:
            connection = writer.add_connection(topic, kind, typestore=maker.store)
            writer.write(connection, 10**9, maker.store.serialize_cdr(message, kind))
    frame = next(iter(bag_source(tmp_path / "fox", BagOptions(depth_topic="/cam/depth"))))
    assert frame.sparse is not None
    assert (frame.sparse == 2.5).mean() > 0.9
    assert (frame.image == 70).all()
