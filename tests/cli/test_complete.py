"""`omnidc complete`, `demo` and `info` as users meet them: exit codes, sentences, files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

import omnidc
from omnidc.cli import main
from omnidc.io.depth import read_depth

EXAMPLES = Path(omnidc.__file__).parent / "examples"


class Run(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Run]:
    """Run the command line in this process, in an empty folder, with the model that needs no weights."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, model: str | None = "interpolate") -> Run:
        chosen = ["--model", model] if model and arguments[0] in ("complete", "demo") else []
        monkeypatch.setattr(sys, "argv", ["omnidc", *map(str, arguments), *chosen])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return Run(int(stop.value.code or 0), captured.out, captured.err)

    return run


def make_view(folder: Path, stem: str = "a", shape: tuple[int, int] = (24, 32), points: int = 20) -> tuple[Path, Path]:
    rng = np.random.default_rng(0)
    image, depth = folder / f"{stem}.jpg", folder / f"{stem}.npy"
    Image.fromarray(rng.integers(0, 256, (*shape, 3)).astype(np.uint8)).save(image)
    sparse = np.zeros(shape, np.float32)
    sparse.flat[rng.choice(sparse.size, min(points, sparse.size), replace=False)] = 2.5
    np.save(depth, sparse)
    return image, depth


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_one_view_prints_its_sanity_line_and_writes_a_folder(cli: Callable[..., Run], tmp_path: Path) -> None:
    run = cli("complete", EXAMPLES / "room.jpg", EXAMPLES / "room_sparse.npz")
    assert run.code == 0, run.err
    assert "500 points, 0.651 % of 320x240; min 1.36, median 2.62, max 5" in run.out
    assert "taken as it is" in run.out
    assert files(tmp_path / "room_omnidc") == {"depth.npy", "depth_preview.jpg", "metadata.json"}
    assert np.load(tmp_path / "room_omnidc" / "depth.npy").shape == (240, 320)
    metadata = json.loads((tmp_path / "room_omnidc" / "metadata.json").read_text())
    assert metadata["frames"]["depth"]["points"] == 500
    assert metadata["model"] == "interpolate"


def test_files_are_written_by_suffix(cli: Callable[..., Run], tmp_path: Path) -> None:
    image, sparse = make_view(tmp_path)
    names = [f"d.{suffix}" for suffix in ("npy", "npz", "png", "exr", "pfm", "tiff", "ply", "glb", "jpg", "json")]
    names.append("d_preview.png")
    outputs = [argument for name in names for argument in ("-o", tmp_path / "out" / name)]
    run = cli("complete", image, sparse, *outputs, "--intrinsics", 30, 30, 15.5, 11.5, "--png-scale", 256)
    assert run.code == 0, run.err
    assert files(tmp_path / "out") == set(names)
    assert read_depth(tmp_path / "out" / "d.png").scale == 256


def test_formats_choose_what_goes_into_a_folder(cli: Callable[..., Run], tmp_path: Path) -> None:
    image, sparse = make_view(tmp_path)
    (tmp_path / "cam.txt").write_text("30 30 15.5 11.5")
    run = cli("complete", image, sparse, "-o", "out", "-f", "exr,ply", "-f", "png", "--camera", "cam.txt")
    assert run.code == 0, run.err
    assert files(tmp_path / "out") == {"depth.exr", "depth.ply", "depth.png", "metadata.json"}


@pytest.mark.parametrize("choice", ["auto", "256", "1000", "5000"])
def test_depth_scale_of_a_png(cli: Callable[..., Run], choice: str, tmp_path: Path) -> None:
    image, _ = make_view(tmp_path)
    Image.fromarray(np.full((24, 32), 2560, np.uint16)).save(tmp_path / "d.png")
    run = cli("complete", image, "d.png", "-o", "out.npy", "--depth-scale", choice)
    assert run.code == 0, run.err
    scale = 1000 if choice == "auto" else float(choice)
    np.testing.assert_allclose(np.load("out.npy"), 2560 / scale, rtol=1e-4)
    assert ("millimeters" if choice == "auto" else "as asked") in run.out


def test_confidence_maps_are_written(cli: Callable[..., Run], tmp_path: Path) -> None:
    image, sparse = make_view(tmp_path)
    assert cli("complete", image, sparse, "-o", "d.npy", "--confidence", "c.npz").code == 0
    with np.load("c.npz") as maps:
        assert np.isfinite(maps["input_confidence"]).sum() == 20


def test_options_reach_the_completer(cli: Callable[..., Run], tmp_path: Path) -> None:
    image, sparse = make_view(tmp_path, shape=(48, 64))
    run = cli(
        *("complete", image, sparse, "-o", "d.npy", "-o", "d.json", "--keep-input", "hard", "--clip-depth", 2.0),
        *("--max-long-side", 32, "--tile", 64, "--ray-depth", "--intrinsics", 60, 60, 31.5, 23.5),
    )
    assert run.code == 0, run.err
    metadata = json.loads(Path("d.json").read_text())
    assert (metadata["keep_input"], metadata["computed_width"], metadata["tile"]) == ("hard", 32, 64)
    assert np.load("d.npy").max() <= 2
    assert metadata["input"]["max"] < 2.5


# --- folders ------------------------------------------------------------------------------------------------------


def make_folders(root: Path, count: int = 3) -> tuple[Path, Path]:
    images, depths = root / "images", root / "depths"
    images.mkdir()
    depths.mkdir()
    for k in range(count):
        image, depth = make_view(root, f"{k:03d}")
        image.rename(images / image.name)
        depth.rename(depths / depth.name)
    return images, depths


def test_folders_are_paired_by_stem(cli: Callable[..., Run], tmp_path: Path) -> None:
    images, depths = make_folders(tmp_path)
    (images / "extra.jpg").write_bytes((images / "000.jpg").read_bytes())
    (images / "notes.txt").write_text("no image")
    (depths / "000.json").write_text('{"K": 1}')  # a camera, not a list of points
    run = cli("complete", images, depths, "-o", "out", "-f", "npy", "--confidence", "maps")
    assert run.code == 0, run.err
    assert "3 of 3 images completed" in run.out
    assert "1 of 4 images have no depth file" in run.out
    assert files(tmp_path / "out") == {"000.npy", "001.npy", "002.npy", "metadata.json"}
    assert files(tmp_path / "maps") == {"000.npz", "001.npz", "002.npz"}
    assert set(json.loads(Path("out/metadata.json").read_text())["frames"]) == {"000", "001", "002"}


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_one_bad_pair_does_not_stop_the_rest_and_is_listed(
    cli: Callable[..., Run], suffix: str, tmp_path: Path
) -> None:
    images, depths = make_folders(tmp_path)
    (depths / "001.npy").rename(depths / f"001{suffix}")
    (depths / f"001{suffix}").write_bytes(b"PK\x03\x04broken")
    run = cli("complete", images, depths, "-o", "out", "-f", "npy")
    assert run.code == 1
    assert "failed: 001:" in run.err
    assert "truncated" in run.err
    assert files(tmp_path / "out") == {"000.npy", "002.npy", "metadata.json"}


def test_resume_does_only_what_is_missing(cli: Callable[..., Run], tmp_path: Path) -> None:
    images, depths = make_folders(tmp_path)
    assert cli("complete", images, depths, "-o", "out").code == 0
    kept = Path("out/000.npy").stat().st_mtime_ns
    Path("out/001.npy").unlink()
    run = cli("complete", images, depths, "-o", "out", "--resume")
    assert run.code == 0, run.err
    assert "2 of 3 are done already" in run.out
    assert "3 of 3 images completed" in run.out
    assert Path("out/000.npy").stat().st_mtime_ns == kept
    assert Path("out/001.npy").is_file()
    assert set(json.loads(Path("out/metadata.json").read_text())["frames"]) == {"000", "001", "002"}
    assert cli("complete", images, depths, "-o", "out", "--resume").code == 0


# --- bad input: exit code 2, one sentence, nothing written -----------------------------------------------------------


def bad(run: Run, sentence: str) -> None:
    assert run.code == 2, run
    lines = [line for line in run.err.strip().splitlines() if not line.startswith(("warning:", "note:"))]
    assert len(lines) == 1, run.err
    assert lines[0].startswith("omnidc: ")
    assert sentence in lines[0]
    assert "Traceback" not in run.err


def nothing_written(folder: Path) -> None:
    assert not (folder / "out.npy").exists()
    assert not [path for path in folder.rglob("*") if path.name.startswith(".")]


SPARSE: dict[str, tuple[Callable[[Path], object], str]] = {
    "another size": (lambda p: np.save(p / "d.npy", np.ones((12, 16))), "--resize-sparse nearest"),
    "negative": (lambda p: np.save(p / "d.npy", np.full((24, 32), -1.0)), "negative"),
    "three channels": (lambda p: np.save(p / "d.npy", np.ones((24, 32, 3))), "three channels"),
    "a pickle": (lambda p: np.save(p / "d.npy", {"depth": 1}, allow_pickle=True), "Python objects"),
    "truncated": (lambda p: (p / "d.npy").write_bytes(b"\x93NUMPY\x01\x00"), "truncated"),
    "empty file": (lambda p: (p / "d.npy").write_bytes(b""), "truncated"),
    "missing": (lambda p: None, "does not exist"),
    "a folder": (lambda p: (p / "d.npy").mkdir(), "two files or two folders"),
}


@pytest.mark.parametrize("case", SPARSE)
def test_bad_sparse_maps(cli: Callable[..., Run], case: str, tmp_path: Path) -> None:
    make, sentence = SPARSE[case]
    image, _ = make_view(tmp_path)
    make(tmp_path)
    bad(cli("complete", image, "d.npy", "-o", "out.npy"), sentence)
    nothing_written(tmp_path)


@pytest.mark.parametrize(
    ("array", "sentence"), [(np.zeros((24, 32, 3), np.uint8), "color"), (np.zeros((24, 32), np.uint8), "8-bit")]
)
def test_pictures_given_as_depth(cli: Callable[..., Run], array: np.ndarray, sentence: str, tmp_path: Path) -> None:
    image, _ = make_view(tmp_path)
    Image.fromarray(array).save(tmp_path / "d.png")
    bad(cli("complete", image, "d.png", "-o", "out.npy"), sentence)
    bad(cli("complete", image, image, "-o", "out.npy"), "not a depth file")
    nothing_written(tmp_path)


@pytest.mark.parametrize(
    ("values", "warning"),
    [
        (0.0, "relative"),
        (2.0, "same depth"),
        (np.nan, "relative"),
        (np.inf, "relative"),
        ("one point", "Only 1 depth point"),
    ],
)
def test_poor_sparse_maps_work_with_a_warning(
    cli: Callable[..., Run], values: float | str, warning: str, tmp_path: Path
) -> None:
    image, _ = make_view(tmp_path)
    sparse = np.zeros((24, 32))
    if values == "one point":
        sparse[3, 4] = 2
    else:
        sparse[:] = values
    np.save(tmp_path / "d.npy", sparse)
    run = cli("complete", image, "d.npy", "-o", "out.npy")
    assert run.code == 0, run.err
    assert warning in run.err
    depth = np.load("out.npy")
    assert np.isfinite(depth).all()
    assert (depth > 0).all()


@pytest.mark.parametrize("shape", [(1, 1), (7, 9)])
def test_tiny_images_work(cli: Callable[..., Run], shape: tuple[int, int], tmp_path: Path) -> None:
    image, sparse = make_view(tmp_path, shape=shape, points=1)
    run = cli("complete", image, sparse, "-o", "out.npy", "-o", "out.jpg")
    assert run.code == 0, run.err
    assert np.load("out.npy").shape == shape


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "I;16", "CMYK", "1"])
def test_every_kind_of_image_works(cli: Callable[..., Run], mode: str, tmp_path: Path) -> None:
    image, sparse = make_view(tmp_path)
    name = "b.tiff" if mode == "CMYK" else "b.png"
    if mode == "I;16":
        Image.fromarray(np.arange(24 * 32, dtype=np.uint16).reshape(24, 32) * 80).save(tmp_path / name)
    else:
        Image.open(image).convert(mode).save(tmp_path / name)
    run = cli("complete", name, sparse, "-o", "out.npy")
    assert run.code == 0, run.err


@pytest.mark.parametrize("content", [b"", b"text", "half"])
def test_bad_images(cli: Callable[..., Run], content: bytes | str, tmp_path: Path) -> None:
    image, sparse = make_view(tmp_path, shape=(64, 64))
    data = image.read_bytes()
    image.write_bytes(data[: len(data) // 2] if isinstance(content, str) else content)
    bad(cli("complete", image, sparse, "-o", "out.npy"), "not an image")
    bad(cli("complete", "none.jpg", sparse, "-o", "out.npy"), "does not exist")
    nothing_written(tmp_path)


def test_another_resolution_works_when_asked_for(cli: Callable[..., Run], tmp_path: Path) -> None:
    image, _ = make_view(tmp_path)
    np.save(tmp_path / "d.npy", np.ones((12, 16)))
    assert cli("complete", image, "d.npy", "-o", "out.npy", "--resize-sparse", "nearest").code == 0


def test_folders_without_pairs(cli: Callable[..., Run], tmp_path: Path) -> None:
    images, depths = make_folders(tmp_path, 1)
    (depths / "000.npy").rename(depths / "other.npy")
    bad(cli("complete", images, depths, "-o", "out"), "same name")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--intrinsics", 0, 30, 15, 11), "singular"),
        (("--camera", "none.txt"), "does not exist"),
        (("--depth-scale", "big"), "--depth-scale"),
        (("--depth-scale", "-1"), "--depth-scale"),
        (("--tile", "x"), "--tile"),
        (("--clip-depth", "0"), "clip_depth"),
        (("--ray-depth",), "intrinsics"),
        (("-o", "cloud.ply"), "need the camera"),
        (("-o", "x.docx"), "suffix"),
        (("-f", "docx", "-o", "folder"), "docx"),
        (("--device", "toaster"), "device"),
    ],
)
def test_bad_options(cli: Callable[..., Run], arguments: tuple[object, ...], sentence: str, tmp_path: Path) -> None:
    image, sparse = make_view(tmp_path)
    bad(cli("complete", image, sparse, "-o", "out.npy", *arguments), sentence)
    nothing_written(tmp_path)


def test_bad_checkpoints(cli: Callable[..., Run], tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    image, sparse = make_view(tmp_path)
    (tmp_path / "broken.safetensors").write_bytes(b"\x40\0\0\0\0\0\0\0{")
    save_file({"other.weight": np.zeros(3, np.float32)}, tmp_path / "other.safetensors")
    for name in ("broken.safetensors", "other.safetensors", "none.safetensors"):
        bad(cli("complete", image, sparse, "-o", "out.npy", model=name), name)
    nothing_written(tmp_path)


def test_a_place_that_cannot_be_written_is_found_before_the_work(cli: Callable[..., Run], tmp_path: Path) -> None:
    image, sparse = make_view(tmp_path)
    (tmp_path / "file").write_text("in the way")
    bad(cli("complete", image, sparse, "-o", "file/out.npy"), "not a folder")


def test_no_write_permission(cli: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image, sparse = make_view(tmp_path)
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o500)
    if os.geteuid() == 0:  # root may write anywhere: ask as if it may not
        real = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != locked and real(path, mode))
    bad(cli("complete", image, sparse, "-o", locked / "out.npy"), "permission denied")
    assert files(locked) == set()


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    """The kernel refuses to let any file grow beyond 2 kB, as a full disk would half-way."""
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (64, 96, 3)).astype(np.uint8)).save(tmp_path / "a.png")
    np.save(tmp_path / "a.npy", rng.uniform(1, 2, (64, 96)).astype(np.float32))
    target = tmp_path / "results" / "out.npy"
    target.parent.mkdir()
    target.write_bytes(b"the old result")
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "import omnidc.pipeline, omnidc.cli, omnidc.network.interpolate;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048)); omnidc.cli.main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, "complete", "a.png", "a.npy", "-o", str(target), "--model", "interpolate"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert run.returncode == 2, run.stderr
    assert "Cannot write" in run.stderr
    assert "Traceback" not in run.stderr
    assert files(target.parent) == {"out.npy"}
    assert target.read_bytes() == b"the old result"


# --- demo, info, version ----------------------------------------------------------------------------------------------


def test_demo_runs_without_weights_and_says_so(
    cli: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnidc.deploy.loading.WEIGHTS", tmp_path)
    run = cli("demo", model=None)
    assert run.code == 0, run.err
    assert "not installed" in run.err
    assert "against the truth" in run.out
    assert files(tmp_path / "omnidc_demo") == {
        *("depth.npy", "depth.png", "depth_preview.png", "cloud.ply", "surface.glb", "metadata.json")
    }
    truth = read_depth(EXAMPLES / "room_depth.png").depth
    depth = np.load(tmp_path / "omnidc_demo" / "depth.npy")
    assert np.mean(np.abs(depth - truth)[truth > 0] / truth[truth > 0]) < 0.15


def test_info_of_images_depth_and_checkpoints(cli: Callable[..., Run], tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    image, _ = make_view(tmp_path)
    assert "32x24" in cli("info", image).out
    Image.open(image).save(tmp_path / "photo.png")
    assert "image: 32x24" in cli("info", "photo.png").out
    assert "500 points" in cli("info", EXAMPLES / "room_sparse.npz").out
    assert "× 5000" in cli("info", EXAMPLES / "room_depth.png").out
    save_file({"w": np.zeros((2, 3), np.float32)}, tmp_path / "w.safetensors", {"config": "tiny"})
    out = cli("info", "w.safetensors").out
    assert "1 tensors" in out
    assert "config: tiny" in out


def test_info_of_bad_files(cli: Callable[..., Run], tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    bad(cli("info", "none.png"), "does not exist")
    (tmp_path / "a.png").write_bytes(b"x")
    bad(cli("info", "a.png"), "a.png")
    (tmp_path / "a.docx").write_bytes(b"x")
    bad(cli("info", "a.docx"), "not a file that is known")
    save_file({"w": np.zeros((20, 30), np.float32)}, tmp_path / "w.safetensors")
    data = (tmp_path / "w.safetensors").read_bytes()
    for kept in (0, 5, 20, len(data) - 1):
        (tmp_path / "w.safetensors").write_bytes(data[:kept])
        bad(cli("info", "w.safetensors"), "w.safetensors")


def test_version(cli: Callable[..., Run]) -> None:
    assert cli("--version").out.strip() == f"omnidc {omnidc.__version__}"


def test_exif_of_a_later_photo_is_printed(cli: Callable[..., Run], tmp_path: Path) -> None:
    images, depths = make_folders(tmp_path)
    exif = Image.Exif()
    exif[0x0112] = 8
    Image.open(images / "001.jpg").save(images / "001.jpg", exif=exif)
    run = cli("complete", images, depths, "-o", "out", "-f", "npy")
    assert run.code == 0, run.err
    said = [line for line in (run.out + run.err).splitlines() if "turned by 90° counterclockwise" in line]
    assert len(said) == 1
    records = json.loads(Path("out/metadata.json").read_text())["frames"]
    assert [bool(record["pixels"]) for record in records.values()] == [False, True, False]
    assert np.load("out/001.npy").shape == (32, 24)


def test_png_scale_of_a_single_file_is_printed(cli: Callable[..., Run], tmp_path: Path) -> None:
    run = cli("complete", *make_view(tmp_path), "-o", "d.png")
    assert "d.png: depth × 1000" in run.out


def test_disparity_needs_its_options_and_gives_meters(cli: Callable[..., Run], tmp_path: Path) -> None:
    image, _ = make_view(tmp_path)
    disparity = np.zeros((24, 32), np.uint16)
    disparity[::4, ::4] = 256 * 20
    Image.fromarray(disparity).save(tmp_path / "a_disp.png")
    for arguments, words in (
        ((), "--disparity with --baseline and --focal"),
        (("--disparity",), "needs --baseline METERS"),
        (("--baseline", 0.5), "options of --disparity"),
        (("--disparity", "--baseline", 0, "--focal", 100), "positive number"),
    ):
        run = cli("complete", image, tmp_path / "a_disp.png", *arguments)
        assert run.code == 2
        assert words in run.err
    run = cli("complete", image, tmp_path / "a_disp.png", "--disparity", "--baseline", 0.5, "--focal", 100, "-o", "out")
    assert run.code == 0, run.err
    assert "min 2.5, median 2.5, max 2.5 m" in run.out
    assert cli("info", tmp_path / "a_disp.png").out.startswith("disparity, going by its name")


def test_resume_refuses_weights_of_the_same_name(cli: Callable[..., Run], tmp_path: Path) -> None:
    images, depths = make_folders(tmp_path, 1)
    assert cli("complete", images, depths, "-o", "out", "-f", "npy").code == 0
    table = json.loads(Path("out/metadata.json").read_text())
    table["reading"]["weights"] = "0123456789abcdef"
    Path("out/metadata.json").write_text(json.dumps(table))
    run = cli("complete", images, depths, "-o", "out", "-f", "npy", "--resume")
    assert run.code == 2
    assert "weights 0123456789abcdef (now )" in run.err
