"""Errors that have an HTTP status of their own; each is one sentence, as everywhere."""

from __future__ import annotations

from omnidc.errors import OmnidcError


class HttpError(OmnidcError):
    """An answer other than 2xx. `OmnidcError`s that are not HttpErrors are answered with 422."""

    status = 400

    def __init__(self, sentence: str, status: int | None = None, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = type(self).status if status is None else status
        self.headers = headers or {}


class TooLargeError(HttpError):
    """More bytes, pixels or points than the server takes."""

    status = 413


class BusyError(HttpError):
    """No place left in the queue."""

    status = 429

    def __init__(self, seconds: int) -> None:
        super().__init__(
            f"The queue is full: try again in {seconds} second{'s' if seconds > 1 else ''}.",
            headers={"Retry-After": str(seconds)},
        )


class StoppingError(HttpError):
    """The server is about to leave."""

    status = 503

    def __init__(self) -> None:
        super().__init__("The server is stopping: try again later.", headers={"Retry-After": "10"})
