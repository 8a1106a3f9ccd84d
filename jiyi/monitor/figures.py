"""The figures of the monitor: the values it returns, and the series it keeps."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from math import ceil, isfinite
from typing import Any, Literal

from jiyi.errors import InputError, SettingsError
from jiyi.monitor.drift import Drift
from jiyi.monitor.hits import Hits
from jiyi.records import SECTIONS, Section
from jiyi.text.lexicon import read_toml

__all__ = [
    "RESERVE_FACTOR", "Alert", "Gauges", "Level", "Limits", "RecentValues", "Series", "SessionKey", "Spread",
    "Thresholds", "Usage", "find_alerts",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call of a model as its endpoint counted them; None where it did not.

    InputError: a number is no whole number or below 0, or more is cached than in the prompt.
    """

    prompt_tokens: int | None = None  # of what the model read
    completion_tokens: int | None = None  # written by it, including thoughts
    cached_tokens: int | None = None  # of the prompt, from the cache of the endpoint

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and (type(value) is not int or value < 0):
                raise InputError(f"{field.name}={value!r} must be a whole number of at least 0")
        prompt, cached = self.prompt_tokens, self.cached_tokens
        if cached and prompt is not None and cached > prompt:
            raise InputError(f"{cached} cached tokens are more than the prompt's {prompt}")

    @classmethod
    def of(cls, given: object) -> "Usage":
        """Convert the ``usage`` of a chat completion: a `Usage`, an object of the package `openai` or a dict.

        InputError: it has neither ``prompt_tokens`` nor ``completion_tokens``, or invalid counts.
        """
        if isinstance(given, cls):
            return given
        prompt, completion = _field(given, "prompt_tokens"), _field(given, "completion_tokens")
        if prompt is None and completion is None:
            what = f"{type(given).__name__} without prompt_tokens and completion_tokens"
            advice = "give Usage(...), or what the endpoint answered as usage"
            raise InputError(f"no usage of a model: {what}; {advice}")
        cached = _field(_field(given, "prompt_tokens_details"), "cached_tokens")
        return cls(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached)


def _field(given: object, name: str) -> Any:
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)


SessionKey = tuple[str, str]
"""User and session: sessions of two users may share an id."""

Level = Literal["warning", "critical"]
"""The severity of an alert."""

_LOWER_IS_WORSE = ("hit_rate",)  # figures with a lower limit
RESERVE_FACTOR = 1.5  # tokens to keep free for a reply, as a multiple of the mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The distribution of one figure. Percentiles are by nearest rank: a value that occurred."""

    count: int = 0  # values since the start
    total: float = 0  # their sum since the start
    mean: float = 0.0  # of the values kept, 0 without any, here and below
    p50: float = 0.0  # half of the values kept are at most this
    p95: float = 0.0  # 95 of 100 values kept are at most this
    largest: float = 0.0  # of the values kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """The figures of one task type, or of all together, as `ContextMonitor` keeps them."""

    task_type: str | None  # None: all together
    windows: int  # built
    replies: int
    summaries: int = 0  # summaries triggered
    steps: int = 0
    failed_steps: int = 0
    tokens: Spread  # context length: tokens of a window
    share: Spread  # tokens of a window as a part of its input budget
    output_tokens: Spread  # output length: tokens of a reply
    output_share: Spread  # as a part of the tokens kept free for it, if any were
    prompt_tokens: Spread  # of the prompt, if the endpoint counted them
    cached_tokens: int = 0  # of those, from the cache of the endpoint; summed
    cached_share: Spread  # as a part of the prompt, if the endpoint counted them
    milliseconds: Spread  # to build a window, if measured
    sections: Mapping[Section, int]  # tokens by section, summed over all windows
    saved: Mapping[str, int]  # tokens kept out by skills, tool outputs, ..., summed over all windows
    judged: int = 0  # replies that were compared with their retrieved blocks
    blocks_shown: int = 0  # retrieved blocks in those windows
    blocks_used: int = 0  # of those, used by the reply
    hit_rate: float | None  # of replies to windows with retrieved blocks, those that used any
    block_rate: float | None  # of retrieved blocks shown, those used
    unjudged: int = 0  # replies dropped before figures were read
    drift: float | None  # mean score of the active runs, None without any
    drifting: int  # active runs that drift

    @property
    def output_reserve(self) -> int:
        """Tokens to keep free for a reply: 1.5 times the mean reply, rounded up; 0 without replies."""
        return ceil(RESERVE_FACTOR * self.output_tokens.mean)

    @property
    def summary_rate(self) -> float:
        """Summaries per window."""
        return self.summaries / self.windows if self.windows else 0.0


_SPREAD_FIELDS = tuple(field.name for field in fields(Gauges) if field.type is Spread)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The two limits of a threshold."""

    warning: float  # reached: have a look
    critical: float  # reached: act now


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The limits from which the monitor alerts.

    SettingsError: a limit is not finite, the critical one is reached before the warning, or ``fewest`` is
    below 1.
    """

    context_share: Limits = Limits(warning=0.95, critical=0.99)  # median window / input budget, at least
    output_share: Limits = Limits(warning=0.8, critical=1.0)  # p95 reply / its reserve, at least
    summaries: Limits = Limits(warning=0.2, critical=0.5)  # summaries for each window, at least
    hit_rate: Limits = Limits(warning=0.3, critical=0.1)  # replies that used what was recalled, at most
    milliseconds: Limits = Limits(warning=500.0, critical=2000.0)  # p95 of building a window, at least
    drift: Limits = Limits(warning=0.7, critical=0.9)  # score of a run, at least
    failures: Limits = Limits(warning=3, critical=5)  # of the same step in a run, at least
    fewest: int = 20  # windows or replies needed for an alert

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self) if field.name != "fewest"):
            warning, critical = getattr(self, name).warning, getattr(self, name).critical
            if not (isfinite(warning) and isfinite(critical)):
                raise SettingsError(f"the limits of {name} must be finite numbers")
            if (critical > warning) if name in _LOWER_IS_WORSE else (critical < warning):
                raise SettingsError(f"{name} is critical before it warns: swap {critical:g} and {warning:g}")
        if self.fewest < 1:
            raise SettingsError(f"fewest must be at least 1, not {self.fewest}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A figure that passed a threshold."""

    name: str  # the field of `Thresholds`
    level: Level
    value: float  # of the figure
    threshold: float  # the limit it passed
    text: str  # what is wrong and what to do
    task_type: str = ""  # of the figures
    session_id: str = ""  # of the run, if it is about one
    user_id: str = ""  # of the run


def find_alerts(
    gauges: Iterable[Gauges], runs: Mapping[SessionKey, tuple[str, Drift]], thresholds: Thresholds
) -> tuple[Alert, ...]:
    """Return the alerts, critical ones first; `runs` are task type and drift by session."""
    alerts = [alert for figures in gauges for alert in _figure_alerts(figures, thresholds)]
    for (user, session), (task_type, drift) in runs.items():
        source = {"task_type": task_type, "session_id": session, "user_id": user}
        details = {"run": f"the run {session!r}" if session else "the run", "why": drift.why}
        failing = drift.failures >= thresholds.failures.warning
        if failing or drift.drifting:
            name, value = ("failures", drift.failures) if failing else ("drift", drift.score)
            alerts += _threshold_alert(name, value, thresholds, details, source)
    return tuple(sorted(alerts, key=lambda alert: alert.level != "critical"))


def _figure_alerts(gauges: Gauges, limits: Thresholds) -> Iterator[Alert]:
    figures = (  # with the number of their values
        ("context_share", gauges.share.p50, gauges.windows),
        ("summaries", gauges.summary_rate, gauges.windows),
        ("milliseconds", gauges.milliseconds.p95, gauges.milliseconds.count),
        ("output_share", gauges.output_share.p95, gauges.output_share.count),
        ("hit_rate", gauges.hit_rate or 0.0, gauges.judged),
    )
    enough = max(gauges.output_reserve, ceil(gauges.output_tokens.p95))
    details = {"summaries": gauges.summaries, "windows": gauges.windows, "enough": enough}
    for name, value, count in figures:
        if count >= limits.fewest:
            yield from _threshold_alert(name, value, limits, details, {"task_type": gauges.task_type or ""})


def _threshold_alert(
    name: str, value: float, limits: Thresholds, details: Mapping[str, Any], source: Mapping[str, str]
) -> Iterator[Alert]:
    """Yield the alert of a value at or past a limit, critical before warning."""
    limit = getattr(limits, name)
    steps: tuple[tuple[Level, float], ...] = (("critical", limit.critical), ("warning", limit.warning))
    for level, threshold in steps:
        if value <= threshold if name in _LOWER_IS_WORSE else value >= threshold:
            text = _alert_texts()[name].format(value=value, **details)
            yield Alert(name=name, level=level, value=value, threshold=threshold, text=text, **source)
            return


_alert_texts = cache(partial(read_toml, __package__, "alerts"))


class RecentValues:
    """The newest values of a figure, and the number and sum of all values."""

    def __init__(self, keep: int) -> None:
        self._values: deque[float] = deque(maxlen=keep)
        self.count = 0
        self.total: float = 0

    def add(self, value: float) -> None:
        """Add a value, which may displace the oldest."""
        self._values.append(value)
        self.count += 1
        self.total += value

    def spread(self) -> Spread:
        """Return the distribution of the newest values (Hyndman and Fan 1996, definition 1)."""
        values = sorted(self._values)
        if not values:
            return Spread(count=self.count, total=self.total)
        p50, p95 = (values[ceil(fraction * len(values)) - 1] for fraction in (0.5, 0.95))
        mean = sum(values) / len(values)
        return Spread(count=self.count, total=self.total, mean=mean, p50=p50, p95=p95, largest=values[-1])


class Series:
    """The series of one task type. Not safe to share between threads."""

    def __init__(self, keep: int) -> None:
        self._values = {name: RecentValues(keep) for name in _SPREAD_FIELDS}
        self.counts: Counter[str] = Counter()  # fields of `Gauges` that are sums
        self.sections: Counter[Section] = Counter(dict.fromkeys(SECTIONS, 0))
        self.saved: Counter[str] = Counter()
        self.hits: deque[Hits] = deque(maxlen=keep)

    def add(self, values: Mapping[str, float | None]) -> None:
        """Add a value of each of some `Spread` fields of `Gauges`; None is not known."""
        for name, value in values.items():
            if value is not None:
                self._values[name].add(value)

    def gauges(self, task_type: str | None, runs: Sequence[Drift]) -> Gauges:
        """Return the figures, with the given active runs."""
        shown, used = sum(len(hits.blocks) for hits in self.hits), sum(hits.used for hits in self.hits)
        figures: dict[str, Any] = {name: values.spread() for name, values in self._values.items()}
        return Gauges(
            task_type=task_type,
            windows=self._values["tokens"].count,
            replies=self._values["output_tokens"].count,
            sections=dict(self.sections),
            saved=dict(self.saved),
            hit_rate=sum(hits.used > 0 for hits in self.hits) / len(self.hits) if self.hits else None,
            block_rate=used / shown if shown else None,
            drift=sum(run.score for run in runs) / len(runs) if runs else None,
            drifting=sum(run.drifting for run in runs),
            **figures | self.counts,
        )
