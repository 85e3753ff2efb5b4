"""Use the uncertainty: leave out what the network is not sure of, and look at the error of the rest.

python examples/uncertainty.py
"""

from pathlib import Path

import numpy as np

import omnidc
from omnidc.io.depth import read_depth

DATA = Path(omnidc.__file__).parent / "examples"


def main(network: str = "compact") -> None:
    completer = omnidc.load(network)
    truth = read_depth(DATA / "room_depth.png").depth
    result = completer.complete(DATA / "room.jpg", DATA / "room_sparse.npz")
    if result.uncertainty is None:
        raise SystemExit(f"The model {network} gives no uncertainty.")
    order = np.argsort((result.uncertainty / result.depth).ravel())  # surest pixels first
    error = (np.abs(result.depth - truth) / truth).ravel()[order]
    for share in (1.0, 0.9, 0.75, 0.5):
        print(f"surest {share:4.0%} of the pixels: mean relative error {error[: int(share * error.size)].mean():.4f}")
    inside = np.abs(result.depth - truth) <= result.uncertainty * np.log(20)
    print(f"inside the 95 % interval: {inside.mean():.1%}")
    # The same as an option: dropped pixels are 0 in the depth map and absent from clouds.
    kept = completer.complete(DATA / "room.jpg", DATA / "room_sparse.npz", max_uncertainty=0.05)
    print(f"max_uncertainty=0.05 keeps {(kept.depth > 0).mean():.1%} of the pixels")


if __name__ == "__main__":
    main()
