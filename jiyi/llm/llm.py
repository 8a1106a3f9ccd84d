"""The protocols every language model follows: messages to a reply, or to the next turn of a conversation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jiyi.records import ToolCall

__all__ = ["LLM", "ChatLLM", "Reply", "Turn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a language model answered, and what that cost."""

    text: str  # the answer alone, without the thoughts before it; "" where there is none
    input_tokens: int | None = None  # as the endpoint counted; None where it did not say
    output_tokens: int | None = None  # as the endpoint counted, thoughts included
    model: str = ""  # the model that answered, as the endpoint calls it
    finish: str = "stop"  # why it ended: "stop", "length" (cut off), or the endpoint's own word


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Reply):
    """What a language model said next, the tools it wants called, and what that cost.

    ``finish`` may also be "tool_calls".
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()  # in the order they are to be made; their ids differ
    notes: tuple[str, ...] = ()  # what was not as it should be, such as tools that were not taken

    def to_openai(self) -> dict[str, Any]:
        """Return the assistant message, ready to be sent back."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.tool_calls:
            message["tool_calls"] = [call.to_openai() for call in self.tool_calls]
        return message


@runtime_checkable
class LLM(Protocol):
    """Answers messages.

    Guarantees: `complete` returns a whole reply or raises, within a time that the model's maker or
    its settings bound; the messages are not changed; text of any kind is accepted, though the model
    may refuse it; safe to call from several threads.
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
            max_tokens: most tokens of the reply, which then has ``finish="length"``; None leaves it to the
                model.
            temperature: 0 for the likeliest words, which is not the same text every time everywhere. A model
                without this choice takes its own.
            schema: a JSON schema of an object. The model is held to it as far as it can be; the text is not
                checked: `jiyi.llm.ask_json` does that.
            stop: the reply ends before the first of these strings.

        Raises:
            InputError: the messages or options cannot be sent.
            LLMError: there is no usable reply; says what to do.
        """


@runtime_checkable
class ChatLLM(Protocol):
    """Takes the next turn of a conversation; guarantees are those of `LLM`."""

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        max_tokens: int | None = None,
        temperature: float = 0,
        on_text: Callable[[str], object] | None = None,
    ) -> Turn:
        """Return what the model says next; raises as `LLM.complete`, also after pieces have come.

        Args:
            messages, max_tokens, temperature: as for `LLM.complete`.
            tools: OpenAI tool definitions the model may call. What it calls is not checked: names may be
                unknown and arguments no JSON.
            on_text: called with each piece of the text as it comes, in the caller's thread; all pieces
                together are ``Turn.text``. What it raises ends the call and is raised here, as is
                KeyboardInterrupt.
        """
