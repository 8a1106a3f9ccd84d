"""Figures of the requests of one process, as Prometheus reads them (text format 0.0.4)."""

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator

from jiyi.endpoint import skipped_endpoints

__all__ = ["Metrics"]

_OTHER = "(other)"
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_HEADS = {
    "jiyi_http_requests_in_hand": ("gauge", "Requests being answered."),
    "jiyi_http_answers_total": ("counter", "Answers."),
    "jiyi_endpoints_skipped": ("gauge", "Endpoints of models that are skipped, having failed."),
    "jiyi_http_request_seconds": ("histogram", "Time from a request's head to its answer's last byte."),
}


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
            return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        told: dict[str, list[tuple[str, str, float]]] = {
            "jiyi_http_requests_in_hand": [("", "", self._in_hand)],
            "jiyi_endpoints_skipped": [("", "", len(skipped_endpoints()))],
            "jiyi_http_answers_total": [
                ("", f'method="{method}",route="{route}",status="{status}"', count)
                for (method, route, status), count in self._answers.items()
            ],
            "jiyi_http_request_seconds": list(self._histograms()),
        }
        for name, (kind, about) in _HEADS.items():
            yield f"# HELP {name} {about}"
            yield f"# TYPE {name} {kind}"
            for ending, labels, value in told[name]:
                yield f"{name}{ending}{{{labels}}} {value}" if labels else f"{name}{ending} {value}"

    def _histograms(self) -> Iterator[tuple[str, str, float]]:
        for (method, route), counts in self._within.items():
            labels, total = f'method="{method}",route="{route}"', 0
            for most, count in zip((*map(str, _SECONDS), "+Inf"), counts, strict=True):
                total += count
                yield "_bucket", f'{labels},le="{most}"', total
            yield "_sum", labels, self._sums[method, route]
            yield "_count", labels, total
