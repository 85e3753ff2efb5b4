"""The parts of the fuzzer that decide whether its figures mean something: mutations, counts, resumed runs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

pytest.importorskip("resource")  # Unix

from fuzz_one import Mutator, Watch, memory_of_children
from run import Outcome, known

GOOD = Outcome("depth.npz", 60, inputs=100, read=3, crashes=0, slowest=0.1, memory=80, elapsed=70.0)


def test_mutations_of_equal_length_start_from_example_or_input() -> None:
    originals = [bytes(range(60)), b"1.0 2.0 3.0\n"]
    mutate = Mutator(originals, lambda data, largest: b"libFuzzer")
    given = b"\x07" + b"x" * 40
    made = [mutate(given, 1000, seed) for seed in range(2000)]
    assert 0.4 < made.count(b"libFuzzer") / len(made) < 0.6
    others = [one for one in made if one != b"libFuzzer"]
    firsts = {0: 61, 1: 13, 7: 41}  # which file, and the length with that byte
    assert {one[0] for one in others} == firsts.keys()
    assert all(len(one) == firsts[one[0]] for one in others)
    changed = [one for one in others if one[0] == 7 and one != given]
    assert len(changed) > 300
    assert mutate(given, 1000, 5) == made[5]  # a crash can be repeated


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00a"])
def test_mutations_of_next_to_nothing(data: bytes) -> None:
    mutate = Mutator([b""], lambda data, largest: data)
    assert all(len(mutate(data, 10, seed)) <= 10 for seed in range(200))


def test_watch_counts_in_a_file_that_outlives_the_process(tmp_path: Path) -> None:
    watch = Watch(tmp_path / "watch")
    for refused in (True, True, False):
        with watch.input():
            watch.count(refused)
    with pytest.raises(RuntimeError), watch.input():
        raise RuntimeError("a crash is timed, too")
    read, refusals, longest, _, own = Watch.LAYOUT.unpack((tmp_path / "watch").read_bytes())
    assert (read, refusals) == (1, 2)
    assert longest > 0
    assert own > 1000  # kB


def test_memory_of_a_child_counts_while_it_lives_and_afterwards() -> None:
    code = "data = bytearray(300_000_000); print(len(data), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        alive = memory_of_children()
    assert alive > 290_000  # kB
    assert memory_of_children() > 290_000


@pytest.mark.parametrize(
    "bad", [{"crashes": 1}, {"inputs": 0}, {"slowest": 5.1}, {"memory": 1025}, {"seconds": 30}], ids=str
)
def test_only_good_outcomes_of_full_length_are_kept(tmp_path: Path, bad: dict[str, float]) -> None:
    file = tmp_path / "depth.npz.json"
    assert known("depth.npz", 60, tmp_path) is None
    file.write_text(json.dumps(asdict(GOOD)))
    assert known("depth.npz", 60, tmp_path) == GOOD
    file.write_text(json.dumps(asdict(replace(GOOD, **bad))))  # type: ignore[arg-type]
    assert known("depth.npz", 60, tmp_path) is None
