"""Running the application: uvicorn with patience for slow clients, but not endless patience."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from omnidc.errors import ConfigError, MissingExtraError
from omnidc.web.settings import Settings

logger = logging.getLogger("omnidc.web")


def run(load: Callable[[], Any], settings: Settings, open_browser: bool = False) -> None:
    """Load the model, listen, serve until told to stop (Ctrl-C or SIGTERM), finish what runs."""
    try:
        import python_multipart  # noqa: F401
        import uvicorn

        from omnidc.web.app import create_app
    except ImportError as error:
        raise MissingExtraError(error.name or "fastapi", "web", "The page and the service") from error
    listener = listen(settings)
    app = create_app(load(), settings)
    host, port = listener.getsockname()[:2]
    url = f"http://{'localhost' if settings.local else host}:{port}"
    print(f"omnidc is at {url}{'/' if settings.page else '/openapi.json'}  (stop with Ctrl-C)", flush=True)
    if open_browser:
        threading.Timer(0.5, webbrowser.open, [url]).start()
    with suppress(KeyboardInterrupt):  # uvicorn stops in good order, then raises it once more
        uvicorn.Server(configure(app, settings)).run(sockets=[listener])


def listen(settings: Settings) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        return socket.create_server((settings.host, settings.port), family=family, backlog=256)
    except OSError as error:
        raise ConfigError(
            f"Cannot listen on {settings.host}:{settings.port} ({error.strerror or error}): take another --port, "
            "or 0 for any that is free."
        ) from error


def configure(app: Any, settings: Settings) -> Any:
    """uvicorn's configuration; used by the tests as well."""
    import uvicorn

    return uvicorn.Config(
        app,
        http=protocol(settings.header_timeout),
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=int(settings.timeout) + 1,
        limit_concurrency=1024,
    )


def protocol(header_timeout: float) -> type[asyncio.Protocol]:
    """uvicorn's HTTP/1.1 with a time limit for the head of a request, which uvicorn itself lacks."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class PatientProtocol(H11Protocol):
        """Answers 408 to a client that has not finished its request's head in time."""

        _limit: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._limit = self.loop.call_later(header_timeout, self._too_slow)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            waiting = self.cycle is None or self.cycle.response_complete
            if not waiting and self._limit is not None:
                self._limit.cancel()
                self._limit = None
            elif waiting and self._limit is None and not self.transport.is_closing() and self.conn.trailing_data[0]:
                self._limit = self.loop.call_later(header_timeout, self._too_slow)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._limit is not None:
                self._limit.cancel()
            super().connection_lost(exc)

        def _too_slow(self) -> None:
            if self.transport.is_closing():
                return
            body = b'{"error": "The request\'s head did not arrive in time."}'
            head = b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\n"
            self.transport.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            self.transport.close()

    return PatientProtocol
