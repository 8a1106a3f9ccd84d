"""Figures of the requests of one process, as Prometheus reads them (text format 0.0.4)."""

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from jiyi.endpoint import skipped_endpoints
from jiyi.monitor.export import Sample, metric_text

__all__ = ["Metrics"]

_OTHER = "(other)"
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counts requests; labels are methods and routes, never ids. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_hand = 0
        self._answers: Counter[tuple[str, str, int]] = Counter()
        self._within: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * (len(_SECONDS) + 1))
        self._sums: defaultdict[tuple[str, str], float] = defaultdict(float)

    def begin(self) -> None:
        """Count a request that came."""
        with self._lock:
            self._in_hand += 1

    def end(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count what came of it."""
        named = (method if method in _METHODS else _OTHER, route)
        with self._lock:
            self._in_hand -= 1
            self._answers[*named, status] += 1
            self._within[named][bisect_left(_SECONDS, seconds)] += 1
            self._sums[named] += seconds

    def text(self) -> str:
        """Return all figures."""
        with self._lock:
            answers = [
                ("", {"method": method, "route": route, "status": str(status)}, count)
                for (method, route, status), count in self._answers.items()
            ]
            in_hand, seconds = self._in_hand, list(self._histograms())
        skipped = "Endpoints of models that are skipped, having failed."
        took = "Time from a request's head to its answer's last byte."
        metrics: Sequence[tuple[str, str, str, Sequence[Sample]]] = (
            ("http_requests_in_hand", "gauge", "Requests being answered.", [("", {}, in_hand)]),
            ("http_answers", "counter", "Answers.", answers),
            ("endpoints_skipped", "gauge", skipped, [("", {}, len(skipped_endpoints()))]),
            ("http_request_seconds", "histogram", took, seconds),
        )
        return "".join(metric_text(*metric) for metric in metrics)

    def _histograms(self) -> Iterator[Sample]:
        for (method, route), counts in self._within.items():
            labels, total = {"method": method, "route": route}, 0
            for most, count in zip((*map(str, _SECONDS), "+Inf"), counts, strict=True):
                total += count
                yield "_bucket", {**labels, "le": most}, total
            yield "_sum", labels, self._sums[method, route]
            yield "_count", labels, total
