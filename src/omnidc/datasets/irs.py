"""IRS: 103,316 rendered indoor stereo pairs (home, office, restaurant, store).

    ROOT/filelist/home_all.txt, ...        4 columns: left image, right image, disparity, normals
                                           (also file_list/ or IRS's own lists/, also home_all.list)
    ROOT/Home/.../l_12.png, ROOT/Home/.../d_12.exr     960x540

Lists write the Home frames with five digits, the files have none of the leading zeros; both spellings are tried.
z = 0.1 m * 480 px / disparity; beyond 50 m is unknown. Office is left out by default, as in the released training.
Checked: the columns against IRS's own lists and reader; not against the data (none at hand).
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from omnidc.datasets.decode import camera, read_columns, read_depth, read_image, valid
from omnidc.datasets.source import Frames, choose, first_folder, need_entries, safe_name
from omnidc.errors import FileError
from omnidc.frame import Frame

PARTS = ("home", "office", "restaurant", "store")
BASELINE, FOCAL = 0.1, 480.0
MAX_DEPTH = 50.0


def open_frames(root: Path, *, parts: str | tuple[str, ...] = ("home", "restaurant", "store")) -> Frames:
    """Open the frames. parts: which of home, office, restaurant, store."""
    parts = (parts,) if isinstance(parts, str) else tuple(parts)
    lists = first_folder(root, ("filelist", "file_list", "lists"), "IRS's lists (home_all.txt, ...)")
    entries: list[tuple[str, str]] = []
    for part in parts:
        path = lists / f"{choose('parts', part, PARTS)}_all.txt"
        path = path if path.is_file() else path.with_suffix(".list")
        entries += [(row[0], row[2]) for row in read_columns(path, 4, "a list of image, image, disparity, normals")]
    return Frames(need_entries(entries, lists, "home_all.txt"), partial(read_frame, root))


def find(root: Path, listed: str) -> Path:
    """Find the file a list line means: as written, or with the leading zeros of its number removed."""
    path = root / listed.removeprefix("./")
    stripped = path.with_name(re.sub(r"_0+(?=\d+\.)", "_", path.name))
    for candidate in (path, stripped):
        if candidate.is_file():
            return candidate
    raise FileError(f"The file {path} (or {stripped.name}) is missing, though IRS's list names it.")


def read_frame(root: Path, entry: tuple[str, str]) -> Frame:
    image_path, disparity_path = (find(root, listed) for listed in entry)
    image, disparity = read_image(image_path), read_depth(disparity_path)
    depth = valid(BASELINE * FOCAL / (disparity + 1e-8), high=MAX_DEPTH)
    height, width = depth.shape
    return Frame(
        image, depth=depth, intrinsics=camera(FOCAL, FOCAL, width / 2 - 0.5, height / 2 - 0.5),
        name=safe_name(image_path, root), source=str(image_path),
    )  # fmt: skip
