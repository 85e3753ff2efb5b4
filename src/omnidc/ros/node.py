"""`omnidc ros2`: the completion node on a ROS 2 graph over DDS (`cyclonedds` from PyPI), without a ROS installation.

One thread: it waits for data, takes what arrived, completes the newest pair, publishes. Readers keep the last few
samples, so frames are dropped while a frame is computed. The node does not appear in `ros2 node list`, which needs
ROS's own discovery messages; its topics appear in `ros2 topic list`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from omnidc.errors import ConfigError, MissingExtraError, OmnidcError
from omnidc.ros.core import Completer, CoreOptions, MessageTypes, NodeCore, output_messages

REPORT_SECONDS = 5.0


@dataclass(frozen=True)
class Topics:
    """ROS names, as in `ros2 topic list`. Exactly one of `depth` and `cloud` is given."""

    image: str
    info: str
    depth: str | None = None
    depth_info: str | None = None
    cloud: str | None = None
    output: str = "/omnidc"  # namespace of the topics that go out

    def __post_init__(self) -> None:
        if (self.depth is None) == (self.cloud is None):
            raise ConfigError("Give either a depth image topic (--depth) or a point cloud topic (--cloud).")
        for name in (self.image, self.info, self.depth, self.depth_info, self.cloud, self.output):
            if name is not None and (not name.startswith("/") or name.endswith("/") or "//" in name):
                raise ConfigError(f"Topics are absolute names such as /camera/image_rect, not {name!r}.")


@dataclass
class Counts:
    """What the node did so far; times are of the local clock."""

    completed: int = 0
    failed: int = 0
    latencies: list[float] = field(default_factory=list)  # seconds from arrival of an image to its depth; last report

    def sentence(self, seconds: float, dropped: int) -> str:
        rate = len(self.latencies) / seconds
        latency = 1000 * sum(self.latencies) / max(len(self.latencies), 1)
        return (
            f"{rate:.1f} frames/s, latency {latency:.0f} ms; in all {self.completed} completed, {dropped} dropped, "
            f"{self.failed} unusable"
        )


class DdsNode:
    """Readers and writers around a `NodeCore`."""

    def __init__(
        self, completer: Completer, topics: Topics, options: CoreOptions | None = None, domain: int = 0
    ) -> None:
        try:
            from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState, WaitSet
            from cyclonedds.domain import DomainParticipant
            from cyclonedds.pub import DataWriter
            from cyclonedds.qos import Policy, Qos
            from cyclonedds.sub import DataReader
            from cyclonedds.topic import Topic
            from cyclonedds.util import duration
        except ImportError as error:
            raise MissingExtraError("cyclonedds", "ros2", "Speaking to ROS 2") from error
        from omnidc.ros import idl

        self._duration = duration
        types = MessageTypes(idl.Image, idl.CameraInfo, idl.PointCloud2, idl.PointField, idl.Header)
        self.core = NodeCore(completer, types, options)
        self.counts = Counts()
        self.participant = DomainParticipant(domain)
        # ROS 2 writes plain CDR; 8-byte fields are aligned otherwise in the newer representation.
        plain = Policy.DataRepresentation(use_cdrv0_representation=True)
        sensor = Qos(
            Policy.Reliability.BestEffort, Policy.Durability.Volatile, Policy.History.KeepLast(5), plain
        )  # what ROS 2 calls SensorDataQoS
        static = Qos(
            Policy.Reliability.Reliable(duration(seconds=1)),
            Policy.Durability.TransientLocal,
            Policy.History.KeepLast(100),
            plain,
        )
        reliable = Qos(
            Policy.Reliability.Reliable(duration(milliseconds=100)),
            Policy.Durability.Volatile,
            Policy.History.KeepLast(5),
            plain,
        )
        self._waitset = WaitSet(self.participant)
        self._readers: list[tuple[Any, Any, Callable[[Any], None]]] = []

        def read(name: str | None, kind: Any, handle: Callable[[Any], None], qos: Any = sensor) -> None:
            if name is not None:
                reader = DataReader(self.participant, Topic(self.participant, f"rt{name}", kind, qos=qos), qos=qos)
                unread = ReadCondition(reader, SampleState.NotRead | ViewState.Any | InstanceState.Any)
                self._waitset.attach(unread)
                self._readers.append((reader, unread, handle))

        def write(name: str, kind: Any) -> Any:
            topic = Topic(self.participant, f"rt{topics.output}/{name}", kind, qos=reliable)
            return DataWriter(self.participant, topic, qos=reliable)

        core = self.core
        read("/tf_static", idl.TFMessage, core.add_transforms, static)
        read(topics.info, idl.CameraInfo, core.add_info)
        read(topics.depth_info, idl.CameraInfo, core.add_depth_info)
        read(topics.depth, idl.Image, core.add_measurement)
        read(topics.cloud, idl.PointCloud2, core.add_measurement)
        read(topics.image, idl.Image, lambda message: core.add_image(message, time.monotonic()))
        self._writers = {
            "depth": write("depth", idl.Image),
            "camera_info": write("camera_info", idl.CameraInfo),
            "points": write("points", idl.PointCloud2),
            "confidence": write("confidence", idl.Image),
            "uncertainty": write("uncertainty", idl.Image),
        }

    def spin_once(self, timeout: float = 0.1) -> bool:
        """Wait for data, take it, and complete at most one pair. Return whether one was completed."""
        self._waitset.wait(self._duration(seconds=timeout))
        for reader, _, handle in self._readers:
            for sample in reader.take(N=16):
                if sample.sample_info.valid_data:
                    handle(sample)
        pair = self.core.take(time.monotonic())
        if pair is None:
            return False
        try:
            output = self.core.process(pair, with_points=self._has_readers("points"))
        except OmnidcError:
            self.counts.failed += 1
            raise
        for name, message in output_messages(output):
            self._writers[name].write(message)
        self.counts.completed += 1
        self.counts.latencies.append(time.monotonic() - pair.arrival)
        return True

    def spin(
        self,
        report: Callable[[str], None],
        seconds: float | None = None,
        frames: int | None = None,
    ) -> None:
        """Run until `seconds` passed or `frames` were completed, or for ever; report rate and latency."""
        start = last = time.monotonic()
        problem = ""
        while True:
            try:
                self.spin_once()
            except OmnidcError as error:  # one bad message must not end a robot's node; each new sentence is reported
                if str(error) != problem:
                    problem = str(error)
                    report(f"warning: {problem}")
            now = time.monotonic()
            if now - last >= REPORT_SECONDS:
                report(self.counts.sentence(now - last, self.core.dropped))
                self.counts.latencies.clear()
                last = now
            if (seconds is not None and now - start >= seconds) or (
                frames is not None and self.counts.completed >= frames
            ):
                return

    def _has_readers(self, name: str) -> bool:
        return bool(self._writers[name].get_publication_matched_status().current_count)
