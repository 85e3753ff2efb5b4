from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cyclonedds")
pytest.importorskip("rosbags")

from bags import write_bag
from omnidc.errors import ConfigError
from omnidc.ros.node import Topics

PEER = Path(__file__).parent / "peer.py"
DOMAIN = "77"
# Loopback only: no multicast, the peers are found by unicast.
LOOPBACK = (
    "<CycloneDDS><Domain><General><Interfaces><NetworkInterface name='lo'/></Interfaces>"
    "<AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>"
    "<Peers><Peer Address='127.0.0.1'/></Peers></Discovery></Domain></CycloneDDS>"
)


class Processes:
    """Children on one DDS domain; all of them are gone when the test ends."""

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[str]] = []
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self.env = {**os.environ, "CYCLONEDDS_URI": LOOPBACK, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, *arguments], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.running.append(child)
        return child


@pytest.fixture
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    for child in started.running:
        child.kill()
        child.wait()


def run_graph(processes: Processes, bag: Path, seconds: float, *node_options: str) -> tuple[dict[str, Any], str]:
    """Node, receiver, and a publisher that is killed after a third of the time and replaced after half of it."""
    node = processes.start(
        "-m",
        "omnidc",
        "ros2",
        "--image",
        "/camera/image_raw",
        "--model",
        "interpolate",
        "--domain",
        DOMAIN,
        *node_options,
    )
    assert node.stdout is not None
    line = node.stdout.readline()
    assert line.startswith("listening"), line + node.stdout.read()
    receiver = processes.start(str(PEER), "receive", str(seconds))
    publisher = processes.start(str(PEER), "publish", str(bag), str(10 * seconds))
    time.sleep(seconds / 3)
    publisher.send_signal(signal.SIGKILL)
    time.sleep(seconds / 6)
    processes.start(str(PEER), "publish", str(bag), str(10 * seconds))
    output, _ = receiver.communicate(timeout=seconds + 60)
    node.terminate()
    return json.loads(output.splitlines()[-1]), node.communicate()[0]


def check(result: dict[str, Any], seconds: float) -> None:
    counts = result["counts"]
    assert counts["depth"] >= 4
    assert counts["depth"] == counts["camera_info"] == counts["confidence"]
    assert result["same_stamps"]
    assert result["increasing"]
    assert result["encoding"] == "32FC1"
    assert result["frame"] == "camera_optical"
    assert result["shape"] == [48, 64]
    assert result["median"] == pytest.approx(5.0, abs=0.05)
    assert result["points"] > 1000
    assert result["K"][0] == 60.0
    # Depth came before the publisher died and after another one took its place.
    assert min(result["times"]) < seconds / 3 + 2
    assert max(result["times"]) > 5 * seconds / 6


@pytest.mark.slow
def test_ros2_node_with_restarted_publisher_answers(tmp_path: Path, processes: Processes) -> None:
    result, _ = run_graph(processes, write_bag(tmp_path / "a", False), 24.0, "--cloud", "/points")
    check(result, 24.0)


@pytest.mark.slow
def test_ros2_node_for_a_minute_with_depth_images(tmp_path: Path, processes: Processes) -> None:
    bag = write_bag(tmp_path / "a", False, with_cloud=False, depth=True)
    result, log = run_graph(processes, bag, 60.0, "--depth-topic", "/depth/image_rect_raw")
    result["median"] += 2.0  # the depth image lies at 3 m
    check(result, 60.0)
    assert "frames/s" in log


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ({}, "either a depth image topic"),
        ({"depth": "/a", "cloud": "/b"}, "either a depth image topic"),
        ({"depth": "a/b"}, "absolute names"),
    ],
)
def test_topics_without_sense_are_refused(names: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Topics("/image", "/info", **names)
