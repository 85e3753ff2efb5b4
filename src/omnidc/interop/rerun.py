"""Rerun recordings: photograph, measurements, depth, cloud and camera of every frame, as a sink.

Entities: `camera` (pose), `camera/image` (pinhole, photograph), `camera/image/depth`, `camera/image/measurements`,
`camera/points`. Rerun's `meter` counts depth units per meter, so maps in meters have meter = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from omnidc.errors import FileError, MissingExtraError
from omnidc.frame import Frame
from omnidc.pipeline.completion import Completion

MAX_POINTS = 200_000  # of a frame's cloud; the depth map itself is logged in full


class RerunSink:
    """Logs every result into a .rrd file, or to a viewer: "spawn" opens one, "connect" finds the one that runs."""

    def __init__(self, target: Path) -> None:
        try:
            import rerun
        except ImportError as error:
            raise MissingExtraError("rerun-sdk", "rerun", "Writing Rerun recordings") from error
        self._rerun: Any = rerun
        self._stream: Any = rerun.RecordingStream("omnidc")
        if str(target) == "spawn":
            self._stream.spawn()
        elif str(target) == "connect":
            self._stream.connect_grpc()
        elif target.suffix != ".rrd":
            raise FileError(f"A Rerun recording ends in .rrd, unlike {target}; or give spawn or connect.")
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._stream.save(target)
        self._count = 0

    def missing(self, names: Sequence[str]) -> list[str]:
        """Return nothing: a recording is beside other results and never a reason to compute a frame again."""
        return []

    def write(self, frame: Frame, completion: Completion) -> None:
        rr, log = self._rerun, self._stream.log
        self._stream.set_time("frame", sequence=self._count)
        if frame.timestamp is not None:
            self._stream.set_time("time", timestamp=frame.timestamp)
        self._count += 1
        height, width = completion.depth.shape
        if frame.pose is not None and not completion.relative:
            log("camera", rr.Transform3D(translation=frame.pose[:3, 3], mat3x3=frame.pose[:3, :3]))
        if completion.intrinsics is not None:
            camera = rr.Pinhole(
                # Rerun counts pixels from their corners.
                image_from_camera=completion.intrinsics + np.array([[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]]),
                resolution=[width, height],
                camera_xyz=rr.ViewCoordinates.RDF,
            )
            log("camera/image", camera)
            points, colors = completion.points()
            step = max(1, -(-len(points) // MAX_POINTS))
            log("camera/points", rr.Points3D(points[::step], colors=colors[::step]))
        log("camera/image", rr.Image(completion.image))
        log("camera/image/depth", rr.DepthImage(completion.depth, meter=1.0))
        rows, columns = np.nonzero(completion.sparse > 0)
        places = np.stack([columns + 0.5, rows + 0.5], axis=1)
        log("camera/image/measurements", rr.Points2D(places, radii=1.5))

    def close(self) -> None:
        self._stream.flush()
        self._stream.disconnect()
