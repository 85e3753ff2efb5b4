"""ROS messages without a ROS installation: decoding, the completion node's core, and a node over DDS."""
