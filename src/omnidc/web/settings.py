"""Everything an operator can choose about the page and the service."""

from __future__ import annotations

from dataclasses import dataclass

from omnidc.errors import ConfigError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Settings:
    """Limits and habits of one server. Sizes in bytes and pixels, times in seconds."""

    host: str = "127.0.0.1"
    port: int = 7860
    page: bool = True  # serve the page beside the service
    api_key: str | None = None  # asked for in every request but /healthz and /readyz; the page asks once
    allowed_hosts: tuple[str, ...] = ()  # host names to answer to, besides localhost; () = see `hosts`
    root_path: str = ""  # where a proxy shows this server, "/depth"
    max_bytes: int = 128 * 2**20  # of one request
    max_pixels: int = 50_000_000  # of an image or depth map
    max_memory: int = 0  # bytes of all requests under way; 0 = half of this computer's
    max_points: int = 100_000  # of a list of points
    queue: int = 32  # requests that may wait (or be received) at a time; the next one gets 429
    batch: int = 4  # waiting requests of equal size that run together
    timeout: float = 120.0  # from the head of the request to the last byte of the answer
    upload_timeout: float = 60.0  # for the whole body of a request
    read_timeout: float = 20.0  # for decoding one file
    header_timeout: float = 10.0  # for the head of a request
    results: int = 8  # results the page keeps in memory for its downloads
    result_seconds: float = 1800.0  # for how long

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_pixels", "max_points", "queue", "batch", "results"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}.")
        for name in ("timeout", "upload_timeout", "read_timeout", "header_timeout", "result_seconds"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be a positive number of seconds, not {getattr(self, name)}.")
        if self.api_key is not None and (len(self.api_key) < 8 or not self.api_key.isascii()):
            raise ConfigError("An API key has at least 8 characters, all of them ASCII.")
        if self.root_path and (not self.root_path.startswith("/") or self.root_path.endswith("/")):
            raise ConfigError(f"A root path starts with a slash and ends without one, not {self.root_path!r}.")

    @property
    def local(self) -> bool:
        """Reachable from this computer only."""
        return self.host in LOOPBACK

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names that requests may name; () = any."""
        if self.allowed_hosts:
            return (*(name.lower() for name in self.allowed_hosts), *LOOPBACK)
        return LOOPBACK if self.local else ()

    @property
    def megabytes(self) -> str:
        return f"{self.max_bytes / 2**20:g} MB"

    @property
    def megapixels(self) -> str:
        return f"{self.max_pixels / 1e6:g} megapixels"
