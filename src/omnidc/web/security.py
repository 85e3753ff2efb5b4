"""What stands before every route: known hosts, the API key, headers that keep browsers strict, counting."""

from __future__ import annotations

import hmac
import json
import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnidc.web.metrics import Metrics
from omnidc.web.settings import LOOPBACK, Settings

POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
OPEN = ("/healthz", "/readyz")  # without a key


class SecurityMiddleware:
    """Pure ASGI, so that uploads and streams pass through untouched."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.monotonic(), 500

        async def send_checked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", POLICY)
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Referrer-Policy", "no-referrer")
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is None:
                await self.app(scope, receive, send_checked)
            else:
                await _answer(send_checked, *refusal)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.answered(_method(scope), route, status, time.monotonic() - started)

    def _refusal(self, scope: Scope) -> tuple[int, str, dict[str, str]] | None:
        headers = Headers(scope=scope)
        if self.settings.local and _host(headers.get("host", "")) not in LOOPBACK:
            # A page of another site that made its name point here (DNS rebinding) ends at this line.
            return 421, "This server answers to localhost only.", {}
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "Pages of other sites may not use this server.", {}
        key = self.settings.api_key
        if key is not None and scope["path"] not in OPEN:
            given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), key.encode()):
                sentence = "This needs an API key: send it as  Authorization: Bearer KEY  or  X-API-Key: KEY."
                return 401, sentence, {"WWW-Authenticate": "Bearer"}
        return None


def _host(header: str) -> str:
    name = header.rsplit(":", 1)[0] if not header.endswith("]") and ":" in header else header
    return name.strip("[]").lower()


def _method(scope: Scope) -> str:
    method = scope["method"]
    return method if method in ("GET", "HEAD", "POST", "DELETE", "OPTIONS") else "other"


async def _answer(send: Any, status: int, sentence: str, extra: dict[str, str]) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **extra}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
