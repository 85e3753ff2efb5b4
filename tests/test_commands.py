"""Every command that README and docs show is run here, or listed with the reason why not; its options must exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer.main
from typer.testing import CliRunner

import omnidc
from makers import colmap_model, wall
from omnidc.cli import app
from omnidc.io.depth import read_depth, write_depth

ROOT = Path(__file__).parent.parent
EXAMPLE = Path(omnidc.__file__).parent / "examples"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "src/omnidc/weights/README.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.name != "training-log.md"),  # a history
]
PROGRAMS = "omnidc|pip|python|pytest|torchrun|curl|docker|git|srun|sphinx-build|S"
COMMAND = re.compile(rf"^(?:    |\t)\s*((?:[A-Z_]+=\S+ )*(?:{PROGRAMS})\b.*)$", re.MULTILINE)


def shown_commands() -> list[str]:
    """Return the commands of indented blocks, without comments, each once."""
    found: dict[str, None] = {}
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for line in COMMAND.findall(re.sub(r"\\\n\s*", "", text)):
            found.setdefault(re.sub(r"\s+#.*$", "", line).strip())
    return list(found)


SHOWN = shown_commands()


def example_files(folder: Path) -> None:
    """Write the files that the pages name, from the bundled example."""
    image, depth = EXAMPLE / "room.jpg", read_depth(EXAMPLE / "room_depth.png").depth
    sparse = read_depth(EXAMPLE / "room_sparse.npz").depth
    for name in ("photo.jpg", "photos/a.jpg", "images/a.jpg", "FILE.jpg", "IMAGE.jpg"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(image, folder / name)
    for name in ("sparse", "depths", "scans"):
        (folder / name).mkdir()
    np.save(folder / "sparse.npy", sparse)
    np.save(folder / "disparity.npy", 1 / depth)
    for name, values in (("sparse.png", sparse), ("sparse/a.png", sparse), ("depths/a.png", sparse)):
        write_depth(folder / name, values, scale=1000)
    write_depth(folder / "depth.png", depth, scale=1000)
    write_depth(folder / "000001_10_disp.png", 100 / depth, scale=256)  # any disparities
    K = [[247.888, 0, 159.5], [0, 247.888, 119.5], [0, 0, 1]]
    rows, columns = np.nonzero(sparse)
    rays = np.linalg.inv(K) @ np.stack([columns, rows, np.ones(len(rows))])
    points = (rays * sparse[rows, columns]).T.astype(np.float32)  # [N, 3] in the camera's frame
    for name, width in (("scan.bin", 4), ("SCAN.bin", 4), ("scans/a.bin", 4), ("returns.bin", 7)):
        np.pad(points, ((0, 0), (0, width - 3))).astype(np.float32).tofile(folder / name)
    pose = np.eye(4).tolist()
    for name, sensor in (("calib.json", "lidar"), ("calib.txt", "radar")):
        (folder / name).write_text(json.dumps({"K": K, f"camera_from_{sensor}": pose}))
    (folder / "calib.txt").rename(folder / "radar.json")


def colmap_files(folder: Path) -> None:
    """Write a COLMAP model and its photographs."""
    pytest.importorskip("pycolmap")
    points = wall(np.random.default_rng(0), 200, 3.0)
    colmap_model(folder / "sparse" / "0", folder / "images", points, [range(4)] * 200)


SIMPLE = r"( -[of] \S+| --resume| --intrinsics( [\d.]+){4})*"  # options of `complete`
NAMES = {"SCAN": "SCAN.bin", "IMAGE": "IMAGE.jpg", "photo.png": "photo.jpg", "FILE": "FILE.jpg"}
# Commands that run here: (pattern, maker of the files, words to replace).
RUN: tuple[tuple[str, Callable[[Path], None], dict[str, str]], ...] = (
    (r"omnidc demo", example_files, {}),
    (rf"omnidc complete (photo\.jpg|photos/|images/) \S+{SIMPLE}", example_files, {}),
    (r"omnidc complete \S+ \S+ --prior disparity\.npy", example_files, {}),
    (r"omnidc complete left\.png \S+_disp\.png --disparity .*", example_files, {"left.png": "photo.jpg"}),
    (r"omnidc info FILE", example_files, NAMES),
    (r"omnidc lidar (SCAN|scan\.bin|scans/) .*--calib calib\.json.*", example_files, NAMES),
    (r"omnidc rgbd photo\.jpg depth\.png -o out", example_files, {}),
    (r"omnidc radar returns\.bin .*", example_files, {"calib.txt": "radar.json"}),
    (r"omnidc colmap sparse/0 images -o out.*", colmap_files, {}),
    (r"omnidc doctor photo\.jpg sparse\.png --intrinsics .*", example_files, {}),
    (r"omnidc eval --published \S+", example_files, {}),
    (r"python benchmarks/figure3\.py --out .*", example_files, {}),
    (r"python benchmarks/curves\.py plot .*", example_files, {}),
)

# Commands that do not: (pattern, reason). Options of `omnidc` are checked for these, too.
REMOTE = r"s3://|hf://|model\.onnx|--engine ray|examples\.adapters"
NOT_RUN: tuple[tuple[str, str], ...] = (
    (r"(pip|git|docker|srun|curl)\b.*", "installs, or needs the network, a daemon, a cluster or a server"),
    (r"python -m (venv|http\.server) .*", "makes an environment, or does not end"),
    (r"(\w+=\S+ )*pytest\b.*", "is the test run"),
    (r"(\w+=\S+ )*torchrun .*", "several processes for hours; tests/training/test_launch.py runs two for seconds"),
    (r"python (benchmarks|fuzz|docs/demo)/.*", "minutes to hours; .ci/nightly runs the fuzzer and the soak"),
    (r"omnidc eval .*", "needs data sets; tests/evaluation runs it on small ones"),
    (r"omnidc (train|splat) .*", "minutes to hours; tests/training and tests/splatting run it on small data"),
    (r"omnidc scenes .*", "needs Blender and assets, or rendered frames; tests/scenes runs it"),
    (r"omnidc (web|serve).*", "does not end; tests/web starts it"),
    (r"omnidc (live|ros2) .*", "does not end, or needs a camera or a graph; tests/deploy and tests/ros run it"),
    (
        r"omnidc (export|push|convert) .*",
        "needs other weights, a hub or the authors' file; tests/deploy, tests/network",
    ),
    (rf"(\w+=\S+ )*omnidc complete .*({REMOTE}).*", "needs a bucket, a hub, an exported model or another system"),
    (
        r"omnidc (lidar|rgbd|bag|colmap|doctor) .*",
        "needs the user's recording; tests/sensors and tests/cli run small ones",
    ),
)


def split_command(command: str, replaced: dict[str, str]) -> list[str]:
    return [replaced.get(word, word) for word in shlex.split(command)]


def parts_of(commands: list[str]) -> list[str]:
    """Return single commands: those between && and after assignments."""
    parts = [part.strip() for command in commands for part in re.split(r"&&|;", command)]
    return [part for part in parts if not re.match(r"cd |\. |S=", part)]


def is_run(command: str) -> bool:
    return any(re.fullmatch(pattern, command) for pattern, _, _ in RUN)


def test_commands_shown_are_run_or_listed() -> None:
    listed = [part for part in parts_of(SHOWN) if not is_run(part)]
    unknown = [part for part in listed if not any(re.fullmatch(pattern, part) for pattern, _ in NOT_RUN)]
    assert not unknown, "run these in tests/test_commands.py, or list them with the reason why not"


def test_commands_patterns_match_something() -> None:
    parts = parts_of(SHOWN)
    patterns = [pattern for pattern, *_ in (*RUN, *NOT_RUN)]
    assert [pattern for pattern in patterns if not any(re.fullmatch(pattern, part) for part in parts)] == []


@pytest.mark.parametrize("command", [command for command in SHOWN if re.search(r"\bomnidc [a-z]", command)])
def test_command_shown_has_existing_options(command: str) -> None:
    group = typer.main.get_command(app)
    for words in re.findall(r"\bomnidc ([a-z0-9]+(?: .*?)?)(?=&&|;|$)", command):
        name, *rest = words.split()
        node = group.commands[name]  # type: ignore[attr-defined]
        if hasattr(node, "commands"):
            node = node.commands[rest.pop(0)]
        known = {option for parameter in node.params for option in (*parameter.opts, *parameter.secondary_opts)}
        used = {word.strip("[]").partition("=")[0] for word in rest if re.match(r"\[?--?[a-z]", word)}
        assert used <= known, f"{name} has no {', '.join(sorted(used - known))}"


@pytest.mark.parametrize("command", [command for command in SHOWN if is_run(command)])
def test_command_shown_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, make, replaced = next(entry for entry in RUN if re.fullmatch(entry[0], command))
    make(tmp_path)
    program, *words = split_command(command, replaced)
    if program == "python":
        (tmp_path / "docs").mkdir()
        shutil.copytree(ROOT / "docs/results", tmp_path / "docs/results")
        (tmp_path / "docs/images").mkdir()
        script = [sys.executable, str(ROOT / words[0]), *words[1:]]
        subprocess.run(script, cwd=tmp_path, check=True, capture_output=True)
        return
    monkeypatch.chdir(tmp_path)
    parameters = typer.main.get_command(app).commands[words[0]].params  # type: ignore[attr-defined]
    if any("--model" in parameter.opts for parameter in parameters):
        words += ["--model", "interpolate"]  # seconds instead of minutes; other tests run the network
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output


def test_sanity_line_of_usage_page_is_what_demo_prints(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["demo", "--model", "interpolate", "-o", str(tmp_path)]).output.splitlines()[0]
    assert f"    {printed}" in (ROOT / "docs/usage.md").read_text(encoding="utf-8").splitlines()
