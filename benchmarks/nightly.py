"""Small benchmarks that run every night: errors on the bundled example, both runtimes, iterations of the integrator.

    python benchmarks/nightly.py --out OUT # compare with docs/results; exit code 1 beyond a tolerance
    python benchmarks/nightly.py --out OUT --write # and take the errors over into docs/results/nightly.json

OUT gets nightly.json, runtimes.json and integrate_iterations.json, in the form of docs/results. Errors are REL on the
bundled room with simulated sensors; they depend on weights and code alone. Speeds depend on the machine, so that only
the ratio of the runtimes is compared, and how far their results agree.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import omnidc
from curves import draw, rel
from omnidc.evaluation.baselines import linear
from omnidc.frame import Frame
from omnidc.io.depth import read_depth
from omnidc.io.files import write_json
from omnidc.io.images import read_image

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "results"
PACKAGE = Path(omnidc.__file__).parent
PATTERNS = ("5", "25", "100", "500", "500 & noise(0.1)", "lidar-16(200)", "sift", "camera")
ERROR_TOLERANCE = 0.03  # of a REL, relative; other processors round differently
RATIO_TOLERANCE = 2.0  # factor between two machines' ratios of torch and onnxruntime
AGREEMENT = 0.999  # share of pixels on which both runtimes agree
MORE_ITERATIONS = 2


def room_errors() -> list[dict[str, Any]]:
    """Return REL of the bundled model and of linear interpolation on the bundled room, by pattern."""
    examples = PACKAGE / "examples"
    depth = read_depth(examples / "room_depth.png").depth
    frame = Frame(read_image(examples / "room.jpg"), depth=depth, name="room")
    completer = omnidc.load("compact", "cpu", "onnx")
    rows = []
    for pattern in PATTERNS:
        sparse = draw(frame, pattern)
        result = completer.complete(frame.image, sparse, sky="keep")
        errors = {"compact": rel(result.depth, depth), "linear": rel(linear(frame.image, sparse), depth)}
        rows.append({"pattern": pattern, **{method: round(error, 5) for method, error in errors.items()}})
    return rows


def compare_errors(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each error that is larger than the committed one."""
    before = {row["pattern"]: row["compact"] for row in expected}
    for row in found:
        if row["compact"] > (1 + ERROR_TOLERANCE) * before[row["pattern"]]:
            yield f"REL with {row['pattern']} is {row['compact']:.4f}; it was {before[row['pattern']]:.4f}."


def compare_runtimes(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each size at which the runtimes disagree or onnxruntime has become much slower."""
    before = {row["size"]: row["torch_over_onnx"] for row in expected}
    for row in found:
        if row["depth_agrees"] < AGREEMENT:
            yield f"At {row['size']} only {row['depth_agrees']:.4f} of the pixels agree between the runtimes."
        if row["torch_over_onnx"] < before[row["size"]] / RATIO_TOLERANCE:
            yield f"At {row['size']} torch takes {row['torch_over_onnx']:.2f} times the time of onnxruntime."


def compare_iterations(found: list[list[str]], expected: list[list[str]]) -> Iterator[str]:
    """Yield a sentence for each grid that takes more iterations than the committed table says."""
    before = {row[0]: row[1:] for row in expected}
    for grid, *cells in found:
        for cell, old in zip(cells, before[grid], strict=True):
            pairs = zip(re.findall(r"\d+", cell), re.findall(r"\d+", old), strict=True)
            if any(int(new) > int(then) + MORE_ITERATIONS for new, then in pairs):
                yield f"The grid {grid} takes {cell} iterations; it took {old}."


def content_of(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def run_script(name: str, *words: str | Path) -> None:
    subprocess.run([sys.executable, str(HERE / name), *map(str, words)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--write", action="store_true", help="take the errors over into docs/results/nightly.json")
    options = parser.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "nightly.json", {"rows": room_errors()})
    if options.write:
        write_json(RESULTS / "nightly.json", content_of(out, "nightly.json"))
        return
    run_script("runtimes.py", PACKAGE / "weights/compact.onnx", "--torch", "compact", "-o", out / "runtimes.json")
    run_script("integrate.py", "--quick", "--results", out)
    name = "integrate_iterations.json"
    worse = [
        *compare_errors(content_of(out, "nightly.json")["rows"], content_of(RESULTS, "nightly.json")["rows"]),
        *compare_runtimes(content_of(out, "runtimes.json")["rows"], content_of(RESULTS, "runtimes.json")["rows"]),
        *compare_iterations(content_of(out, name)["rows"], content_of(RESULTS, name)["rows"]),
    ]
    print("\n".join(worse) if worse else "All benchmarks are within their tolerances.")
    raise SystemExit(bool(worse))


if __name__ == "__main__":
    main()
