"""The completion node for rclpy."""
