"""The contract of an exported model: names of inputs and outputs, and what the file says of itself.

Inputs   image       float32 [B, 3, H, W]   RGB in [0, 1]
         sparse      float32 [B, 1, H, W]   z-depth in any unit, 0 = no measurement
Outputs  depth       float32 [B, 1, H, W]   z-depth in the unit of `sparse`, > 0
         uncertainty float32 [B, 1, H, W]   Laplace scale of the depth, same unit
         confidence  float32 [B, 1, H, W]   of each measurement, in [0, 1]; without meaning where there is none
         sky         float32 [B, 1, H, W]   probability that the pixel has no depth
         residual    float32 [B]            relative residual of the solve

A model of the compact network also has the outputs of its first three stages (`bands.SolvedMaps`), and its metadata
hold stage 4 as two small models (`bands`), which give results at any size. Other programs need neither.

A model has `depth`; the other outputs may be absent. H and W are multiples of `size_divisor` (1 = any size), at least
two of them: the caller pads at the bottom and on the right, the image by repeating its last row and column, the sparse
depth with 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from omnidc.errors import CheckpointError

INPUTS = ("image", "sparse")
WHOLE = "whole"  # optional input of compact models, a bool: false leaves out stage 4
OUTPUTS = ("depth", "uncertainty", "confidence", "sky", "residual")
FORMAT = "1"  # version of this contract
PREFIX = "omnidc."
BAND_GRAPHS = (f"{PREFIX}refine", f"{PREFIX}refine_resampled")  # base64, of `bands`: at the working size; at others


@dataclass(frozen=True)
class ModelInfo:
    """Metadata of an exported model; stored as strings."""

    name: str
    size_divisor: int = 1
    max_side: int | None = None  # larger images are computed at this size; None = no limit
    iterations: int | None = None  # of the solver; None = the model has none
    halo: int | None = None  # rows around a band that stage 4 reads; None = the model has no stage 4 of its own
    license: str = ""
    source: str = ""  # the checkpoint that was exported

    def to_metadata(self) -> dict[str, str]:
        """Return the strings that go into the file."""
        values = {name: "" if value is None else str(value) for name, value in asdict(self).items()}
        return {f"{PREFIX}format": FORMAT, **{f"{PREFIX}{name}": value for name, value in values.items()}}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str], what: str) -> ModelInfo:
        """Read the strings of a file; `what` names it in messages."""
        version = metadata.get(f"{PREFIX}format")
        if version is None:
            raise CheckpointError(f"{what} was not exported by omnidc: make it with  omnidc export -o model.onnx.")
        if version != FORMAT:
            raise CheckpointError(f"{what} has format {version}, this omnidc reads {FORMAT}: export it again.")
        values = {each.name: metadata.get(f"{PREFIX}{each.name}", "") for each in fields(cls)}
        try:
            return cls(
                name=values["name"],
                size_divisor=int(values["size_divisor"] or 1),
                max_side=int(values["max_side"]) if values["max_side"] else None,
                iterations=int(values["iterations"]) if values["iterations"] else None,
                halo=int(values["halo"]) if values["halo"] else None,
                license=values["license"],
                source=values["source"],
            )
        except ValueError as error:
            raise CheckpointError(f"{what} has damaged metadata ({error}): export it again.") from error
