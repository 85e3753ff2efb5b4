"""Models that were exported to ONNX, run with onnxruntime. Torch is not imported."""

from __future__ import annotations

import base64
import functools
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.deploy.bands import Refined, SolvedMaps, refine_in_bands, shrink_image, shrink_sparse
from omnidc.deploy.model_info import BAND_GRAPHS, INPUTS, OUTPUTS, WHOLE, ModelInfo
from omnidc.errors import CheckpointError, ConfigError, ConvergenceError, FileError
from omnidc.frame import Frame
from omnidc.geometry.rasterize import resize_sparse_nearest
from omnidc.pipeline.base import BaseCompleter
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.enlarge import enlarge, enlarge_depth
from omnidc.pipeline.maps import FloatMap, Maps, working_size
from omnidc.pipeline.options import CompleteOptions

FADE_SIGMA = 2.0  # pixels over which `pass_through` fades residuals out
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider", "mps": "CoreMLExecutionProvider"}


@dataclass(frozen=True)
class Outputs:
    """Outputs of the model for one image at its computed size; None = the model has no such output."""

    depth: FloatMap  # [h, w]
    uncertainty: FloatMap | None
    confidence: FloatMap | None
    sky: FloatMap | None
    residual: float | None


class OnnxCompleter(BaseCompleter):
    """Completes depth with an exported model; the same calls as `DepthCompleter`."""

    def __init__(
        self, path: str | os.PathLike[str], device: str = "auto", threads: int | None = None, name: str = ""
    ) -> None:
        import onnxruntime  # here, since `load` imports this module for models of torch, too

        file = Path(path)
        if not file.is_file():
            raise FileError(f"There is no model at {file}; make one with  omnidc export -o {file.name}.")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.enable_mem_pattern = False  # a third less memory at 480 × 640, at the same speed
        options.intra_op_num_threads = threads or _threads_of_environment()
        providers = _providers(device, onnxruntime.get_available_providers())

        def open_model(model: str | bytes) -> Any:
            try:
                return onnxruntime.InferenceSession(model, options, providers=providers)
            except Exception as error:  # onnxruntime's errors share no public base class
                reason = " ".join(str(error).split())
                missing = re.search(r'External data path does not exist: "([^"]+)"', reason)
                if missing:
                    weights = Path(missing[1]).name
                    raise FileError(
                        f"{file} keeps its weights in {weights}, which is not beside it: copy both."
                    ) from error
                raise CheckpointError(f"{file} is not a readable ONNX model ({reason}): export it again.") from error

        self.session = open_model(str(file))
        metadata = self.session.get_modelmeta().custom_metadata_map
        self.info = ModelInfo.from_metadata(metadata, str(file))
        self._refine_at = functools.cache(lambda name: open_model(base64.b64decode(metadata[name])))
        self.path, self.name = file, name or file.name
        self.on_step: Callable[[], None] = lambda: None  # called before each part of a run; may raise to stop it
        given = {each.name: each.shape for each in self.session.get_inputs()}
        if set(given) != set(INPUTS):
            raise CheckpointError(
                f"{file} has the inputs {', '.join(given)}, not {', '.join(INPUTS)}: export it again."
            )
        height, width = given["image"][2:]
        self.fixed_size = (height, width) if isinstance(height, int) and isinstance(width, int) else None
        self.outputs = [each.name for each in self.session.get_outputs()]

    def complete_frames(self, frames: Sequence[Frame], options: CompleteOptions | None = None) -> list[Completion]:
        """Complete several frames, one after the other."""
        return [self._complete_frame(frame, options or CompleteOptions()) for frame in frames]

    def run(
        self,
        image: npt.NDArray[np.uint8],  # [h, w, 3], RGB
        sparse: FloatMap,  # [h, w], 0 = none
    ) -> Outputs:
        """Run the whole model at the size of the image: pad, run, crop."""
        height, width = sparse.shape
        names = [name for name in OUTPUTS if name in self.outputs]
        picture = image.transpose(2, 0, 1).astype(np.float32) / np.float32(255)
        values = dict(zip(names, self._run_session(names, picture, sparse, {})))

        def crop(name: str) -> FloatMap | None:
            return None if name not in values else np.asarray(values[name][0, 0, :height, :width], np.float32)

        depth = crop("depth")
        assert depth is not None  # `export_onnx` writes no model without it
        residual = float(values["residual"][0]) if "residual" in values else None
        return Outputs(depth, crop("uncertainty"), crop("confidence"), crop("sky"), residual)

    def _run_session(
        self,
        names: Sequence[str],
        image: FloatMap,  # [3, h, w] in [0, 1]
        sparse: FloatMap,  # [h, w]
        flags: dict[str, npt.NDArray[np.bool_]],
    ) -> list[FloatMap]:
        """Compute the outputs of the padded image."""
        height, width = sparse.shape
        divisor = self.info.size_divisor
        # Two cells at least: exporters take sizes of one cell for a constant.
        rows, columns = (max(side + -side % divisor, 2 * divisor) for side in (height, width))
        if self.fixed_size is not None:
            rows, columns = self.fixed_size
        pad = ((0, rows - height), (0, columns - width))
        inputs = {"image": np.pad(image, ((0, 0), *pad), mode="edge")[None], "sparse": np.pad(sparse, pad)[None, None]}
        self.on_step()
        try:
            results: list[FloatMap] = self.session.run(names, {**inputs, **flags})
        except Exception as error:  # onnxruntime's errors share no public base class
            reason = " ".join(str(error).split())
            raise CheckpointError(
                f"{self.path} cannot run at {rows}x{columns} ({reason}): make the image smaller with --max-long-side, "
                "or export the model again."
            ) from error
        return results

    def _complete_frame(self, frame: Frame, options: CompleteOptions) -> Completion:
        size = self._working_size(frame, options.max_long_side)
        run = self._run_compact if self.info.halo is not None else self._run_enlarged
        return Completion.from_maps(frame, run(frame, size, options), options, self.name)

    def _run_compact(self, frame: Frame, size: tuple[int, int], options: CompleteOptions) -> Maps:
        """Run stages 1 to 3 at the working size, stage 4 in bands at the size of the frame."""
        assert self.info.halo is not None
        sparse = frame.measurements()
        image, points = shrink_image(frame.image, size), shrink_sparse(sparse, size)
        names = [*SolvedMaps.names(), "residual"]
        *solved, residual = self._run_session(names, image, points, {WHOLE: np.array(False)})
        session = self._refine_at(BAND_GRAPHS[0] if size == sparse.shape else BAND_GRAPHS[1])

        def refine(inputs: dict[str, Any]) -> list[FloatMap]:
            self.on_step()
            bands: list[FloatMap] = session.run(Refined.names(), inputs)
            return bands

        out = refine_in_bands(
            refine,
            SolvedMaps(*solved),
            size,
            frame.image,
            sparse,
            options.keep_input == "hard",
            self.info.halo,
        )
        _refuse_nonsense(out.depth)
        tiny = np.finfo(np.float32).tiny
        return Maps(
            depth=np.maximum(out.depth, tiny),
            uncertainty=np.maximum(out.uncertainty, tiny),
            confidence=np.where(sparse > 0, out.confidence, np.float32(np.nan)),
            sky=out.sky,
            working_size=size,
            iterations=self.info.iterations or 0,
            residual=float(residual[0]),
        )

    def _run_enlarged(self, frame: Frame, size: tuple[int, int], options: CompleteOptions) -> Maps:
        """Run a model without a stage 4 of its own at the working size and enlarge its maps."""
        sparse = frame.measurements()
        image, points = frame.image, sparse
        if size != sparse.shape:
            image = np.asarray(cv2.resize(image, size[::-1], interpolation=cv2.INTER_AREA), np.uint8)
            points = resize_sparse_nearest(sparse, size)
        out = self.run(image, points)
        _refuse_nonsense(out.depth)
        tiny = np.finfo(np.float32).tiny
        depth = enlarge_depth(np.maximum(out.depth, tiny), frame.image)
        return Maps(
            depth=pass_through(depth, sparse) if options.keep_input == "hard" else depth,
            uncertainty=None if out.uncertainty is None else enlarge(np.maximum(out.uncertainty, tiny), sparse.shape),
            confidence=_confidence(out.confidence, sparse, size),
            sky=None if out.sky is None else enlarge(np.maximum(out.sky, tiny), sparse.shape),
            working_size=size,
            iterations=self.info.iterations or 0,
            residual=out.residual or 0.0,
        )

    def _working_size(self, frame: Frame, max_long_side: int | None) -> tuple[int, int]:
        """Return the height and width at which the model runs; never larger than the frame."""
        height, width = working_size(frame.height, frame.width, max_long_side or self.info.max_side)
        if self.fixed_size is None:
            return height, width
        factor = min(1.0, self.fixed_size[0] / height, self.fixed_size[1] / width)
        return max(1, int(height * factor)), max(1, int(width * factor))


def _refuse_nonsense(depth: FloatMap) -> None:
    if not np.isfinite(depth).all():
        raise ConvergenceError("The network gave no finite depth for this input: check the unit of the points.")


def pass_through(
    depth: FloatMap,  # [H, W] > 0
    sparse: FloatMap,  # [H, W], 0 = no measurement
) -> FloatMap:
    """Replace depth by the measurements, and fade their log residuals out over a few pixels around them."""
    measured = sparse > 0
    residual = np.where(measured, np.log(np.where(measured, sparse, 1)) - np.log(depth), 0).astype(np.float32)
    total, share = (
        cv2.GaussianBlur(one, (0, 0), FADE_SIGMA, borderType=cv2.BORDER_CONSTANT)
        for one in (residual, measured.astype(np.float32))
    )
    peak = 1 / (2 * np.pi * FADE_SIGMA**2)  # of the blur of a single measurement
    faded = depth * np.exp(total / np.maximum(share, peak))
    return np.where(measured, sparse, faded).astype(np.float32)


def _confidence(
    confidence: FloatMap | None,  # [h, w] of the computed size
    sparse: FloatMap,  # [H, W]
    size: tuple[int, int],  # h, w
) -> FloatMap:
    """Return the confidence of each measurement, [H, W]; NaN where there is none, 1 where the model gives none."""
    rows, columns = np.nonzero(sparse > 0)
    result = np.full(sparse.shape, np.nan, np.float32)
    if confidence is None:
        result[rows, columns] = 1
    else:
        y = ((rows + 0.5) * size[0] / sparse.shape[0]).astype(int)  # as `resize_sparse_nearest` does
        x = ((columns + 0.5) * size[1] / sparse.shape[1]).astype(int)
        result[rows, columns] = confidence[y, x]
    return result


def _threads_of_environment() -> int:
    """Return OMP_NUM_THREADS, as for torch; 0 = one thread for each core."""
    word = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return int(word) if word.isdecimal() else 0


def _providers(device: str, available: Sequence[str]) -> list[str]:
    """Return the execution providers for a device name; the CPU takes what the others lack."""
    if device == "auto":
        device = "cuda" if PROVIDERS["cuda"] in available else "cpu"
    wanted = PROVIDERS.get(device.split(":")[0])
    if wanted is None or wanted not in available:
        names = ", ".join(name for name, provider in PROVIDERS.items() if provider in available)
        raise ConfigError(
            f"The device {device!r} cannot be used with this onnxruntime: choose from auto, {names}, or install torch "
            'for the models that run on a GPU with  pip install "omnidc[torch]".'
        )
    return list(dict.fromkeys([wanted, PROVIDERS["cpu"]]))
