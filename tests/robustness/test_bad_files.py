"""Damaged files that broke a reader once: each ends in one sentence, within seconds and without gigabytes.

`bad/` holds them as the fuzzer found them; the beginning of a name says which target of `fuzz/targets.py` reads it. A
file of a recording or model takes the place of each of its target's files in turn.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from targets import TARGETS, check

BAD = Path(__file__).parent / "bad"
NEEDS = {"cloud.laz": "lazrs", "cloud-binary.ply": "plyfile", "bag-ros1": "rosbags", "colmap-binary": "pycolmap"}


def targets_of(name: str) -> list[str]:
    """The targets that read a file of this name."""
    head, _, rest = name.partition("-")
    suffix = Path(name).suffix
    special = {
        "bomb.png": ["image.png", "depth.png"],
        "g2.npz": ["depth.npz"],
        "rig": ["rgbd-own"],
        "intr": [f"intrinsics{suffix}"],
        "ckpt": [f"checkpoint{suffix}"],
        "calib": [f"calibration{suffix}"],
        "bag": ["bag-ros1"],
        "bag2": ["bag-ros2"],
        "toml": ["toml"],
        "pattern": ["pattern"],
        "shard": ["shard"],
        "mat": ["dataset.mat"],
        "colmap": ["colmap-binary"],
    }
    if name in special or head in special:
        return special.get(name) or special[head]
    if head == "rgbd":
        return [target for target in TARGETS if target.startswith(f"rgbd-{rest.split('-')[0]}")]
    if suffix in (".las", ".laz"):
        return [f"cloud{suffix}"]
    return [target for target in TARGETS if target.startswith(head) and target.endswith(suffix)]


CASES = [(path.name, target) for path in sorted(BAD.iterdir()) for target in targets_of(path.name)]


def test_every_bad_file_has_a_reader() -> None:
    assert {name for name, _ in CASES} == {path.name for path in BAD.iterdir()}


@pytest.mark.parametrize(("name", "target"), CASES)
def test_bad_file_ends_in_a_sentence(tmp_path: Path, name: str, target: str) -> None:
    if target in NEEDS:
        pytest.importorskip(NEEDS[target])
    files = TARGETS[target].make(tmp_path)
    data = (BAD / name).read_bytes()
    if name.startswith("rgbd"):
        data = data[1:]  # the first byte chose the file
    places = [path for path in files if path.stem in name] if name.startswith("colmap") else files
    sentences = []
    for path in places:
        original = path.read_bytes()
        path.write_bytes(data)
        started = time.monotonic()
        sentences.append(check(TARGETS[target], tmp_path))
        assert time.monotonic() - started < 30
        path.write_bytes(original)
    # A damaged file may still be valid in some of the places (a list of poses may be short).
    assert any(sentences)
    assert all(sentence is None or sentence.endswith((".", ")")) for sentence in sentences), sentences
