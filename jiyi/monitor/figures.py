"""The figures of the monitor: what it keeps of them, and the values it says them in."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import ceil, isfinite
from typing import Literal

from jiyi.errors import SettingsError
from jiyi.monitor.hits import Hits
from jiyi.monitor.usage import Usage
from jiyi.records import SECTIONS, Report, Section

__all__ = ["Alert", "Gauges", "Level", "Limits", "Ring", "Series", "Spread", "Thresholds"]

Level = Literal["warning", "critical"]
"""How much an alert matters."""

_SPREADS = (  # the fields of `Gauges` that are spreads
    "tokens",
    "share",
    "output_tokens",
    "output_share",
    "prompt_tokens",
    "cached_share",
    "milliseconds",
)
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
    summaries: int  # summaries triggered
    steps: int
    failed_steps: int
    tokens: Spread  # context length: tokens of a window
    share: Spread  # tokens of a window as a part of its input budget
    output_tokens: Spread  # output length: tokens of a reply
    output_share: Spread  # the same as a part of what was kept free for it, where something was
    prompt_tokens: Spread  # of what the model read, where its endpoint said
    cached_tokens: int  # of those, read from the endpoint's cache; summed over all
    cached_share: Spread  # the same as a part of a prompt, where the endpoint said
    milliseconds: Spread  # to build a window, where it was measured
    sections: Mapping[Section, int]  # tokens by section, summed over all windows
    saved: Mapping[str, int]  # tokens kept out by skills, tool outputs, ..., summed over all windows
    judged: int  # replies to windows with retrieved blocks that were compared with them
    blocks_shown: int  # retrieved blocks in those windows
    blocks_used: int  # those of them that the reply used
    hit_rate: float | None  # replies that used retrieved text, of those that were shown some
    block_rate: float | None  # retrieved blocks used, of those shown
    unjudged: int  # replies that left the waiting list before anyone asked for figures
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

    def amend(self, value: float, by: float) -> None:
        """Put another value in the place of the newest that is ``value``."""
        self.total += by - value
        for place in range(len(self._kept) - 1, -1, -1):
            if self._kept[place] == value:
                self._kept[place] = by
                return

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
        self._sections: dict[Section, int] = dict.fromkeys(SECTIONS, 0)
        self._saved: dict[str, int] = {}
        self._cached_tokens = self._judged = self._shown = self._used = 0
        self.summaries = self.steps = self.failed_steps = self.unjudged = 0
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
        for what, tokens in report.saved.items():
            self._saved[what] = self._saved.get(what, 0) + tokens

    def reply(self, tokens: int, reserve: int) -> None:
        """Take a reply in; ``reserve`` is what its window kept free for it, 0 for nothing."""
        self._rings["output_tokens"].add(tokens)
        if reserve:
            self._rings["output_share"].add(tokens / reserve)

    def amend_reply(self, tokens: int, by: int, reserve: int) -> None:
        """Put what the endpoint counted in the place of what was counted here."""
        self._rings["output_tokens"].amend(tokens, by)
        if reserve:
            self._rings["output_share"].amend(tokens / reserve, by / reserve)

    def used_up(self, usage: Usage) -> None:
        """Take in what the endpoint counted of the prompt."""
        if usage.prompt_tokens is not None:
            self._rings["prompt_tokens"].add(usage.prompt_tokens)
        if usage.cached_tokens is not None:
            self._cached_tokens += usage.cached_tokens
            if usage.prompt_tokens:
                self._rings["cached_share"].add(usage.cached_tokens / usage.prompt_tokens)

    def judged(self, hits: Hits) -> None:
        """Take in what became of the retrieved blocks of one window."""
        if hits.blocks:
            self._judged += 1
            self._shown += len(hits.blocks)
            self._used += hits.used
            self._hits.append((len(hits.blocks), hits.used))

    def gauges(self, task_type: str | None, scores: Sequence[float], drifting: int) -> Gauges:
        """Return the figures; the drift of the runs is known elsewhere."""
        shown, used = sum(s for s, _ in self._hits), sum(u for _, u in self._hits)
        helped = sum(u > 0 for _, u in self._hits)
        return Gauges(
            task_type=task_type,
            windows=self._rings["tokens"].count,
            replies=self._rings["output_tokens"].count,
            summaries=self.summaries,
            steps=self.steps,
            failed_steps=self.failed_steps,
            cached_tokens=self._cached_tokens,
            sections=dict(self._sections),
            saved=dict(self._saved),
            judged=self._judged,
            blocks_shown=self._shown,
            blocks_used=self._used,
            hit_rate=helped / len(self._hits) if self._hits else None,
            block_rate=used / shown if shown else None,
            unjudged=self.unjudged,
            drift=sum(scores) / len(scores) if scores else None,
            drifting=drifting,
            **{name: ring.spread() for name, ring in self._rings.items()},
        )


def _rank(values: Sequence[float], part: float) -> float:
    """Return the value of nearest rank in sorted values (Hyndman and Fan 1996, definition 1)."""
    return values[max(ceil(part * len(values)), 1) - 1]
