"""The viewer page: what is packed into it, and in Chromium (`pytest -m browser`) what it shows."""

from __future__ import annotations

import base64
import io
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("numba")
from omnidc.splatting.numba_backend import rasterize
from omnidc.splatting.viewer import pack, write_viewer
from worlds import NEAR, views, world

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]


def test_pack_bytes_hold_the_gaussians() -> None:
    splat = world()
    data = pack(splat)
    assert len(data) == 32 * len(splat)
    first = np.frombuffer(data[:24], "<f4")
    assert np.allclose(first[:3], splat.means[0])
    assert np.allclose(first[3:], splat.scales[0], rtol=1e-5)
    assert list(data[28:32]) == [255, 128, 128, 128]


def test_write_viewer_page_is_one_file_without_network(tmp_path: Path) -> None:
    path = tmp_path / "viewer.html"
    write_viewer(path, world(), views(3), title="</script><b>")
    page = path.read_text()
    assert not re.search(r"https?://", page)
    assert "</script><b>" not in page
    packed = re.search(r'type="text/plain">([^<]*)<', page)
    assert packed is not None
    assert base64.b64decode(packed[1]) == pack(world())


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Any]:
    """The viewer in Chromium, as large as four times the views; script errors fail the test."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    write_viewer(tmp_path / "viewer.html", world(), views(3))
    wrong: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        tab = browser.new_page(viewport={"width": 160, "height": 120})
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.goto((tmp_path / "viewer.html").as_uri())
        tab.wait_for_function("Number(document.body.dataset.drawn) > 0")
        yield tab
        browser.close()
    assert wrong == []


@contextmanager
def redrawn(page: Any) -> Iterator[None]:
    """Wait until what happens in the block is drawn."""
    before = page.evaluate("document.body.dataset.drawn")
    yield
    page.wait_for_function(f"Number(document.body.dataset.drawn) > {before} && !viewer.pending")


def canvas(page: Any) -> np.ndarray:
    page.evaluate("document.querySelector('header').style.display = 'none'")
    data = page.locator("#canvas").screenshot()
    page.evaluate("document.querySelector('header').style.display = ''")
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), np.float32) / 255


@pytest.mark.browser
@pytest.mark.parametrize("index", [0, 2])
def test_viewer_in_chromium_shows_what_the_rasterizer_renders(page: Any, index: int) -> None:
    with redrawn(page):
        page.evaluate(f"viewer.show({index})")
    camera = views(3)[index].camera
    large = type(camera)(
        camera.fx * 4, camera.fy * 4, (camera.cx + 0.5) * 4 - 0.5, (camera.cy + 0.5) * 4 - 0.5, 160, 120, camera.view
    )
    with torch.no_grad():
        expected = world().render(rasterize, large, NEAR).image.clamp(0, 1).numpy()
    shown = canvas(page)
    assert shown.shape == expected.shape
    assert float(np.abs(shown - expected).mean()) < 0.01
    assert float(np.abs(shown - expected).max()) < 0.12


@pytest.mark.browser
def test_viewer_in_chromium_turns_and_zooms(page: Any) -> None:
    with redrawn(page):
        page.set_viewport_size({"width": 640, "height": 480})  # room beside the header
    before = canvas(page)
    box = page.locator("#canvas").bounding_box()
    page.mouse.move(box["width"] / 2, box["height"] / 2)
    page.mouse.down()
    with redrawn(page):
        page.mouse.move(box["width"] / 2 + 40, box["height"] / 2)
    page.mouse.up()
    turned = canvas(page)
    assert float(np.abs(turned - before).mean()) > 0.02
    with redrawn(page):
        page.mouse.wheel(0, -400)
    assert float(np.abs(canvas(page) - turned).mean()) > 0.02
    with redrawn(page):
        page.evaluate(
            "const s = document.querySelector('#cameras'); s.value = 'view0'; s.dispatchEvent(new Event('change'))"
        )
    assert float(np.abs(canvas(page) - before).mean()) < 0.005
