"""The running summary: when older messages are folded into it, and which."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from jiyi.compression.compressor import Compressed
from jiyi.compression.compressor import Given as Texts
from jiyi.compression.summarize import Summarize
from jiyi.errors import BadBudget, LLMError, SettingsError
from jiyi.records import Message, Summary, check_tokens
from jiyi.short_term.policies import SlidingWindow
from jiyi.short_term.policy import (
    Candidates,
    Dropped,
    Kept,
    MessageLike,
    accept_dicts,
    as_messages,
    check_count,
    smaller_limit,
)
from jiyi.text import TokenCounter, counter_for, language

__all__ = ["Folded", "RunningSummary", "Summarized", "Summarizer"]

_MESSAGES_WITHOUT_TOKENS = 10  # fold above so many messages by default, if there is no token limit
_MESSAGES_WITH_TOKENS = 50  # and with a token limit
_FOLDED_REASON = "goes into the summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarized:
    """A summary and the messages it covers, from which a stored `Summary` is made."""

    text: str  # the summary
    covers: tuple[str, ...]  # ids of the messages folded in since the previous summary, in order
    upto_seq: int | None  # the highest place of a message folded in so far; None if they are unsaved
    method: Literal["extractive", "llm"]  # who wrote it
    language: Literal["zh", "en", ""] = ""  # of the text
    tokens: int = 0  # of the text


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """The result of folding. ``kept`` and ``dropped`` together are the input."""

    kept: tuple[Any, ...]  # the messages or dicts that stay, as given
    summary: Summarized | Summary | None  # the new one; the previous one if nothing was folded
    dropped: tuple[Dropped, ...]  # those folded, and broken ones, which are in no summary
    trigger: str = ""  # why it was time to fold; "" if it was not
    note: str = ""  # a problem, such as a failed model
    error: LLMError | None = None  # the error of that model

    @property
    def changed(self) -> bool:
        """Whether there is a new summary, which should be saved."""
        return any(drop.reason == _FOLDED_REASON for drop in self.dropped)


class Summarizer(Protocol):
    """Writes a summary from the previous one and new messages; after an `LLMError` nothing is folded."""

    def __call__(
        self,
        given: Texts,
        *,
        max_tokens: int | None = None,
        query: str | None = None,
        previous: str | None = None,
    ) -> Compressed:
        """Return the new summary of ``previous`` and ``given``."""


@dataclass(frozen=True, slots=True)
class RunningSummary:
    """A `Policy` that folds older messages into a summary; `fold` writes it.

    - Nothing is folded until it is time: the messages take more than ``at`` of ``max_tokens`` (or of a
      smaller ``budget``), or there are more than ``max_messages`` of them, system messages aside. Without
      ``max_tokens`` only messages count, by default 10; with it, by default 50 messages.
    - Then everything older than the last ``keep_turns`` turns is folded; see `jiyi.records.atoms` for what a
      turn is. If these turns are long, the rest may still exceed the limit; add a `TokenBudget` after it in a
      `Pipeline`.
    - System and pinned messages stay. Broken atoms are dropped and are in no summary.
    - Deciding is pure and asks no model.

    Raises `BadBudget` if ``max_tokens`` or ``budget`` is not a whole number of at least 1, `SettingsError` if
    ``at`` is not over 0 and at most 1, or another number is below 1.
    """

    max_tokens: int | None = None  # of the window; None: only messages count
    at: float = field(default=0.8, kw_only=True)  # fold above this fraction of the window
    max_messages: int | None = field(default=None, kw_only=True)  # fold above so many messages
    keep_turns: int = field(default=3, kw_only=True)  # the newest turns, which stay
    counter: TokenCounter = field(default_factory=counter_for, kw_only=True)

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            check_tokens("max_tokens", self.max_tokens, error=BadBudget)
        if self.max_messages is None:
            default = _MESSAGES_WITHOUT_TOKENS if self.max_tokens is None else _MESSAGES_WITH_TOKENS
            object.__setattr__(self, "max_messages", default)
        if isinstance(self.at, bool) or not isinstance(self.at, int | float) or not 0 < self.at <= 1:
            raise SettingsError(f"at={self.at!r} must be a number over 0 and at most 1")
        for name in ("max_messages", "keep_turns"):
            check_count(name, getattr(self, name))

    @accept_dicts
    def __call__(self, messages: Sequence[Message], budget: int | None = None) -> Kept:
        """Decide which messages go into the summary, if it is time."""
        return self._decide(messages, self.due(messages, budget))

    def due(self, messages: Sequence[MessageLike], budget: int | None = None, *, more_tokens: int = 0) -> str:
        """Return why it is time to fold, in words; "" if it is not.

        ``budget`` is the window's, if smaller than ``max_tokens``, and ``more_tokens`` are of its other
        parts, such as the summary.
        """
        limit = smaller_limit(self.max_tokens, budget)
        sound = Candidates.of(as_messages(messages)).without({}).kept
        counted = sum(message.role != "system" for message in sound)
        if counted > (self.max_messages or 0):
            return f"{counted} messages, more than {self.max_messages}"
        tokens = 0 if limit is None else self.counter.count_all(sound) + more_tokens
        if limit is None or tokens <= self.at * limit:
            return ""
        return f"{tokens:,} tokens, more than {100 * self.at:g} % of {limit:,}"

    def fold(
        self,
        messages: Sequence[MessageLike],
        previous: Summarized | Summary | None = None,
        summarize: Summarizer | None = None,
        *,
        force: bool = False,
        budget: int | None = None,
    ) -> Folded:
        """Write a new summary, if it is time or with ``force``, from the previous one and the older messages.

        ``messages`` are those that no summary covers yet, oldest first, and system messages. Nothing is
        saved. If it is not time, no message is older than the last turns, or ``summarize`` fails, all sound
        messages and the summary stay as they are; in the last two cases ``note`` says why. By default no
        model is asked.
        """
        parsed = as_messages(messages)
        summary_tokens = previous.tokens if previous is not None else 0
        trigger = self.due(parsed, budget, more_tokens=summary_tokens) or ("asked for" if force else "")
        decided, summary, error = self._decide(parsed, trigger), previous, None
        all_kept = f"nothing to summarise: the last {self.keep_turns} turns stay whole, and there is no more"
        note = all_kept if trigger else ""
        leaving = [drop.message for drop in decided.dropped if drop.reason == _FOLDED_REASON]
        if leaving:
            try:
                write = summarize or Summarize(counter=self.counter)
                made = write(leaving, previous=previous.text if previous is not None else "")
            except LLMError as failure:
                note, error = f"nothing was summarised: {failure}", failure
            else:
                note = "nothing was summarised: there were no words"
                if made.text.strip():
                    summary, note = _build_summary(made, leaving, previous), "; ".join(made.notes)
        if summary is previous:
            decided = self._decide(parsed, "")
        given = decided.of_given(messages, parsed)
        return Folded(
            kept=given.kept, dropped=given.dropped, summary=summary, trigger=trigger, note=note, error=error
        )

    def _decide(self, messages: Sequence[Message], trigger: str) -> Kept:
        candidates = Candidates.of(messages)
        leaving = SlidingWindow(self.keep_turns).find_leaving(candidates) if trigger else {}
        return candidates.without(dict.fromkeys(leaving, _FOLDED_REASON))


def _build_summary(
    compressed: Compressed, leaving: Sequence[Message], previous: Summarized | Summary | None
) -> Summarized:
    places = [message.seq for message in leaving] + ([previous.upto_seq] if previous is not None else [])
    return Summarized(
        text=compressed.text,
        covers=tuple(message.id for message in leaving),
        upto_seq=max((place for place in places if place is not None), default=None),
        method="llm" if compressed.method == "llm" else "extractive",
        language=language(compressed.text),
        tokens=compressed.tokens,
    )
