"""Manifest of a folder of rendered shards: settings, progress, versions and licenses. Without bpy."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from omnidc import __version__
from omnidc.errors import ConfigError, FileError
from omnidc.io.files import atomic_path

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Settings:
    """Everything that decides what is in the frames. Two runs with equal settings make the same scenes."""

    folder: str
    seed: int = 0
    width: int = 320
    height: int = 240
    views: int = 3
    samples: int = 4
    scenes_per_shard: int = 24
    worlds: tuple[str, ...] = ()
    assets: str | None = None
    copyleft: bool = False
    wide_driving: float = 0.5
    multiview: float = 0.0  # 0 = independent views; else the eyes' spread around one anchor, of its median depth

    def __post_init__(self) -> None:
        for name, least in (("width", 32), ("height", 32), ("views", 1), ("samples", 1), ("scenes_per_shard", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name.replace('_', ' ')} must be at least {least}, not {getattr(self, name)}.")
        if not 0 <= self.wide_driving <= 1:
            raise ConfigError(f"The share of wide driving views must be between 0 and 1, not {self.wide_driving}.")
        if not 0 <= self.multiview <= 2:
            raise ConfigError(f"The spread of many views must be between 0 and 2, not {self.multiview}.")
        if self.seed < 0:
            raise ConfigError(f"The seed must not be negative, not {self.seed}.")

    @property
    def assets_path(self) -> Path | None:
        """The asset folder, if any."""
        return None if self.assets is None else Path(self.assets)

    def shard_path(self, shard: int) -> Path:
        """Return where shard number `shard` is written."""
        return Path(self.folder) / f"scenes-{self.seed}-{shard:05d}.tar"

    def scenes_of(self, shard: int) -> range:
        """Return the scenes of a shard; fixed, so that a shard can be made again alone."""
        return range(shard * self.scenes_per_shard, (shard + 1) * self.scenes_per_shard)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for json."""
        return {**asdict(self), "worlds": list(self.worlds)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        """Make settings from the result of `to_json`."""
        known = {item.name for item in fields(cls)}
        plain: dict[str, Any] = {key: value for key, value in values.items() if key in known}
        return cls(**{**plain, "worlds": tuple(plain.get("worlds", ()))})


def frame_key(world: str, seed: int, scene: int, view: int) -> str:
    """Return the key of a frame in its shard: SCENE_VIEW."""
    return f"{world}-{seed}-{scene:06d}_{view}"


def versions() -> dict[str, str]:
    """Return the versions of whatever shapes the frames."""
    found = {"omnidc": __version__, "python": platform.python_version()}
    for package in ("bpy", "numpy", "opencv-python-headless"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "missing"
    return found


@dataclass
class Manifest:
    """The record beside the shards. shards: number → frames, refused, failed, and CPU seconds and frames by world."""

    settings: Settings
    versions: dict[str, str] = field(default_factory=versions)
    sources: list[dict[str, object]] = field(default_factory=list)
    shards: dict[int, dict[str, Any]] = field(default_factory=dict)

    def save(self) -> None:
        """Write manifest.json."""
        record = {
            "settings": self.settings.to_json(),
            "versions": self.versions,
            "licenses": self.sources,
            "shards": {str(number): about for number, about in sorted(self.shards.items())},
        }
        with atomic_path(Path(self.settings.folder) / MANIFEST) as path:
            path.write_text(json.dumps(record, indent=1), encoding="utf-8")


def load_manifest(settings: Settings) -> Manifest | None:
    """Read the manifest of an earlier run in the folder; None when there is none. Other settings are an error."""
    path = Path(settings.folder) / MANIFEST
    if not path.is_file():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        old = Settings.from_json(record["settings"])
        shards = {int(number): about for number, about in record["shards"].items()}
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path} is damaged; move it away or render into another folder.") from error
    # where the folders are may differ from machine to machine
    ours, theirs = settings.to_json(), old.to_json()
    for name in ours.keys() - {"folder", "assets"}:
        if ours[name] != theirs[name]:
            raise ConfigError(
                f"{settings.folder} was rendered with {name.replace('_', ' ')} {theirs[name]}, not {ours[name]}: "
                "use the same settings to go on, or another folder."
            )
    if (ours["assets"] is None) != (theirs["assets"] is None):
        raise ConfigError(
            f"{settings.folder} was rendered with other assets: use the same to go on, or another folder."
        )
    return Manifest(settings, record.get("versions", {}), record.get("licenses", record.get("licences", [])), shards)
