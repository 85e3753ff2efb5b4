"""What is fuzzed: for each reader a small valid example of our own making, and the call that reads it.

A target makes its example in an empty folder and names the files of it that may be damaged. Reading a damaged example
must succeed or raise an `OmnidcError` of one sentence; anything else is a crash. The ordinary tests replay damaged
files with the same table.
"""

from __future__ import annotations

import asyncio
import functools
import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from omnidc.io.sandbox import Sandbox

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))  # the tests' makers of bags and models serve here, too

WIDTH, HEIGHT = 32, 24
K = [[30.0, 0.0, 15.5], [0.0, 30.0, 11.5], [0.0, 0.0, 1.0]]
IDENTITY = np.eye(4).tolist()


@dataclass(frozen=True)
class Target:
    """A reader with an example. `make(folder)` returns the files to damage; `read(folder)` reads the example."""

    name: str
    make: Callable[[Path], Sequence[Path]]
    read: Callable[[Path], object]
    refused: bool = False  # the example itself ends in a sentence, at the reader's last step


def check(target: Target, folder: Path) -> str | None:
    """Read an example; return the sentence if it was refused. Whatever is no `OmnidcError` passes through."""
    from omnidc.errors import OmnidcError

    try:
        target.read(folder)
    except OmnidcError as error:
        sentence = str(error)
        assert sentence.strip(), "an error without a sentence"
        assert "\n" not in sentence, f"more than a sentence: {sentence}"
        assert len(sentence) < 1500, f"a sentence of {len(sentence)} characters"
        return sentence
    return None


# --- single files -------------------------------------------------------------------------------------------------


def file(name: str, data: Callable[[], bytes]) -> Callable[[Path], list[Path]]:
    def make(folder: Path) -> list[Path]:
        (folder / name).write_bytes(data())
        return [folder / name]

    return make


def depth_map() -> Any:
    depth = np.zeros((HEIGHT, WIDTH), np.float32)
    depth[::3, ::5] = np.linspace(1, 4, depth[::3, ::5].size).reshape(depth[::3, ::5].shape)
    return depth


def depth_file(suffix: str) -> Target:
    def make(folder: Path) -> list[Path]:
        from omnidc.io.depth import write_depth

        write_depth(folder / f"depth{suffix}", depth_map())
        return [folder / f"depth{suffix}"]

    def read(folder: Path) -> object:
        from omnidc.io.depth import read_depth

        return read_depth(folder / f"depth{suffix}")

    return Target(f"depth{suffix}", make, read)


def picture(kind: str, **options: Any) -> bytes:
    from PIL import Image

    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    pixels = np.stack([rows * 8, columns * 7, rows + columns], -1).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


def image_file(suffix: str, kind: str, **options: Any) -> Target:
    def read(folder: Path) -> object:
        from omnidc.io.images import read_image

        return read_image(folder / f"image{suffix}")

    return Target(f"image{suffix}", file(f"image{suffix}", lambda: picture(kind, **options)), read)


def points() -> Any:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.uniform(-1, 1, (20, 2)), rng.uniform(2, 5, (20, 1))], 1).astype(np.float32)


def npy(values: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def pcd(mode: str) -> bytes:
    values = points()
    head = (
        "VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH 20\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\n"
        f"POINTS 20\nDATA {mode}\n"
    ).encode()
    if mode == "ascii":
        return head + "".join(f"{x} {y} {z}\n" for x, y, z in values).encode()
    if mode == "binary":
        return head + values.tobytes()
    body = values.T.tobytes()
    packed = b"".join(bytes([len(body[k : k + 32]) - 1]) + body[k : k + 32] for k in range(0, len(body), 32))
    return head + np.array([len(packed), len(body)], "<u4").tobytes() + packed


def ply(mode: str) -> bytes:
    head = f"ply\nformat {mode} 1.0\nelement vertex 20\n" + "".join(f"property float {axis}\n" for axis in "xyz")
    values = points()
    body = values.tobytes() if mode != "ascii" else "".join(f"{x} {y} {z}\n" for x, y, z in values).encode()
    return head.encode() + b"end_header\n" + body


def las(suffix: str) -> bytes:
    import laspy

    cloud = laspy.create(point_format=3, file_version="1.2" if suffix == ".las" else "1.4")
    cloud.header.scales, cloud.header.offsets = [0.001] * 3, [0.0] * 3
    cloud.x, cloud.y, cloud.z = points().T.astype(np.float64)
    stream = io.BytesIO()
    cloud.write(stream, do_compress=suffix == ".laz")
    return stream.getvalue()


def cloud_file(name: str, suffix: str, data: Callable[[], bytes]) -> Target:
    def read(folder: Path) -> object:
        from omnidc.io.pointcloud import read_cloud

        return read_cloud(folder / f"cloud{suffix}")

    return Target(name, file(f"cloud{suffix}", data), read)


def point_list(suffix: str, data: bytes) -> Target:
    def read(folder: Path) -> object:
        from omnidc.io.pointlist import read_points

        return read_points(folder / f"points{suffix}").draw((HEIGHT, WIDTH))

    return Target(f"points{suffix}", file(f"points{suffix}", lambda: data), read)


def trajectory(suffix: str, data: bytes) -> Target:
    def read(folder: Path) -> object:
        from omnidc.io.trajectory import read_trajectory

        path = folder / f"poses{suffix}"
        return read_trajectory(path).poses(["1"], 0.02, path)

    return Target(f"poses{suffix}", file(f"poses{suffix}", lambda: data), read)


CALIBRATION = {"K": K, "camera_from_lidar": IDENTITY, "image_size": [WIDTH, HEIGHT], "distortion": [0.1, 0, 0, 0]}


def calibration_text(suffix: str) -> bytes:
    if suffix == ".json":
        return json.dumps(CALIBRATION).encode()
    if suffix == ".yaml":
        return b"".join(f"{name}: {json.dumps(value)}\n".encode() for name, value in CALIBRATION.items())
    numbers = " ".join(map(str, np.hstack([K, np.zeros((3, 1))]).ravel()))
    rotation, move = " ".join(map(str, np.eye(3).ravel())), " ".join(map(str, np.eye(4)[:3].ravel()))
    return f"P2: {numbers}\nR0_rect: {rotation}\nTr_velo_to_cam: {move}\n".encode()


def calibration_file(suffix: str) -> Target:
    def read(folder: Path) -> object:
        from omnidc.geometry.camera import undistort
        from omnidc.io.calibration import read_calibration

        calibration = read_calibration(folder / f"calib{suffix}")
        camera = calibration.for_image((HEIGHT, WIDTH))
        if calibration.distortion is not None:
            undistort(np.zeros((HEIGHT, WIDTH, 3), np.uint8), camera, calibration.distortion, calibration.fisheye)
        return camera

    return Target(f"calibration{suffix}", file(f"calib{suffix}", lambda: calibration_text(suffix)), read)


def intrinsics_file(suffix: str, data: Callable[[], bytes]) -> Target:
    def read(folder: Path) -> object:
        from omnidc.io.calibration import read_intrinsics

        return read_intrinsics(folder / f"camera{suffix}")

    return Target(f"intrinsics{suffix}", file(f"camera{suffix}", data), read)


# --- recordings, models, bags -------------------------------------------------------------------------------------


def write_all(folder: Path, files: dict[str, bytes | str]) -> list[Path]:
    """Write the files of an example; return those that are no pictures: pictures have targets of their own."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return [folder / name for name in files if Path(name).suffix not in (".png", ".jpg")]


def depth_png(scale: float = 1000.0) -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(np.rint(np.full((HEIGHT, WIDTH), 2.0) * scale).astype(np.uint16)).save(stream, "PNG")
    return stream.getvalue()


def matrix(values: Any) -> str:
    return "\n".join(" ".join(map(str, row)) for row in np.asarray(values).tolist()) + "\n"


def recordings() -> dict[str, Callable[[], dict[str, bytes | str]]]:
    camera = {"cam_K": np.ravel(K).tolist(), "depth_scale": 1.0}
    pose = {"cam_R_w2c": np.eye(3).ravel().tolist(), "cam_t_w2c": [0, 0, 0]}
    polycam = {"fx": 30, "fy": 30, "cx": 15.5, "cy": 11.5, "width": WIDTH, "height": HEIGHT}
    polycam |= {f"t_{row}{column}": float(np.eye(4)[row, column]) for row in range(3) for column in range(4)}
    own = {"color": {"K": K}, "depth": {"K": K}, "color_from_depth": IDENTITY, "depth_scale": 1000}
    flat = {"width": WIDTH, "height": HEIGHT, "intrinsic_matrix": np.transpose(K).ravel().tolist()}
    photo, depth = picture("PNG"), depth_png()
    return {
        "tum": lambda: {
            "rgb.txt": "# list\n1.0 rgb/1.png\n",
            "depth.txt": "1.01 depth/1.png\n",
            "groundtruth.txt": "1.001 1 2 3 0 0 0 1\n",
            "rgb/1.png": photo,
            "depth/1.png": depth_png(5000),
        },
        "scannet": lambda: {
            "intrinsic/intrinsic_color.txt": matrix(K),
            "intrinsic/intrinsic_depth.txt": matrix(K),
            "intrinsic/extrinsic_color.txt": matrix(IDENTITY),
            "intrinsic/extrinsic_depth.txt": matrix(IDENTITY),
            "pose/0.txt": matrix(IDENTITY),
            "color/0.png": photo,
            "depth/0.png": depth,
        },
        "7scenes": lambda: {
            "frame-0.pose.txt": matrix(IDENTITY),
            "frame-0.color.png": photo,
            "frame-0.depth.png": depth,
        },
        "bop": lambda: {
            "scene_camera.json": json.dumps({"7": {**camera, **pose}}),
            "rgb/000007.png": photo,
            "depth/000007.png": depth,
        },
        "bop-view": lambda: {"camera.json": json.dumps({**camera, **pose}), "rgb.png": photo, "depth.png": depth},
        "stray": lambda: {
            "camera_matrix.csv": matrix(K).replace(" ", ","),
            "odometry.csv": "timestamp,frame,x,y,z,qx,qy,qz,qw\n0.1,000000,1,2,3,0,0,0,1\n",
            "rgb/000000.png": photo,
            "depth/000000.png": depth,
        },
        "polycam": lambda: {
            "keyframes/cameras/1.json": json.dumps(polycam),
            "keyframes/images/1.png": photo,
            "keyframes/depth/1.png": depth,
        },
        "arkitscenes": lambda: {
            "lowres_wide_intrinsics/4_1.5.pincam": f"{WIDTH} {HEIGHT} 30 30 15.5 11.5",
            "lowres_wide/4_1.5.png": photo,
            "lowres_depth/4_1.5.png": depth,
        },
        "open3d": lambda: {"intrinsic.json": json.dumps(flat), "color/0.png": photo, "depth/0.png": depth},
        "own": lambda: {"calibration.json": json.dumps(own), "color/a.png": photo, "depth/a.png": depth},
    }


def recording(name: str, files: Callable[[], dict[str, bytes | str]]) -> Target:
    def read(folder: Path) -> object:
        from omnidc.sensors.rgbd import open_recording

        return list(open_recording(folder))

    return Target(f"rgbd-{name}", lambda folder: write_all(folder, files()), read)


def colmap_model(text: bool) -> Target:
    def make(folder: Path) -> list[Path]:
        import makers

        seen = [(0, 1, 2)] * 12
        where = makers.wall(np.random.default_rng(0), 12, 3.0)
        makers.colmap_model(folder / "model", folder / "images", where, seen, count=3, text=text)
        return sorted((folder / "model").iterdir())

    @functools.cache
    def sandbox() -> Sandbox:
        from omnidc.sensors.colmap import make_sandbox

        return make_sandbox()

    def read(folder: Path) -> object:
        from omnidc.sensors.colmap import open_model

        return list(open_model(folder / "model", folder / "images", sandbox=sandbox()).source())

    return Target("colmap-text" if text else "colmap-binary", make, read)


def colmap_reader(text: bool) -> Target:
    def read(folder: Path) -> object:
        from omnidc.io.colmap_model import read_model

        return read_model(folder / "model")

    return Target("model-text" if text else "model-binary", colmap_model(text).make, read)


def bag(ros1: bool) -> Target:
    def make(folder: Path) -> list[Path]:
        import bags

        path = bags.write_bag(folder / ("a.bag" if ros1 else "a"), ros1)
        return [path] if ros1 else sorted(item for item in path.iterdir() if item.is_file())

    def read(folder: Path) -> object:
        from omnidc.sensors.rosbag import bag_source

        return list(bag_source(folder / ("a.bag" if ros1 else "a")))

    return Target("bag-ros1" if ros1 else "bag-ros2", make, read)


# --- weights, settings, requests ----------------------------------------------------------------------------------


def checkpoint(suffix: str) -> Target:
    def make(folder: Path) -> list[Path]:
        import torch
        from safetensors.torch import save

        tensors = {"a.weight": torch.zeros(2, 3), "b.bias": torch.ones(4)}
        path = folder / f"weights{suffix}"
        if suffix == ".pt":
            torch.save({"net": tensors}, path)
        else:
            from omnidc.network.compact import CompactConfig

            config = CompactConfig(channels=(8, 8, 8, 8, 8), heads=2).to_dict()
            path.write_bytes(save(tensors, {"omnidc": "1", "config": json.dumps(config)}))
        return [path]

    def read(folder: Path) -> object:
        from omnidc.network.checkpoint import load_network

        return load_network(folder / f"weights{suffix}")

    return Target(f"checkpoint{suffix}", make, read, refused=True)  # whole networks are too large to fuzz


def toml() -> Target:
    def read(folder: Path) -> object:
        from omnidc.training.config import load_config

        return load_config(file=folder / "run.toml")

    text = b"seed = 3\n[data]\nsizes = [[32, 64]]\n[schedule]\nsteps = 4\ntime_budget = '10m'\n"
    return Target("toml", file("run.toml", lambda: text), read)


def pattern() -> Target:
    def read(folder: Path) -> object:
        from omnidc.errors import ConfigError
        from omnidc.patterns.grammar import parse

        try:
            text = (folder / "pattern.txt").read_bytes().decode()
        except UnicodeDecodeError as error:
            raise ConfigError("no text") from error
        return parse(text)(depth_map(), np.zeros((HEIGHT, WIDTH, 3), np.uint8), np.random.default_rng(0))

    return Target("pattern", file("pattern.txt", lambda: b"0.5*100~2000 & noise(0~0.05)+0.25*sift+lidar-16(400)"), read)


def uniformat() -> Target:
    def make(folder: Path) -> list[Path]:
        values = {"rgb": np.zeros((HEIGHT, WIDTH, 3), np.uint8), "gt": depth_map(), "K": np.array(K)}
        np.savez(folder / "000000.npz", **values)
        return [folder / "000000.npz"]

    def read(folder: Path) -> object:
        from omnidc.datasets.uniformat import read_frame

        return read_frame(1.0, folder / "000000.npz")

    return Target("uniformat", make, read)


def shard() -> Target:
    def make(folder: Path) -> list[Path]:
        from omnidc.datasets.shards import ShardWriter

        normals = np.zeros((HEIGHT, WIDTH, 3), np.float32)
        normals[..., 2] = -1
        photo = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
        sky = np.zeros((HEIGHT, WIDTH), bool)
        with ShardWriter(folder / "a.tar") as writer:
            writer.add("plane_0", photo, depth_map(), np.array(K), normals, sky, {"world": "pile"})
        return [folder / "a.tar"]

    def read(folder: Path) -> object:
        from omnidc.datasets.shards import open_frames

        shards = open_frames(folder / "a.tar")
        return [(shards[index], shards.meta(index)) for index in range(len(shards))]

    return Target("shard", make, read)


def dataset_h5() -> Target:
    def make(folder: Path) -> list[Path]:
        import h5py

        with h5py.File(folder / "a.h5", "w") as file:
            file["rgb"] = np.zeros((3, HEIGHT, WIDTH), np.uint8)
            file.create_dataset("depth", data=depth_map(), compression="gzip")
        return [folder / "a.h5"]

    def read(folder: Path) -> object:
        from omnidc.datasets.decode import read_h5

        return read_h5(folder / "a.h5", "rgb", "depth")

    return Target("dataset.h5", make, read)


def dataset_mat() -> Target:
    def make(folder: Path) -> list[Path]:
        from scipy.io import savemat

        (folder / "gt_depth").mkdir()
        values = {"rgb": np.zeros((HEIGHT, WIDTH, 3), np.uint8), "depth": depth_map(), "calib": np.array(K).T}
        savemat(folder / "gt_depth" / "a.mat", {"data": values}, do_compression=True)
        return [folder / "gt_depth" / "a.mat"]

    def read(folder: Path) -> object:
        from omnidc.datasets.ibims import read_frame

        return read_frame(folder, False, "a")

    return Target("dataset.mat", make, read)


def known_views() -> Target:
    frame = {"file_path": "images/a.png", "transform_matrix": IDENTITY}
    table = {"w": WIDTH, "h": HEIGHT, "fl_x": 30.0, "cx": 15.5, "cy": 11.5, "k1": 0.1, "frames": [frame]}

    def read(folder: Path) -> object:
        from omnidc.sensors.known_views import read_known_views

        return read_known_views(folder / "transforms.json", folder / "images")

    return Target("transforms", file("transforms.json", lambda: json.dumps(table).encode()), read)


def upload() -> Target:
    """The body of a request: parsed and decoded as the service does, in this process."""
    boundary = "x"

    def body() -> bytes:
        parts = (("image", "a.png", picture("PNG")), ("sparse", "a.npz", npz()))
        text = b"".join(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{label}"\r\n\r\n'.encode()
            + data
            + b"\r\n"
            for name, label, data in parts
        )
        points = f'--{boundary}\r\nContent-Disposition: form-data; name="depth_scale"\r\n\r\n2\r\n--{boundary}--\r\n'
        return text + points.encode()

    def npz() -> bytes:
        stream = io.BytesIO()
        np.savez_compressed(stream, depth=depth_map())
        return stream.getvalue()

    def read(folder: Path) -> object:
        from starlette.requests import Request

        from omnidc.web import decode
        from omnidc.web.requests import parse
        from omnidc.web.settings import Settings
        from omnidc.web.uploads import with_suffix

        kind = (b"content-type", f"multipart/form-data; boundary={boundary}".encode())
        request = Request({"type": "http", "method": "POST", "headers": [kind], "query_string": b"", "path": "/"})
        view = asyncio.run(parse(request, (folder / "body").read_bytes(), Settings()))
        (folder / "photo").write_bytes(view.image.data)
        results = [decode.photo_head(folder / "photo", 10**6), decode.photo(folder / "photo", 10**6)]
        if view.sparse is not None:
            path = folder / with_suffix(view.sparse)
            path.write_bytes(view.sparse.data)
            results.append(decode.depth(path, 10**6, view.options.depth_scale))
        return results

    return Target("upload", file("body", body), read)


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        *(depth_file(suffix) for suffix in (".npy", ".npz", ".png", ".exr", ".pfm", ".tiff", ".pgm")),
        point_list(".csv", b"row,col,depth\n3,4,2.5\n7,1,4\n"),
        point_list(".txt", b"# points\n3 4 2.5\n7.4 1.6 4\n"),
        point_list(".json", json.dumps({"points": [{"u": 3, "v": 4, "depth": 2.5}]}).encode()),
        trajectory(".txt", b"1.0 0 0 0 0 0 0 1\n2.0 1 0 0 0 0 0 1\n"),
        trajectory(".log", ("0 0 1\n" + matrix(IDENTITY)).encode()),
        trajectory(".json", json.dumps({"frames": [{"file_path": "1.png", "transform_matrix": IDENTITY}]}).encode()),
        image_file(".jpg", "JPEG", progressive=True),
        *(image_file(f".{kind.lower()}", kind) for kind in ("PNG", "WEBP", "BMP", "TIFF", "PPM")),
        cloud_file("cloud.bin", ".bin", lambda: np.pad(points(), ((0, 0), (0, 1))).tobytes()),
        cloud_file("cloud.xyz", ".xyz", lambda: b"3\n1 2 3\n4 5 6 7\n1e3 2 1\n"),
        cloud_file("cloud.csv", ".csv", lambda: b"x,y,z,i\n1,2,3,0\n4,5,6,7\n"),
        cloud_file("cloud.npy", ".npy", lambda: npy(points())),
        *(cloud_file(f"cloud-{mode}.pcd", ".pcd", lambda mode=mode: pcd(mode)) for mode in ("ascii", "binary")),
        cloud_file("cloud-compressed.pcd", ".pcd", lambda: pcd("binary_compressed")),
        cloud_file("cloud-ascii.ply", ".ply", lambda: ply("ascii")),
        cloud_file("cloud-binary.ply", ".ply", lambda: ply("binary_little_endian")),
        *(cloud_file(f"cloud{suffix}", suffix, lambda suffix=suffix: las(suffix)) for suffix in (".las", ".laz")),
        *(calibration_file(suffix) for suffix in (".json", ".yaml", ".txt")),
        intrinsics_file(".npy", lambda: npy(np.array(K))),
        intrinsics_file(".json", lambda: json.dumps({"K": K}).encode()),
        intrinsics_file(".txt", lambda: b"30 30 15.5 11.5"),
        *(recording(name, files) for name, files in recordings().items()),
        *(reader(text) for reader in (colmap_reader, colmap_model) for text in (False, True)),
        bag(True),
        bag(False),
        *(checkpoint(suffix) for suffix in (".pt", ".safetensors")),
        toml(),
        pattern(),
        uniformat(),
        shard(),
        dataset_h5(),
        dataset_mat(),
        known_views(),
        upload(),
    )
}
