"""The newest values of each figure and the sums of all: bounded, whatever comes."""

from collections import deque
from collections.abc import Iterable, Sequence
from math import ceil

from jiyi.monitor.gauges import Gauges, Spread
from jiyi.monitor.hits import Hits
from jiyi.monitor.usage import Usage
from jiyi.records import SECTIONS, Report, Section

__all__ = ["Ring", "Series", "spread_of"]


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
        """Return how the values lie."""
        return spread_of(self._kept, self.count, self.total)


def spread_of(kept: Iterable[float], count: int, total: float) -> Spread:
    """Return how values lie; exact for those that are kept."""
    values = sorted(kept)
    if not values:
        return Spread(count=count, total=total)
    return Spread(
        count=count,
        total=total,
        mean=sum(values) / len(values),
        p50=_rank(values, 0.5),
        p95=_rank(values, 0.95),
        largest=values[-1],
    )


class Series:
    """The figures of one task type. Not safe to share between threads by itself."""

    def __init__(self, keep: int) -> None:
        self.tokens, self.share, self.milliseconds = Ring(keep), Ring(keep), Ring(keep)
        self.output_tokens, self.output_share = Ring(keep), Ring(keep)
        self.prompt_tokens, self.cached_share = Ring(keep), Ring(keep)
        self.cached_tokens = 0
        self.sections: dict[Section, int] = dict.fromkeys(SECTIONS, 0)
        self.saved: dict[str, int] = {}
        self.summaries = self.steps = self.failed_steps = self.unjudged = self.shown = self.used = 0
        self.judgements = 0
        self._hits: deque[tuple[int, int]] = deque(maxlen=keep)  # blocks shown and used, by reply

    def window(self, report: Report, milliseconds: float | None) -> None:
        """Take a window in."""
        self.tokens.add(report.tokens)
        self.share.add(report.tokens / report.budget.max_input_tokens)
        if milliseconds is not None:
            self.milliseconds.add(milliseconds)
        for name, tokens in report.sections.items():
            if tokens:
                self.sections[name] += tokens
        for what, tokens in report.saved.items():
            self.saved[what] = self.saved.get(what, 0) + tokens

    def reply(self, tokens: int, reserve: int) -> None:
        """Take a reply in; ``reserve`` is what its window kept free for it, 0 for nothing."""
        self.output_tokens.add(tokens)
        if reserve:
            self.output_share.add(tokens / reserve)

    def amend_reply(self, tokens: int, by: int, reserve: int) -> None:
        """Put what the endpoint counted in the place of what was counted here."""
        self.output_tokens.amend(tokens, by)
        if reserve:
            self.output_share.amend(tokens / reserve, by / reserve)

    def used_up(self, usage: Usage) -> None:
        """Take in what the endpoint counted of the prompt."""
        if usage.prompt_tokens is not None:
            self.prompt_tokens.add(usage.prompt_tokens)
        if usage.cached_tokens is not None:
            self.cached_tokens += usage.cached_tokens
            if usage.prompt_tokens:
                self.cached_share.add(usage.cached_tokens / usage.prompt_tokens)

    def judged(self, hits: Hits) -> None:
        """Take in what became of the retrieved blocks of one window."""
        if hits.blocks:
            self.judgements += 1
            self.shown += len(hits.blocks)
            self.used += hits.used
            self._hits.append((len(hits.blocks), hits.used))

    def gauges(self, task_type: str | None, scores: Sequence[float], drifting: int) -> Gauges:
        """Return the figures; the drift of the runs is known elsewhere."""
        shown, used = sum(s for s, _ in self._hits), sum(u for _, u in self._hits)
        helped = sum(u > 0 for _, u in self._hits)
        return Gauges(
            task_type=task_type,
            windows=self.tokens.count,
            replies=self.output_tokens.count,
            summaries=self.summaries,
            steps=self.steps,
            failed_steps=self.failed_steps,
            tokens=self.tokens.spread(),
            share=self.share.spread(),
            output_tokens=self.output_tokens.spread(),
            output_share=self.output_share.spread(),
            prompt_tokens=self.prompt_tokens.spread(),
            cached_tokens=self.cached_tokens,
            cached_share=self.cached_share.spread(),
            milliseconds=self.milliseconds.spread(),
            sections=dict(self.sections),
            saved=dict(self.saved),
            judged=self.judgements,
            blocks_shown=self.shown,
            blocks_used=self.used,
            hit_rate=helped / len(self._hits) if self._hits else None,
            block_rate=used / shown if shown else None,
            unjudged=self.unjudged,
            drift=sum(scores) / len(scores) if scores else None,
            drifting=drifting,
        )


def _rank(values: Sequence[float], part: float) -> float:
    """Return the value of nearest rank in sorted values (Hyndman and Fan 1996, definition 1)."""
    return values[max(ceil(part * len(values)), 1) - 1]
