from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import omnidc
from omnidc.errors import CheckpointError, ConfigError, InputError
from omnidc.geometry.rasterize import resize_sparse_nearest
from omnidc.io.depth import read_depth, write_depth
from omnidc.network.checkpoint import BUNDLED
from omnidc.network.interpolate import Interpolator
from omnidc.pipeline import CompleteOptions, DepthCompleter, make_frame

CAMERA = (60.0, 60.0, 31.5, 23.5)


def view(height: int = 48, width: int = 64, points: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (height, width, 3)).astype(np.uint8)
    sparse = np.zeros((height, width), np.float32)
    index = rng.choice(sparse.size, min(points, sparse.size), replace=False)
    sparse.flat[index] = rng.uniform(1, 5, len(index))
    return image, sparse


@pytest.fixture(scope="module")
def tiny(Tiny: Callable[..., Any]) -> DepthCompleter:
    return DepthCompleter(Tiny())


@pytest.fixture(scope="module")
def plain() -> DepthCompleter:
    return omnidc.load("interpolate", "cpu")


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, omnidc, omnidc.cli; sys.exit('torch' in sys.modules or 'cv2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_paths_pillow_arrays_and_tensors_are_the_same_input(tiny: DepthCompleter, tmp_path: Path) -> None:
    image, sparse = view()
    Image.fromarray(image).save(tmp_path / "a.png")
    write_depth(tmp_path / "a.npy", sparse)
    expected = tiny.complete(image, sparse).depth
    for picture in (
        tmp_path / "a.png",
        str(tmp_path / "a.png"),
        Image.fromarray(image),
        torch.from_numpy(image),
        torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255,
    ):
        np.testing.assert_array_equal(tiny.complete(picture, sparse).depth, expected)
    for points in (tmp_path / "a.npy", torch.from_numpy(sparse)[None, None], sparse.astype(np.float64)):
        np.testing.assert_array_equal(tiny.complete(image, points).depth, expected)


def test_a_list_gives_what_each_gives_alone(tiny: DepthCompleter) -> None:
    views = [view(48, 64, seed=k) for k in range(6)] + [view(40, 50, seed=9)]
    results = tiny.complete([v[0] for v in views], [v[1] for v in views], CAMERA)
    assert len(results) == 7
    for result, (image, sparse) in zip(results, views, strict=True):
        alone = tiny.complete(image, sparse)
        np.testing.assert_allclose(result.depth, alone.depth, rtol=1e-4)
        assert result.intrinsics is not None
    for cameras in ([CAMERA] * 3, [None, CAMERA, np.eye(3)], list(np.eye(3)), np.eye(3)):
        assert len(tiny.complete([v[0] for v in views[:3]], [v[1] for v in views[:3]], cameras)) == 3
    [*_, last] = tiny.complete([v[0] for v in views[:4]], [v[1] for v in views[:4]], list(CAMERA))
    assert last.intrinsics[0, 0] == CAMERA[0]
    with pytest.raises(InputError, match="as many"):
        tiny.complete([views[0][0]], [views[0][1], views[1][1]])


@pytest.mark.parametrize("size", [(1, 1), (7, 9), (48, 64), (61, 35), (1, 50)])
@pytest.mark.parametrize("points", [0, 1, 30])
def test_network_any_size_gives_finite_positive_maps(tiny: DepthCompleter, size: tuple[int, int], points: int) -> None:
    image, sparse = view(*size, points=points)
    result = tiny.complete(image, sparse)
    assert result.uncertainty is not None
    for values in (result.depth, result.uncertainty):
        assert values.shape == size
        assert values.dtype == np.float32
        assert np.isfinite(values).all()
        assert (values > 0).all()
    assert ((~np.isnan(result.input_confidence)) == (sparse > 0)).all()
    assert ((~np.isnan(result.residual)) == (sparse > 0)).all()


def test_large_images_are_tiled_and_agree_with_the_whole(tiny: DepthCompleter) -> None:
    image, sparse = view(192, 320, points=300)
    whole = tiny.complete(image, sparse, tile=None)
    tiled = tiny.complete(image, sparse, tile=128)
    assert tiled.details.tile == 128
    assert np.median(np.abs(tiled.depth / whole.depth - 1)) < 1e-3
    np.testing.assert_allclose(tiled.input_confidence, whole.input_confidence, atol=1e-6)


def test_auto_tiling_starts_above_two_megapixels(Tiny: Callable[..., Any]) -> None:
    network = Tiny()
    image, sparse = view(1100, 2000, points=50)
    result = DepthCompleter(network).complete(image, sparse)
    assert result.details.tile == 1024
    assert len(network.calls) == 6
    assert max(map(max, network.calls)) == 1024


def test_depth_scales_with_the_input(tiny: DepthCompleter) -> None:
    image, sparse = view()
    once = tiny.complete(image, sparse)
    assert once.uncertainty is not None
    for factor in (1e-6, 1e-3, 0.1, 10, 1e3, 1e6):
        scaled = tiny.complete(image, sparse * np.float32(factor))
        np.testing.assert_allclose(scaled.depth, once.depth * factor, rtol=1e-5)
        assert scaled.uncertainty is not None
        np.testing.assert_allclose(scaled.uncertainty, once.uncertainty * factor, rtol=1e-5)


def test_hard_keeps_every_point_and_soft_reports_what_it_changed(tiny: DepthCompleter) -> None:
    image, sparse = view()
    soft = tiny.complete(image, sparse)
    hard = tiny.complete(image, sparse, keep_input="hard")
    assert np.nanmax(np.abs(soft.residual)) > 0
    assert np.nanmax(np.abs(hard.residual)) == 0
    measured = sparse > 0
    np.testing.assert_allclose(soft.residual[measured], soft.depth[measured] - sparse[measured])


def test_harmonic_is_the_old_name_of_interpolate() -> None:
    with pytest.warns(DeprecationWarning, match="interpolate"):
        assert omnidc.load("harmonic").name == "interpolate"


def test_no_points_is_relative_depth_and_says_so(plain: DepthCompleter) -> None:
    image, _ = view()
    for nothing in (None, np.zeros(image.shape[:2]), np.full(image.shape[:2], np.nan)):
        result = plain.complete(image, nothing)
        assert result.relative
        assert any("relative" in warning for warning in result.warnings)
        np.testing.assert_allclose(result.depth, 1, rtol=1e-5)


def test_one_point_gives_its_depth_everywhere_without_a_network(plain: DepthCompleter) -> None:
    image, sparse = view(points=1)
    result = plain.complete(image, sparse)
    np.testing.assert_allclose(result.depth, sparse.max(), rtol=1e-5)
    assert any("Only 1 depth point:" in warning for warning in result.warnings)


def test_doubtful_input_is_mentioned(plain: DepthCompleter) -> None:
    image, sparse = view()

    def sentences(points: np.ndarray) -> str:
        return " ".join(plain.complete(image, points).warnings)

    assert sentences(sparse) == ""
    assert "same depth" in sentences(np.where(sparse > 0, 2.0, 0))
    assert "2 NaN, infinite" in sentences(np.where(np.arange(sparse.size).reshape(sparse.shape) < 2, np.inf, sparse))
    assert "millimeters" in sentences(sparse * 1000)
    outlier = sparse.copy()
    outlier[sparse == sparse.max()] = 1e6
    assert "factor" in sentences(outlier)


@pytest.mark.parametrize(
    ("sparse", "sentence"),
    [
        (np.full((48, 64), -1.0), "negative"),
        (np.zeros((48, 64, 3)), "color picture"),
        (np.zeros((48, 64), np.uint8), "8-bit"),
        (np.zeros((24, 32)), "resize-sparse"),
        (np.zeros(5), "shape"),
        ("text.txt", "does not exist"),
        (3.0, "float"),
    ],
)
def test_unusable_sparse_maps_are_refused_with_a_reason(plain: DepthCompleter, sparse: object, sentence: str) -> None:
    with pytest.raises(omnidc.OmnidcError, match=sentence):
        plain.complete(view()[0], sparse)


def test_points_of_another_resolution_are_moved_on_request(plain: DepthCompleter) -> None:
    image, _ = view(48, 64)
    result = plain.complete(image, view(24, 32, points=40)[1], resize_sparse=True)
    assert (result.sparse > 0).sum() == 40
    with pytest.raises(InputError, match="same shape"):
        plain.complete(image, view(48, 48)[1], resize_sparse=True)


def test_moved_points_keep_their_place_and_their_values() -> None:
    small = np.zeros((2, 3), np.float32)
    small[1, 2] = 5
    assert np.argwhere(resize_sparse_nearest(small, (6, 9))).tolist() == [[4, 7]]
    large = np.zeros((6, 6), np.float32)
    large[0, 0], large[1, 1] = 1, 2  # of both, (1, 1) is the center of the new pixel
    assert resize_sparse_nearest(large, (2, 2)).tolist() == [[2, 0], [0, 0]]
    sparse = view(points=100)[1]
    assert (resize_sparse_nearest(sparse, sparse.shape) == sparse).all()


def test_max_long_side_shrinks_the_work_not_the_result(Tiny: Callable[..., Any]) -> None:
    network = Tiny()
    image, sparse = view(96, 128, points=200)
    result = DepthCompleter(network).complete(image, sparse, max_long_side=64)
    assert network.calls == [(48, 64)]
    assert result.depth.shape == (96, 128)
    assert (~np.isnan(result.input_confidence)).sum() == 200
    assert 1 < np.median(result.depth) < 5


def test_runner_respects_max_side_unless_asked(Tiny: Callable[..., Any]) -> None:
    network = Tiny()
    network.max_side = 64
    image, sparse = view(96, 128, points=200)
    completer = DepthCompleter(network)
    assert completer.complete(image, sparse).depth.shape == (96, 128)
    completer.complete(image, sparse, max_long_side=1000)
    assert network.calls == [(48, 64), (96, 128)]


def test_ray_distances_are_converted_and_need_a_camera(plain: DepthCompleter) -> None:
    image, sparse = view()
    with pytest.raises(InputError, match="camera"):
        plain.complete(image, sparse, ray_depth=True)
    result = plain.complete(image, sparse, CAMERA, ray_depth=True)
    measured = sparse > 0
    assert (result.sparse[measured] < sparse[measured]).all()


def test_clip_depth_caps_the_result(plain: DepthCompleter) -> None:
    assert plain.complete(*view(), clip_depth=2.5).depth.max() == 2.5
    with pytest.warns(DeprecationWarning, match="far is now clip_depth"):
        assert plain.complete(*view(), far=2.5).depth.max() == 2.5


@pytest.mark.parametrize(
    "options",
    [{"keep_input": "maybe"}, {"max_long_side": 0}, {"tile": -1}, {"clip_depth": 0.0}, {"max_uncertainty": -1}],
)
def test_options_that_make_no_sense_are_refused(plain: DepthCompleter, options: dict) -> None:
    with pytest.raises(ConfigError):
        plain.complete(*view(), **options)


def test_unknown_keywords_are_refused_with_the_known_ones(plain: DepthCompleter) -> None:
    with pytest.raises(ConfigError, match=r"no option 'keepinput'.*keep_input.*depth_scale"):
        plain.complete(*view(), keepinput="hard")


def test_frame_and_options_give_what_keywords_give(Tiny: Callable[..., Any]) -> None:
    completer = DepthCompleter(Tiny())
    frame = make_frame(*view(), CAMERA)
    options = CompleteOptions(keep_input="hard", max_long_side=48)
    by_frame = completer.complete(frame, options)
    by_keywords = completer.complete(*view(), CAMERA, keep_input="hard", max_long_side=48)
    np.testing.assert_array_equal(by_frame.depth, by_keywords.depth)
    np.testing.assert_array_equal(completer.complete_frames([frame], options)[0].depth, by_frame.depth)
    both = completer.complete(frame, keep_input="hard", max_long_side=48)
    np.testing.assert_array_equal(both.depth, by_frame.depth)
    with pytest.raises(ConfigError, match="belongs to make_frame"):
        completer.complete(frame, ray_depth=True)
    for given in ((options, {"tile": 64}), (view()[1], {})):
        with pytest.raises(ConfigError, match="complete\\(frame, options\\)"):
            completer.complete(frame, given[0], **given[1])


def test_mask_removes_measurements_and_result(Tiny: Callable[..., Any]) -> None:
    image, sparse = view()
    mask = np.ones(sparse.shape, bool)
    mask[:, :20] = False
    outside = sparse.copy()
    outside[:, :20] = 0
    completer = DepthCompleter(Tiny())
    masked = completer.complete(image, sparse, CAMERA, mask=mask)
    assert (masked.depth[:, :20] == 0).all()
    np.testing.assert_array_equal(masked.depth[:, 20:], completer.complete(image, outside).depth[:, 20:])
    assert not masked.sparse[:, :20].any()
    assert len(masked.points(keep_flying_pixels=True)[0]) == mask.sum()
    assert masked.metadata()["depth"]["min"] > 0
    with pytest.raises(InputError, match="mask"):
        completer.complete(image, sparse, mask=mask[1:])


def test_max_uncertainty_drops_pixels(plain: DepthCompleter, Tiny: Callable[..., Any]) -> None:
    completer = DepthCompleter(Tiny())
    whole = completer.complete(*view(), CAMERA)
    assert whole.uncertainty is not None
    limit = float(np.median(whole.uncertainty / whole.depth))
    strict = completer.complete(*view(), CAMERA, max_uncertainty=limit)
    dropped = whole.uncertainty > limit * whole.depth
    assert 0.4 < dropped.mean() < 0.6
    np.testing.assert_array_equal(strict.depth, np.where(dropped, 0, whole.depth))
    assert np.isnan(strict.residual[dropped]).all()
    with pytest.raises(ConfigError, match="gives no uncertainty"):
        plain.complete(*view(), max_uncertainty=0.1)


def test_a_solve_that_did_not_converge_is_mentioned() -> None:
    class Hasty(Interpolator):
        def integrate(self, fields, sparse, warm_start=None):  # type: ignore[no-untyped-def]
            x, info = super().integrate(fields, sparse, warm_start)
            info.converged[:] = False
            info.residuals[-1] = 0.5
            return x, info

    assert any("relative residual" in w for w in DepthCompleter(Hasty()).complete(*view()).warnings)


def test_a_network_that_gives_nonsense_is_an_error_not_a_result() -> None:
    class Broken(Interpolator):
        def refine(self, fields, log_depth, sparse):  # type: ignore[no-untyped-def]
            depth, init, scale = super().refine(fields, log_depth, sparse)
            return depth * torch.nan, init, scale

    with pytest.raises(omnidc.OmnidcError, match="no finite depth"):
        DepthCompleter(Broken()).complete(*view())


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".png", ".exr", ".pfm", ".tiff"])
def test_saved_depth_reads_back(plain: DepthCompleter, suffix: str, tmp_path: Path) -> None:
    result = plain.complete(*view())
    path = result.save(tmp_path / f"depth{suffix}")
    np.testing.assert_allclose(read_depth(path).depth, result.depth, atol=6e-4 if suffix == ".png" else 0)


def test_previews_clouds_maps_and_metadata_are_written(tiny: DepthCompleter, tmp_path: Path) -> None:
    result = tiny.complete(*view(), CAMERA)
    for name in ("a.jpg", "a_preview.png", "a.ply", "a.glb", "a.json"):
        assert result.save(tmp_path / name, keep_flying_pixels=True).stat().st_size > 100
    assert Image.open(tmp_path / "a_preview.png").mode == "RGB"
    result.save_maps(tmp_path / "maps.npz")
    with np.load(tmp_path / "maps.npz") as maps:
        np.testing.assert_array_equal(maps["uncertainty"], result.uncertainty)
        np.testing.assert_array_equal(maps["input_confidence"], result.input_confidence)
    points, colors = result.points(keep_flying_pixels=True)
    assert points.shape == colors.shape == (48 * 64, 3)
    with pytest.raises(omnidc.OmnidcError, match="suffix"):
        result.save(tmp_path / "a.docx")


def test_points_without_a_camera_are_refused(plain: DepthCompleter, tmp_path: Path) -> None:
    result = plain.complete(*view())
    with pytest.raises(InputError, match="camera"):
        result.save(tmp_path / "a.ply")
    with pytest.raises(InputError, match="singular"):
        result.points((0, 0, 1, 1))
    assert list(tmp_path.iterdir()) == []


def test_the_one_liner_loads_once_and_completes() -> None:
    image, sparse = view()
    result = omnidc.complete(image, sparse, model="interpolate")
    np.testing.assert_array_equal(result.depth, omnidc.load("interpolate").complete(image, sparse).depth)


def test_a_model_or_device_that_does_not_exist_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnidc.deploy.loading.WEIGHTS", tmp_path)
    monkeypatch.setitem(BUNDLED, "compact", tmp_path / "compact.safetensors")
    with pytest.raises(CheckpointError, match="missing"):
        omnidc.load("compact")
    with pytest.raises(ConfigError, match="device"):
        omnidc.load("interpolate", "toaster")


@pytest.mark.parametrize("content", [b"", b"\x10\0\0\0\0\0\0\0{}", b"hello world, not weights"])
def test_damaged_checkpoints_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(omnidc.OmnidcError, match=r"a\.safetensors"):
        omnidc.load(path)


def test_keep_edges_is_the_old_name_of_keep_flying_pixels(plain: DepthCompleter) -> None:
    result = plain.complete(*view(), CAMERA)
    with pytest.warns(DeprecationWarning, match="keep_flying_pixels"):
        points, _ = result.points(keep_edges=True)
    assert len(points) == result.depth.size
    with pytest.raises(TypeError, match="keep_edge"):
        result.points(keep_edge=True)
