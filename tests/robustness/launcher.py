"""Run commands of omnidc in forks of a process that has imported everything, so that a trial costs no start-up.

Reads lines of JSON on standard input, {"arguments": […], "file_size": bytes or null, "log": path, "signal": number,
"after": seconds or null}, and answers each with the exit status (negative: the signal that ended the process). The
signal is sent after that many seconds. One thread, so that forking is safe.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time
from contextlib import suppress
from typing import Any

# What the commands import when they run, seconds each time.
IMPORTED = (
    *("omnidc.cli.run", "omnidc.cli.complete", "omnidc.cli.sensors", "omnidc.cli.splat", "omnidc.interop.sinks"),
    *("omnidc.pipeline.runner", "omnidc.pipeline.completer", "omnidc.deploy.loading", "omnidc.deploy.runtime"),
    *("omnidc.network.checkpoint", "omnidc.network.interpolate", "omnidc.pipeline.staged"),
    *("omnidc.sensors.rgbd", "omnidc.sensors.rosbag", "omnidc.sensors.lidar", "omnidc.sensors.colmap"),
    *("omnidc.interop.rosbag", "omnidc.ros.messages", "rosbags.highlevel", "rosbags.rosbag1", "rosbags.rosbag2"),
    *("rosbags.typesys", "omnidc.training.launch", "omnidc.training.trainer", "omnidc.training.worker"),
    *("omnidc.training.validation", "omnidc.training.recipe", "omnidc.datasets.shards", "torch._dynamo", "tiny"),
    *("omnidc.splatting.trainer", "omnidc.splatting.results", "omnidc.splatting.kernels"),
)


def run(job: dict[str, Any]) -> None:
    """The child's part; never returns."""
    log = os.open(str(job["log"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if job["file_size"] is not None:
        limit = job["file_size"]
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    sys.argv = ["omnidc", *job["arguments"]]
    code = 1
    try:
        from omnidc.cli import main

        main()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait(process: int, job: dict[str, Any]) -> int:
    """Wait for a child, and send it the job's signal when its time has come."""
    ended = 0
    if job["after"] is not None:
        until = time.monotonic() + job["after"]
        while not ended and time.monotonic() < until:
            time.sleep(0.001)
            ended, status = os.waitpid(process, os.WNOHANG)
        if not ended:
            os.kill(process, job["signal"])
    if not ended:
        _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)


def serve() -> None:
    import torch

    torch.set_num_threads(1)
    for name in IMPORTED:
        with suppress(ImportError):  # of an extra that is not installed
            importlib.import_module(name)
    print("ready", flush=True)
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            run(json.loads(line))
        print(wait(process, json.loads(line)), flush=True)


if __name__ == "__main__":
    serve()
