"""Reads what an OpenAI-compatible /chat/completions endpoint answered, believing nothing."""

import json
import re
from typing import Any

from jiyi.llm.llm import Reply

__all__ = ["read_reply"]

_THOUGHTS = re.compile(r"\s*<think>.*?(?:</think>\s*|\Z)", re.DOTALL)


def read_reply(body: bytes) -> Reply:
    """Return the reply in an answer, without the thoughts some models put before it.

    Raises:
        ValueError: it is not such an answer; the message says what is wrong.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ValueError("it has no message under 'choices'")
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        raise ValueError(f"the model declined, saying: {message['refusal']}")
    text = _text(message.get("content"))
    thoughts = _THOUGHTS.match(text)
    usage = answer["usage"] if isinstance(answer.get("usage"), dict) else {}
    finish = choice.get("finish_reason")
    return Reply(
        text=text[thoughts.end() :] if thoughts else text,
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        model=str(answer.get("model") or ""),
        finish=finish if isinstance(finish, str) else "stop",
    )


def _text(content: Any) -> str:
    """Return the text of a message, given as such, as parts, or not at all."""
    if content is None:
        return ""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str):
        raise ValueError(f"its message holds no text but {type(content).__name__}")
    return content


def _count(tokens: Any) -> int | None:
    return tokens if type(tokens) is int and tokens >= 0 else None
