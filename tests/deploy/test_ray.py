"""Ray on one machine. Starting it takes several seconds, so that these tests are slow."""

from __future__ import annotations

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import omnidc
from omnidc.deploy.ray import RayOptions, complete_with_ray
from omnidc.errors import ConfigError, InputError
from omnidc.frame import Frame, LazyFrames
from omnidc.pipeline.options import WriteOptions
from omnidc.pipeline.sinks import FolderSink

FRAMES = 12


def make(name: str, traps: Path) -> Frame:
    """One frame; "die" and "fail" happen once, "broken" always."""
    mark = traps / name
    if name == "die" and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "fail" and not mark.exists():
        mark.touch()
        raise InputError("This frame fails once.")
    if name == "broken":
        raise InputError("This frame always fails.")
    with (traps / "log").open("a") as log:
        log.write(f"{name}\n")
    sparse = np.zeros((24, 32), np.float32)
    sparse[::5, ::5] = 2.0
    return Frame(np.zeros((24, 32, 3), np.uint8), sparse, name=name)


def source_of(names: list[str], traps: Path) -> LazyFrames:
    return LazyFrames({name: partial(make, name, traps) for name in names})


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of a local cluster import this package and this file by name."""
    pytest.importorskip("ray")
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setenv("PYTHONPATH", str(Path(omnidc.__file__).parent.parent))
    monkeypatch.setenv("RAY_worker_niceness", "0")  # Ray's 15 starves on a machine that is busy otherwise


@pytest.mark.slow
def test_killed_actor_loses_nothing_and_writes_nothing_twice(tmp_path: Path) -> None:
    names = [f"{index:02d}" for index in range(FRAMES)]
    names[5], names[7], names[9] = "die", "fail", "broken"
    traps = tmp_path / "traps"
    traps.mkdir()
    sink = FolderSink(tmp_path / "out", WriteOptions(("npy",)), "interpolate")
    written: list[str] = []
    write = sink.write
    sink.write = lambda frame, completion: (written.append(frame.name), write(frame, completion))[1]  # type: ignore[method-assign]
    chosen = RayOptions(actors=2, retries=1)
    report = complete_with_ray(source_of(names, traps), sink, "interpolate", "cpu", ray_options=chosen)
    assert (traps / "die").exists()  # an actor was killed in the middle
    assert report.failed == {"broken": "This frame always fails."}
    assert sorted(written) == sorted(set(names) - {"broken"})
    table = json.loads((tmp_path / "out" / "metadata.json").read_text())["frames"]
    assert set(table) == set(names) - {"broken"}
    assert np.load(tmp_path / "out" / "die.npy").mean() == pytest.approx(2.0, rel=1e-3)

    resumed = FolderSink(tmp_path / "out", WriteOptions(("npy",)), "interpolate", resume=True)
    assert resumed.missing(names) == ["broken"]


def test_nothing_left_to_do_starts_no_cluster(tmp_path: Path) -> None:
    import ray

    class Full(FolderSink):
        def missing(self, names: object) -> list[str]:
            return []

    report = complete_with_ray(source_of(["a"], tmp_path), Full(tmp_path / "out"), "interpolate")
    assert report.done == []
    assert not ray.is_initialized()


@pytest.mark.parametrize("options", [{"actors": 0}, {"batch_size": 0}, {"cpus_per_actor": 0}, {"retries": -1}])
def test_options_without_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        RayOptions(**options)  # type: ignore[arg-type]
