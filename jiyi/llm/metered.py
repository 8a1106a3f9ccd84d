"""A language model whose calls and tokens are counted."""

from collections.abc import Mapping, Sequence
from typing import Any

from jiyi.llm.llm import LLM, Reply
from jiyi.text import counter_for

__all__ = ["Metered"]


class Metered:
    """An `LLM` that counts what is asked of another; for one thread.

    ``calls`` counts questions, failed ones too; ``tokens`` those of questions and replies, as the
    endpoint counted them, else as o200k_base does.
    """

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self.calls = 0
        self.tokens = 0

    def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int | None = None,
        temperature: float = 0,
        schema: Mapping[str, Any] | None = None,
        stop: Sequence[str] = (),
    ) -> Reply:
        """Return the other model's reply, and count it; see `LLM.complete`."""
        counted = counter_for("o200k_base").count_text
        asked = sum(counted(str(message.get("content", ""))) for message in messages)
        self.calls += 1
        self.tokens += asked
        reply = self._llm.complete(
            messages, max_tokens=max_tokens, temperature=temperature, schema=schema, stop=stop
        )
        answered = counted(reply.text) if reply.output_tokens is None else reply.output_tokens
        self.tokens += answered + (0 if reply.input_tokens is None else reply.input_tokens - asked)
        return reply
