"""Messages to a reply: the protocol every language model follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

__all__ = ["LLM", "Reply"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a language model answered, and what that cost."""

    text: str  # the answer alone, without the thoughts before it; "" where there is none
    input_tokens: int | None = None  # as the endpoint counted; None where it did not say
    output_tokens: int | None = None  # as the endpoint counted, thoughts included
    model: str = ""  # the model that answered, as the endpoint calls it
    finish: str = "stop"  # why it ended: "stop", "length" (cut off), or the endpoint's own word


@runtime_checkable
class LLM(Protocol):
    """Answers messages.

    Guarantees: `complete` returns a whole reply or raises, and comes back within a time
    that the model's maker or its settings bound; the messages are not changed; text of any
    kind is accepted, empty, huge or malformed, though the model may refuse it; safe to call
    from several threads.
    """

    def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int | None = None,
        temperature: float = 0,
        schema: Mapping[str, Any] | None = None,
        stop: Sequence[str] = (),
    ) -> Reply:
        """Return the reply to a conversation.

        Args:
            messages: OpenAI Chat Completions dicts, at least one.
            max_tokens: most tokens of the reply; None leaves it to the model. A reply cut
                off by it has ``finish="length"``.
            temperature: 0 for the likeliest words, which is not the same text every time
                everywhere. A model without this choice takes its own.
            schema: a JSON schema of an object. The model is held to it as far as it can be;
                the text is not checked: `jiyi.llm.ask_json` does that.
            stop: the reply ends before the first of these strings.

        Raises:
            InputError: the messages or options cannot be sent.
            LLMError: there is no usable reply; says what to do.
        """
        ...
