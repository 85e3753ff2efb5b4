from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from omnidc.datasets import DATASETS
from omnidc.datasets.uniformat import write_uniformat
from omnidc.errors import FileError
from omnidc.evaluation import PROTOCOLS, evaluate
from omnidc.evaluation.memory import STATM, PeakMemory
from omnidc.evaluation.metrics import LABELS
from omnidc.evaluation.paper import VIRTUAL, VIRTUAL_SETS, PaperTable, Part
from omnidc.evaluation.report import comparison_tables
from omnidc.frame import Frame
from omnidc.patterns import parse


def frame(seed: int = 0, name: str = "f") -> Frame:
    rng = np.random.default_rng(seed)
    depth = rng.uniform(1, 4, (48, 64)).astype(np.float32)
    sparse = np.where(rng.random(depth.shape) < 0.1, depth, 0).astype(np.float32)
    image = rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
    return Frame(image, sparse, depth, np.diag([60.0, 60.0, 1.0]), name=name)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_published_numbers_belong_to_patterns_and_scores_of_their_table(name: str) -> None:
    protocol = PROTOCOLS[name]
    assert set(protocol.scores) <= set(LABELS)
    for published in protocol.published:
        assert published.source
        assert set(published.values) <= set(protocol.patterns)
        for scores in published.values.values():
            assert set(scores) <= set(protocol.scores)
            assert all(value > 0 for value in scores.values())


def test_table2_has_ten_patterns_on_six_parts_of_four_data_sets() -> None:
    protocol = PROTOCOLS["table2"]
    assert len(protocol.patterns) == 10
    assert len({group.partition("/")[0] for group in protocol.groups}) == 4
    assert set(protocol.rmse_divisors) < set(VIRTUAL_SETS)
    assert all(scores["rmse"] > scores["rel"] for scores in protocol.published[0].values.values())


@pytest.mark.parametrize("pattern", VIRTUAL)
def test_every_pattern_of_table2_can_be_drawn(pattern: str) -> None:
    f = frame()
    part = Part("g", pattern, None, "ibims", draw=VIRTUAL[pattern][1])
    sample = part.sample(f, stored=False)
    again = part.sample(f, stored=False)
    assert (sample.sparse > 0).any()
    assert np.array_equal(sample.sparse, again.sparse)
    assert parse(VIRTUAL[pattern][1]) is not None


def test_released_sets_are_used_with_their_stored_input(tmp_path: Path) -> None:
    frames = [frame(seed, str(seed)) for seed in range(2)]
    write_uniformat(frames, tmp_path / "NYU_test_500")
    results = evaluate("nyu", tmp_path, "nearest", progress=False)
    assert [row.points for row in results.rows] == [int((f.sparse > 0).sum()) for f in frames if f.sparse is not None]
    assert results.patterns == ["500 points"]
    missing = PROTOCOLS["nyu"].missing(tmp_path)
    assert missing == ["NYU_test_200", "NYU_test_100", "NYU_test_50", "NYU_test_5"]
    rmse, rel = comparison_tables(results)
    assert rmse.header[-2:] == ["OMNI-DC v1.0 (published)", "OMNI-DC v1.1 (published)"]
    assert rel.rows[0][-2:] == ["0.0140", "0.0140"]


def test_a_root_without_any_of_the_data_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="KITTIDC_test_LiDAR_64"):
        evaluate("table1", tmp_path, "nearest", progress=False)


def test_truth_beyond_the_range_does_not_count() -> None:
    part = Part("ZJU", "0-2 m", None, "zju-4dradarcam", farthest=2.0)
    f = frame()
    sample = part.sample(f, stored=False)
    assert f.depth is not None
    assert sample.scored is not None
    assert np.array_equal(sample.scored, f.depth <= 2)


def test_every_part_names_a_data_set_and_options_that_exist() -> None:
    parts = [part for table in PROTOCOLS.values() if isinstance(table, PaperTable) for part in table.parts]
    assert len(parts) == 6 + 60 + 5 + 3 + 3 + 5
    for part in parts:
        assert part.dataset in DATASETS
        assert set(part.options) <= set(DATASETS[part.dataset].options)


def test_speed_needs_no_data_and_measures_memory() -> None:
    results = evaluate("speed", None, "nearest", patterns=["240x320"], progress=False)
    assert len(results.rows) == 3
    mean = results.mean("nearest", "240x320")
    assert mean["seconds"] > 0
    assert "peak_gb" in mean


def test_peak_memory_sees_what_a_block_takes() -> None:
    if not STATM.is_file():
        pytest.skip("needs /proc")
    with PeakMemory() as peak:
        block = np.ones(25_000_000)  # 0.2 GB
        for _ in range(20):
            block += 1
    assert 0.15 < peak.gigabytes < 0.6
