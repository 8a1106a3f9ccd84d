"""Metrics of the requests of one process, as Prometheus reads them (text format 0.0.4)."""

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from jiyi.endpoint import skipped_endpoints
from jiyi.monitor.export import Sample, metric_text

__all__ = ["Metrics"]

_OTHER = "(other)"
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counts requests; labels are methods and routes, never ids. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open_requests = 0
        self._answers: Counter[tuple[str, str, int]] = Counter()
        self._buckets: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * (len(_BOUNDS) + 1))
        self._sums: defaultdict[tuple[str, str], float] = defaultdict(float)

    def begin(self) -> None:
        """Count a request that has begun."""
        with self._lock:
            self._open_requests += 1

    def end(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count the answer to a request."""
        labels = (method if method in _METHODS else _OTHER, route)
        with self._lock:
            self._open_requests -= 1
            self._answers[*labels, status] += 1
            self._buckets[labels][bisect_left(_BOUNDS, seconds)] += 1
            self._sums[labels] += seconds

    def text(self) -> str:
        """Return all metrics as text."""
        with self._lock:
            answers = [
                ("", {"method": method, "route": route, "status": str(status)}, count)
                for (method, route, status), count in self._answers.items()
            ]
            open_requests, seconds = self._open_requests, list(self._histogram_samples())
        skipped_help = "Endpoints of models that are skipped, having failed."
        duration_help = "Time from a request's head to its answer's last byte."
        metrics: Sequence[tuple[str, str, str, Sequence[Sample]]] = (
            ("http_requests_in_hand", "gauge", "Requests being answered.", [("", {}, open_requests)]),
            ("http_answers", "counter", "Answers.", answers),
            ("endpoints_skipped", "gauge", skipped_help, [("", {}, len(skipped_endpoints()))]),
            ("http_request_seconds", "histogram", duration_help, seconds),
        )
        return "".join(metric_text(*metric) for metric in metrics)

    def _histogram_samples(self) -> Iterator[Sample]:
        for (method, route), counts in self._buckets.items():
            labels, total = {"method": method, "route": route}, 0
            for bound, count in zip((*map(str, _BOUNDS), "+Inf"), counts, strict=True):
                total += count
                yield "_bucket", {**labels, "le": bound}, total
            yield "_sum", labels, self._sums[method, route]
            yield "_count", labels, total
