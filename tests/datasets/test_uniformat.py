"""Uniformat: theirs without running a pickle, ours without one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from omnidc.datasets import open_dataset
from omnidc.datasets.uniformat import write_uniformat
from omnidc.errors import FileError, InputError
from omnidc.frame import Frame

if TYPE_CHECKING:
    from conftest import Maker


def released(make: Maker, name: str = "VOID_sample500/000000.npy", **changes: Any) -> dict[str, Any]:
    """A file as the release writes it: numpy.save of a dict."""
    data: dict[str, Any] = {
        "rgb": make.rng.integers(0, 256, (12, 16, 3), dtype=np.uint8),
        "dep": make.depth(),
        "gt": make.depth(),
        "K": np.array([[500.0, 0, 8], [0, 500, 6], [0, 0, 1]]),
    } | changes
    np.save(make.path(name), data, allow_pickle=True)
    return data


def test_released_files_are_read_in_order(make: Maker) -> None:
    second, first = released(make, "s/000001.npy"), released(make, "s/000000.npy")
    frames = open_dataset("uniformat", make.root / "s")
    assert [frame.name for frame in frames] == ["000000", "000001"]
    for frame, data in zip(frames, (first, second)):
        np.testing.assert_array_equal(frame.image, data["rgb"])
        np.testing.assert_array_equal(frame.sparse, data["dep"])
        np.testing.assert_array_equal(frame.depth, data["gt"])
        np.testing.assert_array_equal(frame.intrinsics, data["K"])


def test_scale_multiplies_all_depths(make: Maker) -> None:
    data = released(make, "s/000000.npy")
    frame = open_dataset("uniformat", make.root / "s", scale=5)[0]
    np.testing.assert_allclose(frame.sparse, 5 * data["dep"], rtol=1e-6)
    np.testing.assert_allclose(frame.depth, 5 * data["gt"], rtol=1e-6)


@pytest.mark.parametrize(
    ("folder", "stored", "focal", "center"),
    [
        ("ETH3D_Indoor_test_2150", np.eye(3), 425, 320),
        ("iBims_test_sift", np.eye(3), 490, 320),
        ("KITTIDC_test_LiDAR_16", np.array([721.0, 722.0, 609.0, 77.0]), 721, 609),
    ],
)
def test_camera_follows_the_release(make: Maker, folder: str, stored: np.ndarray, focal: float, center: float) -> None:
    released(make, f"{folder}/000000.npy", K=stored)
    K = open_dataset("uniformat", make.root / folder)[0].intrinsics
    assert K is not None
    assert (K[0, 0], K[0, 2]) == (focal, center)


class Attack:
    """What a hostile file would hold: opening it with numpy creates a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.target),))


def test_a_hostile_pickle_is_refused_and_does_nothing(make: Maker) -> None:
    target = make.root / "owned"
    released(make, "s/000000.npy", K=Attack(target))
    with pytest.raises(FileError, match=r"000000\.npy .*mkdir"):
        open_dataset("uniformat", make.root / "s")[0]
    assert not target.exists()
    # The attack is real: without the restriction it happens.
    np.load(make.root / "s/000000.npy", allow_pickle=True)
    assert target.exists()


@pytest.mark.parametrize("value", [np.array(["text"]), np.array([{}], dtype=object), {"a": 1}])
def test_anything_but_numbers_is_refused(make: Maker, value: Any) -> None:
    released(make, "s/000000.npy", gt=value)
    with pytest.raises(FileError, match=r"000000\.npy is damaged, truncated or not a"):
        open_dataset("uniformat", make.root / "s")[0]


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"garbage that is no array at all"])
def test_damaged_files_are_one_sentence(make: Maker, content: bytes) -> None:
    for suffix in ("npy", "npz"):
        make.path(f"{suffix}/000000.{suffix}").write_bytes(content)
        with pytest.raises(FileError, match=rf"000000\.{suffix} is damaged, truncated or not a"):
            open_dataset("uniformat", make.root / suffix)[0]


def test_a_plain_array_is_not_a_frame(make: Maker) -> None:
    make.npy("s/000000.npy", np.zeros((3, 4), np.float32))
    with pytest.raises(FileError, match="not one pickled dict"):
        open_dataset("uniformat", make.root / "s")[0]


def test_what_we_write_we_read_back_without_pickle(make: Maker) -> None:
    released(make, "s/000000.npy")
    released(make, "s/000001.npy")
    originals = list(open_dataset("uniformat", make.root / "s"))
    assert write_uniformat(originals, make.root / "ours") == 2
    copies = open_dataset("uniformat", make.root / "ours")
    for copy, original in zip(copies, originals, strict=True):
        np.testing.assert_array_equal(copy.image, original.image)
        np.testing.assert_array_equal(copy.sparse, original.sparse)
        np.testing.assert_array_equal(copy.depth, original.depth)
        np.testing.assert_array_equal(copy.intrinsics, original.intrinsics)
    with np.load(make.root / "ours/000000.npz", allow_pickle=False) as archive:
        assert set(archive.files) == {"rgb", "dep", "gt", "K"}


def test_frames_without_sparse_depth_cannot_be_written(make: Maker) -> None:
    with pytest.raises(InputError, match="no sparse depth"):
        write_uniformat([Frame(np.zeros((4, 4, 3), np.uint8), name="bare")], make.root)
