"""Run in this process or by the actors of a Ray cluster; open sources and sinks behind URLs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from omnidc.deploy.ray_options import RayOptions

if TYPE_CHECKING:
    from omnidc.frame import LazyFrames
    from omnidc.pipeline import CompleteOptions, Sink
    from omnidc.pipeline.options import WriteOptions


@dataclass(frozen=True)
class EngineOptions(RayOptions):
    """Where frames are computed."""

    engine: Literal["local", "ray"] = field(
        default="local", metadata={"help": "local: this process; ray: a pool of actors."}
    )

    def ray(self) -> RayOptions:
        return RayOptions(**{each.name: getattr(self, each.name) for each in fields(RayOptions)})


def url_source(image: Path, sparse: Path, intrinsics: Any, reading: dict[str, Any]) -> LazyFrames:
    """Open frames of two URLs or folders, or of WebDataset shards where both name the same tar files."""
    from omnidc.deploy import remote
    from omnidc.errors import ConfigError

    first, second = _url(image), _url(sparse)
    if first.endswith(".tar"):
        if first != second:
            raise ConfigError("A shard holds images and depth: give the same .tar pattern for both.")
        return remote.shard_source(remote.expand_shards(first), intrinsics, **reading)
    return remote.url_source(first, second, intrinsics, **reading)


def url_sink(
    output: list[Path] | None, write: WriteOptions, model: str, options: CompleteOptions, resume: bool
) -> Sink:
    """Open the sink of a URL; one that ends in ".tar" gets shards beside it."""
    from omnidc.deploy import remote
    from omnidc.errors import ConfigError

    if not output or len(output) > 1:
        raise ConfigError("Give one output with -o: a folder or URL, or NAME.tar for shards.")
    url = _url(output[0])
    if url.endswith(".tar"):
        return remote.ShardSink(url.rpartition("/")[0], write, model, options, resume=resume)
    return remote.UrlSink(url, write, model, options, resume=resume)


def is_remote(paths: list[Path]) -> bool:
    """Return True where one of the paths is a URL or a tar file."""
    from omnidc.deploy.remote import as_url

    return any(as_url(path) is not None or path.suffix.lower() == ".tar" for path in paths)


def _url(path: Path) -> str:
    from omnidc.deploy.remote import as_url

    return as_url(path) or f"file://{path.absolute()}"
