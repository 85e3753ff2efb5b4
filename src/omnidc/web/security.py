"""Before every route: known hosts and sites, the API key, the deadline; headers that keep browsers strict; counting."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnidc.web.admission import SCOPE_KEY, Exchange, MemoryBudget
from omnidc.web.metrics import Metrics
from omnidc.web.settings import Settings

POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
OPEN = ("/healthz", "/readyz", "/docs")  # without a key
OPEN_PAGE = ("/", "/page/login")  # without a key, too, where there is a page: it asks for the key itself
COOKIE = "omnidc_session"
GRACE = 1.0  # seconds in which a route may itself answer that its time is over


class SecurityMiddleware:
    """Pure ASGI, so that uploads and streams pass through untouched."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics, budget: MemoryBudget) -> None:
        self.app, self.settings, self.metrics, self.budget = app, settings, metrics, budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope = self._with_root_path(scope)
        started, status = time.monotonic(), 0
        exchange = scope[SCOPE_KEY] = Exchange(self.budget, self.settings.timeout)

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
            if refusal is not None:
                await _answer(send_checked, *refusal)
                return
            try:
                await asyncio.wait_for(self.app(scope, receive, send_checked), exchange.remaining + GRACE)
            except asyncio.TimeoutError:
                # An answer that has begun ends here; the protocol closes its connection.
                if not status:
                    await _answer(send_checked, 504, f"No result within {self.settings.timeout:g} seconds.", {})
        finally:
            exchange.release()
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.answered(_method(scope), route, status or 500, time.monotonic() - started)

    def _with_root_path(self, scope: Scope) -> Scope:
        """Name the prefix, and put it back where a proxy stripped it: mounted folders are only found with it."""
        root, path = self.settings.root_path, scope["path"]
        has_prefix = path == root or path.startswith(f"{root}/")
        return {**scope, "root_path": root, "path": path if has_prefix else root + path}

    def _refusal(self, scope: Scope) -> tuple[int, str, dict[str, str]] | None:
        headers = Headers(scope=scope)
        host = _host(headers.get("host", ""))
        if self.settings.hosts and host not in self.settings.hosts:
            # A page of another site that made its name point here (DNS rebinding) ends at this line.
            return 421, "This server does not answer to this host name: see --allowed-host.", {}
        if self._is_foreign(headers, scope["method"]):
            return 403, "Pages of other sites may not use this server.", {}
        is_open = self._is_open(scope["path"].removeprefix(self.settings.root_path))
        if not is_open and not is_authorized(headers, self.settings):
            sentence = "This needs an API key: send it as  Authorization: Bearer KEY  or  X-API-Key: KEY."
            return 401, sentence, {"WWW-Authenticate": "Bearer"}
        return None

    def _is_open(self, path: str) -> bool:
        """Return whether a path is answered without a key. The scripts of the pages hold no secrets."""
        return path in OPEN or path.startswith("/static/") or (self.settings.page and path in OPEN_PAGE)

    def _is_foreign(self, headers: Headers, method: str) -> bool:
        """Return whether a page of another site sends this request. Following a link to here is no such request."""
        site = urlsplit(headers.get("origin", "")).netloc.lower()
        # A proxy may replace the host name: then the browser's origin is one of the allowed hosts.
        own = site == headers.get("host", "").lower() or _host(site) in map(str.lower, self.settings.allowed_hosts)
        if "origin" in headers and not own:
            return True
        if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            return False
        follows_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return not (follows_link and method in ("GET", "HEAD"))


def is_key(given: str, settings: Settings) -> bool:
    """Compare with the server's key in constant time."""
    return settings.api_key is None or hmac.compare_digest(given.encode(), settings.api_key.encode())


def session_token(key: str) -> str:
    """Return the cookie of somebody who knows the key; the key cannot be computed from it, and a new key ends it."""
    return hmac.new(key.encode(), b"omnidc page session", "sha256").hexdigest()


def is_authorized(headers: Headers, settings: Settings) -> bool:
    """Return whether a request carries the key, or the page's cookie in its place."""
    if settings.api_key is None:
        return True
    if settings.page:
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        if hmac.compare_digest(cookie.encode(), session_token(settings.api_key).encode()):
            return True
    given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
    return is_key(given, settings)


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
