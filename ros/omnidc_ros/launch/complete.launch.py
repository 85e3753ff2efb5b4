from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node


def generate_launch_description() -> LaunchDescription:
    topics = {
        "image_rect": "/camera/image_rect",
        "camera_info": "/camera/camera_info",
        "depth_in": "/depth/image_rect",
        "depth_camera_info": "/depth/camera_info",
        "points_in": "/points",
    }
    parameters = {"model": "compact", "use_cloud": "false", "sky": "inf", "rate": "0.0"}
    arguments = [DeclareLaunchArgument(name, default_value=value) for name, value in {**topics, **parameters}.items()]
    node = Node(
        package="omnidc_ros",
        executable="complete",
        name="omnidc",
        remappings=[(name, LaunchConfiguration(name)) for name in topics],
        parameters=[{name: LaunchConfiguration(name) for name in parameters}],
    )
    return LaunchDescription([*arguments, node])
