"""Policies: what stays in the window, and what leaves it and why."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Dropped", "Kept", "Policy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A message that left, and why."""

    message: Any  # as it was given: a `Message` or a dict
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a policy decided. Together the two parts are the input, each in its order."""

    kept: tuple[Any, ...]  # as they were given: messages or dicts
    dropped: tuple[Dropped, ...]


Policy = Callable[[Sequence[Any], int | None], Kept]
"""``policy(messages, budget) -> Kept``.

``budget`` is a number of tokens, or None for "as the policy was set up". Every policy is
pure and deterministic and guarantees:

- order is kept and no message is changed; those of jiyi take dicts of the Chat Completions
  form as well as `Message`, and give back the very objects they were given;
- no tool result without its call and no call without all its results;
- system messages and pinned messages stay, with the call or results they belong to, unless
  that call is broken: a window no model accepts helps nobody;
- each message that left has a reason.
"""
