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
    api_key: str | None = None  # asked for in every request but /healthz and /readyz
    max_bytes: int = 32 * 2**20  # of one request
    max_pixels: int = 12_000_000  # of an image or depth map
    max_points: int = 100_000  # of a list of points
    queue: int = 32  # requests that may wait (or be received) at a time; the next one gets 429
    batch: int = 4  # waiting requests of equal size that run together
    timeout: float = 120.0  # from the end of the upload to the answer
    upload_timeout: float = 30.0  # for the whole body of a request
    header_timeout: float = 10.0  # for the head of a request
    results: int = 8  # results the page keeps in memory for its downloads
    result_seconds: float = 1800.0  # for how long

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_pixels", "max_points", "queue", "batch", "results"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}.")
        for name in ("timeout", "upload_timeout", "header_timeout", "result_seconds"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be a positive number of seconds, not {getattr(self, name)}.")
        if self.api_key is not None and (len(self.api_key) < 8 or not self.api_key.isascii()):
            raise ConfigError("An API key has at least 8 characters, all of them ASCII.")

    @property
    def local(self) -> bool:
        """Reachable from this computer only."""
        return self.host in LOOPBACK

    @property
    def megabytes(self) -> str:
        return f"{self.max_bytes / 2**20:g} MB"

    @property
    def megapixels(self) -> str:
        return f"{self.max_pixels / 1e6:g} megapixels"
