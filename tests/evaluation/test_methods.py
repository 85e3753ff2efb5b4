from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from omnidc.errors import ConfigError, InputError
from omnidc.evaluation.baselines import BASELINES
from omnidc.evaluation.methods import find_method, fingerprint, run_method
from omnidc.evaluation.sample import Sample


def sample(shape: tuple[int, int] = (6, 8)) -> Sample:
    truth = np.linspace(1, 3, shape[0] * shape[1], dtype=np.float32).reshape(shape)
    return Sample(np.zeros((*shape, 3), np.uint8), np.where(np.eye(*shape) > 0, truth, 0).astype(np.float32), truth)


def brightness(image: np.ndarray) -> np.ndarray:
    """A stand-in for a monocular network: any map of the image's size."""
    return image.mean(axis=2) + np.arange(image.shape[1])


def test_names_find_baselines_and_functions_of_modules() -> None:
    assert find_method("linear") is BASELINES["linear"]
    assert find_method("omnidc.evaluation.baselines:nearest") is BASELINES["nearest"]


@pytest.mark.parametrize("fit", ["depth", "disparity", "depth-robust", "disparity-robust"])
def test_a_monocular_function_becomes_a_method(fit: str) -> None:
    method = find_method(f"align-{fit}@{__name__}:brightness")
    depth, _ = run_method(method, sample())
    assert depth.shape == (6, 8)
    assert (depth > 0).all()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module_here:f", "no_such_module_here"),
        ("math:no_such_function", "no_such_function"),
        ("math:pi", "not callable"),
        ("missing/checkpoint.safetensors", "no method"),
    ],
)
def test_an_unknown_name_is_a_sentence(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_method(name)


def test_a_completion_gives_depth_and_uncertainty() -> None:
    s = sample()
    completion = SimpleNamespace(depth=s.truth, uncertainty=0.1 * s.truth)
    depth, scale = run_method(lambda image, sparse, intrinsics: completion, s)
    assert depth is s.truth
    assert scale is completion.uncertainty
    assert run_method(lambda *_: s.truth, s)[1] is None


def test_a_map_of_another_size_is_a_sentence() -> None:
    with pytest.raises(InputError, match="depth of shape"):
        run_method(lambda *_: np.ones((3, 3)), sample())
    odd = SimpleNamespace(depth=np.ones((6, 8)), uncertainty=math.nan)
    with pytest.raises(InputError, match="uncertainty of shape"):
        run_method(lambda *_: odd, sample())


def test_a_fingerprint_follows_the_file(tmp_path: Path) -> None:
    assert fingerprint("linear") == ""
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"one")
    first = fingerprint(str(file))
    file.write_bytes(b"other weights")
    assert first != ""
    assert fingerprint(str(file)) != first
