"""VOID (UCLA): indoor video with the points of visual-inertial odometry, 640x480.

    ROOT/void_1500/test_image.txt, test_sparse_depth.txt, test_ground_truth.txt, test_intrinsics.txt
        one path per line below ROOT, with or without a leading "void_release/"
    ROOT/void_1500/data/birthplace_of_internet/image/1552097950.2258.png
    ...sparse_depth/*.png, ...ground_truth/*.png    16 bit, depth * 256
    ...K.txt                                        3x3

ROOT is void_release or the folder that holds it. points = 1500, 500 or 150.
Checked: the layout against the dataset's own documentation; not against the data (none at hand).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from omnidc.datasets.decode import read_depth, read_image, read_lines, read_numbers, valid
from omnidc.datasets.source import Frames, choose, first_folder, need_entries
from omnidc.errors import FileError
from omnidc.frame import Frame
from omnidc.io.untrusted import untrusted

LISTS = ("image", "sparse_depth", "ground_truth", "intrinsics")


def open_frames(root: Path, *, points: int = 1500, split: str = "test") -> Frames:
    """Open the frames. points: density of the sparse input; split: test or train."""
    choose("points", points, (1500, 500, 150))
    choose("split", split, ("test", "train"))
    folder = first_folder(root, (f"void_{points}", f"void_release/void_{points}"), f"VOID with {points} points")
    lists = [read_lines(folder / f"{split}_{what}.txt", f"VOID's list of {what} files") for what in LISTS]
    if len({len(lines) for lines in lists}) != 1:
        raise FileError(f"The lists {folder / split}_*.txt have different lengths: download them again.")
    entries = list(zip(*lists))
    return Frames(need_entries(entries, folder, f"{split}_image.txt"), partial(read_frame, folder.parent))


def locate(release: Path, listed: str) -> Path:
    """Return a listed path below the release folder."""
    _, found, rest = listed.rpartition("void_release/")
    return release / (rest if found else listed)


def read_frame(release: Path, entry: tuple[str, str, str, str]) -> Frame:
    image, sparse, gt, intrinsics = (locate(release, listed) for listed in entry)
    with untrusted(intrinsics, "a camera matrix"):
        K = read_numbers(intrinsics, "a camera matrix").reshape(3, 3)
    return Frame(
        read_image(image), sparse=valid(read_depth(sparse, 256.0)), depth=valid(read_depth(gt, 256.0)), intrinsics=K,
        name=f"{image.parents[1].name}/{image.stem}", source=str(image),
    )  # fmt: skip
