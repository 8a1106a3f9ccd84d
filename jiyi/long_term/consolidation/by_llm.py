"""What a group of episodes teaches, in the words of a language model."""

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, cast

from jiyi.llm import LLM, ask_json
from jiyi.long_term.consolidation.lesson import Brief, Lesson, one_line
from jiyi.prompts import Language, load_prompt, quote, wording
from jiyi.records import Knowledge
from jiyi.text import counter_for

__all__ = ["ask_lesson"]

_RECORDS_TOKENS = 3_000  # of all records shown
_RECORD_TOKENS = 300  # of one record, at most
_KNOWN_TOKENS = 600  # of what is known so far, and of the counts
_ANSWER_TOKENS = 1_500
_TOPIC = 120  # characters
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

    Its confidence is the mean of the model's own, scaled to 0.5..1, and that ``counted`` over the newest
    episodes of the group, oldest first, of the ``total`` that it rests on. The model is asked once, and
    once more if its answer does not fit.

    Raises:
        LLMError: there is no usable answer.
    """
    prompt, shown = _prompt(briefs, counted, total, language, known)
    messages = [{"role": "user", "content": prompt}]
    found = ask_json(llm, messages, _schema(), language=language, max_tokens=_ANSWER_TOKENS)
    points = (" ".join(point.split()) for point in found["key_points"])
    confidence = (min(1.0, max(0.5, float(found["confidence"]))) + counted.confidence) / 2
    lesson = Lesson(
        topic=one_line(found["topic"], _TOPIC) or counted.topic,
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
