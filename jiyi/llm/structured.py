"""Answers that fit a JSON schema: requested, found in the reply, checked, repaired once."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from math import isfinite
from typing import Any

from jiyi.errors import BadReply, InputError
from jiyi.llm.llm import LLM, Reply
from jiyi.prompts import Language, load_prompt, quote
from jiyi.text import encodable

__all__ = ["Unfit", "ask_each", "ask_json", "checker"]

_MAX_SEARCHED_CHARS = 200_000  # of an answer, searched for an object
_MAX_OBJECT_STARTS = 50  # braces at which an object may start
_MAX_QUOTED_CHARS = 8_000  # of a bad answer, shown to the model again
_FENCED_BLOCK = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = "</think>"


class Unfit(ValueError):
    """Why a value does not fit, in words for the model."""


def checker(schema: Mapping[str, Any]) -> Callable[[Any], None]:
    """Return a function that raises `Unfit` for what does not fit an object's schema (drafts 4, 6 and 7).

    Defaults are not filled in, ``$ref`` reach nothing outside. InputError: it is no such schema.
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise InputError('the schema must describe an object: {"type": "object", "properties": {...}}')
    try:
        return _compile_checker(json.dumps(schema))
    except (TypeError, ValueError) as error:
        raise InputError(f"the schema cannot be used: {error}") from error


@lru_cache(maxsize=64)
def _compile_checker(schema: str) -> Callable[[Any], None]:
    import fastjsonschema

    def refuse(uri: str) -> None:
        raise ValueError(f"it refers to {uri}, outside itself")

    outside = dict.fromkeys(("http", "https", "ftp", "file", "data"), refuse)
    try:
        # The defaults of a schema are the caller's business, its formats the model's.
        validate = fastjsonschema.compile(json.loads(schema), handlers=outside, use_default=False)
    except Exception as error:  # which errors an invalid schema raises is not documented
        raise ValueError(str(error)) from error

    def check(value: Any) -> None:
        try:
            validate(value)
        except fastjsonschema.JsonSchemaValueException as error:
            raise Unfit(error.message) from None

    return check


def ask_json(
    llm: LLM,
    messages: Sequence[Mapping[str, Any]],
    schema: Mapping[str, Any],
    *,
    language: Language = "en",
    max_tokens: int | None = None,
) -> dict[str, Any]:
    """Return an answer to `messages`, which should say themselves that JSON is wanted, that fits `schema`.

    - The object is found in plain JSON, in a fenced block, and within prose.
    - An answer that does not fit is shown to the model once, with what is wrong and the schema, in
      `language`; it may answer again. At most two calls.
    - Every string in the result can be encoded; numbers are finite.

    Raises:
        InputError: `checker` does not take `schema`.
        BadReply: the second answer did not fit either; quotes how it begins.
        LLMError: the model could not be asked.
    """
    check, reason = checker(schema), ""
    for _ in range(2):
        reply = llm.complete(messages, max_tokens=max_tokens, schema=schema)
        try:
            return _find_valid_object(reply, check)
        except Unfit as error:
            reason = str(error)
        shown = json.dumps(schema, ensure_ascii=False)
        repair = load_prompt("repair_json", language).substitute(error=reason, schema=shown)
        bad = reply.text[:_MAX_QUOTED_CHARS] or "…"  # some endpoints refuse an empty message
        messages = [*messages, {"role": "assistant", "content": bad}, {"role": "user", "content": repair}]
    begins = " ".join(reply.text[:200].split()) or "nothing"
    advice = "use a larger model, or one that follows JSON schemas"
    raise BadReply(f"the model gave no usable JSON, twice: {reason}; {advice}; its answer begins: {begins}")


def ask_each(
    llm: LLM, prompt: str, texts: Sequence[str], value: Mapping[str, Any], *, language: Language, **words: str
) -> list[Any]:
    """Return the model's answer for each of `texts`, in one call; none can be left out or invented.

    ``prompt`` names the prompt: its ``passages`` are the texts, numbered and quoted, its other fields
    ``words``. ``value`` is the JSON schema of one answer. Raises LLMError as `ask_json`.
    """
    numbers = [str(number) for number in range(1, len(texts) + 1)]
    passages = "\n\n".join(f"[{n}]\n{quote(text)}" for n, text in zip(numbers, texts, strict=True))
    question = load_prompt(prompt, language).substitute(passages=passages, count=len(texts), **words)
    closed = {"required": numbers, "additionalProperties": False}
    schema = {"type": "object", "properties": dict.fromkeys(numbers, value), **closed}
    answer = ask_json(llm, [{"role": "user", "content": question}], schema, language=language)
    return [answer[number] for number in numbers]


def _find_valid_object(reply: Reply, check: Callable[[Any], None]) -> dict[str, Any]:
    reason = ""
    for candidate in _find_objects(reply.text[:_MAX_SEARCHED_CHARS]):
        try:
            check(candidate)
        except Unfit as error:
            reason = reason or str(error)
        else:
            return candidate
    reason = reason or "it holds no JSON object"
    raise Unfit(f"it was cut off, be shorter ({reason})" if reply.finish == "length" else reason)


def _find_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in a text: the text itself, those in fences, those within other words."""
    text = text.rpartition(_THOUGHT_END)[2]
    for part in (text, *_FENCED_BLOCK.findall(text)):
        try:
            found = encodable(_DECODER.decode(part.strip()))
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found
    end = starts = 0
    while (place := text.find("{", end)) >= 0 and starts < _MAX_OBJECT_STARTS:
        end, starts = place + 1, starts + 1
        with suppress(ValueError, RecursionError):
            found, past = _DECODER.raw_decode(text, place)
            yield encodable(found)
            end = past


def _read_finite(word: str) -> float:
    number = float(word)
    if not isfinite(number):
        raise ValueError(f"{word} is no number of JSON")
    return number


# Small models write line breaks into strings; that is no reason to ask again.
_DECODER = json.JSONDecoder(strict=False, parse_float=_read_finite, parse_constant=_read_finite)
