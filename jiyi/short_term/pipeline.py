"""Pipelines: policies one after the other, as one policy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jiyi.errors import InputError
from jiyi.records import Message
from jiyi.short_term.candidates import Candidates
from jiyi.short_term.given import as_given
from jiyi.short_term.policy import Dropped, Kept, Policy

__all__ = ["Pipeline"]


@dataclass(frozen=True, slots=True, init=False)
class Pipeline:
    """A `Policy` made of policies: each decides about what those to its left kept.

    - What left is given in the order of the conversation, each with the reason of the policy
      that let it go. Broken atoms leave first; ``Pipeline()`` lets go nothing else.
    - The policies are asked again, left to right, until nothing more leaves: where a tool call
      reached across turns, letting it go makes more turns of them.
    - The ``budget`` is handed to every policy.
    - Keeps every guarantee its policies keep, and raises what they raise.

    Raises:
        InputError: something in it is no policy, or (when called) one of them returned
            messages it was not given.
    """

    policies: tuple[Policy, ...]  # first to last

    def __init__(self, *policies: Policy) -> None:
        for policy in policies:
            if not callable(policy):
                raise InputError(
                    f"{policy!r} is no policy; a pipeline takes policies, such as Pipeline(SlidingWindow(10))"
                )
        object.__setattr__(self, "policies", policies)

    @as_given
    def __call__(self, messages: Sequence[Message], budget: int | None = None) -> Kept:
        """Decide, policy by policy."""
        given = _distinct(messages)
        place_of = {id(message): place for place, message in enumerate(given)}
        reasons: dict[int, str] = {}
        kept = _step(Candidates.of(given).without({}), place_of, reasons)
        before = len(kept) + 1
        while len(kept) < before:
            before = len(kept)
            for policy in self.policies:
                kept = _step(policy([given[place] for place in kept], budget), place_of, reasons)
        return Kept(
            kept=tuple(messages[place] for place in kept),
            dropped=tuple(
                Dropped(message=messages[place], reason=reasons[place]) for place in sorted(reasons)
            ),
        )


def _distinct(messages: Sequence[Message]) -> list[Message]:
    """Return the messages, those that stand there twice as copies, so that each has one place."""
    seen: set[int] = set()
    given = []
    for message in messages:
        given.append(replace(message) if id(message) in seen else message)
        seen.add(id(message))
    return given


def _step(decided: Kept, place_of: dict[int, int], reasons: dict[int, str]) -> list[int]:
    """Note why messages left and return the places of those that stay."""
    try:
        reasons |= {place_of[id(one.message)]: one.reason for one in decided.dropped}
        return [place_of[id(message)] for message in decided.kept]
    except KeyError:
        raise InputError(
            "a policy of the pipeline returned a message it was not given; a policy only chooses"
        ) from None
