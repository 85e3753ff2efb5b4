"""What an installation weighs: megabytes, seconds to install, seconds of `omnidc demo` and of `omnidc --help`.

    python benchmarks/install.py "before=/path/to/an/earlier/checkout" "base=." "with torch=.[torch]" \
        [-o docs/results/install.json]

Each NAME=REQUIREMENT goes into a fresh virtual environment of its own, away from the source tree. CPU seconds are
those of all processes that a step started; on a busy machine the wall seconds mean little. They include the download
of wheels from the index that pip is configured with. `demo` and `--help` run twice, and the second run is written down,
because the first one compiles bytecode where pip did not.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from omnidc.io.files import write_json


def measure(command: list[str], folder: Path) -> dict[str, float]:
    """Run a command; return its wall and CPU seconds, those of its children included."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")  # the fresh environment must not see this one
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(seconds, 2), "CPU_seconds": round(cpu, 2)}


def megabytes(folder: Path) -> float:
    """Megabytes (10⁶ bytes) of the files of a folder."""
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6, 1)


def measure_install(name: str, requirement: str) -> dict[str, Any]:
    """Install one requirement into a fresh environment and run it there."""
    path, bracket, extras = requirement.partition("[")
    requirement = f"{Path(path).resolve()}{bracket}{extras}" if Path(path).exists() else requirement
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        subprocess.run([sys.executable, "-m", "venv", "venv"], cwd=folder, check=True)
        scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        [site] = (folder / "venv").rglob("site-packages")
        empty = megabytes(site)  # pip itself
        runs = {"pip_install": measure([str(scripts / "python"), "-m", "pip", "install", requirement], folder)}
        installed = megabytes(site) - empty
        largest = {each.name: megabytes(each) for each in site.iterdir() if each.is_dir()}
        omnidc = str(scripts / "omnidc")
        for key, words in (("demo", ["demo", "-o", "out"]), ("help", ["--help"])):
            measure([omnidc, *words], folder)
            runs[key] = measure([omnidc, *words], folder)
    row: dict[str, Any] = {"installation": name, "megabytes": round(installed, 1)}
    for key, run in runs.items():
        row.update({f"{key}_{unit}": value for unit, value in run.items()})
    row["largest_megabytes"] = dict(sorted(largest.items(), key=lambda item: -item[1])[:8])
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("installation", nargs="+", metavar="NAME=REQUIREMENT")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    rows = []
    for installation in arguments.installation:
        rows.append(measure_install(*installation.split("=", 1)))
        print(rows[-1], flush=True)
    if arguments.output is not None:
        write_json(arguments.output, {"python": sys.version.split()[0], "platform": sys.platform, "rows": rows})


if __name__ == "__main__":
    main()
