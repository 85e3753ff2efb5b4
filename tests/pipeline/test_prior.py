"""The fusion of a monocular prior with points: a heuristic, tested by its properties."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import omnidc
from omnidc.cli import app
from omnidc.errors import ConfigError, FileError, InputError
from omnidc.evaluation.baselines import BASELINES
from omnidc.evaluation.methods import find_method
from omnidc.io.depth import read_depth
from omnidc.io.images import read_image
from omnidc.patterns import parse
from omnidc.pipeline.alignment import best_line
from omnidc.pipeline.prior import align_prior, find_callable, fuse, fuse_completion, held_out_error, open_prior

HEIGHT, WIDTH = 48, 64
EXAMPLE = Path(omnidc.__file__).parent / "examples"


def scene(points: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A floor with a box in front of it, 2 to 8 units deep, and random points of it."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    truth = (2 + 6 * (1 - y / HEIGHT) + 0.01 * x).astype(np.float32)
    truth[15:35, 20:40] = 2.0
    sparse = np.zeros_like(truth)
    flat = rng.choice(truth.size, points, replace=False)
    sparse.flat[flat] = truth.flat[flat]
    return truth, sparse


def rel(depth: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean(np.abs(depth - truth) / truth))


def bent(truth: np.ndarray, strength: float = 0.2) -> np.ndarray:
    """The truth, wrong by a smooth factor."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    return truth * np.exp(strength * np.sin(x / 12) * np.cos(y / 10))


@pytest.mark.parametrize("points", [5, 30, 300])
@pytest.mark.parametrize("kind", ["metric", "relative depth", "relative disparity"])
def test_prior_equal_to_the_truth_gives_the_truth(points: int, kind: str) -> None:
    truth, sparse = scene(points)
    prior = {"metric": 3 * truth, "relative depth": 0.1 * truth - 0.1, "relative disparity": 1 / truth - 0.12}[kind]
    assert rel(fuse(sparse, prior), truth) < 0.01


def test_fusion_beats_alignment_and_interpolation() -> None:
    truth, sparse = scene(60)
    prior = bent(truth)
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    fused = rel(fuse(sparse, prior), truth)
    assert fused < 0.6 * rel(align_prior(sparse, prior), truth)
    assert fused < 0.6 * rel(BASELINES["linear"](image, sparse, None), truth)


def test_prior_that_disagrees_with_the_points_counts_little() -> None:
    truth, sparse = scene(300)
    rng = np.random.default_rng(1)
    nonsense = truth * np.exp(rng.normal(0, 0.5, truth.shape))
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    assert rel(fuse(sparse, nonsense), truth) < 2 * rel(BASELINES["harmonic"](image, sparse, None), truth)
    assert rel(fuse(sparse, nonsense), truth) < 0.5 * rel(align_prior(sparse, nonsense), truth)


def test_outlier_does_not_dent_the_result() -> None:
    truth, sparse = scene(200)
    row, column = np.argwhere(sparse > 0)[100]
    sparse[row, column] *= 3
    depth = fuse(sparse, bent(truth, 0.05))
    assert abs(depth[row, column] / truth[row, column] - 1) < 0.3


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_fusion_is_equivariant_to_the_unit(factor: float) -> None:
    truth, sparse = scene(40)
    prior = bent(truth)
    scaled = fuse(np.float32(factor) * sparse, prior)
    np.testing.assert_allclose(scaled / factor, fuse(sparse, prior), rtol=1e-3)


def test_unknown_pixels_of_the_prior_are_filled() -> None:
    truth, sparse = scene(100)
    prior = bent(truth).astype(np.float64)
    prior[10:20, 30:50] = np.nan
    depth = fuse(sparse, prior)
    assert np.isfinite(depth).all()
    assert (depth > 0).all()


def test_network_counts_by_its_uncertainty() -> None:
    truth, sparse = scene(10)
    network, prior = 1.3 * truth, bent(truth, 0.05)
    sure = fuse(sparse, prior, network, np.full_like(truth, 1e-3))
    unsure = fuse(sparse, prior, network, 5 * truth)
    assert rel(unsure, truth) < 0.5 * rel(sure, truth)


@pytest.mark.parametrize("points", [5, 30, 200])
def test_useless_prior_hardly_harms_a_good_network(points: int) -> None:
    truth, sparse = scene(points)
    rng = np.random.default_rng(1)
    network = truth * np.exp(rng.laplace(0, 0.02, truth.shape)).astype(np.float32)
    nonsense = np.exp(rng.normal(0, 0.5, truth.shape))
    assert rel(fuse(sparse, nonsense, network, 0.02 * truth), truth) < 1.1 * rel(network, truth)


def test_good_prior_and_fair_network_are_better_together() -> None:
    truth, sparse = scene(60)
    network, prior = bent(truth[::-1, ::-1], 0.1)[::-1, ::-1], bent(truth, 0.2)
    together = rel(fuse(sparse, prior, network, 0.05 * truth), truth)
    assert together < min(rel(fuse(sparse, prior), truth), rel(network, truth))


def test_held_out_error_is_that_of_pixels_without_points() -> None:
    truth, sparse = scene(150)
    prior = bent(truth)
    depth, expected = fuse(sparse, prior), held_out_error(sparse, prior)
    open_pixels = sparse == 0
    measured = np.abs(np.log(depth / truth))[open_pixels].mean()
    assert 0.5 < expected[open_pixels].mean() / measured < 2


def test_records_keep_their_other_fields() -> None:
    @dataclass(frozen=True)
    class Result:
        depth: np.ndarray
        uncertainty: np.ndarray | None
        note: str

    truth, sparse = scene(30)
    fused = fuse_completion(Result(truth, None, "kept"), sparse, truth)
    assert fused.note == "kept"
    assert fused.depth.shape == truth.shape
    assert isinstance(fuse_completion(truth, sparse, truth), np.ndarray)


def test_line_is_not_bent_by_a_third_of_outliers() -> None:
    rng = np.random.default_rng(0)
    mono = rng.uniform(0, 1, 60)
    depth = 2 * mono + 1
    depth[:20] = rng.uniform(1, 10, 20)
    line = best_line(mono, depth)
    assert line.space == "depth"
    assert (line.scale, line.shift) == pytest.approx((2, 1), abs=0.05)


def test_line_of_one_point_is_a_scale() -> None:
    line = best_line(np.array([0.5]), np.array([3.0]), "depth")
    assert (line.scale, line.shift) == pytest.approx((6, 0))


def test_falling_line_is_refused() -> None:
    mono = np.linspace(-2, -1, 30)
    with pytest.raises(InputError, match="does not fit"):
        best_line(mono, 2 - 4 * mono, "depth")


@pytest.mark.parametrize(
    ("prior", "points", "message"),
    [(np.ones((4, 4)), 5, "resize"), (np.full((HEIGHT, WIDTH), np.nan), 5, "nothing to align")],
)
def test_unusable_input_is_a_sentence(prior: np.ndarray, points: int, message: str) -> None:
    _, sparse = scene(points)
    with pytest.raises(InputError, match=message):
        fuse(sparse, prior)


def test_priors_come_from_files_folders_and_functions(tmp_path: Path) -> None:
    truth, _ = scene(5)
    image = np.zeros((2 * HEIGHT, 2 * WIDTH, 3), np.uint8)
    np.save(tmp_path / "a.npy", truth)
    for source in (str(tmp_path / "a.npy"), str(tmp_path)):
        assert open_prior(source)(Path("a.jpg"), image).shape == image.shape[:2]
    called = open_prior("numpy:sum")
    with pytest.raises(InputError, match="map"):
        called(Path("a.jpg"), image)
    with pytest.raises(FileError, match="no prior called b"):
        open_prior(str(tmp_path))(Path("b.jpg"), image)
    with pytest.raises(FileError, match="no prior"):
        open_prior(str(tmp_path / "missing.npy"))
    with pytest.raises(ConfigError, match="importable"):
        find_callable("no_such_module:depth")


def test_prior_of_another_shape_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((10, 40), np.float32))
    with pytest.raises(InputError, match="shapes differ"):
        open_prior(str(tmp_path / "a.npy"))(Path("a.jpg"), np.zeros((HEIGHT, WIDTH, 3), np.uint8))


def red(image: np.ndarray) -> np.ndarray:
    return image[..., 0].astype(np.float32)


def test_methods_of_eval_take_a_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnidc.evaluation.methods.find_callable", lambda name: red)
    truth, sparse = scene(30)
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    image[..., 0] = np.rint(20 * truth)
    for name in ("prior@here:red", "prior@here:red+linear"):
        assert rel(find_method(name)(image, sparse, None), truth) < 0.05


def test_command_takes_a_prior(tmp_path: Path) -> None:
    from PIL import Image

    truth, sparse = scene(8)
    Image.fromarray(np.full((HEIGHT, WIDTH, 3), 90, np.uint8)).save(tmp_path / "a.png")
    np.save(tmp_path / "sparse.npy", sparse)
    np.save(tmp_path / "prior.npy", 1 / truth)
    arguments = ["complete", str(tmp_path / "a.png"), str(tmp_path / "sparse.npy"), "-o", str(tmp_path / "out.npy")]
    runner = CliRunner()
    plain = runner.invoke(app, [*arguments, "--model", "interpolate"])
    assert plain.exit_code == 0, plain.output
    without = np.load(tmp_path / "out.npy")
    with_prior = runner.invoke(app, [*arguments, "--model", "interpolate", "--prior", str(tmp_path / "prior.npy")])
    assert with_prior.exit_code == 0, with_prior.output
    assert rel(np.load(tmp_path / "out.npy"), truth) < 0.5 * rel(without, truth)


def test_compact_network_gains_from_a_prior(tmp_path: Path) -> None:
    """The shipped weights on the bundled example, four draws of five points and a prior wrong by a smooth factor."""
    image, gt_depth = EXAMPLE / "room.jpg", read_depth(EXAMPLE / "room_depth.png").depth
    valid = gt_depth > 0
    y, x = np.mgrid[: gt_depth.shape[0], : gt_depth.shape[1]] / gt_depth.shape[0]
    known = np.where(valid, gt_depth, np.median(gt_depth))
    np.save(tmp_path / "prior.npy", known * np.exp(0.15 * np.sin(6 * x) * np.cos(7 * y)))
    arguments = ["complete", str(image), str(tmp_path / "sparse.npy"), "-o", str(tmp_path / "out.npy")]
    errors: dict[str, list[float]] = {"without": [], "with": []}
    for seed in range(4):
        np.save(tmp_path / "sparse.npy", parse("5")(gt_depth, read_image(image), np.random.default_rng(seed)).sparse)
        for name, more in (("without", []), ("with", ["--prior", str(tmp_path / "prior.npy")])):
            result = CliRunner().invoke(app, [*arguments, "--model", "compact", *more])
            assert result.exit_code == 0, result.output
            errors[name].append(rel(np.load(tmp_path / "out.npy")[valid], gt_depth[valid]))
    assert np.mean(errors["with"]) < 0.9 * np.mean(errors["without"])
