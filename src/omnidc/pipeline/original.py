"""Results brought back from the undistorted photograph to the camera's own pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from omnidc.frame import UNDISTORTED, Frame, OriginalPixels
from omnidc.geometry.rasterize import resample_depth, resample_sparse
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.sinks import Sink


class OriginalPixelsSink:
    """Passes results on in the camera's own pixels; those of undistorted lenses pass as they are."""

    def __init__(self, inner: Sink) -> None:
        self.inner = inner

    def missing(self, names: Sequence[str]) -> list[str]:
        return self.inner.missing(names)

    def write(self, frame: Frame, completion: Completion) -> None:
        if frame.original is not None:
            completion = to_original(completion, frame.original)
            frame = replace(
                frame,
                image=completion.image,
                sparse=completion.sparse,
                mask=None,
                intrinsics=None,
                pixels=frame.pixels.removesuffix(UNDISTORTED).removesuffix("; "),
                original=None,
                notes=(*frame.notes, "depth brought back to the camera's own pixels, with its distortion"),
            )
        self.inner.write(frame, completion)

    def close(self) -> None:
        self.inner.close()


def to_original(completion: Completion, original: OriginalPixels) -> Completion:
    """Return a result in the pixels of the distorted photograph; 0 where the undistorted one lacks the ray.

    z-depth is the same in both, since a pixel's ray is. The camera is left out: it is no pinhole camera.
    """
    places = original.places()
    sparse, confidence = resample_sparse(completion.sparse, places, completion.input_confidence)
    uncertainty = completion.uncertainty
    if uncertainty is not None:
        # Pixels without depth have an uncertainty all the same: it must stay positive.
        moved = resample_depth(uncertainty, places)
        uncertainty = np.where(moved > 0, moved, np.float32(np.median(uncertainty)))
    return replace(
        completion,
        depth=resample_depth(completion.depth, places),
        uncertainty=uncertainty,
        input_confidence=confidence,
        sparse=sparse,
        image=original.image,
        intrinsics=None,
        sky=None if completion.sky is None else resample_depth(completion.sky, places),
    )
