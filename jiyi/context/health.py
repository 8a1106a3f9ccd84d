"""The health of a session: how good its context is, and whether to continue it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from jiyi.errors import BadBudget, SettingsError
from jiyi.records import Message
from jiyi.records.atoms import turns
from jiyi.short_term.policy import as_messages
from jiyi.text import TokenCounter, Trait, counter_for, query_terms, traits

__all__ = ["Action", "Advice", "Health", "Thresholds", "advise", "find_goal", "health"]

Action = Literal["continue", "summarise", "restart", "split"]
"""What to do with a session; see `advise`."""

_WORD_OR_CHARACTER = re.compile(r"[^\W\d_\u3400-\u9fff]+|\d+|[\u3400-\u9fff]")
_SHINGLE_LENGTH = 8  # words or Chinese characters in a row that make a repetition
_FRESH_SHARE = 0.15  # share of a message's terms in the newest turns from which it is not stale


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Measures of a session's context; shares are from 0 to 1, only the length may be more."""

    length: float  # tokens of the messages divided by the window's; above 1 they do not fit
    stale: float  # share of the tokens in older messages unrelated to the newest turns
    repeated: float  # share of the words that repeat earlier text
    misses: float | None = None  # share of recalled text the replies did not use; None: not measured
    drift: float | None = None  # how far the newest turns are from the goal; None: too early to say


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The values from which a measure of `Health` is a warning sign.

    Raises:
        SettingsError: a threshold is negative or no number.
    """

    length: float = 0.8  # summarise before the window is full
    full: float = 1.0  # more than a window holds
    stale: float = 0.5
    repeated: float = 0.3
    misses: float = 0.7
    drift: float = 0.8

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
                raise SettingsError(f"the threshold {name}={value!r} must be a number of at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to do, and why."""

    action: Action
    reasons: tuple[str, ...]  # a line for each sign, with its figure; empty where all is well


def health(
    messages: Sequence[Message | Mapping[str, Any]],
    max_tokens: int,
    *,
    goal: str = "",
    recent: int = 3,
    hit_rate: float | None = None,
    drift: float | None = None,
    counter: TokenCounter | None = None,
) -> Health:
    """Measure the health of a session, or of the messages of a window. Pure.

    - A message before the last ``recent`` turns, neither system nor pinned, is stale if less than
      15 % of its terms occur in those turns.
    - Words are repeated if eight in a row occurred before, in this message or an earlier one; all
      numbers count as equal. After Broder, "On the resemblance and containment of documents", 1997.
    - Drift is the share of the goal's terms that the last ``recent`` turns do not mention.

    Args:
        messages: oldest first, as values or OpenAI dicts; ``window.messages`` will do.
        max_tokens: the window's size.
        goal: what the session is for; its first request by default.
        recent: how many turns count as the newest, at least 1.
        hit_rate: share of recalled text that replies used, if measured.
        drift: a better measure of drift, for example by vectors.
        counter: counts tokens.

    Raises `BadBudget` for ``max_tokens`` or ``recent`` below 1, `BadMessage` for an impossible dict.
    """
    if max_tokens < 1 or recent < 1:
        raise BadBudget(f"max_tokens={max_tokens!r} and recent={recent!r} must be at least 1")
    counter = counter or counter_for()
    talk = as_messages(messages)
    sizes = [counter.count(message) for message in talk]
    all_turns = turns(talk)
    newest = {i for places in all_turns[-recent:] for i in places}
    fresh = {term for i in newest for term in query_terms(talk[i].search_text)}
    stale = 0
    for i, message in enumerate(talk):
        if i not in newest and message.role != "system" and not message.pinned:
            terms = set(query_terms(message.search_text))
            stale += sizes[i] if terms and len(terms & fresh) < _FRESH_SHARE * len(terms) else 0
    if drift is None and len(all_turns) > recent and (wanted := {*query_terms(goal or find_goal(talk))}):
        drift = 1 - len(wanted & fresh) / len(wanted)
    return Health(
        length=counter.count_all(talk) / max_tokens,
        stale=stale / sum(sizes) if talk else 0.0,
        repeated=_measure_repetition([m.search_text for m in talk if m.role != "system"]),
        misses=None if hit_rate is None else 1 - hit_rate,
        drift=drift,
    )


def advise(health: Health, thresholds: Thresholds | None = None) -> Advice:
    """Recommend what to do with a session. Pure; the first rule that applies decides.

    - restart: it is at least half of ``thresholds.length`` and two of stale, repeated, misses and
      drift reach their thresholds; or it is long and drifts. Start a new session from `handover`.
    - split: it is ``thresholds.full`` and neither stale nor repeated: all of it is needed, so the
      task is larger than a window. See `split_task`.
    - summarise: it is long; or it is half as long, and stale or repeated.
    - continue: otherwise. There may still be a reason, such as drift in a short session: then
      it helps to state the goal again.
    """
    limits = thresholds or Thresholds()
    signs = _find_warning_signs(health, limits)
    is_long, is_half_long = health.length >= limits.length, health.length >= limits.length / 2
    is_worn = "stale" in signs or "repeated" in signs
    action: Action = "continue"
    if (is_half_long and len(signs) >= 2) or (is_long and "drift" in signs):
        action = "restart"
    elif health.length >= limits.full and not is_worn:
        action = "split"
    elif is_long or (is_half_long and is_worn):
        action = "summarise"
    if is_long or action != "continue":
        signs = {"length": f"the messages take {health.length:.0%} of the window", **signs}
    return Advice(action=action, reasons=tuple(signs.values()))


def find_goal(messages: Sequence[Message]) -> str:
    """Return the session's goal: its first user message that is more than a greeting, or ""."""
    texts = [m.text for m in messages if m.role == "user" and m.text.strip()]
    return next((text for text in texts if Trait.GREETING not in traits(text)), texts[0] if texts else "")


def _find_warning_signs(health: Health, limits: Thresholds) -> dict[str, str]:
    """Return the warning signs other than the length, each as a sentence."""
    signs: dict[str, str] = {}
    if health.stale >= limits.stale:
        signs["stale"] = f"{health.stale:.0%} is older and has nothing to do with the newest turns"
    if health.repeated >= limits.repeated:
        signs["repeated"] = f"{health.repeated:.0%} was said before in the same words"
    if health.misses is not None and health.misses >= limits.misses:
        signs["misses"] = f"the replies did not use {health.misses:.0%} of what was recalled"
    if health.drift is not None and health.drift >= limits.drift:
        signs["drift"] = f"the newest turns are far from the goal ({health.drift:.2f} of 1)"
    return signs


def _measure_repetition(texts: Sequence[str]) -> float:
    seen: set[int] = set()
    units = repeated = 0
    for text in texts:
        words = ["0" if word.isdigit() else word for word in _WORD_OR_CHARACTER.findall(text.lower())]
        units += len(words)
        covered = 0  # words before this place are counted already
        for end in range(_SHINGLE_LENGTH, len(words) + 1):
            mark = hash(tuple(words[end - _SHINGLE_LENGTH : end]))
            if mark in seen:
                repeated += end - max(covered, end - _SHINGLE_LENGTH)
                covered = end
            seen.add(mark)
    return repeated / units if units else 0.0
