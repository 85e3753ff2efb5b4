"""Counters in Prometheus' text format; a page of text needs no library."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Histogram:
    """Counts per upper bound, as Prometheus wants them: cumulative, with a sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts, self.total, self.sum = bounds, [0] * len(bounds), 0, 0.0

    def observe(self, value: float) -> None:
        self.total += 1
        self.sum += value
        for k, bound in enumerate(self.bounds):
            self.counts[k] += value <= bound

    def lines(self, name: str) -> list[str]:
        counts = [f'{name}_bucket{{le="{bound:g}"}} {count}' for bound, count in zip(self.bounds, self.counts)]
        return [
            *counts,
            f'{name}_bucket{{le="+Inf"}} {self.total}',
            f"{name}_sum {self.sum}",
            f"{name}_count {self.total}",
        ]


class Metrics:
    """What the service counts. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()  # method, route, status
        self._latency = Histogram(BUCKETS)
        self._batches = Histogram((1, 2, 4, 8, 16))
        self._model = Histogram(BUCKETS)
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}  # name: (help, value)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[method, route, status] += 1
            if route == "/v1/complete":
                self._latency.observe(seconds)

    def completed(self, batch: int, seconds: float) -> None:
        with self._lock:
            self._batches.observe(batch)
            self._model.observe(seconds)

    def text(self) -> str:
        with self._lock:
            lines = [
                "# HELP omnidc_requests_total Answers by route and status.",
                "# TYPE omnidc_requests_total counter",
            ]
            for (method, route, status), count in sorted(self._requests.items()):
                lines.append(f'omnidc_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}')
            for name, about, histogram in (
                (
                    "omnidc_request_seconds",
                    "From the first byte of a completion's request to its answer.",
                    self._latency,
                ),
                ("omnidc_model_seconds", "Time of the model for one batch.", self._model),
                ("omnidc_batch_size", "Views that ran together.", self._batches),
            ):
                lines += [f"# HELP {name} {about}", f"# TYPE {name} histogram", *histogram.lines(name)]
        for name, (about, value) in self.gauges.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge", f"{name} {value():g}"]
        return "\n".join(lines) + "\n"
