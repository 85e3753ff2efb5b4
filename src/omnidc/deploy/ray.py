"""Completion on many processes or machines with Ray Data: a pool of actors that hold the model.

Names of frames go to the actors, results come back, and the sink of this process writes them, as in a run on one
machine. So `--resume` works alike, and a frame whose actor died is computed again and written once.
"""

from __future__ import annotations

import logging
import math
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from omnidc.deploy.loading import Runtime, load
from omnidc.deploy.ray_options import RayOptions
from omnidc.errors import ConfigError, FileError, MissingExtraError, OmnidcError
from omnidc.frame import FrameSource
from omnidc.pipeline.listener import RunListener
from omnidc.pipeline.options import CompleteOptions
from omnidc.pipeline.sinks import Sink
from omnidc.pipeline.source import Completer, RunReport, SinkError

MAX_BLOCKS = 4096  # Ray keeps a record of each block


class CompletionActor:
    """One process of the pool: loads the model once, completes the frames of each batch."""

    def __init__(
        self,
        source: FrameSource,
        load: Callable[[], Completer],
        options: CompleteOptions,
        threads: int,
        allow_empty: bool,
    ) -> None:
        import os

        os.environ["OMP_NUM_THREADS"] = str(threads)  # before a runtime is imported; Ray sets 1 for tasks only
        self.source, self.options, self.allow_empty = source, options, allow_empty
        self.completer = load()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        rows = [pickle.dumps(self._complete(str(name))) for name in batch["name"]]
        result = np.empty(len(rows), object)
        result[:] = rows
        return {"name": batch["name"], "result": result}

    def _complete(self, name: str) -> Any:
        """Return a frame with its completion; a sentence where it failed; None where it has no measurements."""
        try:
            frame = self.source[name]
            if not self.allow_empty and not frame.measurements().any():
                return None
            return frame, self.completer.complete(frame, self.options)
        except OmnidcError as error:
            return str(error)


def complete_with_ray(
    source: FrameSource,
    sink: Sink,
    model: str,
    device: str = "auto",
    options: CompleteOptions | None = None,
    ray_options: RayOptions | None = None,
    *,
    runtime: Runtime = "auto",
    allow_empty: bool = True,
    listener: RunListener | None = None,
) -> RunReport:
    """Complete the frames that the sink lacks; the twin of `pipeline.complete_source` for clusters."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtraError("ray", "ray", "Running on a Ray cluster") from error
    options, chosen, listener = options or CompleteOptions(), ray_options or RayOptions(), listener or RunListener()
    report = RunReport(list(source.names))
    todo = sink.missing(source.names)
    listener.begin(len(report.names), len(todo))
    if not todo:
        listener.end()
        sink.close()
        return report
    started = _connect(ray, chosen)
    loader = partial(load, model, device, runtime)
    try:
        for attempt in range(chosen.retries + 1):
            if attempt:
                todo, report.failed = list(report.failed), {}
            last = attempt == chosen.retries
            for name, result in _results(ray, todo, source, loader, options, chosen, allow_empty):
                _keep(name, result, sink, report, listener, last)
            if not report.failed:
                break
    finally:
        if started:
            ray.shutdown()
    listener.end()
    sink.close()
    return report


def _connect(ray: Any, options: RayOptions) -> bool:
    """Connect to the cluster; return whether this process started or joined it and has to leave it."""
    if ray.is_initialized():
        return False
    try:
        ray.init(
            address=options.address,
            num_cpus=None if options.address else math.ceil(options.actors * options.cpus_per_actor) + 1,
            include_dashboard=False if options.address is None else None,
            log_to_driver=False,
            logging_level="error",
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"The Ray cluster {options.address!r} cannot be reached ({reason}).") from error
    return True


def _results(
    ray: Any,
    names: list[str],
    source: FrameSource,
    loader: Callable[[], Completer],
    options: CompleteOptions,
    chosen: RayOptions,
    allow_empty: bool,
) -> Iterator[tuple[str, Any]]:
    """Yield each name with what its actor returned, in the order in which they finish."""
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # the run has a bar of its own
    blocks = min(MAX_BLOCKS, -(-len(names) // chosen.batch_size))  # a block is what is lost with an actor
    dataset = ray.data.from_items([{"name": name} for name in names], override_num_blocks=blocks)
    threads = max(1, round(chosen.cpus_per_actor))
    completed = dataset.map_batches(
        CompletionActor,
        fn_constructor_args=(source, loader, options, threads, allow_empty),
        compute=ray.data.ActorPoolStrategy(size=chosen.actors),
        batch_size=chosen.batch_size,
        num_cpus=chosen.cpus_per_actor,
        num_gpus=chosen.gpus_per_actor or None,
    )
    seen: set[str] = set()
    try:
        for row in completed.iter_rows():
            name = str(row["name"])
            if name not in seen:
                seen.add(name)
                yield name, pickle.loads(row["result"])
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise ConfigError(f"The Ray run ended ({reason}); go on with --resume.") from error


def _keep(name: str, result: Any, sink: Sink, report: RunReport, listener: RunListener, last: bool) -> None:
    if result is None:
        report.skipped.append(name)
        listener.skipped(name)
    elif isinstance(result, str):
        report.failed[name] = result
        if last:
            listener.failed(name, result)
    else:
        frame, completion = result
        try:
            sink.write(frame, completion)
        except FileError as error:
            raise SinkError(str(error)) from error
        report.done.append(name)
        listener.loaded(frame)
        listener.completed(frame, completion)
