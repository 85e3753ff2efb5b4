"""Points into pixels, where several may fall into one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def nearest_into(
    shape: tuple[int, int],
    rows: NDArray[np.float64],  # [N], not yet rounded
    columns: NDArray[np.float64],  # [N]
    values: NDArray[np.float32],  # [N] > 0
) -> NDArray[np.float32]:  # `shape`, 0 where nothing fell
    """Put each value into its pixel (rounded, half to even); the nearest wins, those outside are lost (a z-buffer)."""
    h, w = shape
    # Compared before the cast: a coordinate beyond the integers must not wrap around.
    inside = (rows > -0.5) & (rows < h - 0.5) & (columns > -0.5) & (columns < w - 0.5)
    flat = np.rint(rows[inside]).astype(np.intp) * w + np.rint(columns[inside]).astype(np.intp)
    buffer = np.full(h * w, np.inf, np.float32)
    np.minimum.at(buffer, flat, values[inside])
    buffer[buffer == np.inf] = 0
    return buffer.reshape(h, w)
