"""Who imports whom, as a table that equals what the code does. docs/architecture.md explains the subpackages.

The lines are ordered: a subpackage imports only from those above it. `python tests/test_architecture.py` prints the
table as the code has it.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import omnidc

ROOT = Path(omnidc.__file__).parent

# subpackage or module: (others that it imports, third-party packages that it imports)
ALLOWED_IMPORTS: dict[str, tuple[str, str]] = {
    "errors": ("", ""),
    "lazy": ("errors", ""),
    "frame": ("errors", "numpy"),
    "geometry": ("errors", "cv2 numpy"),
    "io": ("errors frame geometry", "OpenEXR PIL cv2 laspy lazrs natsort numpy plyfile scipy trimesh yaml"),
    "integrate": ("errors", "numpy scipy torch"),
    "viz": ("errors io", "PIL cv2 numpy"),
    "patterns": ("errors", "cv2 numpy"),
    "network": ("errors integrate io", "safetensors torch transformers"),
    "pipeline": ("errors frame geometry integrate io lazy network viz", "PIL cv2 numpy scipy torch"),
    "ros": ("errors geometry io", "PIL cv2 cyclonedds numpy"),
    "sensors": ("errors frame geometry io lazy ros", "cv2 natsort numpy pycolmap rosbags scipy"),
    "deploy": (
        "errors frame geometry integrate io network pipeline sensors viz",
        "cv2 fsspec huggingface_hub numpy onnx onnxruntime ray safetensors torch",
    ),
    "__init__": ("deploy errors lazy pipeline", ""),
    "datasets": ("errors frame io", "PIL cv2 numpy scipy"),
    "training": (
        "datasets errors frame geometry integrate io network patterns pipeline",
        "cv2 numpy pydantic safetensors tomli torch tqdm",
    ),
    "evaluation": (
        "__init__ datasets deploy errors frame geometry integrate io patterns pipeline",
        "PIL cv2 numpy scipy torch tqdm",
    ),
    "diagnose": ("errors evaluation frame pipeline viz", "cv2 numpy scipy"),
    "interop": ("errors frame geometry io pipeline sensors viz", "cv2 natsort numpy rerun tqdm"),
    "splatting": (
        "errors evaluation frame geometry interop io pipeline sensors viz",
        "cv2 gsplat numba numpy scipy torch",
    ),
    "scenes": ("datasets errors frame geometry io", "PIL bpy cv2 mathutils numpy"),
    "web": (
        "__init__ diagnose errors evaluation frame geometry io patterns pipeline",
        "PIL cv2 fastapi numpy prometheus_client pydantic python_multipart starlette uvicorn",
    ),
    "cli": (
        "__init__ datasets deploy diagnose errors evaluation frame geometry interop io network pipeline ros scenes "
        "sensors splatting training viz web",
        "numpy tqdm typer",
    ),
    "__main__": ("cli", ""),
}


def owner_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            # `import omnidc` gives the public names, which are those of __init__.
            names.update("omnidc.__init__" if alias.name == "omnidc" else alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write it from omnidc on"
            if node.module == "omnidc":
                names.update(f"omnidc.{alias.name}" for alias in node.names)
            else:
                names.add(node.module or "")
    return names


def actual_imports(owner: str) -> tuple[set[str], set[str]]:
    """Return the subpackages and the third-party packages that the files of `owner` import."""
    files = [path for path in ROOT.rglob("*.py") if owner_of(path) == owner]
    names = set().union(*(imports_of(path) for path in files)) - {"omnidc.__version__"}
    own = {name.split(".")[1] for name in names if name.startswith("omnidc.")} - {owner}
    others = {name.split(".")[0] for name in names if not name.startswith("omnidc.")}
    return own, others - set(sys.stdlib_module_names)


def owners() -> set[str]:
    return {owner_of(path) for path in ROOT.rglob("*.py")}


def test_table_lists_every_subpackage() -> None:
    assert owners() == set(ALLOWED_IMPORTS)


@pytest.mark.parametrize("owner", ALLOWED_IMPORTS)
def test_table_equals_what_the_code_imports(owner: str) -> None:
    own, packages = ALLOWED_IMPORTS[owner]
    assert actual_imports(owner) == (set(own.split()), set(packages.split()))


def test_subpackages_import_only_from_those_above() -> None:
    above: set[str] = set()
    for owner, (own, _) in ALLOWED_IMPORTS.items():
        assert set(own.split()) <= above, f"{owner} imports from below"
        above.add(owner)


def test_architecture_page_describes_every_subpackage() -> None:
    page = (ROOT.parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    for owner in owners():
        assert owner.startswith("__") or f"`{owner}/`" in page or f"`{owner}.py`" in page, owner


if __name__ == "__main__":
    order = [*ALLOWED_IMPORTS, *sorted(owners() - set(ALLOWED_IMPORTS))]
    for owner in (name for name in order if name in owners()):
        own, packages = (" ".join(sorted(names)) for names in actual_imports(owner))
        print(f'    "{owner}": ("{own}", "{packages}"),')
