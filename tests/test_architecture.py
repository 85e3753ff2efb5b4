"""The walls of the house: who may import whom. docs/architecture.md explains the rooms."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import omnidc

ROOT = Path(omnidc.__file__).parent

# room: (other rooms it may import, third-party packages it may import)
WALLS: dict[str, tuple[str, str]] = {
    "errors": ("", ""),
    "files": ("errors", ""),
    "edges": ("", "numpy"),
    "frame": ("errors", "numpy"),
    "integrate": ("errors", "torch numpy scipy"),
    "network": ("errors files integrate", "torch safetensors numpy transformers"),
    "images": ("errors", "numpy PIL"),
    "patterns": ("errors", "numpy cv2 scipy"),
    "outputs": ("errors files frame images", "numpy cv2 PIL trimesh OpenEXR scipy"),
    "completer": ("errors files frame images integrate network outputs", "torch numpy PIL cv2"),
    "data": ("errors files frame outputs patterns", "numpy cv2 PIL h5py scipy torch"),
    "sensors": ("errors files frame images outputs", "numpy cv2 PIL scipy pycolmap rosbags laspy plyfile trimesh yaml"),
    "scenes": ("edges errors files frame data outputs", "numpy cv2 PIL bpy mathutils tqdm"),
    "training": (
        "edges errors files frame integrate network data patterns outputs evaluation completer",
        "torch numpy cv2 tqdm safetensors tomli",
    ),
    "evaluation": (
        "edges errors files frame integrate data patterns outputs completer",
        "numpy scipy cv2 torch tqdm PIL",
    ),
    "splatting": ("errors files outputs", "numpy numba torch gsplat scipy cv2"),
    "web": ("errors files frame patterns outputs completer evaluation", "*"),
    "cli": ("*", "typer tqdm numpy"),
    "__init__": ("errors completer frame", "numpy"),
    "__main__": ("cli", ""),
}


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write it from omnidc on"
            names.add(node.module or "")
            if node.module == "omnidc":
                names.update(f"omnidc.{alias.name}" for alias in node.names)
    return names


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_module_imports_only_what_its_room_may(path: Path) -> None:
    room = room_of(path)
    assert room in WALLS, f"{room} has no line in the table of walls"
    rooms, packages = WALLS[room]
    for name in imports_of(path):
        top, _, rest = name.partition(".")
        if top == "omnidc":
            other = rest.split(".")[0]
            allowed = {room, "", "__version__", *rooms.split()}
            assert rooms == "*" or other in allowed, f"{path.relative_to(ROOT)} must not import omnidc.{other}"
        elif top not in sys.stdlib_module_names:
            assert packages == "*" or top in packages.split(), f"{path.relative_to(ROOT)} must not import {top}"


def test_every_wall_belongs_to_a_room_or_a_plan() -> None:
    planned = (ROOT.parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    for room in WALLS:
        assert (ROOT / room).is_dir() or (ROOT / f"{room}.py").is_file() or f"`{room}" in planned
