"""The hub's client against a small server on loopback with the hub's file layout."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("huggingface_hub")

import torch
from safetensors.torch import save_file

from omnidc.deploy import hub
from omnidc.errors import CheckpointError, ConfigError, FileError


class Server(ThreadingHTTPServer):
    """Repositories as dictionaries of files."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server
    commit = "c" * 40

    def log_message(self, *arguments: Any) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def resolve(self) -> None:
        repository, _, rest = self.path.lstrip("/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        files = self.server.files.get(repository)
        if files is None:
            self.answer(404, X_Error_Code="RepoNotFound")
        elif revision not in ("main", self.commit):
            self.answer(404, X_Error_Code="RevisionNotFound")
        elif name not in files:
            self.answer(404, X_Error_Code="EntryNotFound", X_Repo_Commit=self.commit)
        else:
            tag = hashlib.sha256(files[name]).hexdigest()
            self.answer(200, files[name], ETag=f'"{tag}"', X_Repo_Commit=self.commit)

    do_HEAD = do_GET = resolve  # noqa: N815

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0)) if self.headers["Content-Length"] else b""
        if not body and self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline().strip() or b"0", 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        if self.path == "/api/repos/create":
            wanted = json.loads(body)
            name = f"{wanted.get('organization', 'me')}/{wanted['name']}"
            self.server.files.setdefault(name, {})
            self.json({"url": f"{self.server.url}/{name}"})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            self.json({"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files]})
        elif "/commit/" in self.path:
            repository = self.path.removeprefix("/api/models/").partition("/commit/")[0]
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    content = base64.b64decode(entry["value"]["content"])
                    self.server.files[repository][entry["value"]["path"]] = content
            url = f"{self.server.url}/{repository}/commit/{self.commit}"
            self.json({"success": True, "commitOid": self.commit, "commitUrl": url})
        elif self.path.startswith("/api/validate-yaml"):
            self.json({"errors": [], "warnings": []})
        else:
            self.answer(404)

    def json(self, value: Any) -> None:
        self.answer(200, json.dumps(value).encode(), Content_Type="application/json")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Server()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "weights.safetensors"
    config = json.dumps({"architecture": "compact", "resolutions": 4})
    save_file({"a": torch.arange(6.0)}, path, {"omnidc": "1", "config": config})
    return path


def download(text: str, server: Server, runtime: str = "auto") -> Path:
    return hub.download(text, runtime, endpoint=server.url)


def test_push_then_download_returns_the_same_weights(server: Server, checkpoint: Path) -> None:
    url = hub.push(checkpoint, "hf://me/model", endpoint=server.url)
    assert url.startswith(server.url)
    files = server.files["me/model"]
    assert set(files) == {"config.json", "model.safetensors", "README.md"}
    assert json.loads(files["config.json"]) == {"library_name": "omnidc", "architecture": "compact", "resolutions": 4}
    assert b"pipeline_tag: depth-estimation" in files["README.md"]
    assert b"license: apache-2.0" in files["README.md"]
    assert download("hf://me/model", server).read_bytes() == checkpoint.read_bytes()
    assert download("hf://me/model@main", server).name == "model.safetensors"


@pytest.mark.slow  # waits for time-outs
def test_download_without_network_uses_the_cache(server: Server, checkpoint: Path) -> None:
    server.files["me/model"] = {"model.safetensors": checkpoint.read_bytes()}
    first = download("hf://me/model", server)
    url = server.url
    server.shutdown()
    server.server_close()
    assert hub.download("hf://me/model", endpoint=url) == first
    with pytest.raises(FileError, match="not in the local cache"):
        hub.download("hf://me/other", endpoint=url)


def test_download_takes_the_file_of_the_runtime(server: Server) -> None:
    server.files["me/both"] = {"model.safetensors": b"torch", "model.onnx": b"onnx"}
    server.files["me/light"] = {"model.onnx": b"onnx"}
    assert download("hf://me/both", server).read_bytes() == b"torch"
    assert download("hf://me/both", server, "onnx").read_bytes() == b"onnx"
    assert download("hf://me/light", server).read_bytes() == b"onnx"
    with pytest.raises(CheckpointError, match=r"has no model\.safetensors"):
        download("hf://me/light", server, "torch")


def test_missing_models_and_revisions_are_named(server: Server) -> None:
    server.files["me/model"] = {"model.onnx": b"onnx"}
    with pytest.raises(FileError, match="no model me/none"):
        download("hf://me/none", server)
    with pytest.raises(FileError, match="no revision v9"):
        download("hf://me/model@v9", server)


@pytest.mark.parametrize("text", ["hf://model", "hf://a/b/c", "hf://", "hf://a/b@", "hf://a/ b"])
def test_address_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is written hf://OWNER/NAME"):
        hub.HubAddress.parse(text)


def test_push_refuses_files_of_other_kinds(tmp_path: Path, checkpoint: Path) -> None:
    other = tmp_path / "other.safetensors"
    save_file({"a": torch.zeros(1)}, other)
    np.save(tmp_path / "a.npy", np.zeros(3))
    for path in (other, tmp_path / "a.npy"):
        with pytest.raises(CheckpointError, match="no checkpoint of omnidc"):
            hub.push(path, "hf://me/model")
    with pytest.raises(FileError, match="no checkpoint"):
        hub.push(tmp_path / "none.safetensors", "hf://me/model")
    with pytest.raises(FileError, match="no ONNX model"):
        hub.push(checkpoint, "hf://me/model", onnx=tmp_path / "none.onnx")


def test_load_of_a_hub_model_completes(server: Server, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import omnidc

    server.files["me/light"] = {"model.onnx": model.read_bytes()}
    get = hub.download
    monkeypatch.setattr(hub, "download", lambda text, runtime: get(text, runtime, endpoint=server.url))
    sparse = np.zeros((40, 48), np.float32)
    sparse[::9, ::9] = 2.0
    assert omnidc.load("hf://me/light").complete(np.zeros((40, 48, 3), np.uint8), sparse).depth.shape == (40, 48)
