"""Write paper_32x64.npz: stages of the paper-size network with formula weights, in float64. Run from the repository:

python tests/golden/make_paper.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "network"), str(HERE.parent / "network" / "paper")]

from test_model import golden_stages  # noqa: E402

from conftest import formula_weight  # noqa: E402
from omnidc.network.paper.config import PaperConfig  # noqa: E402
from omnidc.network.paper.model import PaperNetwork  # noqa: E402


def main() -> None:
    y, x = np.mgrid[0:32, 0:64]
    waves = [np.sin(0.31 * x + 0.17 * y * k) * np.cos(0.11 * y - 0.05 * x * k) for k in (1, 2, 3)]
    image = np.round(127.5 + 110 * np.stack(waves, axis=-1)).astype(np.uint8)
    depth = (2.5 + 0.04 * x + 0.5 * np.sin(0.2 * y)).astype(np.float32)
    sparse = np.where((7 * x + 13 * y) % 61 == 0, depth, 0)
    arrays = {"image": image, "sparse": sparse}
    for mode in ("released", "own"):
        with torch.device("meta"):
            network = PaperNetwork(PaperConfig(released=mode == "released", log_scale_floor=-7.0, tolerance=1e-13))
        weights = {name: formula_weight(name, like) for name, like in network.state_dict().items()}
        network.load_state_dict(weights, assign=True)
        network.eval().double()
        with torch.no_grad():
            prediction = network(
                torch.from_numpy(image).permute(2, 0, 1)[None].double() / 255,
                torch.from_numpy(sparse)[None, None].double(),
            )
        arrays.update({f"{mode}_{name}": value.numpy() for name, value in golden_stages(prediction).items()})
    np.savez_compressed(HERE / "paper_32x64.npz", **arrays)


if __name__ == "__main__":
    main()
