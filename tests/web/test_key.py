"""The key of `omnidc web`: asked for once, then carried by a cookie."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from omnidc.web import page
from omnidc.web.security import COOKIE, session_token

KEY = "correct horse"


@pytest.fixture(autouse=True)
def _no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "LOGIN_DELAY", 0.0)


def test_page_without_a_key_asks_for_it(client_of: Any, small: Any) -> None:
    client = client_of(api_key=KEY)
    answer = client.get("/")
    assert answer.status_code == 401
    assert 'id="login"' in answer.text
    assert KEY not in answer.text
    assert client.get("/static/login.js").status_code == 200
    for path in ("/page/info", "/page/examples/room.jpg", "/openapi.json", "/metrics"):
        assert client.get(path).status_code == 401, path
    for path in ("/page/complete", "/v1/complete", "/page/preview"):
        assert client.post(path, **small()).status_code == 401, path


def test_login_with_the_key_opens_everything(client_of: Any, small: Any) -> None:
    client = client_of(api_key=KEY)
    answer = client.post("/page/login", json={"key": KEY})
    assert answer.status_code == 204
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert KEY not in cookie
    assert 'id="run"' in client.get("/").text
    assert client.get("/page/info").status_code == 200
    assert client.post("/page/complete", **small()).status_code == 200


@pytest.mark.parametrize("body", [{"key": "correct horsf"}, {"key": ""}, {"key": 3}, {}, []])
def test_login_with_anything_else_is_refused(client_of: Any, body: Any) -> None:
    client = client_of(api_key=KEY)
    answer = client.post("/page/login", json=body)
    assert answer.status_code in (401, 422)
    assert "set-cookie" not in answer.headers
    assert client.get("/page/info").status_code == 401


def test_login_takes_no_large_bodies(client_of: Any) -> None:
    assert client_of(api_key=KEY).post("/page/login", json={"key": "x" * 5000}).status_code == 413


def test_cookie_of_another_key_is_worthless(client_of: Any) -> None:
    client = client_of(api_key=KEY)
    for cookie in (session_token("another key"), KEY, "", "\xe9"):
        headers = {"Cookie": f"{COOKIE}={cookie}".encode()}
        assert client.get("/page/info", headers=headers).status_code == 401


def test_service_takes_no_cookies(client_of: Any) -> None:
    client = client_of(api_key=KEY, page=False)
    headers = {"Cookie": f"{COOKIE}={session_token(KEY)}"}
    assert client.get("/v1/models", headers=headers).status_code == 401
    assert client.get("/v1/models", headers={"X-API-Key": KEY}).status_code == 200


def test_login_of_a_foreign_page_is_refused(client_of: Any) -> None:
    client = client_of(api_key=KEY)
    answer = client.post("/page/login", json={"key": KEY}, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403


def test_cookie_stays_below_the_root_path_and_on_https(client_of: Any) -> None:
    client = client_of(api_key=KEY, root_path="/depth", allowed_hosts=("depth.example",))
    answer = client.post("https://depth.example/depth/page/login", json={"key": KEY})
    assert "Path=/depth" in answer.headers["set-cookie"]
    assert "Secure" in answer.headers["set-cookie"]
