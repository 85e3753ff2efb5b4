"""ROS messages as arrays. `rosbags`, `cyclonedds` and `rclpy` name the fields alike, so one decoder serves all.

Depth images follow REP 118: 16UC1 holds millimeters (0 = none), 32FC1 meters (NaN or Inf = none).
"""

from __future__ import annotations

import io
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from omnidc.errors import InputError, OmnidcError
from omnidc.geometry.camera import Picture, intrinsics_matrix
from omnidc.geometry.rasterize import Map
from omnidc.geometry.transforms import Array, inverse, pose_from_quaternion
from omnidc.io.calibration import Calibration
from omnidc.io.untrusted import check_pixels, check_png
from omnidc.ros.compressed_depth import decode_compressed_depth


def pixel_rows(
    message: Any,  # Image
    pixel_bytes: int,
) -> npt.NDArray[np.uint8]:
    """Return the data of an Image as rows [H, step]; empty and truncated images are refused."""
    height, width, step = int(message.height), int(message.width), int(message.step)
    if height == 0 or width == 0:
        raise InputError(f"An image of the topic is empty ({width}x{height} pixels); check the camera driver.")
    check_pixels(width, height, "An image of the topic")
    data = np.frombuffer(bytes(message.data), np.uint8)
    if step < width * pixel_bytes or data.size < height * step:
        raise InputError(
            f"An image of {width}x{height} pixels ({message.encoding}, rows of {step} bytes) has only {data.size:,} "
            f"bytes, not {height * max(step, width * pixel_bytes):,}; it was truncated on its way or its step is wrong."
        )
    return data[: height * step].reshape(height, step)


def decode_image(message: Any) -> Picture:
    """Return an Image or CompressedImage message as RGB."""
    if hasattr(message, "format"):
        try:
            with Image.open(io.BytesIO(bytes(message.data))) as header:
                check_pixels(*header.size, "A compressed image of the topic")
            check_png(bytes(message.data))
        except OmnidcError:
            raise
        except (OSError, ValueError) as error:
            raise InputError(f"A compressed image of the topic ({message.format}) cannot be decoded.") from error
        decoded = cv2.imdecode(np.frombuffer(bytes(message.data), np.uint8), cv2.IMREAD_COLOR)
        if decoded is None:
            raise InputError(f"A compressed image of the topic ({message.format}) cannot be decoded.")
        return np.ascontiguousarray(decoded[..., ::-1], dtype=np.uint8)
    encoding = str(message.encoding)
    rows = pixel_rows(message, 1)
    channels = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "mono8": 1, "8UC1": 1, "8UC3": 3}
    if encoding in channels:
        n = channels[encoding]
        pixels = pixel_rows(message, n)[:, : message.width * n].reshape(message.height, message.width, n)
        if n == 1:
            return np.repeat(pixels, 3, axis=2)
        # OpenCV's untyped 8UC3 is BGR by habit.
        return np.ascontiguousarray(pixels[..., :3] if encoding.startswith("rgb") else pixels[..., 2::-1])
    single = {
        "bayer_rggb8": cv2.COLOR_BayerBG2RGB,
        "bayer_bggr8": cv2.COLOR_BayerRG2RGB,
        "bayer_gbrg8": cv2.COLOR_BayerGR2RGB,
        "bayer_grbg8": cv2.COLOR_BayerGB2RGB,
    }
    double = {"yuv422": cv2.COLOR_YUV2RGB_UYVY, "uyvy": cv2.COLOR_YUV2RGB_UYVY, "yuv422_yuy2": cv2.COLOR_YUV2RGB_YUY2}
    if encoding in single:
        return np.asarray(cv2.cvtColor(rows[:, : message.width].copy(), single[encoding]), dtype=np.uint8)
    if encoding in double:
        pairs = pixel_rows(message, 2)[:, : message.width * 2].reshape(message.height, message.width, 2)
        return np.asarray(cv2.cvtColor(pairs.copy(), double[encoding]), dtype=np.uint8)
    if encoding in ("mono16", "16UC1"):
        kind = ">u2" if getattr(message, "is_bigendian", 0) else "<u2"
        wide = np.ascontiguousarray(pixel_rows(message, 2)[:, : message.width * 2]).view(kind)
        return np.repeat((wide >> 8).astype(np.uint8)[..., None], 3, axis=2)
    raise InputError(f"Images of the topic are encoded as {encoding!r}, which is not known; republish them as rgb8.")


def decode_depth(message: Any) -> Map:
    """Return an Image or a `compressedDepth` CompressedImage as depth [H, W] in meters, 0 = none (REP 118)."""
    if hasattr(message, "format"):
        return decode_compressed_depth(str(message.format), bytes(message.data))
    sizes = {"16UC1": (2, "u2"), "mono16": (2, "u2"), "32FC1": (4, "f4")}
    encoding = str(message.encoding)
    if encoding not in sizes:
        raise InputError(f"The depth topic is encoded as {encoding!r}; 16UC1 and 32FC1 are known.")
    size, kind = sizes[encoding]
    # Foxglove's RawImage has no such field: it is little-endian.
    order = ">" if getattr(message, "is_bigendian", 0) else "<"
    rows = np.ascontiguousarray(pixel_rows(message, size)[:, : message.width * size])
    values = rows.view(f"{order}{kind}").astype(np.float32)
    if size == 2:
        return np.asarray(values / np.float32(1000), dtype=np.float32)
    return np.where(np.isfinite(values) & (values > 0), values, 0).astype(np.float32)


def decode_cloud(message: Any) -> Array:
    """Return the points [N, 3] of a PointCloud2, without those that hold NaN."""
    kinds = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}
    order = ">" if message.is_bigendian else "<"
    fields = {field.name: field for field in message.fields}
    missing = [axis for axis in "xyz" if axis not in fields]
    if missing:
        raise InputError(f"The point cloud of the topic has no field {missing[0]} (it has {', '.join(fields)}).")
    record = np.dtype(
        {
            "names": list("xyz"),
            "formats": [order + kinds[fields[axis].datatype] for axis in "xyz"],
            "offsets": [fields[axis].offset for axis in "xyz"],
            "itemsize": message.point_step,
        }
    )
    data = np.frombuffer(bytes(message.data), np.uint8)
    if data.size < message.height * message.row_step or message.row_step < message.width * message.point_step:
        raise InputError(
            f"A point cloud of {message.width}x{message.height} points has only {data.size:,} bytes; it was truncated."
        )
    rows = data[: message.height * message.row_step].reshape(message.height, message.row_step)
    packed = np.ascontiguousarray(rows[:, : message.width * message.point_step]).view(record).ravel()
    points = np.stack([packed[axis].astype(np.float64) for axis in "xyz"], axis=1)
    return np.asarray(points[np.isfinite(points).all(axis=1) & (points != 0).any(axis=1)])


def parse_camera_info(message: Any, rectified: bool) -> Calibration:
    """Return the camera of a CameraInfo; rectified images use its P without distortion."""
    K = np.asarray(getattr(message, "K", getattr(message, "k", None)), dtype=np.float64).reshape(3, 3)
    P = np.asarray(getattr(message, "P", getattr(message, "p", None)), dtype=np.float64).reshape(3, 4)
    D = np.asarray(getattr(message, "D", getattr(message, "d", None)), dtype=np.float64).ravel()
    matrix = P[:, :3] if rectified and P[0, 0] > 0 else K
    model = str(message.distortion_model).lower()
    known = ("", "plumb_bob", "rational_polynomial", "equidistant", "fisheye")
    if not rectified and D.any() and model not in known:
        raise InputError(f"The CameraInfo has the distortion model {model!r}; {', '.join(known[1:])} are known.")
    return Calibration(
        K=intrinsics_matrix(matrix, "The CameraInfo's K"),
        distortion=None if rectified or not D.any() else D,
        fisheye=model in ("equidistant", "fisheye"),
        image_size=(int(message.width), int(message.height)) if message.width else None,
    )


def frame_of(message: Any) -> str:
    """Return the frame of a stamped message; Foxglove's messages have no header."""
    return str(message.frame_id if hasattr(message, "frame_id") else message.header.frame_id)


def transforms_of(message: Any) -> dict[tuple[str, str], Array]:
    """Return parent_from_child of each transform of a TFMessage by (parent, child)."""
    found = {}
    for item in message.transforms:
        move, turn = item.transform.translation, item.transform.rotation
        key = (item.header.frame_id.lstrip("/"), item.child_frame_id.lstrip("/"))
        found[key] = pose_from_quaternion((move.x, move.y, move.z), (turn.x, turn.y, turn.z, turn.w))
    return found


def chain(
    transforms: dict[tuple[str, str], Array],  # (parent, child) → parent_from_child
    target: str,
    source: str,
) -> Array:
    """Return target_from_source along the tree of frames."""
    target, source = target.lstrip("/"), source.lstrip("/")
    links: dict[str, list[tuple[str, Array]]] = {}
    for (parent, child), matrix in transforms.items():
        links.setdefault(parent, []).append((child, matrix))
        links.setdefault(child, []).append((parent, inverse(matrix)))
    reached: dict[str, Array] = {target: np.eye(4)}
    queue = [target]
    while queue:
        frame = queue.pop(0)
        for other, frame_from_other in links.get(frame, []):
            if other not in reached:
                reached[other] = reached[frame] @ frame_from_other
                queue.append(other)
    if source not in reached:
        names = ", ".join(sorted(links)) or "none"
        raise InputError(f"tf_static has no chain from {source!r} to {target!r} (frames: {names})")
    return reached[source]
