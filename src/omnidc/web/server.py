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

CUT_AFTER = 2.0  # seconds after the deadline of a request at which its connection is cut


def run(load: Callable[[], Any], settings: Settings, open_browser: bool = False) -> None:
    """Load the model, listen, serve until Ctrl-C or SIGTERM, finish what runs."""
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
    if not settings.local and settings.api_key is None:
        print("Everybody who can reach this address can use it: give --api-key to ask for a key.", flush=True)
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
    """Return uvicorn's configuration; used by the tests as well."""
    import uvicorn

    return uvicorn.Config(
        app,
        http=protocol(settings),
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=int(settings.timeout) + 1,
        limit_concurrency=512,
    )


def protocol(settings: Settings) -> type[asyncio.Protocol]:
    """Return uvicorn's HTTP/1.1 with time limits for the head of a request and the whole exchange."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class TimedProtocol(H11Protocol):
        """Answers 408 to a head that comes too slowly; cuts a connection whose answer is not read in time."""

        _head: asyncio.TimerHandle | None = None
        _exchange: asyncio.TimerHandle | None = None
        _timed: Any = None  # the cycle that `_exchange` belongs to

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._head = self.loop.call_later(settings.header_timeout, self._head_expired)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            waiting = self.cycle is None or self.cycle.response_complete
            if not waiting and self._head is not None:
                self._head.cancel()
                self._head = None
            elif waiting and self._head is None and not self.transport.is_closing() and self.conn.trailing_data[0]:
                self._head = self.loop.call_later(settings.header_timeout, self._head_expired)
            self._time_exchange()

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in (self._head, self._exchange):
                if timer is not None:
                    timer.cancel()
            super().connection_lost(exc)

        def _time_exchange(self) -> None:
            if self.cycle is not self._timed:
                self._timed = self.cycle
                if self._exchange is not None:
                    self._exchange.cancel()
                self._exchange = self.loop.call_later(settings.timeout + CUT_AFTER, self._exchange_expired)

        def _exchange_expired(self) -> None:
            if self.cycle is not self._timed:  # a pipelined request has begun meanwhile
                self._time_exchange()
            elif not self.cycle.response_complete or self.transport.get_write_buffer_size():
                self.transport.abort()

        def _head_expired(self) -> None:
            if self.transport.is_closing():
                return
            body = b'{"error": "The request\'s head did not arrive in time."}'
            head = b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\n"
            self.transport.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            self.transport.close()

    return TimedProtocol
