from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnidc.patterns.zbuffer import nearest_into


@given(seed=st.integers(0, 1000), n=st.integers(0, 60))
def test_z_buffer_equals_its_slow_twin(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    h, w = 5, 7
    v, u = rng.uniform(-2, h + 2, n), rng.uniform(-2, w + 2, n)
    v[::7], u[::7] = np.round(v[::7]) + 0.5, 1e300  # exactly between two pixels, and far beyond the integers
    z = rng.uniform(0.5, 3, n).astype(np.float32)
    slow = np.zeros((h, w), np.float32)
    for row, column, value in zip(v.tolist(), u.tolist(), z.tolist()):
        y, x = round(row), round(column)
        if 0 <= y < h and 0 <= x < w and (slow[y, x] == 0 or value < slow[y, x]):
            slow[y, x] = value
    np.testing.assert_array_equal(nearest_into((h, w), v, u, z), slow)
