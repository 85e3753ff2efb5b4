"""The page in a real browser. Run with `pytest -m browser tests/web`; needs Chromium and the package playwright.

With OMNIDC_SCREENSHOTS=folder every state is photographed there. The pictures of the documentation, with the bundled
weights, are taken by `OMNIDC_PICTURES=docs/web pytest -m browser -n 0 tests/web -k pictures`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

import omnidc
from omnidc.io.depth import read_depth

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
sync_api = pytest.importorskip("playwright.sync_api")

EXAMPLES = Path(omnidc.__file__).parent / "examples"
FLAGS = [
    f"--{flag}"
    for flag in (
        *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run"),
        *("disable-background-networking", "disable-component-update", "disable-sync"),
        "host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    )
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any, server_of: Any) -> Iterator[Any]:
    """`open_page(**settings of the server, width=, dark=)`; fails on script errors and on requests to elsewhere."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def make(
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        completer: Any = None,
        touch: bool = False,
        forced_colors: str = "none",
        **settings: Any,
    ) -> Any:
        host, port = server_of(completer, **settings)
        scheme = "dark" if dark else "light"
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            accept_downloads=True,
            has_touch=touch,
            forced_colors=forced_colors,
        )
        contexts.append(context)
        own = (f"http://{host}:{port}/", "blob:", "data:")
        context.on("request", lambda request: None if request.url.startswith(own) else wrong.append(request.url))
        context.on("weberror", lambda error: wrong.append(str(error.error)))
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto(f"http://{host}:{port}/{'' if settings.get('page', True) else 'docs'}")
        page.wait_for_selector("#key" if "api_key" in settings else "body[data-ready=true]")
        return page

    yield make
    for context in contexts:
        context.close()
    assert not wrong


def shot(page: Any, name: str) -> None:
    folder = os.environ.get("OMNIDC_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def wait_for_text(page: Any, selector: str, pattern: str) -> None:
    # Not wait_for_function: that needs eval, which the page's own security policy forbids.
    sync_api.expect(page.locator(selector)).to_contain_text(re.compile(pattern), timeout=60_000)


def wait_for_result(page: Any) -> None:
    wait_for_text(page, "#status", "^Done")


def pixels(page: Any, canvas: str) -> np.ndarray:
    """What a canvas shows, [H, W, 4]."""
    data = page.evaluate(
        """id => { const c = document.getElementById(id), copy = document.createElement('canvas');
        copy.width = 160; copy.height = 120; const g = copy.getContext('2d'); g.drawImage(c, 0, 0, 160, 120);
        return [...g.getImageData(0, 0, 160, 120).data]; }""",
        canvas,
    )
    return np.array(data, np.uint8).reshape(120, 160, 4)


ROOM = 5  # the first example of the room; the five situations stand before it


def start_example(page: Any, number: int = ROOM) -> None:
    page.click("#mode-example")
    page.click(f"#examples button >> nth={number}")
    wait_for_result(page)


def test_upload_of_a_photograph_and_a_depth_file(open_page: Any) -> None:
    page = open_page()
    shot(page, "start")
    assert "interpolate" in page.inner_text("#model")
    assert "128 MB" in page.inner_text("#limits")
    page.set_input_files("#image-file", EXAMPLES / "room.jpg")
    page.set_input_files("#sparse-file", EXAMPLES / "room_sparse.npz")
    wait_for_result(page)
    assert "500 points" in page.inner_text("#facts")
    assert len(np.unique(pixels(page, "map").reshape(-1, 4), axis=0)) > 50
    page.hover("#map", position={"x": 40, "y": 60})
    assert page.inner_text("#readout").startswith("x ")
    assert page.locator("#ticks span").count() >= 3
    shot(page, "depth")
    page.click("#view-uncertainty")
    assert "gives no uncertainty" in page.inner_text("#no-uncertainty")


def test_the_value_under_the_cursor_is_the_depth(open_page: Any, tmp_path: Path) -> None:
    page = open_page()
    start_example(page)
    with page.expect_download() as download:
        page.click("#save-npy")
    download.value.save_as(tmp_path / "depth.npy")
    depth = np.load(tmp_path / "depth.npy")
    page.locator("#map").scroll_into_view_if_needed()
    box = page.locator("#map").bounding_box()
    page.mouse.move(box["x"] + box["width"] * (200.5 / 320), box["y"] + box["height"] * (50.5 / 240))
    where, value = page.inner_text("#readout").split(": ")
    assert where == "x 200, y 50"
    assert float(value.split()[0]) == pytest.approx(depth[50, 200], rel=0.01)
    page.focus("#map")
    page.keyboard.press("Shift+ArrowRight")
    assert page.inner_text("#readout").startswith("x 201, y 50")
    before = page.inner_text("#readout")
    page.focus("#keep")
    page.keyboard.press("Home")  # another result, another value at the same place
    page.wait_for_selector("#relative", state="visible")
    assert page.inner_text("#readout").startswith("x 201, y 50")
    assert page.inner_text("#readout") != before


def test_clicked_points_change_the_depth(open_page: Any) -> None:
    page = open_page()
    page.click("#mode-points")
    page.set_input_files("#image-file", EXAMPLES / "room.jpg")
    wait_for_result(page)
    assert page.is_visible("#relative")
    shot(page, "relative")
    page.fill("#distance", "1.5")
    page.click("#photo", position={"x": 100, "y": 100})
    page.keyboard.type("1.25")  # the distance field is ready for it
    page.keyboard.press("Enter")
    page.wait_for_selector("#relative", state="hidden")
    page.click("#photo", position={"x": 350, "y": 250})
    page.keyboard.type("4")
    page.keyboard.press("Enter")
    wait_for_text(page, "#facts", "2 points")
    wait_for_result(page)
    before = pixels(page, "map")
    assert before[30, 30].astype(int).sum() > before[90, 130].astype(int).sum()  # near is bright
    shot(page, "points")
    box = page.locator("#photo").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 60, steps=4)
    page.mouse.up()
    assert "Point 1 of 2" in page.inner_text("#photo-readout")
    page.wait_for_timeout(600)
    wait_for_result(page)
    assert (pixels(page, "map") != before).any()
    page.click("#delete-point")
    wait_for_text(page, "#facts", "1 points?,")
    page.click("#list-title")
    assert page.locator("#point-list tr").count() == 1
    page.click("#clear-points")
    page.wait_for_selector("#relative", state="visible")


def test_points_by_keyboard_alone(open_page: Any) -> None:
    page = open_page()
    page.click("#mode-points")
    page.set_input_files("#image-file", EXAMPLES / "room.jpg")
    page.wait_for_selector("#photo-box:not(.empty)")
    page.focus("#photo")
    for key in ("ArrowLeft", "ArrowLeft", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    assert "x 148, y 114: 3 m" in page.inner_text("#photo-readout")
    for key in ("Shift+ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    assert "Point 2 of 2" in page.inner_text("#photo-readout")
    page.keyboard.press("p")
    assert "Point 1 of 2" in page.inner_text("#photo-readout")
    page.keyboard.press("Alt+ArrowDown")
    assert "x 148, y 120" in page.inner_text("#photo-readout")
    page.keyboard.press("Delete")
    assert "Point 1 of 1" in page.inner_text("#photo-readout")


def test_points_by_touch(open_page: Any) -> None:
    page = open_page(width=390, touch=True)
    page.tap("#mode-points")
    page.set_input_files("#image-file", EXAMPLES / "room.jpg")
    page.wait_for_selector("#photo-box:not(.empty)")
    page.locator("#photo").scroll_into_view_if_needed()
    page.tap("#photo", position={"x": 80, "y": 90})
    wait_for_text(page, "#photo-readout", "^Point 1 of 1")


def test_the_cloud_turns(open_page: Any) -> None:
    page = open_page()
    start_example(page)
    page.click("#view-cloud")
    page.wait_for_timeout(300)
    before = pixels(page, "cloud")
    assert before[..., :3].std() > 20
    box = page.locator("#cloud").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 260, box["y"] + 225, steps=4)
    page.mouse.up()
    turned = pixels(page, "cloud")
    assert (np.abs(turned.astype(int) - before) > 30).mean() > 0.05
    shot(page, "cloud")
    page.focus("#cloud")
    page.keyboard.press("Home")
    again = pixels(page, "cloud")
    assert (np.abs(again.astype(int) - before) > 30).mean() < 0.01
    page.keyboard.press("ArrowLeft")
    assert (np.abs(pixels(page, "cloud").astype(int) - before) > 30).mean() > 0.02
    page.click("#cloud-reset")  # from the camera: it opened slightly turned
    assert (np.abs(pixels(page, "cloud").astype(int) - before) > 30).mean() > 0.05


def test_the_cloud_without_webgl(open_page: Any) -> None:
    page = open_page()
    page.evaluate(
        """() => { const original = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
        return kind === 'webgl' ? null : original.call(this, kind, ...rest); }; }"""
    )
    start_example(page)
    page.click("#view-cloud")
    assert "No WebGL" in page.inner_text("#cloud-hint")
    assert pixels(page, "cloud")[..., :3].std() > 20


def test_length_between_two_places_is_that_in_space(open_page: Any, tmp_path: Path) -> None:
    page = open_page()
    start_example(page, ROOM)
    with page.expect_download() as download:
        page.click("#save-npy")
    download.value.save_as(tmp_path / "depth.npy")
    depth = np.load(tmp_path / "depth.npy")
    fx, fy, cx, cy = map(float, (EXAMPLES / "room_intrinsics.txt").read_text().split())
    page.locator("#map").scroll_into_view_if_needed()
    box = page.locator("#map").bounding_box()
    ends = ((60, 200), (250, 40))
    for u, v in ends:
        page.mouse.click(box["x"] + box["width"] * (u + 0.5) / 320, box["y"] + box["height"] * (v + 0.5) / 240)
    points = [np.array([(u - cx) / fx, (v - cy) / fy, 1]) * depth[v, u] for u, v in ends]
    text = page.inner_text("#measured")
    assert float(text.split()[1]) == pytest.approx(np.linalg.norm(points[0] - points[1]), rel=0.01)
    assert "x 60, y 200 to x 250, y 40" in text
    shot(page, "length")
    page.focus("#map")
    page.keyboard.press("Escape")
    assert "Click two places" in page.inner_text("#measured")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert page.inner_text("#measured").startswith("Length ")


def test_normals_are_shown(open_page: Any) -> None:
    page = open_page()
    start_example(page, ROOM)
    page.click("#view-normals")
    shown = pixels(page, "map")
    assert shown[..., 2].mean() > 140  # most surfaces face the camera
    assert page.is_visible("#normals-key")
    assert page.is_hidden("#bar-box")


def test_typed_intrinsics_become_the_camera(open_page: Any) -> None:
    page = open_page()
    page.set_input_files("#image-file", EXAMPLES / "room.jpg")
    page.set_input_files("#sparse-file", EXAMPLES / "room_sparse.npz")
    wait_for_text(page, "#facts", "not known; assumed 60°")
    page.click("#camera-box summary")
    page.fill("#intrinsics", "200, 200, 159.5, 119.5")
    page.press("#intrinsics", "Enter")
    page.locator("#intrinsics").blur()
    wait_for_text(page, "#facts", "focal length 200 pixels")
    page.fill("#intrinsics", "200")
    page.locator("#intrinsics").blur()
    page.wait_for_selector("#error", state="visible")
    page.fill("#intrinsics", "")
    page.fill("#fov", "90")
    page.locator("#fov").blur()
    wait_for_text(page, "#facts", "focal length 160 pixels")


def test_the_doctor_gives_a_verdict(open_page: Any) -> None:
    page = open_page()
    start_example(page, ROOM)
    page.click("#doctor")
    page.wait_for_selector("#verdict", state="visible")
    assert "hidden points the error of interpolate is" in page.inner_text("#verdict")
    assert page.locator("#verdict tr").count() >= 8
    shot(page, "doctor")
    page.focus("#outliers")
    page.keyboard.press("PageUp")
    page.wait_for_selector("#verdict", state="hidden")  # it belonged to the input before


def test_the_selected_tab_is_marked_in_forced_colors(open_page: Any) -> None:
    page = open_page(forced_colors="active")
    borders = "id => { const s = getComputedStyle(document.getElementById(id)); return s.borderBottomColor; }"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert page.evaluate(borders, "mode-file") != ground
    assert page.evaluate(borders, "mode-points") == page.evaluate(borders, "mode-example")
    assert page.evaluate(borders, "mode-points") != page.evaluate(borders, "mode-file")


def test_the_page_asks_for_its_key(open_page: Any) -> None:
    page = open_page(api_key="correct horse")
    page.fill("#key", "wrong horse")
    page.click("#login button")
    wait_for_text(page, "#login-error", "not the key")
    page.fill("#key", "correct horse")
    page.click("#login button")
    page.wait_for_selector("body[data-ready=true]")
    start_example(page, ROOM)
    with page.expect_download():
        page.click("#save-npy")


def test_the_interface_can_be_tried(open_page: Any) -> None:
    page = open_page()
    page.goto(f"{page.url}docs")
    page.wait_for_selector("body[data-ready=true]")
    assert page.locator("#routes details").count() >= 8
    box = page.locator("details:has-text('POST /v1/complete')")
    box.locator("summary").click()
    shot(page, "interface")
    box.locator("input[name=image]").set_input_files(EXAMPLES / "room.jpg")
    box.locator("input[name=points]").fill("[[10, 20, 2.5]]")
    box.locator("button").click()
    wait_for_text(page, "details:has-text('POST /v1/complete') .answer", "^200 application/x-npySave 307")
    box.locator("input[name=points]").fill("[[1000, 20, 2.5]]")
    box.locator("button").click()
    wait_for_text(page, "details:has-text('POST /v1/complete') .answer", "outside the image")


def test_the_interface_asks_for_the_key(open_page: Any) -> None:
    page = open_page(api_key="correct horse", page=False)
    page.fill("#key", "correct horse")
    page.click("#key-box button")
    page.wait_for_selector("body[data-ready=true]")
    box = page.locator("details:has-text('GET /v1/models')")
    box.locator("summary").click()
    box.locator("button").click()
    wait_for_text(page, "details:has-text('GET /v1/models') .answer", "interpolate")


def test_before_and_after(open_page: Any) -> None:
    page = open_page()
    start_example(page)
    page.click("#view-compare")
    shot(page, "compare")
    assert (pixels(page, "compare-before") != pixels(page, "compare-after")).any()
    page.focus("#split")
    left = page.evaluate("document.getElementById('handle').style.left")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.getElementById('handle').style.left") != left


def test_downloads_open_again(open_page: Any, tmp_path: Path) -> None:
    import trimesh

    page = open_page()
    start_example(page)
    files = {}
    assert page.is_hidden("#save-uncertainty")  # this model has none
    for name in ("mask.png", "preview.jpg", "normals.npy", "normals.png"):
        with page.expect_download() as download:
            page.click(f"#downloads a[download='{name}']")
        download.value.save_as(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
    for kind in ("npy", "png", "exr", "ply", "glb"):
        with page.expect_download() as download:
            page.click(f"#save-{kind}")
        assert download.value.suggested_filename == f"depth.{kind}"
        files[kind] = tmp_path / f"depth.{kind}"
        download.value.save_as(files[kind])
    depth = np.load(files["npy"])
    assert depth.shape == (240, 320)
    np.testing.assert_allclose(read_depth(files["png"]).depth, depth, atol=0.0006)
    np.testing.assert_allclose(read_depth(files["exr"]).depth, depth)
    for kind in ("ply", "glb"):
        distances = np.abs(trimesh.load(files[kind]).bounds[:, 2])
        assert depth.min() * 0.999 <= distances.min() < distances.max() <= depth.max() * 1.001


def test_another_photograph_takes_the_old_result_away(open_page: Any) -> None:
    page = open_page()
    page.set_input_files("#image-file", EXAMPLES / "room.jpg")
    page.click("#run")
    wait_for_result(page)
    assert page.is_visible("#output")
    page.set_input_files("#image-file", EXAMPLES / "room_depth.png")  # any other picture
    page.wait_for_selector("#output", state="hidden")
    assert page.is_visible("#nothing")


def test_sliders_thin_and_disturb(open_page: Any) -> None:
    page = open_page()
    start_example(page)
    before = pixels(page, "map")
    page.focus("#outliers")
    for _ in range(5):
        page.keyboard.press("PageUp")
    wait_for_text(page, "#facts", "were made wrong")
    wait_for_result(page)
    assert (pixels(page, "map") != before).any()
    page.focus("#keep")
    page.keyboard.press("Home")
    page.wait_for_selector("#relative", state="visible")


def test_a_text_file_gets_a_sentence(open_page: Any, tmp_path: Path) -> None:
    page = open_page(width=1366, height=640)
    (tmp_path / "notes.txt").write_text("Dear diary")
    (tmp_path / "notes.npy").write_text("Dear diary")
    page.set_input_files("#image-file", tmp_path / "notes.txt")
    page.wait_for_selector("#error", state="visible")
    assert "notes.txt is damaged, truncated or not an image" in page.inner_text("#error")
    page.set_input_files("#image-file", EXAMPLES / "room.jpg")
    page.wait_for_selector("#error", state="hidden")
    page.set_input_files("#sparse-file", tmp_path / "notes.npy")
    page.wait_for_selector("#error", state="visible")
    assert "notes.npy is damaged" in page.inner_text("#error")
    box = page.locator("#error").bounding_box()
    assert 0 <= box["x"] <= 1366 - box["width"]  # where the user looks, whatever the page was scrolled to
    assert 0 <= box["y"] <= 640 - box["height"]
    shot(page, "error")


def test_a_photograph_that_browsers_cannot_show(open_page: Any, tmp_path: Path) -> None:
    from PIL import Image

    Image.open(EXAMPLES / "room.jpg").save(tmp_path / "room.tif")
    page = open_page()
    page.set_input_files("#image-file", tmp_path / "room.tif")
    page.set_input_files("#sparse-file", EXAMPLES / "room_sparse.npz")
    wait_for_result(page)
    assert pixels(page, "photo")[..., :3].std() > 20


def test_the_place_in_the_queue_and_cancelling(open_page: Any, stub: Any) -> None:
    page = open_page(completer=stub, batch=1)
    page.click("#mode-example")
    page.click("#examples button >> nth=5")
    wait_for_text(page, "#status", "^Completing")
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector("body[data-ready=true]")
    other.click("#mode-example")
    other.click("#examples button >> nth=5")
    wait_for_text(other, "#status", "place 1 in the queue")
    shot(other, "queue")
    other.click("#cancel")
    assert other.inner_text("#status") == "Canceled."
    stub.go.set()
    wait_for_result(page)
    assert "500 of 500 points" in page.inner_text("#facts")  # this model has no confidence in any point
    page.click("#view-uncertainty")
    assert page.is_visible("#map")
    shot(page, "low-confidence")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_narrow_screen(open_page: Any, dark: bool) -> None:
    page = open_page(width=375, dark=dark)
    start_example(page)
    rows = "id => new Set([...document.getElementById(id).children].map((tab) => tab.offsetTop)).size"
    for view in ("depth", "compare", "cloud"):
        page.click(f"#view-{view}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        assert page.evaluate(rows, "modes") == page.evaluate(rows, "views") == 1
    page.click("#view-depth")
    shot(page, f"phone-{'dark' if dark else 'light'}")
    page.set_viewport_size({"width": 320, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(ground[4:].split(",")[0]) < 80) == dark


CONTRASTS = """() => {
  const light = (color) => {
    const [r, g, b] = color.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = numbers(getComputedStyle(e).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color.slice(0, 3);
    }
  };
  const low = [];
  let seen = 0;
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility() || e.disabled || e.closest("canvas, select, .tag, .handle, .skip")) continue;
    seen++;
    const [a, b] = [numbers(getComputedStyle(e).color).slice(0, 3), ground(e)].map(light).sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push(`${e.id || e.className || e.tagName}: ${e.textContent.slice(0, 30)}`);
  }
  return [seen, low];
}"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(open_page: Any, tmp_path: Path, dark: bool) -> None:
    """WCAG 2, level AA: a contrast of 4.5 to 1 for every piece of text."""
    page = open_page(dark=dark)
    start_example(page, ROOM + 3)
    page.wait_for_selector("#relative", state="visible")
    (tmp_path / "notes.npy").write_text("Dear diary")
    page.click("#mode-file")
    page.set_input_files("#sparse-file", tmp_path / "notes.npy")
    page.wait_for_selector("#error", state="visible")
    shot(page, f"notices-{'dark' if dark else 'light'}")
    for mode in ("file", "points", "example"):
        page.click(f"#mode-{mode}")
        seen, low = page.evaluate(CONTRASTS)
        assert seen > 20
        assert not low


def test_no_request_leaves_this_computer(open_page: Any) -> None:
    """Everything the page does, and what its policy does to a script that would load from elsewhere."""
    page = open_page()
    hosts: list[str] = []
    page.context.on("request", lambda request: hosts.append(urlsplit(request.url).netloc))
    page.reload()
    page.wait_for_selector("body[data-ready=true]")
    start_example(page)
    for view in ("uncertainty", "normals", "compare", "cloud", "depth"):
        page.click(f"#view-{view}")
    assert len(hosts) > 10  # the page, its scripts, the example, the result
    assert set(hosts) == {urlsplit(page.url).netloc}
    blocked = page.evaluate(
        """() => new Promise((done) => {
        addEventListener('securitypolicyviolation', (e) => done(e.blockedURI));
        fetch('http://elsewhere.test/script.js').then(() => done('loaded'), () => {}); })"""
    )
    assert blocked.startswith("http://elsewhere.test")


PICTURES = os.environ.get("OMNIDC_PICTURES")
PAGE = Path(__file__).parents[2] / "docs" / "web.md"


@pytest.mark.skipif(PICTURES is None, reason="OMNIDC_PICTURES names no folder for the documentation's pictures")
def test_pictures_of_the_documentation(open_page: Any, tmp_path: Path) -> None:
    """Takes all pictures of docs/web.md, with the bundled weights: no network, no picture."""
    from PIL import Image

    taken_names: list[str] = []

    def picture(page: Any, name: str, width: int) -> None:
        page.evaluate("document.activeElement.blur()")
        page.screenshot(path=tmp_path / "shot.png", full_page=width > 500)
        taken = Image.open(tmp_path / "shot.png").convert("RGB")
        taken = taken.resize((width, round(taken.height * width / taken.width)), Image.Resampling.LANCZOS)
        # 256 colors, dithered: a third of the bytes, and no bands in the maps.
        taken = taken.quantize(palette=taken.quantize(256), dither=Image.Dither.FLOYDSTEINBERG)
        taken.save(Path(PICTURES or "") / f"{name}.png", optimize=True)
        taken_names.append(name)

    completer = omnidc.load("compact")
    page = open_page(completer=completer)
    start_example(page)
    page.hover("#map", position={"x": 250, "y": 200})
    picture(page, "depth", 1000)
    for at in ({"x": 100, "y": 150}, {"x": 400, "y": 300}):
        page.click("#map", position=at)
    picture(page, "length", 1000)
    page.press("#map", "Escape")
    page.click("#view-uncertainty")
    picture(page, "uncertainty", 1000)
    page.click("#view-compare")
    picture(page, "compare", 1000)
    page.click("#view-cloud")
    box = page.locator("#cloud").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 255, box["y"] + 225, steps=4)
    page.mouse.up()
    picture(page, "cloud", 1000)
    page.click("#view-depth")
    page.click("#doctor")
    page.wait_for_selector("#verdict", state="visible", timeout=120_000)
    picture(page, "doctor", 1000)
    page.click(f"#examples button >> nth={ROOM + 2}")
    wait_for_text(page, "#facts", "were made wrong")
    picture(page, "outliers", 1000)
    page.focus("#outliers")
    page.keyboard.press("Home")
    sync_api.expect(page.locator("#facts")).not_to_contain_text("were made wrong", timeout=60_000)
    page.click("#mode-points")
    page.wait_for_selector("#relative", state="visible")
    picture(page, "relative", 1000)
    for at, distance in (((0.2, 0.85), "1.1"), ((0.5, 0.4), "1.2"), ((0.3, 0.1), "3")):
        frame = page.locator("#photo").bounding_box()
        page.click("#photo", position={"x": at[0] * frame["width"], "y": at[1] * frame["height"]})
        page.keyboard.type(distance)
        page.keyboard.press("Enter")
    wait_for_text(page, "#facts", "3 points")
    wait_for_result(page)
    picture(page, "points", 1000)
    (tmp_path / "notes.npy").write_text("Dear diary")
    page.click("#mode-file")
    page.set_input_files("#sparse-file", tmp_path / "notes.npy")
    page.wait_for_selector("#error", state="visible")
    picture(page, "error", 1000)
    phone = open_page(width=390, height=844, dark=True, completer=completer)
    start_example(phone)
    phone.evaluate("document.getElementById('result').scrollIntoView()")
    picture(phone, "phone-dark", 390)
    shown = re.findall(r"\]\(web/([\w-]+)\.png\)", PAGE.read_text(encoding="utf-8"))
    assert sorted(taken_names) == sorted(set(shown))


def test_tabs_answer_to_arrow_keys(open_page: Any) -> None:
    page = open_page()
    page.focus("#mode-file")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "mode-points"
    assert page.is_visible("#panel-points")
