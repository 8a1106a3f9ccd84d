"""From figures to alerts: what is wrong, and what to do about it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import ceil

from jiyi.monitor.drift import Drift
from jiyi.monitor.gauges import Alert, Gauges, Level, Limits, Thresholds
from jiyi.monitor.sessions import SessionKey

__all__ = ["find_alerts"]


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
        some = _of_run(session, kind, drift, thresholds)
        found += [replace(alert, user_id=user) for alert in some]
    return tuple(sorted(found, key=lambda alert: alert.level != "critical"))


def _of_figures(gauges: Gauges, limits: Thresholds) -> Iterator[Alert]:
    if gauges.windows >= limits.fewest:
        yield from _of_windows(gauges, limits)
    if gauges.milliseconds.count >= limits.fewest:
        value = gauges.milliseconds.p95
        text = (
            f"one window in 20 takes {value:.0f} ms to build or longer: look at the reranker, a remote "
            "embedder and the size of the database first"
        )
        yield from _past("milliseconds", value, limits.milliseconds, text, kind=gauges.task_type)
    if gauges.output_share.count >= limits.fewest:
        value = gauges.output_share.p95
        enough = max(gauges.output_reserve, ceil(gauges.output_tokens.p95))
        text = (
            f"one reply in 20 takes {value:.0%} or more of the tokens kept free for it, and may be cut "
            f"off: set max_output_tokens to {enough} or more"
        )
        yield from _past("output_share", value, limits.output_share, text, kind=gauges.task_type)
    if gauges.hit_rate is not None and gauges.judged >= limits.fewest:
        text = (
            f"only {gauges.hit_rate:.0%} of the replies used what was recalled: give the retrieved sections "
            "a smaller share, add a reranker, or look at what the searches bring"
        )
        yield from _past("hit_rate", gauges.hit_rate, limits.hit_rate, text, kind=gauges.task_type, low=True)


def _of_windows(gauges: Gauges, limits: Thresholds) -> Iterator[Alert]:
    value = gauges.share.p50
    text = (
        f"half of the windows take {value:.0%} of their budget or more, and the rest is left out: look at "
        "report.left_out, raise max_input_tokens, or summarise the history earlier"
    )
    yield from _past("context_share", value, limits.context_share, text, kind=gauges.task_type)
    text = (
        f"{gauges.summaries} summaries for {gauges.windows} windows: each costs time and detail; give "
        "history a larger share, or let the summary start later"
    )
    yield from _past("summaries", gauges.summary_rate, limits.summaries, text, kind=gauges.task_type)


def _of_run(session: str, kind: str, drift: Drift, limits: Thresholds) -> Iterator[Alert]:
    name = f"the run {session!r}" if session else "the run"
    if drift.failures >= limits.failures.warning:
        text = (
            f"{name} repeats what fails ({drift.why}): stop it, or show the model the error and ask for "
            "another way"
        )
        yield from _past("failures", drift.failures, limits.failures, text, kind=kind, session=session)
    elif drift.drifting:
        text = (
            f"{name} moves away from its request ({drift.why}): put the request before the model again, "
            "or start anew with a handover"
        )
        yield from _past("drift", drift.score, limits.drift, text, kind=kind, session=session)


def _past(
    name: str,
    value: float,
    limits: Limits,
    text: str,
    *,
    kind: str | None,
    session: str = "",
    low: bool = False,
) -> Iterator[Alert]:
    """Yield the alert where the value is at a limit or past it; with ``low`` that is below."""
    steps: tuple[tuple[Level, float], ...] = (("critical", limits.critical), ("warning", limits.warning))
    for level, limit in steps:
        if value <= limit if low else value >= limit:
            yield Alert(
                name=name,
                level=level,
                value=value,
                threshold=limit,
                text=text,
                task_type=kind or "",
                session_id=session,
            )
            return
