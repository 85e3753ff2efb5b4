"""`Completion` as a value: comparison, text, notebook, tensors; batches and half precision as input."""

from __future__ import annotations

import base64
import doctest
import io
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from omnidc.errors import InputError
from omnidc.integrate import integrate
from omnidc.pipeline import Completion, DepthCompleter, load


@pytest.fixture(scope="module")
def completer() -> DepthCompleter:
    return load("interpolate", "cpu")


def inputs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 255, (32, 48, 3)).astype(np.uint8)
    return image, np.where(rng.random((32, 48)) < 0.1, rng.uniform(1, 3, (32, 48)), 0).astype(np.float32)


def test_completion_equals_its_copy_and_nothing_else(completer: DepthCompleter) -> None:
    first, second = (completer.complete(*inputs()) for _ in range(2))
    assert first == second
    assert first != replace(first, depth=first.depth + 1)
    assert first != replace(first, intrinsics=np.eye(3))
    assert first != "depth"
    with pytest.raises(TypeError):
        hash(first)


def test_completion_repr_is_one_short_line(completer: DepthCompleter) -> None:
    text = repr(completer.complete(*inputs()))
    assert text.startswith("Completion(48x32, depth ")
    assert len(text) < 100
    empty = replace(completer.complete(*inputs()), depth=np.zeros((32, 48), np.float32))
    assert "no depth" in repr(empty)


def test_completion_in_a_notebook_is_a_picture(completer: DepthCompleter) -> None:
    result = completer.complete(*inputs())
    html = result._repr_html_()
    data = html.split("base64,")[1].split('"')[0]
    with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
        height, width, _ = result.preview().shape
        assert picture.size == (width, height)


def test_completion_to_torch_copies_a_map(completer: DepthCompleter) -> None:
    result = completer.complete(*inputs())
    tensor = result.to_torch()
    assert tensor.shape == (1, 1, 32, 48)
    tensor += 1
    assert not np.allclose(tensor[0, 0].numpy(), result.depth)
    with pytest.raises(InputError, match="no uncertainty"):
        replace(result, uncertainty=None).to_torch("uncertainty")


@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_complete_of_a_batch_equals_single_views(completer: DepthCompleter, kind: str) -> None:
    views = [inputs(seed) for seed in range(3)]
    images = np.stack([image for image, _ in views]).transpose(0, 3, 1, 2)
    sparse = np.stack([points for _, points in views])[:, None]
    cameras = np.stack([np.diag([50.0 + k, 50, 1]) for k in range(3)])
    if kind == "tensor":
        results = completer.complete(torch.from_numpy(images), torch.from_numpy(sparse), cameras)
    else:
        results = completer.complete(images, sparse, cameras)
    assert isinstance(results, list)
    for k, (result, view) in enumerate(zip(results, views)):
        np.testing.assert_allclose(result.depth, completer.complete(*view).depth, rtol=1e-4)
        assert result.intrinsics is not None
        assert result.intrinsics[0, 0] == 50 + k


def test_complete_of_unequal_batches_is_refused(completer: DepthCompleter) -> None:
    with pytest.raises(InputError, match="as many sparse maps"):
        completer.complete(np.zeros((3, 3, 8, 8), np.uint8), np.ones((2, 1, 8, 8), np.float32))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_complete_takes_half_precision(completer: DepthCompleter, dtype: torch.dtype) -> None:
    image, sparse = inputs()
    picture = torch.from_numpy(image / 255).permute(2, 0, 1)
    result = completer.complete(picture.to(dtype), torch.from_numpy(sparse).to(dtype))
    np.testing.assert_allclose(result.depth, completer.complete(image, sparse).depth, rtol=0.05)


def test_complete_takes_float16_arrays_without_warnings(completer: DepthCompleter) -> None:
    image, sparse = inputs()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = completer.complete((image / 255).astype(np.float16), sparse.astype(np.float16))
    np.testing.assert_allclose(result.depth, completer.complete(image, sparse).depth, rtol=0.05)


@pytest.mark.parametrize("shape", [(1, 48), (32, 1)])
def test_save_of_a_single_row_or_column_to_ply(completer: DepthCompleter, tmp_path, shape: tuple[int, int]) -> None:  # type: ignore[no-untyped-def]
    image, sparse = (array[: shape[0], : shape[1]] for array in inputs())
    result: Completion = completer.complete(image, sparse + 1, (40, 40, 0, 0))
    assert b"element vertex" in result.save(tmp_path / "row.ply").read_bytes()


def test_integrate_of_arrays_is_refused_in_a_sentence() -> None:
    array = np.zeros((1, 1, 4, 4), np.float32)
    with pytest.raises(InputError, match=r"torch\.from_numpy"):
        integrate([torch.zeros(1, 2, 4, 4)], array, array)  # type: ignore[arg-type]


def test_integrate_example_runs() -> None:
    import omnidc.integrate.layer as module

    example = doctest.DocTestFinder().find(module.integrate, globs={})
    assert example[0].examples
    assert doctest.DocTestRunner().run(example[0]).failed == 0
