"""One process of a run that `omnidc.training.launch` started."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omnidc.errors import OmnidcError
from omnidc.training.config import TrainConfig, from_tables
from omnidc.training.launch import Failure
from omnidc.training.plan import make_plan
from omnidc.training.trainer import train

JOBS: dict[str, Callable[[TrainConfig, Path, bool, bool], Any]] = {
    "train": lambda config, folder, resume, quiet: train(config, folder, resume=resume, quiet=quiet),
    "plan": lambda config, folder, resume, quiet: make_plan(config),
}


def _stop_with_parent() -> None:
    """Ask this process to stop, as a signal would, when its parent is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=sorted(JOBS))
    parser.add_argument("config", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    config = from_tables(json.loads(options.config.read_text(encoding="utf-8")))
    try:
        result = JOBS[options.job](config, options.folder, options.resume, options.quiet)
    except OmnidcError as error:
        result = Failure(str(error))
    except KeyboardInterrupt:
        result = Failure("interrupted", interrupted=True)
    Path(os.environ["OMNIDC_RESULT"]).write_bytes(pickle.dumps(result))
    if isinstance(result, Failure):
        os._exit(1)  # others may wait for this one in a collective call; a normal exit would wait for them


if __name__ == "__main__":
    main()
