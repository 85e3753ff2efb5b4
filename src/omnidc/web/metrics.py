"""Counters of the service, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)  # seconds

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The counters of one application. A registry of its own lets several applications share a process."""

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        self._requests = Counter(
            "omnidc_requests_total", "Answers by route and status.", ["method", "route", "status"], registry=own
        )
        self._latency = Histogram(
            "omnidc_request_seconds",
            "From the head of a completion's request to the last byte of its answer.",
            buckets=BUCKETS,
            registry=own,
        )
        self._model = Histogram(
            "omnidc_model_seconds", "Time of the model for one batch.", buckets=BUCKETS, registry=own
        )
        self._batches = Histogram(
            "omnidc_batch_size", "Views that ran together.", buckets=(1, 2, 4, 8, 16), registry=own
        )

    def gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a quantity that is read when somebody asks."""
        Gauge(name, description, registry=self._registry).set_function(value)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        if route == "/v1/complete":
            self._latency.observe(seconds)

    def completed(self, batch: int, seconds: float) -> None:
        self._batches.observe(batch)
        self._model.observe(seconds)

    def text(self) -> str:
        return generate_latest(self._registry).decode()
