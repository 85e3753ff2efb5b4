"""A base install, without torch: the bundled model runs, and whatever needs an extra says which."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import omnidc
from light import missing_modules, run_light
from omnidc.deploy.runtime import OnnxCompleter
from omnidc.pipeline import CompleteOptions, make_frame

ROOM = Path(omnidc.__file__).parent / "examples" / "room"
HOLES = Path(omnidc.__file__).parent / "examples" / "holes"
MAIN = "from omnidc.cli import main; main()"
Light = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def missing() -> list[str]:
    return missing_modules()


@pytest.fixture
def light(missing: list[str], tmp_path: Path) -> Light:
    """`light(code, *words)`: Python in a base install, in a folder of its own."""
    return lambda code, *words: run_light(code, words, missing, tmp_path)


def test_torch_and_the_tools_of_export_are_not_in_a_base_install(missing: list[str]) -> None:
    assert {"torch", "onnx", "safetensors", "pytest"} <= set(missing)
    assert not {"numpy", "onnxruntime", "cv2", "typer", "omnidc", "google"} & set(missing)
    assert "fastapi" in set(missing) - set(missing_modules(["web"]))


def test_bundled_model_completes_from_python(light: Light, tmp_path: Path) -> None:
    done = light(
        "import omnidc, numpy as np\n"
        f"result = omnidc.load().complete({f'{ROOM}.jpg'!r}, {f'{ROOM}_sparse.npz'!r}, (200, 200, 160, 120))\n"
        "for name in ('d.npy', 'd.png', 'd.exr', 'd.ply'): result.save(name)\n"
        "assert omnidc.complete(result.image, result.sparse).depth.shape == result.depth.shape\n"
        "points = result.sparse > 0\n"
        "print(np.median(abs(result.depth - result.sparse)[points] / result.sparse[points]))\n"
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.02
    assert (tmp_path / "d.ply").is_file()


COMMANDS = {
    "complete": "complete {room}.jpg {room}_sparse.npz --camera {room}_intrinsics.txt -o out -f npy -f ply -f preview",
    "folders": "complete images sparse -o out",
    "demo": "demo -o out",
    "rgbd": "rgbd {holes}.jpg {holes}_sparse.png -o out -f npy",
    "live": "live images sparse -o out",
    "doctor": "doctor {room}.jpg {room}_sparse.npz --folds 2 --best out/best.npy",
    "info": "info {weights}/compact.onnx",
    "eval": "eval --protocol list",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run_the_bundled_model(light: Light, tmp_path: Path, command: str) -> None:
    for folder, source in (("images", f"{ROOM}.jpg"), ("sparse", f"{ROOM}_sparse.npz")):
        (tmp_path / folder).mkdir()
        shutil.copy(source, tmp_path / folder / f"a{Path(source).suffix}")
    weights = ROOM.parents[1] / "weights"
    done = light(MAIN, *COMMANDS[command].format(room=ROOM, holes=HOLES, weights=weights).split())
    assert done.returncode == 0, done.stderr
    assert command in ("info", "eval") or list((tmp_path / "out").rglob("*.npy"))


def test_every_command_shows_its_help(light: Light) -> None:
    done = light(
        "from typer.main import get_command\n"
        "from typer.testing import CliRunner\n"
        "from omnidc.cli import app\n"
        "for name in get_command(app).commands:\n"
        "    result = CliRunner().invoke(app, [name, '--help'])\n"
        "    assert result.exit_code == 0, (name, result.output, result.exception)\n"
        "    print(name)\n"
    )
    assert done.returncode == 0, done.stderr
    assert {"demo", "train", "splat", "export"} <= set(done.stdout.split())


NEEDS = {
    "complete {room}.jpg {room}_sparse.npz -o x.npy -m interpolate": "torch",
    "complete {room}.jpg {room}_sparse.npz -o x.npy --runtime torch": "torch",
    "complete {room}.jpg {room}_sparse.npz -o x.npy -m {weights}/compact.safetensors": "torch",
    "complete {room}.jpg {room}_sparse.npz -o x.npy --device cuda": "torch",
    "complete {room}.jpg {room}_sparse.npz -o x.npy --prior {room}_depth.png": "torch",
    "convert x.pt -o x.safetensors": "torch",
    "train --preset compact --data scenes=x --out x": "train",
    "export -o x.onnx": "onnx",
    "splat x y": "splat",
    "colmap x y": "colmap",
    "bag x": "ros",
    "serve": "web",
    "ros2 --image /a --depth-topic /b": "ros2",
}


@pytest.mark.parametrize(("command", "extra"), NEEDS.items(), ids=lambda text: text.split()[0])
def test_command_says_what_to_install(light: Light, command: str, extra: str) -> None:
    done = light(MAIN, *command.format(room=ROOM, weights=ROOM.parents[1] / "weights").split())
    assert done.returncode == 2, done.stderr
    sentence = done.stderr.strip().splitlines()[-1]
    assert sentence.startswith("omnidc: ")
    assert f'pip install "omnidc[{extra}]"' in sentence


@pytest.mark.parametrize(
    "code",
    [
        "import omnidc.integrate",
        "import omnidc.network.compact",
        "omnidc.DepthCompleter",
        "from omnidc.pipeline import DepthCompleter",
        "omnidc.load('interpolate')",
        "omnidc.complete('a.jpg', 'a.npy', model='some.safetensors')",
        "from omnidc.evaluation.baselines import BASELINES as b; b['harmonic'](np.zeros((4, 4, 3)), np.ones((4, 4)))",
        "from omnidc.pipeline.prior import fuse; fuse(np.ones((4, 4)), np.ones((4, 4)))",
    ],
)
def test_python_says_what_to_install(light: Light, code: str) -> None:
    done = light(
        "import omnidc, numpy as np\n"
        f"try: exec({code!r})\n"
        "except omnidc.OmnidcError as error: print(error)\n"
        "assert not any(name.split('.')[0] == 'torch' for name, module in sys.modules.items() if module)\n"
    )
    assert done.returncode == 0, done.stderr
    assert 'pip install "omnidc[torch]"' in done.stdout


def test_service_answers(tmp_path: Path) -> None:
    pytest.importorskip("httpx")
    pytest.importorskip("fastapi")
    with_web = [name for name in missing_modules(["web"]) if name not in TEST_CLIENT]
    done = run_light(
        "import io, numpy as np, omnidc\n"
        "from pathlib import Path\n"
        "from fastapi.testclient import TestClient\n"
        "from omnidc.web.app import create_app\n"
        "from omnidc.web.settings import Settings\n"
        f"room = {str(ROOM)!r}\n"
        "named = {'image': ('a.jpg', Path(room + '.jpg').read_bytes()),\n"
        "         'sparse': ('a.npz', Path(room + '_sparse.npz').read_bytes())}\n"
        "with TestClient(create_app(omnidc.load(), Settings()), base_url='http://localhost') as client:\n"
        "    answer = client.post('/v1/complete', files=named)\n"
        "assert answer.status_code == 200, answer.text\n"
        "print(*np.load(io.BytesIO(answer.content)).shape)\n",
        missing=with_web,
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["240", "320"]


# What httpx, of the test client, brings.
TEST_CLIENT = ("httpx", "httpcore", "certifi", "h11", "idna", "anyio", "sniffio")


def test_request_that_nobody_waits_for_stops_an_exported_model(model: Path) -> None:
    pytest.importorskip("prometheus_client")
    from omnidc.web.jobs import CanceledError, JobQueue
    from omnidc.web.metrics import Metrics

    completer = OnnxCompleter(model)
    queue = JobQueue(completer, 4, 4, Metrics())
    step, jobs = completer.on_step, []

    def cancel_then_step() -> None:
        while not jobs:
            time.sleep(0.001)
        jobs[0].cancel()
        step()

    completer.on_step = cancel_then_step
    queue.start()
    frame = make_frame(np.zeros((32, 40, 3), np.uint8), np.ones((32, 40), np.float32))
    jobs.append(queue.submit(frame, CompleteOptions()))
    with pytest.raises(CanceledError):
        jobs[0].result.result(10)
    queue.close()
