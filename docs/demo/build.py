"""Build the static page: python docs/demo/build.py MODEL.onnx -o site

Copies the page, the model and the files of onnxruntime-web (from npm, or a folder that has its `dist`), and writes
model.json with the metadata that the page needs. The result is served by any web server.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import asdict
from pathlib import Path

from omnidc.deploy.runtime import OnnxCompleter
from omnidc.errors import FileError, OmnidcError

PAGE = ("index.html", "style.css", "demo.js", "files.js", "sw.js")
VENDOR = (
    *("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm", "ort-wasm-simd-threaded.mjs"),
    *("ort.webgpu.bundle.min.mjs", "ort-wasm-simd-threaded.asyncify.wasm", "ort-wasm-simd-threaded.asyncify.mjs"),
)
PACKAGE = "onnxruntime-web@^1.29"


def vendor(target: Path, source: Path | None) -> None:
    """Copy the files of onnxruntime-web; `source` is an unpacked package, None = ask npm."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        if source is None:
            try:
                command = ["npm", "pack", PACKAGE, "--silent", "--pack-destination", folder]
                subprocess.run(command, check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise FileError(
                    f"npm cannot fetch {PACKAGE} ({error}): give the package with --onnxruntime."
                ) from error
            [archive] = Path(folder).glob("*.tgz")
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="data")
            source = Path(folder) / "package"
        for name in VENDOR:
            path = source / "dist" / name
            if not path.is_file():
                raise FileError(f"{source} has no dist/{name}: it is another version of onnxruntime-web.")
            shutil.copyfile(path, target / name)


def open_whole(model: Path) -> OnnxCompleter:
    """Open a model; raise if it needs files beside it, as the bundled one does: the page copies one file."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return OnnxCompleter(shutil.copyfile(model, Path(folder) / model.name))
        except (OSError, OmnidcError) as error:
            OnnxCompleter(model)  # one that cannot be read at all says so
            raise FileError(
                f"{model} keeps its weights in another file, and the page takes one: "
                "make it with  omnidc export -o model.onnx."
            ) from error


def build(model: Path, output: Path, onnxruntime: Path | None = None) -> None:
    """Write the page into `output`."""
    completer = open_whole(model)
    output.mkdir(parents=True, exist_ok=True)
    vendor(output / "vendor", onnxruntime)
    here = Path(__file__).parent
    for name in PAGE:
        shutil.copyfile(here / name, output / name)
    shutil.copyfile(model, output / "model.onnx")
    about = {**asdict(completer.info), "size": completer.fixed_size}
    (output / "model.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    # The files for WebGPU are kept when they are first used: most devices need one of the two sets only.
    kept = ["./", *PAGE[:-1], "model.onnx", "model.json", *(f"vendor/{name}" for name in VENDOR[:3])]
    (output / "files.json").write_text(json.dumps(kept) + "\n", encoding="utf-8")
    digest = hashlib.sha256()
    for name in kept[1:]:
        digest.update((output / name).read_bytes())
    worker = output / "sw.js"
    worker.write_text(worker.read_text(encoding="utf-8").replace("BUILD", digest.hexdigest()[:16]), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("model", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("site"))
    parser.add_argument("--onnxruntime", type=Path, help="folder of the npm package onnxruntime-web")
    given = parser.parse_args()
    try:
        build(given.model, given.output, given.onnxruntime)
    except OmnidcError as error:
        print(f"build.py: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"wrote {given.output}: serve it with  python -m http.server -d {given.output}")


if __name__ == "__main__":
    main()
