"""`omnidc ros2`: the completion node on a ROS 2 graph."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from omnidc.cli.models import DeviceOption, ModelOption, RuntimeOption, load_model


def register(app: typer.Typer) -> None:
    app.command("ros2")(ros2)


def ros2(
    image: Annotated[str, typer.Option(help="Image topic, rectified unless --distorted.")] = "/camera/image_rect",
    info: Annotated[str | None, typer.Option(help="CameraInfo topic; default: camera_info beside the image.")] = None,
    depth_topic: Annotated[str | None, typer.Option(help="Sparse depth image topic (16UC1 or 32FC1).")] = None,
    depth_info: Annotated[
        str | None, typer.Option(help="Its CameraInfo, where it is not aligned; default: camera_info beside it.")
    ] = None,
    cloud: Annotated[str | None, typer.Option(help="PointCloud2 topic instead, placed by /tf_static.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="Namespace of the topics that go out.")] = "/omnidc",
    domain: Annotated[
        int | None, typer.Option(help="DDS domain; default: the environment's ROS_DOMAIN_ID, else 0.")
    ] = None,
    max_time_diff: Annotated[float, typer.Option(help="Largest gap between image and measurements, seconds.")] = 0.05,
    rate: Annotated[float | None, typer.Option(help="Compute at most so many frames per second.")] = None,
    sky_depth: Annotated[str, typer.Option(help='Depth of the sky: "inf" or "depth" (as computed).')] = "inf",
    distorted: Annotated[bool, typer.Option("--distorted", help="Undistort the images by their CameraInfo.")] = False,
    seconds: Annotated[float | None, typer.Option(help="Stop after this time.")] = None,
    frames: Annotated[int | None, typer.Option(help="Stop after so many frames.")] = None,
    model: ModelOption = None,
    device: DeviceOption = "auto",
    runtime: RuntimeOption = "auto",
) -> None:
    """Complete depth on a ROS 2 graph, without a ROS installation: subscribe and publish over DDS."""
    from omnidc.errors import ConfigError
    from omnidc.ros.core import CoreOptions
    from omnidc.ros.node import DdsNode, Topics

    def beside(topic: str) -> str:
        return f"{topic.rsplit('/', 1)[0]}/camera_info"

    if depth_info is None and depth_topic is not None:
        depth_info = beside(depth_topic)
    topics = Topics(image, info or beside(image), depth_topic, depth_info, cloud, output)
    options = CoreOptions(max_time_diff, rate, sky_depth, rectified=not distorted)  # type: ignore[arg-type]
    given = os.environ.get("ROS_DOMAIN_ID", "0") if domain is None else str(domain)
    if not given.isdigit() or int(given) > 232:
        raise ConfigError(f"The DDS domain is a number from 0 to 232, not {given!r}; check ROS_DOMAIN_ID.")
    node = DdsNode(load_model(model, device, runtime), topics, options, int(given))
    typer.echo(f"listening to {image} and {depth_topic or cloud} in domain {given}; publishing {output}/depth")
    node.spin(typer.echo, seconds, frames)
