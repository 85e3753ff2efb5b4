"""The completion node for rclpy: a thin shell around `omnidc.ros.core`, which knows no ROS."""

from __future__ import annotations

import time
from typing import Any

import rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import CameraInfo, Image, PointCloud2, PointField
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

import omnidc
from omnidc.errors import OmnidcError
from omnidc.ros.core import CoreOptions, MessageTypes, NodeCore, output_messages

PARAMETERS: dict[str, Any] = {
    "model": "compact",
    "device": "auto",
    "max_time_diff": 0.05,  # seconds
    "rate": 0.0,  # frames per second at most; 0 = all that the machine can
    "sky": "inf",
    "rectified": True,
    "use_cloud": False,  # `points_in` instead of `depth_in`
}


class CompletionNode(Node):
    """Subscribes to image_rect, camera_info and depth_in (or points_in); publishes below ~/."""

    def __init__(self) -> None:
        super().__init__("omnidc")
        given = {name: self.declare_parameter(name, value).value for name, value in PARAMETERS.items()}
        options = CoreOptions(given["max_time_diff"], given["rate"] or None, given["sky"], given["rectified"])
        types = MessageTypes(Image, CameraInfo, PointCloud2, PointField, Header)
        self.core = NodeCore(omnidc.load(given["model"], given["device"]), types, options)
        sensor = qos_profile_sensor_data
        static = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(TFMessage, "/tf_static", self.core.add_transforms, static)
        self.create_subscription(CameraInfo, "camera_info", self.core.add_info, sensor)
        self.create_subscription(Image, "image_rect", self.add_image, sensor)
        if given["use_cloud"]:
            self.create_subscription(PointCloud2, "points_in", self.core.add_measurement, sensor)
        else:
            self.create_subscription(Image, "depth_in", self.core.add_measurement, sensor)
            self.create_subscription(CameraInfo, "depth_camera_info", self.core.add_depth_info, sensor)
        kinds = {"depth": Image, "camera_info": CameraInfo, "points": PointCloud2, "confidence": Image}
        self.outputs = {
            name: self.create_publisher(kind, f"~/{name}", 5) for name, kind in {**kinds, "uncertainty": Image}.items()
        }
        self.create_timer(0.005, self.step)

    def add_image(self, message: Image) -> None:
        self.core.add_image(message, time.monotonic())

    def step(self) -> None:
        """Complete the newest pair; older images are dropped."""
        pair = self.core.take(time.monotonic())
        if pair is None:
            return
        try:
            output = self.core.process(pair, with_points=self.outputs["points"].get_subscription_count() > 0)
        except OmnidcError as error:
            self.get_logger().warning(str(error), throttle_duration_sec=5.0)
            return
        for name, message in output_messages(output):
            self.outputs[name].publish(message)


def main() -> None:
    rclpy.init()
    node = CompletionNode()
    try:
        rclpy.spin(node)
    except KeyboardInterrupt:
        pass
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
