"""The other side of the node's tests: `peer.py publish BAG SECONDS` and `peer.py receive SECONDS` (prints JSON)."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from omnidc.ros import idl
from omnidc.ros.messages import decode_cloud, decode_depth
from omnidc.sensors.rosbag import open_bag

DOMAIN = 77
PLAIN = Policy.DataRepresentation(use_cdrv0_representation=True)
RELIABLE = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepLast(10), PLAIN)
STATIC = Qos(
    Policy.Reliability.Reliable(duration(seconds=1)),
    Policy.Durability.TransientLocal,
    Policy.History.KeepLast(1),
    PLAIN,
)


def as_dds(message: Any) -> Any:
    """The same message as a DDS type: fields by name."""
    kind = getattr(idl, type(message).__name__.split("__")[-1])
    values = {}
    for name in kind.__dataclass_fields__:
        value = getattr(message, name)
        if name == "data":
            values[name] = bytes(value)
        elif isinstance(value, np.ndarray):
            values[name] = value.tolist()
        elif isinstance(value, list):
            values[name] = [as_dds(item) for item in value]
        elif hasattr(value, "__dataclass_fields__"):
            values[name] = as_dds(value)
        else:
            values[name] = value
    return kind(**values)


def publish(bag: Path, seconds: float, rate: float = 10.0) -> None:
    participant = DomainParticipant(DOMAIN)
    messages: dict[str, list[Any]] = {}
    with open_bag(bag) as reader:
        for connection, _, raw in reader.messages():
            messages.setdefault(connection.topic, []).append(as_dds(reader.deserialize(raw, connection.msgtype)))
    writers = {}
    for topic, items in messages.items():
        qos = STATIC if topic == "/tf_static" else RELIABLE
        writers[topic] = DataWriter(participant, Topic(participant, f"rt{topic}", type(items[0]), qos=qos), qos=qos)
    for message in messages.pop("/tf_static", []):
        writers["/tf_static"].write(message)
    end = time.monotonic() + seconds
    index = 0
    while time.monotonic() < end:
        nanoseconds = time.time_ns()
        for topic, items in messages.items():
            message = items[index % len(items)]
            message.header.stamp = idl.Time(nanoseconds // 10**9, nanoseconds % 10**9)
            writers[topic].write(message)
        index += 1
        time.sleep(1 / rate)


def receive(seconds: float) -> None:
    participant = DomainParticipant(DOMAIN)
    kinds = {"depth": idl.Image, "camera_info": idl.CameraInfo, "points": idl.PointCloud2, "confidence": idl.Image}
    readers = {
        name: DataReader(participant, Topic(participant, f"rt/omnidc/{name}", kind, qos=RELIABLE), qos=RELIABLE)
        for name, kind in kinds.items()
    }
    seen: dict[str, list[Any]] = {name: [] for name in kinds}
    times = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, reader in readers.items():
            for sample in reader.take(N=10):
                if sample.sample_info.valid_data:
                    seen[name].append(sample)
                    if name == "depth":
                        times.append(time.monotonic() - (end - seconds))
        time.sleep(0.02)
    stamps = [[(m.header.stamp.sec, m.header.stamp.nanosec) for m in seen[name]] for name in ("depth", "camera_info")]
    depth = decode_depth(seen["depth"][-1]) if seen["depth"] else np.zeros((1, 1))
    result = {
        "counts": {name: len(messages) for name, messages in seen.items()},
        "times": times,
        "same_stamps": stamps[0] == stamps[1],
        "increasing": stamps[0] == sorted(set(stamps[0])),
        "frame": seen["depth"][-1].header.frame_id if seen["depth"] else "",
        "encoding": seen["depth"][-1].encoding if seen["depth"] else "",
        "shape": list(depth.shape),
        "median": float(np.median(depth)),
        "points": len(decode_cloud(seen["points"][-1])) if seen["points"] else 0,
        "K": seen["camera_info"][-1].k if seen["camera_info"] else [],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    if sys.argv[1] == "publish":
        publish(Path(sys.argv[2]), float(sys.argv[3]))
    else:
        receive(float(sys.argv[2]))
