from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import omnidc
from omnidc.errors import ConfigError, InputError, OmnidcError
from omnidc.evaluation.baselines import BASELINES
from omnidc.evaluation.baselines.interpolation import nearest
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
    assert find_method("omnidc.evaluation.baselines:nearest") is nearest


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
    completion = SimpleNamespace(depth=s.gt_depth, uncertainty=0.1 * s.gt_depth)
    depth, scale = run_method(lambda image, sparse, intrinsics: completion, s)
    assert depth is s.gt_depth
    assert scale is completion.uncertainty
    assert run_method(lambda *_: s.gt_depth, s)[1] is None


def test_a_map_of_another_size_is_a_sentence() -> None:
    with pytest.raises(InputError, match="depth of shape"):
        run_method(lambda *_: np.ones((3, 3)), sample())
    odd = SimpleNamespace(depth=np.ones((6, 8)), uncertainty=math.nan)
    with pytest.raises(InputError, match="uncertainty of shape"):
        run_method(lambda *_: odd, sample())


def test_a_fingerprint_follows_the_file(tmp_path: Path) -> None:
    assert fingerprint("linear") == ""
    assert fingerprint("compact") != ""  # the bundled weights change with the package
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"one")
    first = fingerprint(str(file))
    file.write_bytes(b"other weights")
    assert first != ""
    assert fingerprint(str(file)) != first


@pytest.mark.parametrize("model", ["compact", "hf://owner/name"])
def test_any_other_name_is_loaded_as_a_model(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    seen: dict[str, object] = {}

    class Completer:
        def complete(self, image: np.ndarray, sparse: np.ndarray, *, intrinsics: object, sky: str) -> SimpleNamespace:
            seen.update(intrinsics=intrinsics, sky=sky)
            return SimpleNamespace(depth=np.ones(sparse.shape), uncertainty=None)

    def load(name: str) -> Completer:
        seen["name"] = name
        return Completer()

    monkeypatch.setattr(omnidc, "load", load, raising=False)
    s = sample()
    camera = np.eye(3)
    depth, scale = run_method(find_method(model), replace(s, intrinsics=camera))
    assert seen == {"name": model, "intrinsics": camera, "sky": "keep"}
    assert (depth == 1).all()
    assert scale is None


def test_a_model_that_does_not_exist_is_a_sentence() -> None:
    with pytest.raises(OmnidcError, match="no-such-model"):
        find_method("no-such-model")


def test_own_method_comes_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "def f(image, sparse, intrinsics=None):\n    return sparse + 1\n\ndef g(image):\n    return image\n"
    (tmp_path / "method_of_a_user.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [entry for entry in sys.path if entry])
    depth, _ = run_method(find_method("method_of_a_user:f"), sample())
    assert (depth >= 1).all()
    with pytest.raises(ConfigError, match=r"takes \(image\).*f\(image, sparse, intrinsics\)"):
        find_method("method_of_a_user:g")
