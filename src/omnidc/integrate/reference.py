"""The slow, obvious twin of the integrator: matrices written out, scipy's direct solver, float64, one image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import splu

Array = npt.NDArray[np.float64]


def pooling_matrix(height: int, width: int, level: int) -> sparse.csr_array:
    """Return P_r as a matrix: row = cell, column = pixel, value = 1 / pixels of that cell."""
    scale = 2**level
    columns = -(-width // scale)
    rows, cols = np.mgrid[:height, :width]
    cell = ((rows // scale) * columns + cols // scale).ravel()
    counts = np.bincount(cell)
    return sparse.csr_array((1 / counts[cell], (cell, np.arange(height * width))))


def difference_matrix(height: int, width: int) -> sparse.csr_array:
    """Return ∇ as a matrix: first all x-edges row by row, then all y-edges."""
    index = np.arange(height * width).reshape(height, width)
    far = np.concatenate([index[:, 1:].ravel(), index[1:, :].ravel()])
    near = np.concatenate([index[:, :-1].ravel(), index[:-1, :].ravel()])
    edge = np.arange(len(far))
    values = np.concatenate([np.ones(len(far)), -np.ones(len(far))])
    return sparse.csr_array(
        (values, (np.concatenate([edge, edge]), np.concatenate([far, near]))), shape=(len(far), height * width)
    )


def edge_vector(maps: Array) -> Array:
    """Flatten [2, h, w] in the gradient convention to one value per edge, in the order of `difference_matrix`."""
    return np.concatenate([maps[0, :, 1:].ravel(), maps[1, 1:, :].ravel()])


def edge_maps(values: Array, height: int, width: int) -> Array:
    """Invert `edge_vector`, zero where there is no edge."""
    maps = np.zeros((2, height, width))
    count = height * (width - 1)
    maps[0, :, 1:] = values[:count].reshape(height, width - 1)
    maps[1, 1:, :] = values[count:].reshape(height - 1, width)
    return maps


@dataclass
class Reference:
    """One image's least-squares problem, assembled. Arguments as in `omnidc.integrate.integrate`, without batch."""

    gradients: Sequence[Array]  # R × [2, h_r, w_r]
    sparse_log_depth: Array  # [h, w]
    data_weight: Array  # [h, w], α m c; at least one > 0
    weights: Sequence[Array]  # R × [2, h_r, w_r]

    def __post_init__(self) -> None:
        height, width = self.sparse_log_depth.shape
        self.operators = [
            difference_matrix(g.shape[1], g.shape[2]) @ pooling_matrix(height, width, level)
            for level, g in enumerate(self.gradients)
        ]
        self.matrix = sparse.csc_array(sparse.diags_array(self.data_weight.ravel()))
        self.rhs = self.data_weight.ravel() * self.sparse_log_depth.ravel()
        for G, W, g in zip(self.operators, self.weights, self.gradients, strict=True):
            w = sparse.diags_array(edge_vector(W))
            self.matrix = self.matrix + G.T @ w @ G
            self.rhs = self.rhs + G.T @ (w @ edge_vector(g))
        self._factor = splu(sparse.csc_matrix(self.matrix))

    def solve(self) -> Array:
        """Return x, [h, w]."""
        self.x: Array = self._factor.solve(self.rhs)
        return self.x.reshape(self.sparse_log_depth.shape)

    def backward(self, upstream: Array) -> dict[str, list[Array]]:
        """Return ∂L/∂(gradients, weights, sparse_log_depth, data_weight) for ∂L/∂x [h, w]; call after `solve`."""
        lam = self._factor.solve(upstream.ravel())
        out: dict[str, list[Array]] = {
            "gradients": [],
            "weights": [],
            "sparse_log_depth": [(self.data_weight.ravel() * lam).reshape(upstream.shape)],
            "data_weight": [(lam * (self.sparse_log_depth.ravel() - self.x)).reshape(upstream.shape)],
        }
        for G, W, g in zip(self.operators, self.weights, self.gradients, strict=True):
            size = g.shape[1], g.shape[2]
            out["gradients"].append(edge_maps(edge_vector(W) * (G @ lam), *size))
            out["weights"].append(edge_maps((G @ lam) * (edge_vector(g) - G @ self.x), *size))
        return out
