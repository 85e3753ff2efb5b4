from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnidc
from omnidc.pipeline.completion import RunDetails

EXAMPLES = Path(omnidc.__file__).parent / "examples"


@pytest.fixture
def room() -> dict[str, Any]:
    """The files of a request for the bundled example."""
    return {
        name: (file, (EXAMPLES / file).read_bytes())
        for name, file in (("image", "room.jpg"), ("sparse", "room_sparse.npz"))
    }


@pytest.fixture
def client_of() -> Iterator[Callable[..., Any]]:
    """`client_of(completer, **settings)`: a client of an application in this process."""
    from fastapi.testclient import TestClient

    from omnidc.web.app import create_app
    from omnidc.web.settings import Settings

    with ExitStack() as stack:

        def make(completer: Any = None, **settings: Any) -> TestClient:
            app = create_app(completer or omnidc.load("interpolate"), Settings(**settings))
            client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
            return stack.enter_context(client)

        yield make


@pytest.fixture
def server_of() -> Iterator[Callable[..., Any]]:
    """`server_of(completer, **settings)`: a real server on a free port of this computer; gives (host, port)."""
    import uvicorn

    from omnidc.web.app import create_app
    from omnidc.web.server import configure, listen
    from omnidc.web.settings import Settings

    running: list[tuple[Any, threading.Thread]] = []

    def start(completer: Any = None, **settings: Any) -> tuple[str, int]:
        chosen = Settings(port=0, **settings)
        listener = listen(chosen)
        server = uvicorn.Server(configure(create_app(completer or omnidc.load("interpolate"), chosen), chosen))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        running.append((server, thread))
        host, port = listener.getsockname()[:2]
        return host, port

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(20)


class Stub:
    """A completer that answers with the mean of its points everywhere, when it is let go; remembers its batches."""

    name = "stub"

    def __init__(self) -> None:
        self.go = threading.Event()
        self.batches: list[int] = []
        self.started = threading.Event()

    def complete_frames(self, inputs: Any, options: Any) -> Any:
        from omnidc.errors import ConvergenceError
        from omnidc.pipeline import Completion

        self.started.set()
        assert self.go.wait(20)
        self.batches.append(len(inputs))
        if any((given.sparse == 13).any() for given in inputs):
            raise ConvergenceError("Thirteen brings no luck.")
        return [
            Completion(
                depth=np.full(given.sparse.shape, given.sparse[given.sparse > 0].mean(), np.float32),
                uncertainty=np.ones(given.sparse.shape, np.float32),
                input_confidence=np.where(given.sparse > 0, 0.25, np.nan).astype(np.float32),
                sparse=given.sparse,
                image=given.image,
                intrinsics=given.intrinsics,
                details=RunDetails(model=self.name),
            )
            for given in inputs
        ]


@pytest.fixture
def stub() -> Iterator[Stub]:
    made = Stub()
    yield made
    made.go.set()


def png(width: int = 16, height: int = 12, color: int = 90) -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    Image.new("RGB", (width, height), (color, 60, 30)).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture
def small() -> Callable[..., dict[str, Any]]:
    """`small(depth, width, height)`: keyword arguments of a request with one point."""

    def request(depth: float = 2.0, width: int = 16, height: int = 12) -> dict[str, Any]:
        return {"files": {"image": ("a.png", png(width, height))}, "data": {"points": json.dumps([[3, 4, depth]])}}

    return request
