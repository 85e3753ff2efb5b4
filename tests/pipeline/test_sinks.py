"""Resuming and exporting: every sink ends with the same files, however often its run was interrupted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from omnidc.errors import ConfigError, FileError, InputError
from omnidc.frame import Frame, LazyFrames, Unit
from omnidc.interop.colmap import write_dense
from omnidc.interop.gaussian_splatting import write_dn_splatter, write_inria
from omnidc.interop.rosbag import bag_sink
from omnidc.interop.sinks import export_sink, fusion_sink, mesh_sink
from omnidc.interop.views import PosedView, posed_views
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.listener import RunListener
from omnidc.pipeline.options import CompleteOptions, WriteOptions
from omnidc.pipeline.sinks import ExportSink, FileSink, FolderSink, MapsSink, Sink, TeeSink, check_writable
from omnidc.pipeline.source import complete_source

K = np.array([[60.0, 0.0, 31.5], [0.0, 60.0, 23.5], [0.0, 0.0, 1.0]])
NAMES = [f"view{i}" for i in range(8)]
SHAPE = (48, 64)


def load(name: str) -> Frame:
    """A wall at a depth of 3 before a camera that moves sideways."""
    rng = np.random.default_rng(int(name[-1]))
    pose = np.eye(4)
    pose[0, 3] = 0.05 * int(name[-1])
    sparse = np.where(rng.random(SHAPE) < 0.1, np.float32(3), np.float32(0))
    image = rng.integers(0, 256, (*SHAPE, 3)).astype(np.uint8)
    return Frame(image, sparse, intrinsics=K, pose=pose, name=name, source=f"{name}.png", timestamp=float(name[-1]))


def source(names: list[str] = NAMES) -> LazyFrames:
    return LazyFrames({name: partial(load, name) for name in names}, ("made up",))


@dataclass
class Flat:
    """Completes with the mean of the measurements; the process "dies" after `lives` frames."""

    lives: int = 99
    top: float = 1.0
    calls: int = 0

    def complete(self, frame: Frame, options: CompleteOptions, /) -> Completion:
        if self.calls == self.lives:
            raise KeyboardInterrupt
        self.calls += 1
        sparse = frame.measurements()
        if not sparse.any():
            raise InputError("Nothing to complete.")
        depth = np.full(SHAPE, sparse[sparse > 0].mean() * self.top, np.float32)
        confidence = np.where(sparse > 0, 0.5, np.nan).astype(np.float32)
        return Completion(depth, depth / 10, confidence, sparse, frame.image, frame.intrinsics, frame.unit)


def folder_sink(folder: Path, resume: bool = False, formats: str = "npy,png,preview,confidence") -> FolderSink:
    write = WriteOptions((formats,))
    return FolderSink(folder, write, "flat", CompleteOptions(), resume=resume, keep_images=True, notes=("made up",))


def everything(folder: Path, resume: bool) -> Sink:
    files = folder_sink(folder / "files", resume, "npz,exr,pfm,tiff,ply,glb,turntable")
    return TeeSink(files, MapsSink(folder / "maps"))


SINKS: dict[str, Callable[[Path, bool], Sink]] = {
    "folder": lambda folder, resume: folder_sink(folder, resume),
    "every format": everything,
    "nerfstudio": lambda folder, resume: export_sink(folder_sink(folder, resume), "nerfstudio", folder / "nerfstudio"),
    "mesh": lambda folder, resume: mesh_sink(folder_sink(folder, resume), folder / "mesh.ply"),
    "bag": lambda folder, resume: bag_sink(folder_sink(folder, resume), folder / "depth.bag", "/depth", "camera"),
    "fused": lambda folder, resume: fusion_sink(folder_sink(folder, resume), folder / "fused.ply", 0.03),
}


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("kind", SINKS)
def test_resumed_run_writes_the_same_files(kind: str, tmp_path: Path) -> None:
    if kind == "bag":
        pytest.importorskip("rosbags")
    complete_source(source(), SINKS[kind](tmp_path / "whole", False), Flat())
    with pytest.raises(KeyboardInterrupt):
        complete_source(source(), SINKS[kind](tmp_path / "parts", False), Flat(lives=3))
    resumed = Flat()
    report = complete_source(source(), SINKS[kind](tmp_path / "parts", True), resumed)
    assert resumed.calls == 5
    assert report.done == NAMES[3:]
    assert digests(tmp_path / "parts") == digests(tmp_path / "whole")
    [metadata] = (tmp_path / "parts").rglob("metadata.json")
    assert list(json.loads(metadata.read_text())["frames"]) == NAMES


@pytest.mark.parametrize("write", [write_inria, write_dn_splatter, write_dense], ids=lambda write: write.__name__)
def test_resumed_export_writes_the_same_files(write: Callable[[Path, list[PosedView]], None], tmp_path: Path) -> None:
    for name, lives in (("whole", 99), ("parts", 3)):
        sink = ExportSink(folder_sink(tmp_path / name), lambda r, n=name: write(tmp_path / n / "e", posed_views(r)))
        if lives < 8:
            with pytest.raises(KeyboardInterrupt):
                complete_source(source(), sink, Flat(lives))
            assert not (tmp_path / name / "e").exists()
            sink.inner = folder_sink(tmp_path / name, resume=True)
        complete_source(source(), sink, Flat())
    assert digests(tmp_path / "parts") == digests(tmp_path / "whole")
    assert any((tmp_path / "whole" / "e").rglob("*"))


def test_frame_without_a_name_takes_that_of_its_source(tmp_path: Path) -> None:
    unnamed = LazyFrames({"view0": lambda: replace(load("view0"), name="", source="")}, ("made up",))
    assert complete_source(unnamed, FolderSink(tmp_path), Flat()).done == ["view0"]
    assert list(tmp_path.glob("view0.*"))


def test_missing_files_are_completed_again(tmp_path: Path) -> None:
    complete_source(source(), folder_sink(tmp_path), Flat())
    (tmp_path / "view4.png").unlink()
    (tmp_path / "images" / "view6.png").unlink()
    assert folder_sink(tmp_path, resume=True).missing(NAMES) == ["view4", "view6"]
    assert folder_sink(tmp_path, resume=False).missing(NAMES) == NAMES


@pytest.mark.parametrize(
    ("model", "options", "word"),
    [
        ("other", CompleteOptions(), "model flat (now other)"),
        ("flat", CompleteOptions(keep_input="hard"), "keep_input soft (now hard)"),
        ("flat", CompleteOptions(max_uncertainty=0.1), "max_uncertainty None (now 0.1)"),
    ],
)
def test_resume_refuses_other_settings(model: str, options: CompleteOptions, word: str, tmp_path: Path) -> None:
    complete_source(source(NAMES[:1]), folder_sink(tmp_path), Flat())
    with pytest.raises(ConfigError) as caught:
        FolderSink(tmp_path, WriteOptions(), model, options, resume=True)
    assert word in str(caught.value)


def test_damaged_metadata_is_written_anew(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "metadata.json").write_text('{"frames": {"view')
    sink = FolderSink(tmp_path, resume=True, announce=said.append)
    assert sink.missing(NAMES) == NAMES
    assert "written anew" in said[0]


def test_png_scale_is_one_for_a_run(tmp_path: Path) -> None:
    said: list[str] = []
    sink = FolderSink(tmp_path, WriteOptions(("png",)), announce=said.append)
    complete_source(source(NAMES[:2]), sink, Flat())
    assert said == ["16-bit png: depth × 1000"]
    assert json.loads((tmp_path / "metadata.json").read_text())["png_scale"] == 1000
    # A resumed run keeps the scale, though alone it would choose another; a frame that does not fit is a failure.
    again = FolderSink(tmp_path, WriteOptions(("png",)), resume=True)
    deep = complete_source(source(NAMES[:3]), again, Flat(top=30))
    assert "does not fit" in deep.failed["view2"]
    with pytest.raises(ConfigError, match="--png-scale 1000"):
        FolderSink(tmp_path, WriteOptions(("png",), png_scale=256), resume=True)


def test_png_scale_follows_the_clip_depth(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path, WriteOptions(("png",)), options=CompleteOptions(clip_depth=200))
    complete_source(source(NAMES[:1]), sink, Flat())
    assert sink.png_scale == 256


def test_run_goes_on_after_frames_that_fail(tmp_path: Path) -> None:
    def broken() -> Frame:
        raise FileError("view2.png is damaged.")

    def empty() -> Frame:
        return replace(load("view3"), sparse=None)

    loaders = {**source().loaders, "view2": broken, "view3": empty}
    heard: list[str] = []

    class Ear(RunListener):
        def failed(self, name: str, reason: str) -> None:
            heard.append(name)

    report = complete_source(LazyFrames(loaders), folder_sink(tmp_path), Flat(), listener=Ear())
    assert report.failed == {"view2": "view2.png is damaged.", "view3": "Nothing to complete."}
    assert heard == ["view2", "view3"]
    assert len(report.done) == 6
    skipping = complete_source(LazyFrames(loaders), folder_sink(tmp_path, resume=True), Flat(), allow_empty=False)
    assert skipping.skipped == ["view3"]
    assert list(skipping.failed) == ["view2"]


def test_run_ends_where_files_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    completer = Flat()
    with pytest.raises(FileError, match="Cannot write"):
        complete_source(source(), folder_sink(tmp_path / "out"), completer)
    assert completer.calls == 1


def test_metadata_has_settings_notes_and_frames(tmp_path: Path) -> None:
    complete_source(source(NAMES[:1]), folder_sink(tmp_path), Flat())
    table = json.loads((tmp_path / "metadata.json").read_text())
    assert table["model"] == "flat"
    assert table["options"]["keep_input"] == "soft"
    assert table["notes"] == ["made up"]
    record = table["frames"]["view0"]
    assert (record["width"], record["height"], record["unit"], record["source"]) == (64, 48, "m", "view0.png")
    [stored] = folder_sink(tmp_path, resume=True).results()
    assert stored.unit is Unit.METERS
    assert stored.timestamp == 0
    assert stored.uncertainty is not None
    np.testing.assert_allclose(stored.uncertainty(), stored.depth() / 10)
    np.testing.assert_array_equal(stored.intrinsics, K)


def test_file_sink_writes_what_was_named(tmp_path: Path) -> None:
    sink = FileSink([tmp_path / "a.exr", tmp_path / "b.png"], maps=tmp_path / "maps.npz")
    complete_source(source(["view0"]), sink, Flat())
    assert {path.name for path in tmp_path.iterdir()} == {"a.exr", "b.png", "maps.npz"}
    with pytest.raises(FileError, match="no suffix that can be written"):
        FileSink([tmp_path / "a.mp4"])


def test_write_options_check_formats() -> None:
    assert WriteOptions().formats == ("npy", "preview")
    assert WriteOptions(("png, .EXR", "png")).formats == ("png", "exr")
    assert WriteOptions(("confidence",)).formats == ("npy", "preview", "confidence")
    assert WriteOptions(("png",)).adding("npy").formats == ("png", "npy")
    with pytest.raises(ConfigError, match="'mp4' is not known"):
        WriteOptions(("mp4",))
    with pytest.raises(ConfigError, match="positive"):
        WriteOptions(png_scale=-1)


def test_check_writable_names_the_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    check_writable([tmp_path / "new" / "a.npy"])
    with pytest.raises(FileError, match="is not a folder"):
        check_writable([tmp_path / "file" / "a.npy"])
    with pytest.raises(FileError, match="it is a folder"):
        check_writable([tmp_path / "folder"])


def test_exports_without_npy_files_are_refused(tmp_path: Path) -> None:
    sink = export_sink(folder_sink(tmp_path, formats="png"), "nerfstudio", tmp_path / "nerfstudio")
    with pytest.raises(ConfigError, match="format npy"):
        complete_source(source(NAMES[:1]), sink, Flat())


def test_exports_without_a_colmap_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a COLMAP model"):
        export_sink(folder_sink(tmp_path), "inria", tmp_path / "inria")


def test_bag_sink_writes_sky_as_infinity(tmp_path: Path) -> None:
    pytest.importorskip("rosbags")
    from rosbags.highlevel import AnyReader

    from omnidc.interop.rosbag import bag_sink

    class Outdoors(Flat):
        def complete(self, frame: Frame, options: CompleteOptions, /) -> Completion:
            result = super().complete(frame, options)
            sky = np.zeros(SHAPE, np.float32)
            sky[:10] = 1
            depth = np.where(sky > 0, np.float32(0), result.depth)
            depth[-5:] = 0  # dropped for another reason
            return replace(result, depth=depth, sky=sky)

    sink = bag_sink(folder_sink(tmp_path / "out"), tmp_path / "a.bag", "/omnidc/depth", "camera")
    complete_source(source(NAMES[:2]), sink, Outdoors())
    with AnyReader([tmp_path / "a.bag"]) as reader:
        [connection] = [c for c in reader.connections if c.topic == "/omnidc/depth"]
        messages = [reader.deserialize(raw, c.msgtype) for c, _, raw in reader.messages([connection])]
    assert len(messages) == 2
    depth = np.frombuffer(bytes(messages[0].data), "<f4").reshape(SHAPE)
    assert np.isposinf(depth[:10]).all()
    assert np.isnan(depth[-5:]).all()
    assert (depth[10:-5] == 3).all()
