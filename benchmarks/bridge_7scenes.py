"""COLMAP points to dense depth, measured: completed depth against the depth sensor of 7-Scenes (red kitchen).

    python benchmarks/bridge_7scenes.py DATA [--model compact] [--every 1] [--results docs/results/bridge_7scenes.json]

DATA holds sparse/0 (COLMAP model), images/ and depth/ (frame-N.color.jpg, frame-N.depth.png). The sensor's depth is
registered to color and moved into COLMAP's undistorted images. SfM has no unit: one factor for the whole set, the
median of SfM depth over sensor depth at the SfM points, brings both together. Prints the mean over images of
REL = mean |depth − sensor| / sensor, for the completer and for linear interpolation of the same points.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from omnidc.evaluation.baselines.interpolation import linear
from omnidc.geometry.rasterize import project_to_depth
from omnidc.io.files import write_json
from omnidc.pipeline import default_model, load
from omnidc.sensors.colmap import ColmapModel, Filters, open_model, undistorted_camera
from omnidc.sensors.rgbd import RgbdOptions, open_recording

Map = npt.NDArray[np.float32]


def sensor_depth(model: ColmapModel, registered: Map, shape: tuple[int, int]) -> Map:
    """Move registered sensor depth, meters, from the photograph's pixels to those of the undistorted image."""
    camera = model.reconstruction.cameras[next(iter(model.reconstruction.cameras))]
    _, K = undistorted_camera(camera)
    rows, columns = np.nonzero(registered > 0)
    rays = camera.cam_from_img(np.stack([columns + 0.5, rows + 0.5], axis=1))
    z = registered[rows, columns].astype(np.float64)[:, None]
    moved, _ = project_to_depth(np.concatenate([rays * z, z], axis=1), K, shape, occlusion_window=0)
    return moved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default=default_model())
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--observed-only", action="store_true")
    parser.add_argument("--results", type=Path, help="file for the table, for benchmarks/tables.py")
    arguments = parser.parse_args()
    data: Path = arguments.data
    model = open_model(data, data / "images", Filters(observed_only=arguments.observed_only))
    recording = open_recording(data, RgbdOptions(), layout="7scenes")
    names = model.names()[:: arguments.every]
    frames = [model.frame(name) for name in names]
    truths = []
    for name, frame in zip(names, frames):
        registered = recording[name.split(".color.")[0]].sparse
        assert registered is not None
        truths.append(sensor_depth(model, registered, (frame.height, frame.width)))
    ratios = [
        frame.sparse[m] / truth[m]
        for frame, truth in zip(frames, truths)
        if (m := (frame.sparse > 0) & (truth > 0)).any()
    ]
    factor = float(np.median(np.concatenate(ratios)))
    points = float(np.mean([(frame.sparse > 0).sum() for frame in frames]))
    off = np.concatenate([np.abs(ratio / factor - 1) for ratio in ratios])
    print(f"{len(frames)} images, {points:.0f} points each, {factor:.4f} scene units per meter")
    print(f"points themselves: REL {off.mean():.4f}, off by more than 10 %: {(off > 0.1).mean():.3f}")

    completer = load(arguments.model)
    rows: dict[str, list[tuple[float, float, float]]] = {arguments.model: [], "linear": []}
    seconds = {arguments.model: 0.0, "linear": 0.0}
    for frame, truth in tqdm(list(zip(frames, truths)), unit="image"):
        for label in rows:
            start = time.process_time()
            if label == "linear":
                depth = linear(frame.image, frame.sparse)
            else:
                depth = completer.complete(frame.image, frame.sparse, frame.intrinsics).depth
            seconds[label] += time.process_time() - start
            known = truth > 0
            error = np.abs(depth[known] / factor - truth[known])
            relative = error / truth[known]
            rows[label].append((float(relative.mean()), float(np.median(relative)), float(error.mean())))
    print(f"{'method':<12} {'REL':>8} {'median':>8} {'MAE (m)':>8} {'CPU s/image':>12}")
    for label, values in rows.items():
        rel, median, mae = np.mean(values, axis=0)
        print(f"{label:<12} {rel:8.4f} {median:8.4f} {mae:8.4f} {seconds[label] / len(frames):12.2f}")
    if arguments.results:
        means = {label: np.mean(values, axis=0) for label, values in rows.items()}
        table = [[label, f"{rel:.4f}", f"{median:.4f}", f"{mae:.3f}"] for label, (rel, median, mae) in means.items()]
        header = ["method", "REL", "median", "MAE (m)"]
        write_json(arguments.results, {"images": len(frames), "points": points, "header": header, "rows": table})


if __name__ == "__main__":
    main()
