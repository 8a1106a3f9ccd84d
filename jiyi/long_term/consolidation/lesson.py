"""What a group of episodes teaches, counted or in the words of a language model; and how sure that is."""

import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Literal, cast

from jiyi.llm import LLM, ask_json
from jiyi.prompts import Language, load_prompt, quote, wording
from jiyi.records import Episode, Knowledge, Outcome
from jiyi.text import counter_for, language
from jiyi.text.cut import clip

__all__ = [
    "Brief",
    "Lesson",
    "ask_lesson",
    "confidence_of",
    "count_lesson",
    "language_of_group",
    "one_line",
    "with_earlier",
]

_STEPS = 20  # of an episode, in its brief
_WORDS = 160  # characters of a step, a cause, a name
_STORY = 400  # characters of what set it off and of what came of it
_HALFWAY = 5  # so many episodes of one outcome are worth half of what certainty can be gained
_KINDS_OF_OUTCOME = 3
_MOST_STEPS, _MOST_CAUSES, _MOST_TRIGGERS, _MOST_WORKED = 8, 5, 3, 8
_MOST_EARLIER = 8
_TOPIC = 80  # characters
_SAMPLE = 50  # episodes that decide about the language

_CHANGING = re.compile(  # what differs each time the same thing is done: ids, moments, long numbers
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d)?[\d.]*z?)?"
    r"|\b\d\d:\d\d:\d\d\b|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b|\d{5,}"
)

_EARLIER = re.compile("^(?:Earlier: |以前：)")
_COUNTED = re.compile(r" \([^()]*\)$|（[^（）]*）$")


@dataclass(frozen=True, slots=True, kw_only=True)
class _BriefStep:
    """A step of a `Brief`."""

    text: str  # what was done, one line
    tool: str  # the tool it used, or ""
    result: str  # how what it gave back begins
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """An episode in at most some thousand characters; what was longer ends in "…"."""

    id: str
    agent_id: str | None
    created_at: datetime
    outcome: Outcome
    trigger: str  # what set it off
    summary: str  # what was done and what came of it, or why it failed
    target: str  # what it was about, or ""
    steps: tuple[_BriefStep, ...]  # the first 20
    more_steps: int  # how many more it had

    @classmethod
    def of(cls, episode: Episode) -> "Brief":
        """Return the brief of an episode."""
        steps = episode.steps[:_STEPS]
        return cls(
            id=episode.id,
            agent_id=episode.scope.agent_id,
            created_at=episode.created_at,
            outcome=episode.outcome,
            trigger=one_line(episode.trigger_summary, _STORY),
            summary=one_line(episode.outcome_summary, _STORY),
            target=one_line(episode.target or "", _WORDS),
            steps=tuple(
                _BriefStep(
                    text=one_line(step.description, _WORDS),
                    tool=one_line(step.tool_name or "", _WORDS),
                    result=one_line(step.result or "", _WORDS),
                    failed=step.status == "failed",
                )
                for step in steps
            ),
            more_steps=len(episode.steps) - len(steps),
        )

    @property
    def cause(self) -> str:
        """Why it did not succeed, if it says so: its summary, else the result of a failed step."""
        if self.summary:
            return self.summary
        return next((step.result for step in reversed(self.steps) if step.failed and step.result), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What goes into a `Knowledge`."""

    topic: str
    content: str
    key_points: tuple[str, ...]
    confidence: float  # 0.5..1


def one_line(text: str, most: int) -> str:
    """Return a text on one line of at most ``most`` characters; see `jiyi.text.cut.clip`."""
    if len(text) <= most and text.isprintable() and "  " not in text:  # most texts are one already
        return text.strip()
    shown = " ".join(text[: 2 * most].split())
    if len(text) > 2 * most:
        shown = shown.ljust(most + 1)  # white space may hide that something was cut
    return clip(shown, most)


def count_lesson(briefs: Sequence[Brief], total: int, words_in: Language, *, about: bool = True) -> Lesson:
    """Return what episodes have in common: outcomes, triggers, frequent steps, causes, what worked last.

    The result does not depend on their order. Steps and reasons count as the same if they differ only
    in case, white space, final punctuation, ids, dates or long numbers; each is counted once per
    episode and shown as it was last said.

    Args:
        briefs: the episodes that are counted, at least one.
        total: how many the lesson rests on; more than ``briefs`` if these are only the newest.
        words_in: the language of the words around what is quoted.
        about: whether they are about one target; else they are only similar.
    """
    words = wording("lesson", words_in)
    topic = _topic_of(briefs)
    sentences = [_head(briefs, total, topic if about else "", words)]
    triggers = _common((brief, [brief.trigger]) for brief in briefs)
    shown = [
        words["times"].format(text=one_line(text, _TOPIC), n=n) if n > 1 else one_line(text, _TOPIC)
        for _, text, n in triggers[:_MOST_TRIGGERS]
    ]
    if len(triggers) > _MOST_TRIGGERS:
        shown.append(words["more"].format(n=len(triggers) - _MOST_TRIGGERS))
    if shown:
        sentences.append(words["triggers"].format(list=words["semicolon"].join(shown)))
    sentences += _worked_last(briefs, words)
    if total > len(briefs):
        sentences.append(words["counted"].format(n=len(briefs)))
    return Lesson(
        topic=topic,
        content=words["gap"].join(sentences),
        key_points=(*_frequent_steps(briefs, words), *_causes(briefs, words)),
        confidence=confidence_of(briefs, total),
    )


def with_earlier(lesson: Lesson, points: Iterable[str], words_in: Language) -> Lesson:
    """Return a lesson that keeps key points from before whose episodes cannot be counted any more.

    Those it has itself, whatever their count, are not kept twice; at most eight are kept.
    """
    seen = {_same(_COUNTED.sub("", point)) for point in lesson.key_points}
    bare = [_EARLIER.sub("", point) for point in points]
    kept = [point for point in bare if _same(_COUNTED.sub("", point)) not in seen][:_MOST_EARLIER]
    earlier = (wording("lesson", words_in)["earlier"].format(text=point) for point in kept)
    return replace(lesson, key_points=(*lesson.key_points, *earlier))


def confidence_of(briefs: Sequence[Brief], total: int) -> float:
    """Return how sure a lesson is, 0.5 to 1.

    0.5 + 0.5 x support x agreement, with support = total / (total + 5) and agreement = the share of
    the commonest outcome above a third (all three outcomes equally common), scaled to 0..1. Ten
    successes give 0.83, five and five failures 0.58.
    """
    share = max(Counter(brief.outcome for brief in briefs).values()) / len(briefs)
    floor = 1 / _KINDS_OF_OUTCOME
    return round(0.5 + 0.5 * (total / (total + _HALFWAY)) * max(0.0, share - floor) / (1 - floor), 4)


def _topic_of(briefs: Sequence[Brief]) -> str:
    """Return a heading: the commonest spelling of the target, else of what set the episodes off."""
    found = _common((brief, [brief.target]) for brief in briefs)
    found = found or _common((brief, [brief.trigger]) for brief in briefs)
    return one_line(found[0][1], _TOPIC) if found else "?"


def language_of_group(briefs: Sequence[Brief], wanted: Literal["auto", "zh", "en"] = "auto") -> Language:
    """Return the language that is wanted; for "auto" the one of most of the newest 50, Chinese on a tie."""
    if wanted != "auto":
        return wanted
    newest = sorted(briefs, key=lambda brief: (brief.created_at, brief.id))[-_SAMPLE:]
    chinese = sum(language(f"{brief.trigger} {brief.summary}") == "zh" for brief in newest)
    return "zh" if 2 * chinese >= len(newest) else "en"


@lru_cache(maxsize=1 << 12)
def _same(text: str) -> str:
    """Return what texts that mean the same have in common."""
    text = text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return _CHANGING.sub("#", text).strip(" .。,，;；:：!！?？…`'\"") or text


def _common(said: Iterable[tuple[Brief, Iterable[str]]], at_least: int = 1) -> list[tuple[str, str, int]]:
    """Return key, text and count of what was said ``at_least`` so often, the commonest first.

    Texts that mean the same are counted once an episode and shown as they were said last; of
    equally common ones those said last come first.
    """
    marks: dict[str, list[tuple[datetime, str, str]]] = defaultdict(list)
    for brief, texts in said:
        for key, text in {_same(text): text for text in texts if text}.items():
            marks[key].append((brief.created_at, brief.id, text))
    ranked = sorted(((len(some), max(some), key) for key, some in marks.items()), reverse=True)
    return [(key, last[2], count) for count, last, key in ranked if count >= at_least]


def _head(briefs: Sequence[Brief], total: int, topic: str, words: Mapping[str, str]) -> str:
    moments = [brief.created_at for brief in briefs]
    days = [f"{moment:%Y-%m-%d}" for moment in (min(moments), max(moments))]
    outcomes = Counter(brief.outcome for brief in briefs)
    return words["head" if topic else "head_alike"].format(
        count=words["episodes"].format(n=total),
        topic=topic,
        when=days[0] if days[0] == days[1] else words["span"].format(first=days[0], last=days[1]),
        outcomes=words["comma"].join(
            words[outcome].format(n=outcomes[outcome])
            for outcome in ("success", "partial", "failed")
            if outcomes[outcome]
        ),
    )


def _worked_last(briefs: Sequence[Brief], words: Mapping[str, str]) -> list[str]:
    """Tell the newest success: what set it off, its steps, what came of it."""
    worked = [brief for brief in briefs if brief.outcome == "success"]
    if not worked:
        return []
    last = max(worked, key=lambda brief: (brief.created_at, brief.id))
    told = [words["worked"].format(day=f"{last.created_at:%Y-%m-%d}", trigger=one_line(last.trigger, _TOPIC))]
    steps = [step.text for step in last.steps if step.text][:_MOST_WORKED]
    if steps:
        left = len(last.steps) + last.more_steps - len(steps)
        steps += [words["more"].format(n=left)] if left else []
        told.append(words["steps"].format(list=words["then"].join(steps)))
    if last.summary:
        told.append(last.summary if last.summary[-1] in ".。!！?？…" else f"{last.summary}{words['stop']}")
    return told


def _frequent_steps(briefs: Sequence[Brief], words: Mapping[str, str]) -> list[str]:
    found = _common(((b, [step.text for step in b.steps]) for b in briefs), at_least=2)
    failures = _common((b, [step.text for step in b.steps if step.failed]) for b in briefs)
    failed = {key: n for key, _, n in failures}
    points = [
        words["share_failed" if key in failed else "share"].format(
            text=text, n=n, of=len(briefs), failed=failed.get(key)
        )
        for key, text, n in found[:_MOST_STEPS]
    ]
    if len(found) > _MOST_STEPS:
        points.append(words["more_steps"].format(n=len(found) - _MOST_STEPS))
    return points


def _causes(briefs: Sequence[Brief], words: Mapping[str, str]) -> list[str]:
    missed = [brief for brief in briefs if brief.outcome != "success"]
    found = _common((brief, [brief.cause]) for brief in missed)
    points = [
        words["cause"].format(text=one_line(text, 2 * _TOPIC), n=n, of=len(missed))
        for _, text, n in found[:_MOST_CAUSES]
    ]
    if rest := sum(n for _, _, n in found[_MOST_CAUSES:]):
        points.append(words["more_causes"].format(n=rest, of=len(missed)))
    if unknown := sum(not brief.cause for brief in missed):
        points.append(words["unknown"].format(n=unknown, of=len(missed)))
    return points


_RECORDS_TOKENS = 3_000  # of all records shown
_RECORD_TOKENS = 300  # of one record, at most
_KNOWN_TOKENS = 600  # of what is known so far, and of the counts
_ANSWER_TOKENS = 1_500
_LONGEST_TOPIC = 120  # characters
_COUNTER = counter_for("o200k_base")


def ask_lesson(
    llm: LLM,
    briefs: Sequence[Brief],
    counted: Lesson,
    total: int,
    language: Language,
    *,
    known: Knowledge | None,
) -> tuple[Lesson, int]:
    """Return the lesson a model reads from episodes, and how many of them it was shown.

    Its confidence is the mean of the model's own, brought to 0.5..1, and that of what was ``counted`` over
    the newest episodes of the group, oldest first, of the ``total`` that it rests on. The model is asked
    once, and once more where its answer does not fit.

    Raises:
        LLMError: there is no usable answer.
    """
    prompt, shown = _prompt(briefs, counted, total, language, known)
    messages = [{"role": "user", "content": prompt}]
    found = ask_json(llm, messages, _schema(), language=language, max_tokens=_ANSWER_TOKENS)
    points = (" ".join(point.split()) for point in found["key_points"])
    confidence = (min(1.0, max(0.5, float(found["confidence"]))) + counted.confidence) / 2
    lesson = Lesson(
        topic=one_line(found["topic"], _LONGEST_TOPIC) or counted.topic,
        content=found["content"].strip() or counted.content,
        key_points=tuple(dict.fromkeys(point for point in points if point)),
        confidence=round(confidence, 4),
    )
    return lesson, shown


@cache
def _schema() -> dict[str, Any]:
    text = files(__package__).joinpath("lesson.schema.json").read_text("utf-8")
    return cast("dict[str, Any]", json.loads(text))


def _prompt(
    briefs: Sequence[Brief], counted: Lesson, total: int, language: Language, known: Knowledge | None
) -> tuple[str, int]:
    """Return the prompt, and how many records it shows: the newest whose texts have room.

    Nothing is left out unsaid: the prompt says how many records there are and what was counted
    over them. Of a record the first 300 tokens are shown, with "…" after
    them where there are more; at least one record always.
    """
    texts: list[str] = []
    left = _RECORDS_TOKENS
    for brief in reversed(briefs):
        text = quote(_cut(_told(brief, language), _RECORD_TOKENS))
        left -= _COUNTER.count_text(text)
        if left < 0 and texts:
            break
        texts.append(text)
    texts.reverse()
    before = "\n".join([known.content, *(f"- {point}" for point in known.key_points)]) if known else ""
    prompt = load_prompt("consolidate", language).substitute(
        topic=quote(counted.topic),
        known=quote(_cut(before, _KNOWN_TOKENS)),
        counted=len(briefs),
        total=total,
        counts=quote(_cut("\n".join([counted.content, *counted.key_points]), _KNOWN_TOKENS)),
        shown=len(texts),
        records="\n\n".join(f"[{n}]\n{text}" for n, text in enumerate(texts, 1)),
    )
    return prompt, len(texts)


def _cut(text: str, tokens: int) -> str:
    kept = _COUNTER.truncate(text, tokens)
    return kept if kept == text else f"{kept}…"


def _told(brief: Brief, language: Language) -> str:
    words = wording("brief", language)
    lines = [f"{brief.created_at:%Y-%m-%d} {words[brief.outcome]}", f"{words['trigger']}: {brief.trigger}"]
    if brief.summary:
        lines.append(f"{words['result']}: {brief.summary}")
    for step in brief.steps:
        tool = f" [{step.tool}]" if step.tool else ""
        result = f" → {step.result}" if step.result else ""
        failed = f" ({words['failed']})" if step.failed else ""
        lines.append(f"{words['step']}: {step.text}{tool}{failed}{result}")
    if brief.more_steps:
        lines.append(words["more"].format(n=brief.more_steps))
    return "\n".join(lines)
