from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

from omnidc.datasets import DATASETS
from omnidc.datasets.uniformat import write_uniformat
from omnidc.errors import FileError
from omnidc.evaluation import PROTOCOLS, evaluate
from omnidc.evaluation.catalog import ALIASES, find_protocol
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
def test_published_numbers_fit_their_table(name: str) -> None:
    protocol = PROTOCOLS[name]
    assert set(protocol.scores) <= set(LABELS)
    for published in protocol.published:
        assert published.source.text
        assert set(published.values) <= set(protocol.patterns)
        assert published.in_domain <= set(published.values)
        for scores in published.values.values():
            assert set(scores) <= set(protocol.scores)
            assert all(value > 0 for value in scores.values())


def test_table2_has_ten_patterns_on_six_parts_of_four_data_sets() -> None:
    protocol = PROTOCOLS["table2"]
    assert len(protocol.patterns) == 10
    assert len(protocol.groups) == 6
    assert len({group.partition("/")[0] for group in protocol.groups}) == 4
    assert set(protocol.rmse_divisors) < set(VIRTUAL_SETS)


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
    results = evaluate("table-f", tmp_path, "nearest", progress=False)
    assert [row.points for row in results.rows] == [int((f.sparse > 0).sum()) for f in frames if f.sparse is not None]
    assert results.patterns == ["NYU 500 points"]
    missing = PROTOCOLS["table-f"].missing(tmp_path)
    assert missing == ["NYU_test_200", "NYU_test_100", "NYU_test_50", "NYU_test_5"]
    rmse, rel = comparison_tables(results)
    columns = [f"OMNI-DC {name}" for name in ("v1.0, paper", "v1.0, README", "v1.1, README")]
    assert rmse.header[3::2] == columns
    assert rmse.header[4::2] == ["difference"] * 3
    assert rel.rows[0][3::2] == ["0.0140"] * 3
    assert float(rel.rows[0][4]) == pytest.approx(float(rel.rows[0][2]) - 0.014, abs=1e-4)


def test_protocols_with_so_many_points_draw_so_many_from_partly_known_maps() -> None:
    weather = [part for part in PROTOCOLS["table-d"].parts if part.group == "DrivingStereo"]
    f = frame()
    assert f.depth is not None
    f.depth[:, 20:] = 0  # known: 48 × 20 = 960 pixels
    for part in [*weather, *PROTOCOLS["table-f"].parts]:
        wanted = 500 if part in weather else int(part.pattern.split()[1])
        assert np.count_nonzero(part.sample(f, stored=False).sparse) == wanted
    assert len(weather) == 4


def test_no_difference_is_printed_where_parts_of_the_mean_are_missing(tmp_path: Path) -> None:
    groups = {"iBims": "iBims_test_2150", "ARKitScenes": "ARKitScenes_test_2150"}
    for name in ("ETH3D", "DIODE"):
        groups |= {f"{name}/{place}": f"{name}_{place.title()}_test_2150" for place in ("indoor", "outdoor")}
    assert set(groups) == set(VIRTUAL_SETS)
    for name in list(groups.values())[1:]:
        write_uniformat([frame()], tmp_path / name)

    def differences() -> set[str]:
        rmse = comparison_tables(evaluate("table2", tmp_path, "nearest", progress=False))[0]
        assert rmse.rows[0][0] == "0.7%"
        return set(rmse.rows[0][4::2])

    assert differences() == {"—"}
    write_uniformat([frame()], tmp_path / groups["iBims"])
    assert "—" not in differences()


def test_a_root_without_any_of_the_data_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="KITTIDC_test_LiDAR_64"):
        evaluate("table-l", tmp_path, "nearest", progress=False)


def test_truth_beyond_the_range_does_not_count() -> None:
    part = Part("ZJU", "0-2 m", None, "zju-4dradarcam", farthest=2.0)
    f = frame()
    sample = part.sample(f, stored=False)
    assert f.depth is not None
    assert sample.scored is not None
    assert np.array_equal(sample.scored, f.depth <= 2)


def test_every_part_names_a_data_set_and_options_that_exist() -> None:
    parts = [part for table in PROTOCOLS.values() if isinstance(table, PaperTable) for part in table.parts]
    assert len(parts) == 60 + 6 + 3 + 3 + 3 + 3 + 9 + 5 + 5 + 5 + 40 + 20 + 6
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
    gc.collect()  # what other tests left must not be freed while we look
    with PeakMemory() as peak:
        block = np.ones(25_000_000)  # 0.2 GB
        for _ in range(20):
            block += 1
    assert 0.15 < peak.gigabytes < 0.6


def test_frames_are_drawn_once_and_for_all_from_larger_sets() -> None:
    part = Part("g", "p", None, "ibims", limit=800)
    drawn = part.chosen(3500)
    assert len(drawn) == len(set(drawn)) == 800
    assert drawn == part.chosen(3500) == sorted(drawn)
    assert list(part.chosen(799)) == list(range(799))


def test_arkitscenes_has_the_papers_800_frames() -> None:
    parts = [part for part in PROTOCOLS["table2"].parts if part.group == "ARKitScenes"]
    assert {part.limit for part in parts} == {part.paper_frames for part in parts} == {800}


def test_void_has_the_papers_800_frames_at_each_density() -> None:
    assert [part.paper_frames for part in PROTOCOLS["table5"].parts] == [800, 800, 800]


def test_counts_that_differ_from_the_papers_are_stated(tmp_path: Path) -> None:
    write_uniformat([frame(seed, str(seed)) for seed in range(2)], tmp_path / "KITTIDC_test_LiDAR_64")
    sentences = PROTOCOLS["table-l"].counts(tmp_path)
    assert sentences == ["KITTI, KITTI 64 lines: 2 frames here, 1000 in the paper."]


def test_scaled_parts_scale_points_and_truth() -> None:
    part = Part("g", "x1000", None, "eth3d-sfm", factor=1000.0)
    f = frame()
    sample = part.sample(f, stored=False)
    np.testing.assert_allclose(sample.gt_depth, 1000 * f.depth, rtol=1e-6)
    np.testing.assert_allclose(sample.sparse, 1000 * f.sparse, rtol=1e-6)


def test_resolution_test_runs_networks_untiled(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Completer:
        def complete(self, image: np.ndarray, sparse: np.ndarray, **options: object) -> np.ndarray:
            seen.append(options)
            return np.ones_like(sparse)

    import omnidc

    monkeypatch.setattr(omnidc, "load", lambda name: Completer())
    evaluate("table-g", None, "compact", patterns=["240x320"], progress=False)
    assert {(options["tile"], options["max_long_side"]) for options in seen} == {(None, 320)}


def test_aliases_name_protocols_that_exist() -> None:
    assert set(ALIASES.values()) <= set(PROTOCOLS)
    assert not set(ALIASES) & set(PROTOCOLS)
    assert find_protocol("nyu") is PROTOCOLS["table-f"]
