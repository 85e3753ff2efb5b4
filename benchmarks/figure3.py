"""Fig. 3 of the paper: how errors of predicted gradients accumulate with one and with several resolutions.

    python benchmarks/figure3.py --out figure3.svg [--results figure3.json] [--pixels 64] [--noise 0.1]

A row of pixels has true gradients of zero and predictions with independent Gaussian noise of the same size at every
resolution. The integrated depth is linear in them, x = A⁻¹ (Σ_r Gᵣᵀ Wᵣ gᵣ + α m o), so that its standard deviation
follows exactly from the matrices: Cov x = σ² A⁻¹ (Σ_r Gᵣᵀ Wᵣ² Gᵣ) A⁻¹. Printed beside it: the paper's bound for one
resolution, σ √n at n pixels from the only known one. Nothing is trained and nothing is drawn at random.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy import sparse as matrices

from omnidc.integrate.reference import difference_matrix, pooling_matrix
from omnidc.io.files import atomic_path
from plot import COLORS, Panel, write

ALPHA = 5.0
RESOLUTIONS = (1, 2, 3)


def standard_deviation(pixels: int, known: list[int], resolutions: int, noise: float) -> np.ndarray:
    """Standard deviation [pixels] of the integrated depth; known pixels are measured without error."""
    normal = matrices.diags_array(np.bincount(known, minlength=pixels) * ALPHA).toarray()
    spread = np.zeros((pixels, pixels))
    for level in range(resolutions):
        pool = pooling_matrix(1, pixels, level)
        gradient = (difference_matrix(1, pool.shape[0]) @ pool).toarray()
        weight = 1.0 / resolutions
        normal += weight * gradient.T @ gradient
        spread += weight**2 * gradient.T @ gradient
    inverse = np.linalg.inv(normal)
    return np.asarray(noise * np.sqrt(np.diag(inverse @ spread @ inverse).clip(min=0)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--results", type=Path, help="JSON file for the figures below the plot")
    parser.add_argument("--pixels", type=int, default=64)
    parser.add_argument("--noise", type=float, default=0.1, help="standard deviation of a gradient")
    options = parser.parse_args()
    layouts = {"every 8th pixel known": list(range(0, options.pixels, 8)), "one pixel known": [0]}
    panels, summary = [], {}
    for title, known in layouts.items():
        deviations = {r: standard_deviation(options.pixels, known, r, options.noise) for r in RESOLUTIONS}
        limit = 1.1 * 1.96 * max(d.max() for d in deviations.values())
        panel = Panel(f"{title}: 95 % interval", "pixel", "depth", (0, options.pixels - 1), (-limit, limit))
        xs = list(range(options.pixels))
        for color, (resolutions, deviation) in zip(COLORS, deviations.items(), strict=False):
            band = (1.96 * deviation).tolist()
            panel.band(xs, [-value for value in band], band, color)
            panel.line(xs, band, color)
            panel.point(4, limit * (0.9 - 0.12 * resolutions), 4, color, f"{resolutions} resolution(s)")
        for pixel in known:
            panel.point(pixel, 0, 3, "#222222")
        panels.append(panel)
        summary[title] = {f"R = {r}": round(float(d.max() / options.noise), 3) for r, d in deviations.items()}
    bound = float(np.sqrt(options.pixels - 1))
    write(options.out, panels)
    result = json.dumps(
        {"largest deviation, in units of the noise": summary, "sigma sqrt(n)": round(bound, 3)}, indent=1
    )
    print(result)
    if options.results is not None:
        with atomic_path(options.results) as temporary:
            temporary.write_text(result + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
