"""The figures of the monitor: what it keeps of them, and the values it says them in."""

import tomllib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from math import ceil, isfinite
from typing import Any, Literal

from jiyi.errors import InputError, SettingsError
from jiyi.monitor.drift import Drift
from jiyi.monitor.hits import Hits
from jiyi.records import SECTIONS, Report, Section

__all__ = [
    "Alert",
    "Gauges",
    "Level",
    "Limits",
    "Ring",
    "Series",
    "SessionKey",
    "Spread",
    "Thresholds",
    "Usage",
    "find_alerts",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call of a model, as its endpoint counted; None where it did not say.

    Raises:
        InputError: a number is none, or below 0; or more was cached than asked.
    """

    prompt_tokens: int | None = None  # of what the model read
    completion_tokens: int | None = None  # of what it wrote, thoughts included
    cached_tokens: int | None = None  # of the prompt, those the endpoint had read before

    def __post_init__(self) -> None:
        """Refuse what can be no count."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and (type(value) is not int or value < 0):
                raise InputError(f"{field.name}={value!r} must be a whole number of at least 0")
        if self.cached_tokens and self.prompt_tokens is not None and self.cached_tokens > self.prompt_tokens:
            raise InputError(
                f"{self.cached_tokens} cached tokens are more than the prompt's {self.prompt_tokens}"
            )

    @classmethod
    def of(cls, given: object) -> "Usage":
        """Return the ``usage`` of a chat completion: an object of the package `openai` or the same as a dict.

        A `Usage` is returned as it is.

        Raises:
            InputError: it names neither ``prompt_tokens`` nor ``completion_tokens``, or no counts.
        """
        if isinstance(given, cls):
            return given
        prompt, written = _part(given, "prompt_tokens"), _part(given, "completion_tokens")
        if prompt is None and written is None:
            raise InputError(
                f"no usage of a model: {type(given).__name__} without prompt_tokens and completion_tokens; "
                "give Usage(...), or what the endpoint answered as usage"
            )
        cached = _part(_part(given, "prompt_tokens_details"), "cached_tokens")
        return cls(prompt_tokens=prompt, completion_tokens=written, cached_tokens=cached)


def _part(given: object, name: str) -> Any:
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)


SessionKey = tuple[str, str]
"""Whose session, and which: sessions of two users may share an id."""

Level = Literal["warning", "critical"]
"""How much an alert matters."""

_LOW = ("hit_rate",)  # figures that are worse the lower they are
_RESERVE = 1.5  # what is kept free for a reply, as a multiple of the mean reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How the values of one figure lie. Percentiles are by nearest rank: a value that occurred."""

    count: int = 0  # values since the start
    total: float = 0  # their sum since the start
    mean: float = 0.0  # of the values kept; 0 where there are none, here and below
    p50: float = 0.0  # half of the values kept are at most this
    p95: float = 0.0  # 95 of 100 values kept are at most this
    largest: float = 0.0  # of the values kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """The figures of one task type, or of all together.

    Counts and sums are of everything since the start or the last `reset`; means,
    percentiles and rates are of the newest values, as many as the monitor keeps.
    """

    task_type: str | None  # None: all together
    windows: int  # built
    replies: int
    summaries: int = 0  # summaries triggered
    steps: int = 0
    failed_steps: int = 0
    tokens: Spread  # context length: tokens of a window
    share: Spread  # tokens of a window as a part of its input budget
    output_tokens: Spread  # output length: tokens of a reply
    output_share: Spread  # the same as a part of what was kept free for it, where something was
    prompt_tokens: Spread  # of what the model read, where its endpoint said
    cached_tokens: int = 0  # of those, read from the endpoint's cache; summed over all
    cached_share: Spread  # the same as a part of a prompt, where the endpoint said
    milliseconds: Spread  # to build a window, where it was measured
    sections: Mapping[Section, int]  # tokens by section, summed over all windows
    saved: Mapping[str, int]  # tokens kept out by skills, tool outputs, ..., summed over all windows
    judged: int = 0  # replies to windows with retrieved blocks that were compared with them
    blocks_shown: int = 0  # retrieved blocks in those windows
    blocks_used: int = 0  # those of them that the reply used
    hit_rate: float | None  # replies that used retrieved text, of those that were shown some
    block_rate: float | None  # retrieved blocks used, of those shown
    unjudged: int = 0  # replies that left the waiting list before anyone asked for figures
    drift: float | None  # mean score of the active runs; None where there are none
    drifting: int  # active runs that drift

    @property
    def output_reserve(self) -> int:
        """Tokens to keep free for a reply: 1.5 times the mean reply, rounded up; 0 without replies."""
        return ceil(_RESERVE * self.output_tokens.mean)

    @property
    def summary_rate(self) -> float:
        """Summaries for each window."""
        return self.summaries / self.windows if self.windows else 0.0


_SPREADS = tuple(field.name for field in fields(Gauges) if field.type is Spread)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Two steps of one threshold."""

    warning: float  # worth a look
    critical: float  # worth doing something now


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """When the monitor speaks up.

    Raises:
        SettingsError: a limit is not a number, or the critical one is reached before the
            warning; or ``fewest`` is below 1.
    """

    context_share: Limits = Limits(warning=0.95, critical=0.99)  # median window / input budget, at least
    output_share: Limits = Limits(warning=0.8, critical=1.0)  # p95 reply / its reserve, at least
    summaries: Limits = Limits(warning=0.2, critical=0.5)  # summaries for each window, at least
    hit_rate: Limits = Limits(warning=0.3, critical=0.1)  # replies that used what was recalled, at most
    milliseconds: Limits = Limits(warning=500.0, critical=2000.0)  # p95 of building a window, at least
    drift: Limits = Limits(warning=0.7, critical=0.9)  # score of a run, at least
    failures: Limits = Limits(warning=3, critical=5)  # of the same step in a run, at least
    fewest: int = 20  # windows or replies before anything is said about them

    def __post_init__(self) -> None:
        """Refuse limits that cannot be meant."""
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, Limits):
                continue
            if not (isfinite(value.warning) and isfinite(value.critical)):
                raise SettingsError(f"the limits of {field.name} must be finite numbers")
            low, high = sorted((value.warning, value.critical))
            if (value.warning, value.critical) != ((high, low) if field.name == "hit_rate" else (low, high)):
                raise SettingsError(
                    f"{field.name} would be critical before it warns: swap {value.critical:g} and "
                    f"{value.warning:g}"
                )
        if self.fewest < 1:
            raise SettingsError(f"fewest must be at least 1, not {self.fewest}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One figure that passed its threshold."""

    name: str  # the field of `Thresholds`
    level: Level
    value: float  # what it is
    threshold: float  # what it passed
    text: str  # what is wrong and what to do, in plain words
    task_type: str = ""  # whose figures
    session_id: str = ""  # the run, where it is about one
    user_id: str = ""  # whose run


def find_alerts(
    gauges: Iterable[Gauges], runs: Mapping[SessionKey, tuple[str, Drift]], thresholds: Thresholds
) -> tuple[Alert, ...]:
    """Return what passed a threshold, the critical first; `runs` are task type and drift by session.

    Figures of fewer than ``fewest`` windows or replies are passed over.
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
            text = _texts()[name].format(value=value, **words)
            yield Alert(name=name, level=level, value=value, threshold=threshold, text=text, **whose)
            return


@cache
def _texts() -> Mapping[str, str]:
    return tomllib.loads((files("jiyi.monitor") / "alerts.toml").read_text("utf-8"))


class Ring:
    """The newest values of a figure, and the number and sum of all there were."""

    __slots__ = ("_kept", "count", "total")

    def __init__(self, keep: int) -> None:
        self._kept: deque[float] = deque(maxlen=keep)
        self.count = 0
        self.total: float = 0

    def add(self, value: float) -> None:
        """Take a value in; the oldest leaves where there is no more room."""
        self._kept.append(value)
        self.count += 1
        self.total += value

    def spread(self) -> Spread:
        """Return how the values lie; exact for those that are kept."""
        values = sorted(self._kept)
        if not values:
            return Spread(count=self.count, total=self.total)
        return Spread(
            count=self.count,
            total=self.total,
            mean=sum(values) / len(values),
            p50=_rank(values, 0.5),
            p95=_rank(values, 0.95),
            largest=values[-1],
        )


class Series:
    """The figures of one task type. Not safe to share between threads by itself."""

    def __init__(self, keep: int) -> None:
        self._rings = {name: Ring(keep) for name in _SPREADS}
        self.counts: Counter[str] = Counter()  # those of `Gauges` that are sums
        self._sections: dict[Section, int] = dict.fromkeys(SECTIONS, 0)
        self._saved: Counter[str] = Counter()
        self._hits: deque[tuple[int, int]] = deque(maxlen=keep)  # blocks shown and used, by reply

    def window(self, report: Report, milliseconds: float | None) -> None:
        """Take a window in."""
        self._rings["tokens"].add(report.tokens)
        self._rings["share"].add(report.tokens / report.budget.max_input_tokens)
        if milliseconds is not None:
            self._rings["milliseconds"].add(milliseconds)
        for name, tokens in report.sections.items():
            if tokens:
                self._sections[name] += tokens
        self._saved.update(report.saved)

    def reply(self, tokens: int, reserve: int) -> None:
        """Take a reply in; ``reserve`` is what its window kept free for it, 0 for nothing."""
        self._rings["output_tokens"].add(tokens)
        if reserve:
            self._rings["output_share"].add(tokens / reserve)

    def used_up(self, usage: Usage) -> None:
        """Take in what the endpoint counted of the prompt."""
        if usage.prompt_tokens is not None:
            self._rings["prompt_tokens"].add(usage.prompt_tokens)
        if usage.cached_tokens is not None:
            self.counts["cached_tokens"] += usage.cached_tokens
            if usage.prompt_tokens:
                self._rings["cached_share"].add(usage.cached_tokens / usage.prompt_tokens)

    def judged(self, hits: Hits) -> None:
        """Take in what became of the retrieved blocks of one window."""
        if hits.blocks:
            self.counts["judged"] += 1
            self.counts["blocks_shown"] += len(hits.blocks)
            self.counts["blocks_used"] += hits.used
            self._hits.append((len(hits.blocks), hits.used))

    def gauges(self, task_type: str | None, scores: Sequence[float], drifting: int) -> Gauges:
        """Return the figures; the drift of the runs is known elsewhere."""
        shown, used = sum(s for s, _ in self._hits), sum(u for _, u in self._hits)
        helped = sum(u > 0 for _, u in self._hits)
        kept: dict[str, Any] = {**self.counts, **{name: ring.spread() for name, ring in self._rings.items()}}
        return Gauges(
            task_type=task_type,
            windows=self._rings["tokens"].count,
            replies=self._rings["output_tokens"].count,
            sections=dict(self._sections),
            saved=dict(self._saved),
            hit_rate=helped / len(self._hits) if self._hits else None,
            block_rate=used / shown if shown else None,
            drift=sum(scores) / len(scores) if scores else None,
            drifting=drifting,
            **kept,
        )


def _rank(values: Sequence[float], part: float) -> float:
    """Return the value of nearest rank in sorted values (Hyndman and Fan 1996, definition 1)."""
    return values[max(ceil(part * len(values)), 1) - 1]
