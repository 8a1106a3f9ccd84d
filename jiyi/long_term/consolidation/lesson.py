"""Lessons of a group of episodes, extracted by counting or written by a language model."""

import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from importlib.resources import files
from typing import Literal, get_args

from jiyi.llm import LLM, ask_json
from jiyi.prompts import Language, load_prompt, quote, wording
from jiyi.records import Episode, Knowledge, Outcome, Step
from jiyi.text import counter_for, language
from jiyi.text.cut import one_line

_MAX_STEPS = 20  # of an episode in its brief
_MAX_CHARS = 160  # of a step, cause or name
_MAX_SUMMARY_CHARS = 400  # of a trigger or an outcome
_HALF_SUPPORT = 5  # episodes of one outcome at which half of the possible confidence is reached
_OUTCOMES = 3
_MAX_SHOWN_STEPS, _MAX_CAUSES, _MAX_TRIGGERS, _MAX_SUCCESS_STEPS = 8, 5, 3, 8
_MAX_EARLIER = 8
_TOPIC_CHARS = 80
_LANGUAGE_SAMPLE = 50  # newest episodes that decide the language

# What a model is shown, and what it may answer.
_MAX_RECORDS_TOKENS = 3_000  # of all records
_MAX_RECORD_TOKENS = 300  # of one record
_MAX_KNOWN_TOKENS = 600  # of the known lesson, and of the counts
_MAX_ANSWER_TOKENS = 1_500
_MODEL_TOPIC_CHARS = 120
_COUNTER = counter_for("o200k_base")

_VARIABLE_PARTS = re.compile(  # ids, times and long numbers, which differ between runs of the same step
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d)?[\d.]*z?)?"
    r"|\b\d\d:\d\d:\d\d\b|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b|\d{5,}"
)

_EARLIER_PREFIX = re.compile("^(?:Earlier: |以前：)")
_COUNT_SUFFIX = re.compile(r" \([^()]*\)$|（[^（）]*）$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """An episode in a few thousand characters at most; longer texts end in "…"."""

    id: str
    agent_id: str | None
    created_at: datetime
    outcome: Outcome
    trigger: str
    summary: str  # what was done with which result, or why it failed
    target: str  # or ""
    steps: tuple[Step, ...]  # the first 20, shortened, without arguments
    more_steps: int  # the number of the others

    @classmethod
    def of(cls, episode: Episode) -> "Brief":
        """Return the brief of an episode."""
        steps = episode.steps[:_MAX_STEPS]
        return cls(
            id=episode.id,
            agent_id=episode.scope.agent_id,
            created_at=episode.created_at,
            outcome=episode.outcome,
            trigger=one_line(episode.trigger_summary, _MAX_SUMMARY_CHARS),
            summary=one_line(episode.outcome_summary, _MAX_SUMMARY_CHARS),
            target=one_line(episode.target or "", _MAX_CHARS),
            steps=tuple(
                replace(
                    step,
                    description=one_line(step.description, _MAX_CHARS),
                    tool_name=one_line(step.tool_name or "", _MAX_CHARS),
                    result=one_line(step.result or "", _MAX_CHARS),
                    args={},
                )
                for step in steps
            ),
            more_steps=len(episode.steps) - len(steps),
        )

    @property
    def cause(self) -> str:
        """Why it failed, if known: its summary, else the result of its last failed step."""
        if self.summary:
            return self.summary
        results = [step.result for step in self.steps if step.status == "failed" and step.result]
        return results[-1] if results else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """The content of a `Knowledge`."""

    topic: str
    content: str
    key_points: tuple[str, ...]
    confidence: float  # 0.5..1


def extract_lesson(briefs: Sequence[Brief], total: int, language: Language, *, one_target: bool) -> Lesson:
    """Return what episodes have in common: outcomes, triggers, frequent steps, causes, the last success.

    The result does not depend on their order. Steps and causes count as the same if they differ only in case,
    white space, final punctuation, ids, dates or long numbers; each is counted once per episode and shown in
    its newest wording. ``total`` is the number of source episodes, of which ``briefs`` may be only the
    newest; without ``one_target`` they are only similar.
    """
    phrases = wording("lesson", language)
    triggers = _count_common((brief, [brief.trigger]) for brief in briefs)
    names = _count_common((brief, [brief.target]) for brief in briefs) or triggers
    topic = one_line(names[0][1], _TOPIC_CHARS) if names else "?"  # in its commonest spelling
    sentences = [_overview(briefs, total, topic if one_target else "", phrases)]
    first = [(one_line(text, _TOPIC_CHARS), n) for _, text, n in triggers[:_MAX_TRIGGERS]]
    shown = [phrases["times"].format(text=text, n=n) if n > 1 else text for text, n in first]
    if len(triggers) > _MAX_TRIGGERS:
        shown.append(phrases["more"].format(n=len(triggers) - _MAX_TRIGGERS))
    if shown:
        sentences.append(phrases["triggers"].format(list=phrases["semicolon"].join(shown)))
    sentences += _last_success(briefs, phrases)
    if total > len(briefs):
        sentences.append(phrases["counted"].format(n=len(briefs)))
    return Lesson(
        topic=topic,
        content=phrases["gap"].join(sentences),
        key_points=(*_frequent_steps(briefs, phrases), *_failure_causes(briefs, phrases)),
        confidence=compute_confidence(briefs, total),
    )


def keep_earlier_points(lesson: Lesson, points: Iterable[str], language: Language) -> Lesson:
    """Return a lesson with up to eight key points added whose episodes cannot be counted any more."""
    seen = {_normalise(_COUNT_SUFFIX.sub("", point)) for point in lesson.key_points}
    bare = [_EARLIER_PREFIX.sub("", point) for point in points]
    kept = [point for point in bare if _normalise(_COUNT_SUFFIX.sub("", point)) not in seen][:_MAX_EARLIER]
    earlier = (wording("lesson", language)["earlier"].format(text=point) for point in kept)
    return replace(lesson, key_points=(*lesson.key_points, *earlier))


def compute_confidence(briefs: Sequence[Brief], total: int) -> float:
    """Return how sure a lesson is, 0.5 to 1.

    0.5 + 0.5 x support x agreement, with support = total / (total + 5) and agreement = the share of
    the commonest outcome above a third (all three outcomes equally common), scaled to 0..1. Ten
    successes give 0.83, five and five failures 0.58.
    """
    share = max(Counter(brief.outcome for brief in briefs).values()) / len(briefs)
    floor = 1 / _OUTCOMES
    return round(0.5 + 0.5 * (total / (total + _HALF_SUPPORT)) * max(0.0, share - floor) / (1 - floor), 4)


def group_language(briefs: Sequence[Brief], wanted: Literal["auto", "zh", "en"] = "auto") -> Language:
    """Return the wanted language; for "auto" that of most of the newest 50, Chinese on a tie."""
    if wanted != "auto":
        return wanted
    newest = sorted(briefs, key=lambda brief: (brief.created_at, brief.id))[-_LANGUAGE_SAMPLE:]
    chinese = sum(language(f"{brief.trigger} {brief.summary}") == "zh" for brief in newest)
    return "zh" if 2 * chinese >= len(newest) else "en"


@lru_cache(maxsize=1 << 12)
def _normalise(text: str) -> str:
    """Return a text without what differs between texts that mean the same."""
    text = text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return _VARIABLE_PARTS.sub("#", text).strip(" .。,，;；:：!！?？…`'\"") or text


def _count_common(texts_of: Iterable[tuple[Brief, Iterable[str]]]) -> list[tuple[str, str, int]]:
    """Return key, text and count of the texts of episodes, the commonest and of these the newest first.

    Texts that mean the same are counted once per episode and shown in their newest wording.
    """
    uses: dict[str, list[tuple[datetime, str, str]]] = defaultdict(list)
    for brief, texts in texts_of:
        for key, text in {_normalise(text): text for text in texts if text}.items():
            uses[key].append((brief.created_at, brief.id, text))
    ranked = sorted(((len(of_key), max(of_key), key) for key, of_key in uses.items()), reverse=True)
    return [(key, newest[2], count) for count, newest, key in ranked]


def _overview(briefs: Sequence[Brief], total: int, topic: str, phrases: Mapping[str, str]) -> str:
    times = [brief.created_at for brief in briefs]
    days = [f"{time:%Y-%m-%d}" for time in (min(times), max(times))]
    outcomes = Counter(brief.outcome for brief in briefs)
    return phrases["head" if topic else "head_alike"].format(
        count=phrases["episodes"].format(n=total),
        topic=topic,
        when=days[0] if days[0] == days[1] else phrases["span"].format(first=days[0], last=days[1]),
        outcomes=phrases["comma"].join(
            phrases[name].format(n=outcomes[name]) for name in get_args(Outcome) if outcomes[name]
        ),
    )


def _last_success(briefs: Sequence[Brief], phrases: Mapping[str, str]) -> list[str]:
    """Return sentences on the newest success: its trigger, steps and result."""
    successes = [brief for brief in briefs if brief.outcome == "success"]
    if not successes:
        return []
    last = max(successes, key=lambda brief: (brief.created_at, brief.id))
    trigger = one_line(last.trigger, _TOPIC_CHARS)
    sentences = [phrases["worked"].format(day=f"{last.created_at:%Y-%m-%d}", trigger=trigger)]
    steps = [step.description for step in last.steps if step.description][:_MAX_SUCCESS_STEPS]
    if steps:
        left = len(last.steps) + last.more_steps - len(steps)
        steps += [phrases["more"].format(n=left)] if left else []
        sentences.append(phrases["steps"].format(list=phrases["then"].join(steps)))
    if last.summary:
        sentences.append(last.summary + ("" if last.summary[-1] in ".。!！?？…" else phrases["stop"]))
    return sentences


def _frequent_steps(briefs: Sequence[Brief], phrases: Mapping[str, str]) -> list[str]:
    common = _count_common((b, [step.description for step in b.steps]) for b in briefs)
    found = [item for item in common if item[2] > 1]
    failing = ((b, [s.description for s in b.steps if s.status == "failed"]) for b in briefs)
    failed = {key: n for key, _, n in _count_common(failing)}
    points = [
        phrases["share_failed" if key in failed else "share"].format(
            text=text, n=n, of=len(briefs), failed=failed.get(key)
        )
        for key, text, n in found[:_MAX_SHOWN_STEPS]
    ]
    if len(found) > _MAX_SHOWN_STEPS:
        points.append(phrases["more_steps"].format(n=len(found) - _MAX_SHOWN_STEPS))
    return points


def _failure_causes(briefs: Sequence[Brief], phrases: Mapping[str, str]) -> list[str]:
    failures = [brief for brief in briefs if brief.outcome != "success"]
    found = _count_common((brief, [brief.cause]) for brief in failures)
    points = [
        phrases["cause"].format(text=one_line(text, 2 * _TOPIC_CHARS), n=n, of=len(failures))
        for _, text, n in found[:_MAX_CAUSES]
    ]
    if rest := sum(n for _, _, n in found[_MAX_CAUSES:]):
        points.append(phrases["more_causes"].format(n=rest, of=len(failures)))
    if unknown := sum(not brief.cause for brief in failures):
        points.append(phrases["unknown"].format(n=unknown, of=len(failures)))
    return points


def generate_lesson(llm: LLM, prompt: str, counted: Lesson, language: Language) -> Lesson:
    """Return the lesson that a model writes; ``prompt`` is that of `lesson_prompt`.

    The confidence is the mean of that of ``counted`` and the model's own, limited to 0.5..1. The model is
    asked once, and once more if its answer does not fit the schema; then `LLMError` is raised.
    """
    messages = [{"role": "user", "content": prompt}]
    schema = json.loads(files(__package__).joinpath("lesson.schema.json").read_text("utf-8"))
    found = ask_json(llm, messages, schema, language=language, max_tokens=_MAX_ANSWER_TOKENS)
    points = (" ".join(point.split()) for point in found["key_points"])
    confidence = (min(1.0, max(0.5, float(found["confidence"]))) + counted.confidence) / 2
    return Lesson(
        topic=one_line(found["topic"], _MODEL_TOPIC_CHARS) or counted.topic,
        content=found["content"].strip() or counted.content,
        key_points=tuple(dict.fromkeys(point for point in points if point)),
        confidence=round(confidence, 4),
    )


def lesson_prompt(
    briefs: Sequence[Brief], counted: Lesson, total: int, language: Language, known: Knowledge | None
) -> tuple[str, int]:
    """Return the prompt for a lesson, and how many records it shows: the newest that fit, at least one.

    ``briefs`` are the newest of ``total`` episodes, oldest first; ``counted`` is their extracted lesson.
    """
    texts: list[str] = []
    left = _MAX_RECORDS_TOKENS
    for brief in reversed(briefs):
        text = quote(_truncate(_render_brief(brief, language), _MAX_RECORD_TOKENS))
        left -= _COUNTER.count_text(text)
        if left < 0 and texts:
            break
        texts.append(text)
    texts.reverse()
    before = "\n".join([known.content, *(f"- {point}" for point in known.key_points)]) if known else ""
    prompt = load_prompt("consolidate", language).substitute(
        topic=quote(counted.topic),
        known=quote(_truncate(before, _MAX_KNOWN_TOKENS)),
        counted=len(briefs),
        total=total,
        counts=quote(_truncate("\n".join([counted.content, *counted.key_points]), _MAX_KNOWN_TOKENS)),
        shown=len(texts),
        records="\n\n".join(f"[{n}]\n{text}" for n, text in enumerate(texts, 1)),
    )
    return prompt, len(texts)


def _truncate(text: str, tokens: int) -> str:
    kept = _COUNTER.truncate(text, tokens)
    return kept if kept == text else f"{kept}…"


def _render_brief(brief: Brief, language: Language) -> str:
    phrases = wording("brief", language)
    lines = [
        f"{brief.created_at:%Y-%m-%d} {phrases[brief.outcome]}",
        f"{phrases['trigger']}: {brief.trigger}",
    ]
    if brief.summary:
        lines.append(f"{phrases['result']}: {brief.summary}")
    for step in brief.steps:
        tool = f" [{step.tool_name}]" if step.tool_name else ""
        result = f" → {step.result}" if step.result else ""
        failed = f" ({phrases['failed']})" if step.status == "failed" else ""
        lines.append(f"{phrases['step']}: {step.description}{tool}{failed}{result}")
    if brief.more_steps:
        lines.append(phrases["more"].format(n=brief.more_steps))
    return "\n".join(lines)
