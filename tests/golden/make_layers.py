"""Write layers.npz, what `tests/golden/test_layers.py` compares with. Run from the repository:

PYTHONPATH=tests/helpers python tests/golden/make_layers.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from golden_layers import golden

if __name__ == "__main__":
    np.savez_compressed(Path(__file__).with_name("layers.npz"), **golden())
