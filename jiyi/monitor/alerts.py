"""From figures to alerts: what is wrong, and what to do about it."""

from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from typing import Any

from jiyi.monitor.drift import Drift
from jiyi.monitor.figures import Alert, Gauges, Level, Thresholds
from jiyi.monitor.sessions import SessionKey

__all__ = ["find_alerts"]

_TEXTS = {  # by field of `Thresholds`
    "context_share": "half of the windows take {value:.0%} of their budget or more, and the rest is left "
    "out: look at report.left_out, raise max_input_tokens, or summarise the history earlier",
    "summaries": "{summaries} summaries for {windows} windows: each costs time and detail; give history a "
    "larger share, or let the summary start later",
    "milliseconds": "one window in 20 takes {value:.0f} ms to build or longer: look at the reranker, a "
    "remote embedder and the size of the database first",
    "output_share": "one reply in 20 takes {value:.0%} or more of the tokens kept free for it, and may be "
    "cut off: set max_output_tokens to {enough} or more",
    "hit_rate": "only {value:.0%} of the replies used what was recalled: give the retrieved sections a "
    "smaller share, add a reranker, or look at what the searches bring",
    "failures": "{run} repeats what fails ({why}): stop it, or show the model the error and ask for "
    "another way",
    "drift": "{run} moves away from its request ({why}): put the request before the model again, or start "
    "anew with a handover",
}
_LOW = ("hit_rate",)  # figures that are worse the lower they are


def find_alerts(
    gauges: Iterable[Gauges], runs: Mapping[SessionKey, tuple[str, Drift]], thresholds: Thresholds
) -> tuple[Alert, ...]:
    """Return what passed a threshold, the critical first.

    Args:
        gauges: figures, each task type by itself.
        runs: task type and drift by session.
        thresholds: the limits; figures of fewer than ``fewest`` windows or replies are
            passed over.
    """
    found = [alert for one in gauges for alert in _of_figures(one, thresholds)]
    for (user, session), (kind, drift) in runs.items():
        whose = {"task_type": kind, "session_id": session, "user_id": user}
        found += _of_run(drift, thresholds, whose)
    return tuple(sorted(found, key=lambda alert: alert.level != "critical"))


def _of_figures(gauges: Gauges, limits: Thresholds) -> Iterator[Alert]:
    figures = (  # each with how many values it rests on
        ("context_share", gauges.share.p50, gauges.windows),
        ("summaries", gauges.summary_rate, gauges.windows),
        ("milliseconds", gauges.milliseconds.p95, gauges.milliseconds.count),
        ("output_share", gauges.output_share.p95, gauges.output_share.count),
        ("hit_rate", gauges.hit_rate or 0.0, gauges.judged),
    )
    words = {
        "summaries": gauges.summaries,
        "windows": gauges.windows,
        "enough": max(gauges.output_reserve, ceil(gauges.output_tokens.p95)),
    }
    for name, value, count in figures:
        if count >= limits.fewest:
            yield from _past(name, value, limits, words, {"task_type": gauges.task_type or ""})


def _of_run(drift: Drift, limits: Thresholds, whose: Mapping[str, str]) -> Iterator[Alert]:
    session = whose["session_id"]
    words = {"run": f"the run {session!r}" if session else "the run", "why": drift.why}
    if drift.failures >= limits.failures.warning:
        yield from _past("failures", drift.failures, limits, words, whose)
    elif drift.drifting:
        yield from _past("drift", drift.score, limits, words, whose)


def _past(
    name: str, value: float, limits: Thresholds, words: Mapping[str, Any], whose: Mapping[str, str]
) -> Iterator[Alert]:
    """Yield the alert where the value is at a limit or past it, the critical limit before the other."""
    limit = getattr(limits, name)
    steps: tuple[tuple[Level, float], ...] = (("critical", limit.critical), ("warning", limit.warning))
    for level, threshold in steps:
        if value <= threshold if name in _LOW else value >= threshold:
            text = _TEXTS[name].format(value=value, **words)
            yield Alert(name=name, level=level, value=value, threshold=threshold, text=text, **whose)
            return
