"""What a model's endpoint counted for a reply, in the forms in which it says so."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from jiyi.errors import InputError

__all__ = ["Usage"]

_NAMES = {
    "prompt_tokens": ("prompt_tokens", "input_tokens"),
    "completion_tokens": ("completion_tokens", "output_tokens"),
}
_DETAILS = ("prompt_tokens_details", "input_tokens_details")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call of a model, as its endpoint counted; None where it did not say.

    Raises:
        InputError: a number is none, or below 0; or more was cached than asked.
    """

    prompt_tokens: int | None = None  # of what the model read
    completion_tokens: int | None = None  # of what it wrote, thoughts included
    cached_tokens: int | None = None  # of the prompt, those the endpoint had read before

    def __post_init__(self) -> None:
        """Refuse what can be no count."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and (type(value) is not int or value < 0):
                raise InputError(f"{field.name}={value!r} must be a whole number of at least 0")
        if self.cached_tokens and self.prompt_tokens is not None and self.cached_tokens > self.prompt_tokens:
            raise InputError(
                f"{self.cached_tokens} cached tokens are more than the prompt's {self.prompt_tokens}"
            )

    @classmethod
    def of(cls, given: object) -> "Usage":
        """Return a ``usage`` as endpoints give it: an object of the package `openai` or a dict.

        Both Chat Completions (``prompt_tokens``, ``prompt_tokens_details.cached_tokens``) and
        Responses (``input_tokens``, ``input_tokens_details.cached_tokens``) are understood; so is a
        `jiyi.llm.Reply`, and a `Usage` is returned as it is.

        Raises:
            InputError: it names neither the tokens of a prompt nor of an answer, or no counts.
        """
        if isinstance(given, cls):
            return given
        if not any(_has(given, name) for names in _NAMES.values() for name in names):
            raise InputError(
                f"no usage of a model: {type(given).__name__} without prompt_tokens and completion_tokens; "
                "give Usage(...), or what the endpoint answered as usage"
            )
        details = (_part(given, name) for name in _DETAILS)
        cached = (_part(one, "cached_tokens") for one in details if one is not None)
        found = {field: _first(_part(given, name) for name in names) for field, names in _NAMES.items()}
        return cls(**found, cached_tokens=_first(cached))


def _has(given: object, name: str) -> bool:
    return name in given if isinstance(given, Mapping) else hasattr(given, name)


def _part(given: Any, name: str) -> Any:
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)


def _first(values: Any) -> Any:
    return next((value for value in values if value is not None), None)
