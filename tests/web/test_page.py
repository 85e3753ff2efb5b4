"""The page's routes without a browser: progress, results, sliders."""

from __future__ import annotations

import io
import json
import struct
import threading
import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("python_multipart")
httpx = pytest.importorskip("httpx")

from omnidc.evaluation.baselines.interpolation import linear  # noqa: E402
from omnidc.pipeline import Completion, make_frame  # noqa: E402
from omnidc.web.app import STATIC  # noqa: E402
from omnidc.web.view import assumed_camera, corrupt_points, interpolated  # noqa: E402


def unpack(data: bytes) -> dict[str, Any]:
    (length,) = struct.unpack_from("<I", data)
    header = json.loads(data[4 : 4 + length])
    at = 4 + length
    for entry in header["arrays"]:
        header[f"array_{entry['name']}"] = np.frombuffer(data, entry["type"], entry["count"], at)
        at += header[f"array_{entry['name']}"].nbytes
    assert at == len(data)
    return header


def complete(client: Any, **request: Any) -> list[dict[str, Any]]:
    answer = client.post("/page/complete", **request)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_the_page_loads_nothing_from_elsewhere(client_of: Any) -> None:
    client = client_of()
    page = client.get("/")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    files = [f"/static/{file.name}" for file in STATIC.iterdir() if file.suffix in (".js", ".css", ".html")]
    assert len(files) > 8
    for path in ("/", "/docs", *files):
        text = client.get(path).text
        assert "http://" not in text
        assert "https://" not in text
        assert "//cdn" not in text


def test_info_says_which_model_runs_and_what_is_taken(client_of: Any) -> None:
    info = client_of(max_bytes=2**20).get("/page/info").json()
    assert info["model"]["name"] == "interpolate"
    assert info["max_bytes"] == 2**20
    assert ".exr" in info["depth_suffixes"]


def test_a_result_can_be_seen_downloaded_and_forgotten(client_of: Any, room: Any) -> None:
    client = client_of()
    done = complete(client, files=room)[-1]
    assert done["state"] == "done"
    path = f"/page/results/{done['result']}"
    view = unpack(client.get(f"{path}/view").content)
    assert (view["width"], view["height"], view["step"], view["points"]) == (320, 240, 1, 500)
    assert view["camera_source"] == "assumed"
    depth = np.load(io.BytesIO(client.get(f"{path}/depth.npy").content))
    np.testing.assert_array_equal(view["array_depth"].reshape(240, 320), depth)
    np.testing.assert_array_equal(depth, np.load(io.BytesIO(client.post("/v1/complete", files=room).content)))
    for kind in ("png", "ply", "glb", "json"):
        answer = client.get(f"{path}/depth.{kind}")
        assert answer.status_code == 200
        assert f"depth.{kind}" in answer.headers["content-disposition"]
    assert client.get(f"{path}/depth.exe").status_code == 404
    assert client.delete(path).status_code == 204
    assert client.get(f"{path}/view").status_code == 404
    assert client.get("/page/results/guess/depth.npy").status_code == 404


def view_of_request(client: Any, **request: Any) -> tuple[dict[str, Any], str]:
    """The view of a completed request, and the path of its result."""
    path = f"/page/results/{complete(client, **request)[-1]['result']}"
    return unpack(client.get(f"{path}/view").content), path


def photo_with_exif(focal_35mm: int, turned: bool = False) -> bytes:
    from PIL import Image

    exif, stream = Image.Exif(), io.BytesIO()
    exif.get_ifd(0x8769)[0xA405] = focal_35mm
    exif[0x0112] = 6 if turned else 1
    Image.new("RGB", (360, 240), (90, 60, 30)).save(stream, "JPEG", exif=exif)
    return stream.getvalue()


@pytest.mark.parametrize("turned", [False, True])
def test_camera_comes_from_exif_where_nothing_is_typed(client_of: Any, turned: bool) -> None:
    files, client = {"image": ("a.jpg", photo_with_exif(50, turned))}, client_of()
    view, _ = view_of_request(client, files=files)
    assert view["camera_source"] == "exif"
    width, height = (240, 360) if turned else (360, 240)
    np.testing.assert_allclose(view["camera"], [500, 500, (width - 1) / 2, (height - 1) / 2])
    typed, _ = view_of_request(client, files=files, data={"field_of_view": "90"})
    assert typed["camera_source"] == "typed"
    np.testing.assert_allclose(typed["camera"][0], width / 2)
    given, _ = view_of_request(client, files=files, data={"field_of_view": "90", "intrinsics": "300 301 120 110"})
    assert given["camera"] == [300, 301, 120, 110]


def test_intrinsics_that_are_no_camera_are_a_sentence(client_of: Any, room: Any) -> None:
    for text in ("300", "300, 300, a, b", "0 0 0 0", "-300 300 160 120"):
        answer = client_of().post("/page/complete", files=room, data={"intrinsics": text})
        assert answer.status_code == 422, text
        assert answer.json()["error"]


def test_keep_input_hard_passes_through_all_points(client_of: Any, stub: Any, small: Any) -> None:
    seen = []
    stub.go.set()
    complete_frames = stub.complete_frames
    stub.complete_frames = lambda frames, options: seen.append(options.keep_input) or complete_frames(frames, options)
    client, request = client_of(stub), small()
    request["data"]["keep_input"] = "hard"
    complete(client, **request)
    assert seen == ["hard"]


def test_downloads_hold_what_their_names_say(client_of: Any, stub: Any, small: Any) -> None:
    from PIL import Image

    stub.go.set()
    client, request = client_of(stub), small()
    request["data"]["intrinsics"] = "20, 20, 7.5, 5.5"
    view, path = view_of_request(client, **request)

    def file(name: str) -> io.BytesIO:
        answer = client.get(f"{path}/{name}")
        assert answer.status_code == 200, answer.text
        assert f'filename="{name}"' in answer.headers["content-disposition"]
        return io.BytesIO(answer.content)

    np.testing.assert_array_equal(np.load(file("uncertainty.npy")), np.ones((12, 16), np.float32))
    normals = np.load(file("normals.npy"))
    np.testing.assert_allclose(normals, np.broadcast_to([0, 0, -1], normals.shape), atol=1e-6)  # a wall ahead
    assert np.array(Image.open(file("normals.png")))[0, 0].tolist() == [128, 128, 255]
    np.testing.assert_array_equal(view["array_normals"].reshape(12, 16, 3)[0, 0], [128, 128, 255])
    assert np.array(Image.open(file("mask.png"))).tolist() == np.full((12, 16), 255).tolist()
    assert Image.open(file("preview.jpg")).format == "JPEG"
    for name in ("depth.exr", "uncertainty.exr"):
        assert file(name).getvalue().startswith(b"v/1\x01")
    for name in ("depth.exe", "other.npy", "..%2fsecret"):
        assert client.get(f"{path}/{name}").status_code == 404


def test_downloads_of_a_missing_uncertainty_are_a_sentence(client_of: Any, small: Any) -> None:
    client = client_of()
    _, path = view_of_request(client, **small())
    answer = client.get(f"{path}/uncertainty.npy")
    assert (answer.status_code, answer.json()["error"]) == (404, "The model interpolate gives no uncertainty.")


def test_normals_in_bands_equal_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from omnidc.geometry.surface import depth_normals
    from omnidc.web import view

    rng = np.random.default_rng(0)
    depth = rng.uniform(1, 2, (37, 20)).astype(np.float32)
    depth[10:12, 5:9] = 0
    camera = np.array([[30, 0, 9.0], [0, 31, 17], [0, 0, 1]])
    monkeypatch.setattr(view, "BAND_ROWS", 8)
    expected = np.where(depth[..., None] > 0, depth_normals(depth, camera), 0)
    np.testing.assert_allclose(view.normal_map(depth, camera), expected, atol=1e-6)


def test_examples_are_complete(client_of: Any) -> None:
    client = client_of()
    examples = client.get("/page/info").json()["examples"]
    assert len({example["image"] for example in examples}) >= 6
    for example in examples:
        files = {
            name: (example[name], client.get(f"/page/examples/{example[name]}").content) for name in ("image", "sparse")
        }
        data = {"depth_scale": example["depth_scale"] or "", "intrinsics": ", ".join(map(str, example["intrinsics"]))}
        view, _ = view_of_request(client, files=files, data={**data, "unit": "m", "keep": example["keep"]})
        assert example["keep"] == 0 or view["points"] >= 25
        assert not [sentence for sentence in view["warnings"] if "--" in sentence]
        assert 0.2 < view["camera"][0] / view["width"] < 4
    assert client.get("/page/examples/index.json").status_code == 404


def test_only_the_last_results_are_kept(client_of: Any, small: Any) -> None:
    client = client_of(results=2)
    names = [complete(client, **small())[-1]["result"] for _ in range(3)]
    assert [client.get(f"/page/results/{name}/view").status_code for name in names] == [404, 200, 200]


def test_results_grow_old(client_of: Any, small: Any) -> None:
    client = client_of(result_seconds=1e-9)
    name = complete(client, **small())[-1]["result"]
    assert client.get(f"/page/results/{name}/view").status_code == 404


def test_large_images_are_shown_smaller_and_downloaded_whole(client_of: Any, small: Any) -> None:
    client = client_of()
    done = complete(client, **small(2.0, 1700, 40))[-1]
    view = unpack(client.get(f"/page/results/{done['result']}/view").content)
    assert (view["step"], view["columns"], view["rows"]) == (3, 567, 14)
    assert view["array_image"].size == 3 * 567 * 14
    depth = np.load(io.BytesIO(client.get(f"/page/results/{done['result']}/depth.npy").content))
    assert depth.shape == (40, 1700)
    np.testing.assert_array_equal(view["array_depth"].reshape(14, 567), depth[::3, ::3])


def test_view_counts_points_of_low_confidence(client_of: Any, stub: Any, small: Any) -> None:
    stub.go.set()
    client = client_of(stub)
    done = complete(client, **small())[-1]
    view = unpack(client.get(f"/page/results/{done['result']}/view").content)
    assert view["low_confidence"] == 1
    assert view["array_points"].tolist() == [3, 4, 2, 0.25]
    assert view["array_uncertainty"].size == 16 * 12


def test_a_failure_is_the_last_line(client_of: Any, stub: Any, small: Any) -> None:
    stub.go.set()
    assert complete(client_of(stub), **small(13))[-1] == {"state": "failed", "error": "Thirteen brings no luck."}


def test_waiting_tells_the_place_and_leaving_cancels(server_of: Any, stub: Any, small: Any) -> None:
    host, port = server_of(stub, batch=1)
    url = f"http://{host}:{port}"
    first = threading.Thread(target=lambda: httpx.post(f"{url}/v1/complete", **small(), timeout=20))
    first.start()
    assert stub.started.wait(10)
    with httpx.stream("POST", f"{url}/page/complete", **small(), timeout=20) as second:
        lines = second.iter_lines()  # a forgotten iterator would close its stream
        assert json.loads(next(lines)) == {"state": "waiting", "place": 1}
        with httpx.stream("POST", f"{url}/page/complete", **small(), timeout=20) as third:
            more = third.iter_lines()
            assert json.loads(next(more)) == {"state": "waiting", "place": 2}
    until = time.monotonic() + 10
    while "omnidc_queue_waiting 0" not in httpx.get(f"{url}/metrics").text:
        assert time.monotonic() < until
        time.sleep(0.01)
    stub.go.set()
    first.join(20)
    assert httpx.post(f"{url}/v1/complete", **small(), timeout=20).status_code == 200
    assert stub.batches == [1, 1]  # neither of those who left


def test_sliders_are_checked(client_of: Any, room: Any) -> None:
    answer = client_of().post("/page/complete", files=room, data={"keep": "2"})
    assert answer.status_code == 422
    assert "keep" in answer.json()["error"]


@pytest.fixture
def sparse() -> Any:
    rng = np.random.default_rng(0)
    depth = np.where(rng.random((60, 80)) < 0.1, rng.uniform(1, 5, (60, 80)), 0).astype(np.float32)
    return depth


def view_of(sparse: Any) -> Any:
    return make_frame(np.zeros((*sparse.shape, 3), np.uint8), sparse.copy())


def test_thinning_takes_points_away_and_never_exchanges_them(sparse: Any) -> None:
    before = set(np.flatnonzero(sparse))
    for keep in (0.8, 0.5, 0.1, 0.0):
        given, num_outliers = corrupt_points(view_of(sparse), keep, 0)
        assert num_outliers == 0
        now = set(np.flatnonzero(given.sparse))
        assert now <= before
        assert len(now) == np.ceil(keep * (sparse > 0).sum() - 1e-6)
        before = now
    assert "switched off" in given.warnings[0]


def test_outliers_hit_the_share_that_was_asked_for(sparse: Any) -> None:
    given, num_outliers = corrupt_points(view_of(sparse), 1, 0.3)
    wrong = (given.sparse != sparse).sum()
    assert num_outliers == wrong
    assert 0.2 < wrong / (sparse > 0).sum() < 0.4
    np.testing.assert_array_equal(given.sparse > 0, sparse > 0)


def completion_of(sparse: Any) -> Completion:
    image = np.zeros((*sparse.shape, 3), np.uint8)
    return Completion(np.ones_like(sparse), None, np.where(sparse > 0, 1, np.nan).astype(np.float32), sparse, image)


def test_before_is_the_linear_interpolation_of_the_evaluation(sparse: Any) -> None:
    result = interpolated(completion_of(sparse), (60, 80))
    np.testing.assert_array_equal(result, linear(None, sparse))


def test_before_of_a_dense_map_and_of_nothing(monkeypatch: Any) -> None:
    monkeypatch.setattr("omnidc.web.view.SHOWN_POINTS", 50)
    flat = interpolated(completion_of(np.full((60, 80), 2, np.float32)), (20, 27))
    assert flat is not None
    np.testing.assert_allclose(flat, np.full((20, 27), 2), rtol=1e-6)
    assert interpolated(completion_of(np.zeros((60, 80), np.float32)), (20, 27)) is None


def test_the_assumed_camera_sees_the_angle_that_was_typed() -> None:
    camera = assumed_camera((100, 200), 90)
    np.testing.assert_allclose(camera[0, 0], 100)
    assert (camera[0, 2], camera[1, 2]) == (99.5, 49.5)


@pytest.mark.parametrize("prefix", ["", "/depth"], ids=["stripped", "kept"])
def test_page_behind_a_proxy_finds_everything(client_of: Any, room: Any, prefix: str) -> None:
    """A proxy may strip the prefix from paths or keep it; the page's own addresses are relative."""
    client = client_of(root_path="/depth", allowed_hosts=("depth.example",))
    headers = {"Host": "depth.example", "Origin": "https://depth.example"}
    page = client.get(f"{prefix}/", headers=headers)
    assert page.status_code == 200
    assert 'src="/' not in page.text
    assert 'href="/' not in page.text
    for path in ("static/app.js", "static/style.css", "page/info", "openapi.json", "healthz"):
        assert client.get(f"{prefix}/{path}", headers=headers).status_code == 200, path
    assert client.get(f"{prefix}/openapi.json", headers=headers).json()["servers"] == [{"url": "/depth"}]
    script = client.get(f"{prefix}/static/app.js", headers=headers).text
    assert '"/page' not in script
    assert "`/page" not in script
    assert client.post(f"{prefix}/v1/complete", files=room, headers=headers).status_code == 200
    assert client.get(f"{prefix}/healthz", headers={"Host": "evil.example"}).status_code == 421


def test_page_words_name_no_options_of_the_command_line() -> None:
    from omnidc.errors import InputError
    from omnidc.web.words import page_words

    with pytest.raises(InputError) as caught:
        make_frame(np.zeros((8, 8, 3), np.uint8), np.ones((4, 4), np.float32))
    assert "--" in str(caught.value)
    assert "--" not in page_words(str(caught.value))
    odd = make_frame(np.zeros((8, 8, 3), np.uint8), np.full((8, 8), 900, np.float32))
    assert any("--" in sentence for sentence in odd.warnings)
    assert not any("--" in page_words(sentence) for sentence in odd.warnings)
