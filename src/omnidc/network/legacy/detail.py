"""To which side of an outline a pixel belongs, told by colours at full resolution.

The compact network computes at 1/2, where a pixel beside an outline has lost its own colour. Here every pixel is
compared in colour with the nine cells that the convex upsampling mixes for it, and these with each other in depth, as
integrated. A small head turns both into corrections of the upsampling's logits.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HIDDEN = 48
COLOUR = 0.1  # of full scale: a clear difference of colour
EVEN = 0.005  # log depth in units of the scene's relief: cells nearer to each other than this hardly differ
CELLS = [(y, x) for y in range(3) for x in range(3)]


class Detail(nn.Module):
    """Corrections of the logits of `convex_upsample`, in two steps: before and after the integration.

    They begin as nothing: with `gain` and `last` at 0 the upsampling is what it was.
    """

    def __init__(self, features: int, factor: int) -> None:
        super().__init__()
        self.factor = factor
        pairs = 9 * factor * factor
        self.by_colour = nn.Conv2d(features + pairs, HIDDEN, 1)
        self.by_depth = nn.Conv2d(10, HIDDEN, 1, bias=False)
        self.last = nn.Conv2d(HIDDEN, pairs, 1)
        self.gain = nn.Parameter(torch.zeros(pairs, 1, 1))
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)  # type: ignore[arg-type]

    def before(
        self,
        features: Tensor,  # [B, C, h, w]
        image: Tensor,  # [B, 3, f h, f w], RGB in [0, 1]
    ) -> tuple[Tensor, Tensor]:
        """What the colours say: corrections [B, 9 f², h, w], and [B, HIDDEN, h, w] for `after`."""
        distance = unlikeness(image, self.factor)
        return -self.gain * distance, self.by_colour(torch.cat([features, distance], dim=1))

    def after(
        self,
        hidden: Tensor,  # [B, HIDDEN, h, w], of `before`
        log_depth: Tensor,  # [B, 1, h, w], in units of the scene's relief
    ) -> Tensor:  # [B, 9 f², h, w]
        """What the colours say, given the depth of the cells."""
        corrections: Tensor = self.last(F.relu(hidden + self.by_depth(steps(log_depth))))
        return corrections


def unlikeness(image: Tensor, factor: int) -> Tensor:
    """Distance in colour, in units of `COLOUR`, of every pixel from the nine cells around it, [B, 9 f², h, w].

    Channels as in `convex_upsample`: neighbour, sub-row, sub-column. Cells beyond the border repeat those at it.
    """
    image = image.contiguous() / COLOUR
    cells = F.pad(F.avg_pool2d(image, factor), (1, 1, 1, 1), mode="replicate")
    cells = cells.repeat_interleave(factor, dim=2).repeat_interleave(factor, dim=3)
    height, width = image.shape[-2:]
    squared = [
        (image - cells[..., y * factor :, x * factor :][..., :height, :width]).square().sum(dim=1, keepdim=True)
        for y, x in CELLS
    ]
    return F.pixel_unshuffle((torch.cat(squared, dim=1) + 1e-4).sqrt(), factor)


def steps(log_depth: Tensor) -> Tensor:
    """[B, 1, h, w] → [B, 10, h, w]: the nine cells' depths between the least (−1) and the greatest (1) of them, and
    the logarithm of how far those are apart."""
    height, width = log_depth.shape[-2:]
    padded = F.pad(log_depth, (1, 1, 1, 1), mode="replicate")
    around = torch.cat([padded[..., y : y + height, x : x + width] for y, x in CELLS], dim=1)
    low, high = around.amin(dim=1, keepdim=True), around.amax(dim=1, keepdim=True)
    apart = high - low
    return torch.cat([(2 * around - low - high) / (apart + EVEN), (apart / EVEN + 1).log() / 3], dim=1)
