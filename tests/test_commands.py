"""Every command that README and docs show is run here, or listed with the reason why not; its options must exist."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

import omnidc
from command_files import (
    bag_files,
    colmap_files,
    example_files,
    frame_files,
    kitti_files,
    photograph_files,
    recording_files,
    shard_files,
    splat_files,
    video_files,
)
from omnidc.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "src/omnidc/weights/README.md")),
    *(ROOT / name for name in ("examples/README.md", "examples/adapters/README.md", "ros/omnidc_ros/README.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.name != "training-log.md"),  # a history
]
PROGRAMS = r"omnidc|pip|python|pytest|torchrun|curl|docker|git|srun|sphinx-build|S|\.ci/\w+|colcon|ros2"
COMMAND = re.compile(rf"^(?:    |\t)\s*((?:[A-Z_]+=\S+ )*(?:{PROGRAMS})(?=[\s=]|$).*)$", re.MULTILINE)
# In backticks: commands with an option, or with words of which none is an ellipsis.
INLINE = re.compile(r"`((?:[A-Z_]+=\S+ )*(?:omnidc|python) [^`\n]*)`")


def shown_commands() -> list[str]:
    """Return the commands of indented blocks, without comments, and those of README in backticks, each once."""
    found: dict[str, None] = {}
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for line in COMMAND.findall(re.sub(r"\\\n\s*", "", text)):
            found.setdefault(re.sub(r"\s+#.*$", "", line).strip())
        if page == ROOT / "README.md":
            for line in INLINE.findall(text):
                if " -" in line and "…" not in line:
                    found.setdefault(line)
    return list(found)


def inline_commands() -> list[str]:
    """Return the commands in backticks of all pages that name an option."""
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    return list(dict.fromkeys(line for text in texts for line in INLINE.findall(text) if " -" in line))


SHOWN = shown_commands()


@dataclass(frozen=True)
class Case:
    """A shown command that runs here: its pattern, the files it needs, words to replace, words to add."""

    pattern: str
    make: Callable[[Path], None]
    replaced: Mapping[str, str] = field(default_factory=dict)
    added: str = ""


SIMPLE = r"( -[of] \S+| --resume| --intrinsics( [\d.]+){4})*"  # options of `complete`
NAMES = {"SCAN": "SCAN.bin", "IMAGE": "IMAGE.jpg", "photo.png": "photo.jpg", "FILE": "FILE.jpg"}
SHORT_SPLAT = "--steps 2 --size 40 --gaussians 200 --holdout 4"
SHORT_RUN = (
    "--set 'network.options={channels = [8, 16, 16, 24, 24], attention_blocks = 1, heads = 2}' "
    "--set data.sizes=[[32,64]] --set data.max_edge_fraction=1 --set optimizer.batch=2 --set data.workers=0 "
    "--set validation.frames=1 --set data.pattern='\"100\"' --set runtime.threads=1 --set runtime.processes=1 "
    "--set network.encoder='\"\"' --set schedule.steps=1"
)
SHORT_EVAL = "--patterns random-0.7%"


def run_files(folder: Path) -> None:
    """Write frames, and a finished run of one step."""
    frame_files(folder)
    words = shlex.split(f"train --preset compact --data scenes={folder}/FRAMES --out {folder}/RUN {SHORT_RUN}")
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0


def started_splat(folder: Path) -> None:
    """Write a COLMAP model, and a finished run of two steps."""
    splat_files(folder)
    words = shlex.split(f"splat {folder}/MODEL {folder}/IMAGES -o {folder}/OUT --depth none {SHORT_SPLAT}")
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0


RUN = (
    Case(r"omnidc demo", example_files),
    Case(rf"omnidc complete (photo\.jpg|photos/|images/) \S+{SIMPLE}", example_files),
    Case(r"omnidc complete \S+ \S+ --prior disparity\.npy", example_files),
    Case(r"omnidc complete photo\.jpg \S+ -m model\.onnx -o depth\.png", example_files),
    Case(r"omnidc complete left\.png \S+_disp\.png --disparity .*", example_files, {"left.png": "photo.jpg"}),
    Case(
        r'omnidc complete "\$S" "\$S" -o s3://b/out/results\.tar -f npy',
        shard_files,
        {"$S": "file://HERE/in-{000..001}.tar", "s3://b/out/results.tar": "file://HERE/out/results.tar"},
    ),
    Case(r"omnidc info FILE", example_files, NAMES),
    Case(r"omnidc lidar (SCAN|scan\.bin|scans/) .*--calib calib\.json.*", example_files, NAMES),
    Case(r"omnidc lidar KITTI/training -o out", kitti_files),
    Case(r"omnidc rgbd photo\.jpg depth\.png -o out", example_files),
    Case(r"omnidc rgbd RECORDING -o out.*", recording_files),
    Case(r"omnidc rgbd color/ depth/ .*--poses trajectory\.txt.*", recording_files),
    Case(r"omnidc radar returns\.bin .*", example_files, {"calib.txt": "radar.json"}),
    Case(r"omnidc bag drive\.bag .*", bag_files),
    Case(r"omnidc colmap sparse/0 images -o out.*", colmap_files),
    Case(r"omnidc doctor photo\.jpg sparse\.png --intrinsics .*", example_files),
    Case(r"omnidc doctor image_2/\S+ velodyne/\S+ --calib \S+", kitti_files, added="--folds 0"),
    Case(r"omnidc live video\.mp4 depths/ -m model\.onnx --serve 8000", video_files, {"8000": "0"}),
    Case(r"omnidc live 0 depths/ -o depth\.mp4", video_files, {"0": "video.mp4"}),
    Case(r"omnidc live recording\.mcap .*", bag_files, {"recording.mcap": "drive.bag"}),
    Case(r"omnidc eval --published \S+", example_files),
    Case(r"omnidc eval --protocol real .*", photograph_files, {"CHECKPOINT": "interpolate"}, SHORT_EVAL),
    Case(r"omnidc scenes setup --assets assets", example_files),
    Case(r"omnidc scenes preview frames .*", frame_files),
    Case(r"omnidc scenes stats frames .*", frame_files),
    Case(r"omnidc splat (MODEL IMAGES|sparse/0 images) -o \S+", splat_files, added=f"--depth linear {SHORT_SPLAT}"),
    Case(r"omnidc splat MODEL IMAGES -o OUT --views 5", splat_files, added=f"--depth linear {SHORT_SPLAT}"),
    Case(r"omnidc splat MODEL IMAGES -o OUT --depth (none|FOLDER)", splat_files, added=SHORT_SPLAT),
    Case(r"omnidc splat MODEL IMAGES -o OUT --resume", started_splat, added=f"--depth none {SHORT_SPLAT}"),
    Case(r"omnidc train --preset compact --data scenes=FRAMES --out RUN", frame_files, added=SHORT_RUN),
    Case(r"omnidc train --out RUN --resume.*", run_files, {"schedule.steps=36000": "schedule.steps=2"}),
    Case(r"omnidc (web|serve)( .*)?", example_files, {"$KEY": "a-key-of-sixteen-letters"}, "--port 0"),
    Case(r"curl .*/v1/complete -o \S+", example_files),
    Case(r"python benchmarks/figure3\.py --out .*", example_files),
    Case(r"python benchmarks/curves\.py (plot|sizes) .*", example_files),
    Case(r"python benchmarks/curves\.py measure .*", frame_files, added="--model interpolate"),
    Case(r"python benchmarks/no_points\.py .*", photograph_files),
    Case(
        r"python benchmarks/runtimes\.py .*",
        example_files,
        {"src/omnidc/weights/compact.onnx": "model.onnx"},
        "--sizes 61x95 --repeats 1",
    ),
)

# Commands that do not: (pattern, reason). Options of `omnidc` are checked for these, too.
REMOTE = r"s3://|hf://|--engine ray|examples\.adapters"
NOT_RUN: tuple[tuple[str, str], ...] = (
    (r"(pip|git|docker|srun|colcon|ros2)\b.*", "installs, or needs the network, a daemon, a cluster or ROS"),
    (r"python -m (venv|http\.server) .*", "makes an environment, or does not end"),
    (r"(\w+=\S+ )*pytest\b.*|\.ci/\w+", "is the test run"),
    (r"(\w+=\S+ )*torchrun .*", "several processes for hours; tests/training/test_launch.py runs two for seconds"),
    (r"python (benchmarks|fuzz|docs/demo)/.*", "minutes to hours; .ci/nightly runs the fuzzer and the soak"),
    (
        r"(\w+=\S+ )*omnidc eval (--protocol table\S+ --data ROOT|.*examples\.adapters).*",
        "needs the paper's test sets or another system",
    ),
    (r"omnidc splat … .*", "needs weights that are not part of omnidc; tests/splatting has a stand-in"),
    (r"omnidc scenes (render|setup) .*", "needs Blender, or fetches assets; tests/scenes runs it"),
    (r"omnidc ros2 .*", "does not end, and needs a graph; tests/ros runs it"),
    (
        r"omnidc (export|push|convert) .*",
        "a minute, a hub, or the authors' file; tests/deploy and tests/network run it on small networks",
    ),
    (rf"(\w+=\S+ )*omnidc complete .*({REMOTE}).*", "needs a bucket, a hub, or another system"),
    (r"omnidc colmap .*--run-sfm.*", "minutes; tests/sensors/test_sfm.py runs it"),
)


def split_command(command: str, case: Case, folder: Path) -> list[str]:
    words = [case.replaced.get(word, word) for word in shlex.split(command)]
    return [word.replace("HERE", str(folder)) for word in [*words, *shlex.split(case.added)]]


def parts_of(commands: list[str]) -> list[str]:
    """Return single commands: those between && and after assignments."""
    parts = [part.strip() for command in commands for part in re.split(r"&&|;", command)]
    return list(dict.fromkeys(part for part in parts if not re.match(r"cd |\. |S=", part)))


PARTS = parts_of(SHOWN)


def is_run(command: str) -> bool:
    return any(re.fullmatch(case.pattern, command) for case in RUN)


def test_commands_shown_are_run_or_listed() -> None:
    listed = [part for part in PARTS if not is_run(part)]
    unknown = [part for part in listed if not any(re.fullmatch(pattern, part) for pattern, _ in NOT_RUN)]
    assert not unknown, "run these in tests/test_commands.py, or list them with the reason why not"


def test_commands_patterns_match_something() -> None:
    patterns = [*(case.pattern for case in RUN), *(pattern for pattern, _ in NOT_RUN)]
    assert [pattern for pattern in patterns if not any(re.fullmatch(pattern, part) for part in PARTS)] == []


SHOWN_OPTIONS = [command for command in [*SHOWN, *inline_commands()] if re.search(r"\bomnidc [a-z]", command)]


@pytest.mark.parametrize("command", list(dict.fromkeys(SHOWN_OPTIONS)))
def test_command_shown_has_existing_options(command: str) -> None:
    group = typer.main.get_command(app)
    for words in re.findall(r"\bomnidc ([a-z0-9]+(?: .*?)?)(?=&&|;|$)", command):
        name, *rest = words.split()
        node = group.commands[name]  # type: ignore[attr-defined]
        if hasattr(node, "commands"):
            node = node.commands[rest.pop(0)]
        known = {option for parameter in node.params for option in (*parameter.opts, *parameter.secondary_opts)}
        used = {word.strip("[]").partition("=")[0] for word in rest if re.match(r"\[?--?[a-zA-Z]", word)}
        assert used <= known, f"{name} has no {', '.join(sorted(used - known))}"


@pytest.fixture
def service() -> Iterator[Callable[[], int]]:
    """Start the HTTP service; call to get its port."""
    uvicorn = pytest.importorskip("uvicorn")
    pytest.importorskip("fastapi")
    from omnidc.web.app import create_app
    from omnidc.web.server import configure, listen
    from omnidc.web.settings import Settings

    running: list[tuple[Any, threading.Thread]] = []

    def start() -> int:
        settings = Settings(port=0)
        listener = listen(settings)
        server = uvicorn.Server(configure(create_app(omnidc.load("interpolate"), settings), settings))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        running.append((server, thread))
        return int(listener.getsockname()[1])

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(20)


def run_script(words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a script of the repository in a folder with the results of docs."""
    shutil.copytree(ROOT / "docs/results", folder / "docs/results")
    (folder / "docs/images").mkdir()
    script = ROOT / words[0]
    monkeypatch.syspath_prepend(str(script.parent))  # as `python SCRIPT` does
    monkeypatch.setattr(sys, "argv", [str(script), *words[1:]])
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("command", [part for part in PARTS if is_run(part)])
def test_command_shown_runs(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: Callable[[], int]
) -> None:
    case = next(case for case in RUN if re.fullmatch(case.pattern, command))
    case.make(tmp_path)
    monkeypatch.chdir(tmp_path)
    program, *words = split_command(command, case, tmp_path)
    if program == "python":
        run_script(words, tmp_path, monkeypatch)
        return
    if program == "curl":
        if shutil.which("curl") is None:
            pytest.skip("curl is not installed")
        port = service()
        words = [word.replace(":7861", f":{port}") for word in words]
        subprocess.run(["curl", "--fail", "--silent", "--retry", "5", "--retry-connrefused", *words], check=True)
        assert Path(words[-1]).stat().st_size > 100
        return
    if words[0] in ("web", "serve"):
        server = pytest.importorskip("uvicorn").Server
        monkeypatch.setattr(server, "run", lambda self, sockets: None)  # everything up to the endless part
        monkeypatch.setattr("webbrowser.open", lambda url: True)
    group: Any = typer.main.get_command(app)
    parameters = getattr(group.commands[words[0]], "params", [])
    if any("--model" in parameter.opts for parameter in parameters) and "-m" not in words:
        words += ["--model", "interpolate"]  # seconds instead of minutes; other tests run the network
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output


def test_inline_command_with_an_adapter_asks_for_the_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    [command] = [part for part in PARTS if part.startswith("omnidc eval --data DIR -m examples.adapters")]
    photograph_files(tmp_path)
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("MARIGOLD_DC_REPO", raising=False)
    words = [str(tmp_path / "DIR") if word == "DIR" else word for word in shlex.split(command)[1:]]
    result = CliRunner().invoke(app, [*words, "-o", str(tmp_path / "out")])
    assert "MARIGOLD_DC_REPO" in f"{result.output}{result.exception}"


def test_sanity_line_of_usage_page_is_what_demo_prints(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["demo", "--model", "interpolate", "-o", str(tmp_path)]).output.splitlines()[0]
    assert f"    {printed}" in (ROOT / "docs/usage.md").read_text(encoding="utf-8").splitlines()
