"""The completion node without ROS: messages in, messages out. The DDS node and the `rclpy` node share it.

The core keeps the last few images and measurements, pairs them by stamp, and always takes the newest pair: frames that
arrived while another one was computed are dropped, so the latency does not grow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from omnidc.errors import ConfigError, InputError
from omnidc.geometry.camera import undistort, unproject
from omnidc.geometry.rasterize import Map, project_to_depth, register
from omnidc.geometry.surface import SKY_PROBABILITY, drop_flying_pixels, surface_mask
from omnidc.geometry.transforms import Array, transform
from omnidc.ros.messages import chain, decode_cloud, decode_depth, decode_image, parse_camera_info, transforms_of

QUEUE = 10  # messages of each kind that wait for a partner

Sky = Literal["inf", "depth"]


class Result(Protocol):
    """The part of a completion that the node publishes; maps are [H, W]."""

    @property
    def depth(self) -> npt.NDArray[np.float32]: ...
    @property
    def uncertainty(self) -> npt.NDArray[np.float32] | None: ...
    @property
    def input_confidence(self) -> npt.NDArray[np.float32]: ...
    @property
    def sky(self) -> npt.NDArray[np.float32] | None: ...


class Completer(Protocol):
    """What `omnidc.load` returns."""

    def complete(self, image: Any, sparse: Any, intrinsics: Any = None, **keywords: Any) -> Any: ...


@dataclass(frozen=True)
class MessageTypes:
    """Constructors of the messages that go out: DDS types or those of `rclpy`."""

    image: Any
    camera_info: Any
    point_cloud: Any
    point_field: Any
    header: Any


@dataclass(frozen=True)
class CoreOptions:
    """Parameters of the node."""

    max_time_diff: float = 0.05  # seconds between an image and its measurements
    max_rate: float | None = None  # frames per second that are computed; None = all that the machine can
    sky: Sky = "inf"  # depth of pixels that the model calls sky: "inf" (+Inf, REP 118) or "depth" (as computed)
    rectified: bool = True  # the images are free of distortion

    def __post_init__(self) -> None:
        if not self.max_time_diff >= 0:
            raise ConfigError(f"The largest time difference is a number of seconds, not {self.max_time_diff}.")
        if self.max_rate is not None and not self.max_rate > 0:
            raise ConfigError(f"The rate is a positive number of frames per second, not {self.max_rate}.")
        if self.sky not in ("inf", "depth"):
            raise ConfigError(f'The sky is "inf" or "depth", not {self.sky!r}.')


@dataclass(frozen=True)
class Pair:
    """An image and the measurements next to it in time; both are messages."""

    image: Any
    measurement: Any
    arrival: float  # seconds of the local clock at which the image arrived


@dataclass(frozen=True)
class Output:
    """Messages that belong to one image; they carry its stamp and frame."""

    depth: Any  # 32FC1, meters
    camera_info: Any
    points: Any | None  # organized cloud; None where nobody listens
    confidence: Any  # 32FC1 in [0, 1], NaN without a measurement
    uncertainty: Any | None  # 32FC1, meters; None where the model has none


def stamp_of(message: Any) -> float:
    """Return the seconds of a message's stamp."""
    return float(message.header.stamp.sec) + 1e-9 * float(message.header.stamp.nanosec)


class NodeCore:
    """State between messages. `add_*` takes what arrives, `take` gives the newest pair, `process` completes it."""

    def __init__(self, completer: Completer, types: MessageTypes, options: CoreOptions | None = None) -> None:
        self.completer, self.types, self.options = completer, types, options or CoreOptions()
        self.transforms: dict[tuple[str, str], Array] = {}
        self.info: Any = None
        self.depth_info: Any = None
        self.dropped = 0
        self._images: deque[tuple[Any, float]] = deque()
        self._measurements: deque[Any] = deque(maxlen=QUEUE)
        self._last_start = -np.inf

    def add_info(self, message: Any) -> None:
        self.info = message

    def add_depth_info(self, message: Any) -> None:
        self.depth_info = message

    def add_transforms(self, message: Any) -> None:
        self.transforms.update(transforms_of(message))

    def add_measurement(self, message: Any) -> None:
        """Add a depth image or a PointCloud2."""
        self._measurements.append(message)

    def add_image(self, message: Any, arrival: float) -> None:
        if len(self._images) == QUEUE:
            self._images.popleft()
            self.dropped += 1
        self._images.append((message, arrival))

    def take(self, now: float) -> Pair | None:
        """Return the newest image that has measurements near in time, and drop all that came before it."""
        rate = self.options.max_rate
        if self.info is None or not self._measurements or (rate is not None and now - self._last_start < 1 / rate):
            return None
        stamps = np.array([stamp_of(message) for message in self._measurements])
        for position in range(len(self._images) - 1, -1, -1):
            image, arrival = self._images[position]
            gaps = np.abs(stamps - stamp_of(image))
            nearest = int(np.argmin(gaps))
            if gaps[nearest] <= self.options.max_time_diff:
                self.dropped += position
                for _ in range(position + 1):
                    self._images.popleft()
                self._last_start = now
                return Pair(image, self._measurements[nearest], arrival)
        return None

    def process(self, pair: Pair, with_points: bool = True) -> Output:
        """Complete one pair. An `InputError` means that this pair is unusable; the next one may be fine."""
        picture = decode_image(pair.image)
        camera = parse_camera_info(self.info, rectified=self.options.rectified)
        K = camera.for_image(picture.shape[:2])
        if camera.distortion is not None:
            picture, K = undistort(picture, K, camera.distortion, camera.fisheye)
        sparse = self._sparse(pair, K, (picture.shape[0], picture.shape[1]))
        sky = "mask" if self.options.sky == "inf" else "keep"
        result = self.completer.complete(picture, sparse, K, sky=sky)
        return self._output(pair.image.header, picture, K, result, with_points)

    def _sparse(self, pair: Pair, K: Array, shape: tuple[int, int]) -> Map:
        message = pair.measurement
        camera_frame, frame = pair.image.header.frame_id.lstrip("/"), message.header.frame_id.lstrip("/")
        if hasattr(message, "point_step"):
            points = decode_cloud(message)
            if frame != camera_frame:
                points = transform(chain(self.transforms, camera_frame, frame), points)
            return project_to_depth(points, K, shape)[0]
        depth = decode_depth(message)
        if frame == camera_frame and depth.shape == shape:
            return depth
        if self.depth_info is None:
            raise InputError(
                f"The depth image ({depth.shape[1]}x{depth.shape[0]}, frame {frame!r}) is not aligned with the image "
                f"({shape[1]}x{shape[0]}, frame {camera_frame!r}), and its camera_info has not arrived."
            )
        depth_K = parse_camera_info(self.depth_info, rectified=True).for_image(depth.shape)
        move = np.eye(4) if frame == camera_frame else chain(self.transforms, camera_frame, frame)
        return register(drop_flying_pixels(depth), depth_K, K, move, shape)[0]

    def _output(
        self,
        header: Any,
        picture: npt.NDArray[np.uint8],  # [H, W, 3]
        K: Array,
        result: Result,
        with_points: bool,
    ) -> Output:
        # REP 118: +Inf is too far to measure, NaN is unknown. Completions have 0 for both.
        is_sky = np.zeros(result.depth.shape, bool) if result.sky is None else result.sky > SKY_PROBABILITY
        depth = np.where(result.depth > 0, result.depth, np.where(is_sky, np.inf, np.nan)).astype(np.float32)
        uncertainty = result.uncertainty
        return Output(
            depth=self._image(header, depth),
            camera_info=self._camera_info(header, depth.shape, K),
            points=self._points(header, depth, picture, K) if with_points else None,
            confidence=self._image(header, result.input_confidence),
            uncertainty=None if uncertainty is None else self._image(header, uncertainty),
        )

    def _image(self, header: Any, values: npt.NDArray[np.float32]) -> Any:
        height, width = values.shape
        return self.types.image(
            header=header,
            height=height,
            width=width,
            encoding="32FC1",
            is_bigendian=0,
            step=4 * width,
            data=np.ascontiguousarray(values, "<f4").tobytes(),
        )

    def _camera_info(self, header: Any, shape: tuple[int, ...], K: Array) -> Any:
        return self.types.camera_info(
            header=header,
            height=shape[0],
            width=shape[1],
            distortion_model="plumb_bob",
            d=[0.0] * 5,
            k=[float(value) for value in K.ravel()],
            r=[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
            p=[float(value) for value in np.hstack([K, np.zeros((3, 1))]).ravel()],
        )

    def _points(self, header: Any, depth: Map, picture: npt.NDArray[np.uint8], K: Array) -> Any:
        """Make an organized cloud with colors; NaN at flying pixels and where depth is infinite."""
        finite = np.isfinite(depth)
        solid = np.where(finite, depth, 0).astype(np.float32)
        height, width = depth.shape
        keep = finite & surface_mask(np.where(finite, depth, depth[finite].max(initial=1.0)))
        cloud = np.empty((height, width), [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("rgb", "<u4")])
        xyz = np.where(keep[..., None], unproject(solid.astype(np.float64), K), np.nan)
        for axis, name in enumerate("xyz"):
            cloud[name] = xyz[..., axis]
        red, green, blue = (picture[..., channel].astype(np.uint32) for channel in range(3))
        cloud["rgb"] = (red << 16) | (green << 8) | blue
        names = ("x", "y", "z", "rgb")
        return self.types.point_cloud(
            header=header,
            height=height,
            width=width,
            fields=[
                self.types.point_field(name=name, offset=4 * k, datatype=7, count=1) for k, name in enumerate(names)
            ],
            is_bigendian=False,
            point_step=16,
            row_step=16 * width,
            data=cloud.tobytes(),
            is_dense=False,
        )


def output_messages(output: Output) -> Iterator[tuple[str, Any]]:
    """Yield each message with the last part of its topic."""
    for name in ("depth", "camera_info", "points", "confidence", "uncertainty"):
        message = getattr(output, name)
        if message is not None:
            yield name, message
