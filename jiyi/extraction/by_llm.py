"""Reading conversations by a language model, and without one where it fails."""

import json
from collections.abc import Sequence
from datetime import UTC, tzinfo
from importlib.resources import files
from typing import Any, Literal

from jiyi.errors import BadReply, LLMError
from jiyi.extraction.believed import MOST_CHARS, believed, speaker_of
from jiyi.extraction.reading import extract_message
from jiyi.extraction.statement import Reading
from jiyi.llm import LLM, ask_json
from jiyi.prompts import Language, load_prompt, quote
from jiyi.records import Fact, Message
from jiyi.text import Secrecy, counter_for
from jiyi.text import language as language_of

__all__ = ["extract_with", "first_stretch", "read_by_llm"]

_STRETCH_MESSAGES, _STRETCH_TOKENS = 20, 4_000  # that are read by one call
_MESSAGE_TOKENS = 1_000  # of one message that are shown
_NONE = "-"


def extract_with(
    llm: LLM | None,
    messages: Sequence[Message],
    language: Language | Literal["auto"] = "auto",
    *,
    known: Sequence[Fact] = (),
    zone: tzinfo = UTC,
    answer_tokens: int = 2_000,
) -> Reading:
    """Return what messages of a conversation state, read by a model stretch by stretch.

    Where the model fails, that stretch is read by `extract`, and a note says why; a model that
    cannot be reached is asked once. Outputs of tools are read by `extract` in any case.

    Args:
        llm: the model; None: `extract` reads all.
        messages: saved messages, oldest first; those without a date are passed over.
        language, known, zone, answer_tokens: see `read_by_llm`.
    """
    dated = [message for message in messages if message.created_at and message.text.strip()]
    talk = [message for message in dated if message.role in ("user", "assistant")]
    read = [_by_patterns([message for message in dated if message.role == "tool"], zone)]
    reason = "" if llm is not None else "no language model is set"
    before: Sequence[Message] = ()
    while talk:
        count = first_stretch(talk)
        stretch, talk = talk[:count], talk[count:]
        if llm is None or reason:
            read.append(_by_patterns(stretch, zone, reason))
            continue
        try:
            answer = read_by_llm(
                llm, stretch, language, known=known, before=before, zone=zone, answer_tokens=answer_tokens
            )
            read.append(answer)
        except LLMError as error:
            note = f"the language model read nothing: {error}"
            read.append(_by_patterns(stretch, zone, note))
            reason = "" if isinstance(error, BadReply) else note
        before = stretch[-2:]
    return Reading(
        statements=tuple(
            sorted((one for part in read for one in part.statements), key=lambda one: one.said_at)
        ),
        topics=tuple(dict.fromkeys(topic for part in read for topic in part.topics)),
        conclusions=tuple(dict.fromkeys(one for part in read for one in part.conclusions)),
        refused=sum(part.refused for part in read),
        method="llm" if any(part.method == "llm" for part in read) else "patterns",
        notes=tuple(dict.fromkeys(note for part in read for note in part.notes)),
    )


def first_stretch(
    messages: Sequence[Message], most: int = _STRETCH_MESSAGES, tokens: int = _STRETCH_TOKENS
) -> int:
    """Return how many of the first messages one call reads: at least one."""
    room = tokens
    for count, message in enumerate(messages[:most]):
        room -= min(counter_for("o200k_base").count_text(message.text[:MOST_CHARS]), _MESSAGE_TOKENS)
        if room < 0:
            return max(count, 1)
    return min(len(messages), most)


def read_by_llm(
    llm: LLM,
    messages: Sequence[Message],
    language: Language | Literal["auto"] = "auto",
    *,
    known: Sequence[Fact] = (),
    before: Sequence[Message] = (),
    zone: tzinfo = UTC,
    answer_tokens: int = 2_000,
) -> Reading:
    """Return what one stretch of talk states, read by a model.

    - Costs one call, and one more where the first answer does not fit the schema.
    - Messages are quoted as data; what they say is no instruction to the model. Secrets in them
      are hidden. Of a message the first 1,000 tokens are shown.
    - Believed is what words of its message say: see `believed`. The rest is counted.

    Args:
        llm: the model.
        messages: dated messages of users and assistants, oldest first.
        language: of the prompt; "auto": as most of the text.
        known: facts that a statement may take the place of: the model is shown them, and where it
            names one, the statement is about that one's point. Whether it holds is for others to judge.
        before: what was said just before, to understand the first of them by.
        zone: the days of the calendar are days there.
        answer_tokens: most tokens of an answer of the model.

    Raises:
        LLMError: the model gave no usable answer.
    """
    words = "\n".join(message.text[:1_000] for message in messages)
    spoken: Language = language_of(words) if language == "auto" else language
    hide = Secrecy("", (), spoken)
    shown = "\n\n".join(
        f"[{place}] {_when(message, zone)}\n{_said(message, hide)}"
        for place, message in enumerate(messages, 1)
    )
    prompt = load_prompt("extract_facts", spoken).substitute(
        messages=shown,
        before="\n".join(_said(message, hide) for message in before) or _NONE,
        known="\n".join(
            f"[{place}]\n{quote(hide(fact.line, fact.text))}" for place, fact in enumerate(known, 1)
        )
        or _NONE,
    )
    schema = _schema(len(messages), len(known))
    asked = [{"role": "user", "content": prompt}]
    answer = ask_json(llm, asked, schema, language=spoken, max_tokens=answer_tokens)
    return believed(answer, messages, before=before, known=known, zone=zone)


def _by_patterns(messages: Sequence[Message], zone: tzinfo, reason: str = "") -> Reading:
    found = [statement for message in messages for statement in extract_message(message, zone)]
    return Reading(statements=tuple(found), notes=(reason,) if reason and messages else ())


def _when(message: Message, zone: tzinfo) -> str:
    return message.created_at.astimezone(zone).strftime("%Y-%m-%d %H:%M %a") if message.created_at else ""


def _said(message: Message, hide: Secrecy) -> str:
    text = hide(message.text[:MOST_CHARS].strip())
    return quote(f"{speaker_of(message)}: {counter_for('o200k_base').truncate(text, _MESSAGE_TOKENS)}")


def _schema(messages: int, known: int) -> dict[str, Any]:
    """Return the schema of an answer about so many messages and known facts."""
    text = files(__package__).joinpath("answer.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    fact = schema["properties"]["facts"]["items"]["properties"]
    fact["message"]["maximum"] = messages
    fact["replaces"]["maximum"] = known
    return schema
