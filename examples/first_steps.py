"""Complete the bundled example and keep the result in every form.

python examples/first_steps.py [OUTPUT]
"""

import sys
from pathlib import Path

import omnidc

DATA = Path(omnidc.__file__).parent / "examples"


def main(output: str = "first_steps", network: str = "compact") -> None:
    completer = omnidc.load(network)
    camera = (247.888, 247.888, 159.5, 119.5)  # fx, fy, cx, cy in pixels
    result = completer.complete(DATA / "room.jpg", DATA / "room_sparse.npz", camera)
    print(result)
    for name in ("depth.npy", "depth.png", "preview.jpg", "cloud.ply", "surface.glb"):
        result.save(Path(output) / name)


if __name__ == "__main__":
    main(*sys.argv[1:])
