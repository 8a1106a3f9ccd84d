"""What policies share: their type, what must stay, token limits, and accepting dicts as messages."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from jiyi.errors import BadBudget, BudgetTooSmall, SettingsError
from jiyi.records import Message, check_tokens, short_repr
from jiyi.records.atoms import Atom, atoms
from jiyi.text import TokenCounter

__all__ = [
    "DEFAULT_TOKENS", "Candidates", "Dropped", "Kept", "MessageLike", "Policy", "TokenLimit", "accept_dicts",
    "as_messages", "check_count", "smaller_limit",
]  # fmt: skip

MessageLike = Message | Mapping[str, Any]
"""A message, as a value or as an OpenAI Chat Completions dict."""

_S = TypeVar("_S")
_P = ParamSpec("_P")
DEFAULT_TOKENS = 4_000
"""The token limit of a policy that is given none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A dropped message, and why."""

    message: Any  # as it was given: a `Message` or a dict
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A policy's decision: the input in two parts, each in its order."""

    kept: tuple[Any, ...]  # as they were given: messages or dicts
    dropped: tuple[Dropped, ...]

    def of_given(self, given: Sequence[MessageLike], messages: Sequence[Message]) -> "Kept":
        """Return the decision about ``messages`` as one about the ``given`` objects they were made of."""
        original = {id(message): item for message, item in zip(messages, given, strict=True)}
        dropped = (Dropped(message=original[id(d.message)], reason=d.reason) for d in self.dropped)
        return Kept(kept=tuple(original[id(message)] for message in self.kept), dropped=tuple(dropped))


Policy = Callable[[Sequence[Any], int | None], Kept]
"""``policy(messages, budget) -> Kept``.

``budget`` is a number of tokens, or None for "as configured". Every policy is pure and deterministic and
guarantees:

- order is kept and no message is changed; the policies of jiyi take Chat Completions dicts as
  well as `Message`, and return the very objects they were given;
- no tool result without its call and no call without all its results;
- system and pinned messages stay, with the call or results they belong to, unless that call is
  broken, because no model accepts such a window;
- each dropped message has a reason.
"""


def as_messages(given: Sequence[MessageLike]) -> list[Message]:
    """Return a conversation as messages; `BadMessage` if something is neither one nor a valid dict."""
    return [item if isinstance(item, Message) else Message.from_openai(item) for item in given]


def accept_dicts(
    decide: Callable[Concatenate[_S, Sequence[Message], _P], Kept],
) -> Callable[Concatenate[_S, Sequence[MessageLike], _P], Kept]:
    """Make a policy for messages accept dicts too, and return the objects it was given."""

    @wraps(decide)
    def call(policy: _S, messages: Sequence[MessageLike], /, *args: _P.args, **kwargs: _P.kwargs) -> Kept:
        if all(isinstance(item, Message) for item in messages):
            return decide(policy, cast("Sequence[Message]", messages), *args, **kwargs)
        parsed = as_messages(messages)
        return decide(policy, parsed, *args, **kwargs).of_given(messages, parsed)

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """A conversation as required, optional and broken atoms; a policy chooses among the optional.

    A pin holds its whole atom, unless that is broken, because no model accepts such a window.
    """

    messages: Sequence[Message]  # the conversation, in its order
    required: tuple[Atom, ...]  # system and pinned; always stay
    optional: tuple[Atom, ...]  # sound; the policy chooses
    broken: tuple[Atom, ...]  # always dropped

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "Candidates":
        """Classify the atoms of a conversation, in linear time."""
        required, optional, broken = [], [], []
        must_stay = [message.pinned or message.role == "system" for message in messages]
        for atom in atoms(messages):
            if atom.broken is not None:
                broken.append(atom)
            elif any(map(must_stay.__getitem__, atom.indices)):
                required.append(atom)
            else:
                optional.append(atom)
        return cls(messages=messages, required=(*required,), optional=(*optional,), broken=(*broken,))

    @property
    def required_places(self) -> set[int]:
        """The places of the required messages."""
        return {i for atom in self.required for i in atom.indices}

    def without(self, leaving: Mapping[int, str]) -> Kept:
        """Return the decision to drop broken messages and the places that ``leaving`` gives reasons for."""
        reasons = {i: atom.broken for atom in self.broken for i in atom.indices} | dict(leaving)
        kept, dropped = [], []
        for place, message in enumerate(self.messages):
            reason = reasons.get(place)
            if reason is None:
                kept.append(message)
            else:
                dropped.append(Dropped(message=message, reason=reason))
        return Kept(kept=tuple(kept), dropped=tuple(dropped))

    def count_tokens(self, atoms: Iterable[Atom], counter: TokenCounter) -> int:
        """Return the tokens of these atoms, each message with its overhead."""
        return sum(counter.count(self.messages[i]) for atom in atoms for i in atom.indices)


def smaller_limit(max_tokens: int | None, budget: int | None) -> int | None:
    """Return the smaller of two numbers of tokens, None without any; `BadBudget` if ``budget`` is none."""
    if budget is not None:
        check_tokens("budget", budget, error=BadBudget)
    return min((limit for limit in (max_tokens, budget) if limit is not None), default=None)


def check_count(name: str, value: object) -> None:
    """Refuse a number of messages or turns that is not a whole number of at least 1, with `SettingsError`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SettingsError(f"{name}={short_repr(value)} must be a whole number of at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLimit:
    """The token limit of a conversation, and the atoms that may be dropped to keep it."""

    candidates: Candidates
    tokens: int  # in total
    room: int  # left by what must stay and the opening of the reply
    optional: tuple[Atom, ...]  # may be dropped, oldest first
    counter: TokenCounter

    @classmethod
    def of(
        cls, candidates: Candidates, tokens: int, counter: TokenCounter, *, keep_last: bool
    ) -> "TokenLimit":
        """Reserve tokens for required atoms, with ``keep_last`` the newest too, or raise `BudgetTooSmall`."""
        last = candidates.optional[-1:] if keep_last else ()
        pinned = [a for a in candidates.required if candidates.messages[a.first].role != "system"]
        if last and any(atom.first > last[0].first for atom in pinned):
            last = ()  # something newer stays anyway
        needed = counter.count_all(()) + candidates.count_tokens((*candidates.required, *last), counter)
        if needed > tokens:
            system = len(candidates.required) - len(pinned)
            what = f"what must stay (system messages: {system}, pinned: {len(pinned)}, newest: {len(last)})"
            over = f"takes {needed} tokens, {needed - tokens} more than the budget of {tokens}"
            advice = "raise the budget, shorten these messages, or unpin some"
            raise BudgetTooSmall(f"{what} {over}; {advice}", needed=needed, available=tokens)
        room, optional = tokens - needed, candidates.optional[: len(candidates.optional) - len(last)]
        return cls(candidates=candidates, tokens=tokens, room=room, optional=optional, counter=counter)

    @property
    def over_reason(self) -> str:
        """The reason of a message dropped because the conversation is over the limit."""
        return f"over the budget of {self.tokens:,} tokens"

    @property
    def too_large_reason(self) -> str:
        """The reason of an atom that would not fit even alone."""
        return f"with what belongs to it larger than the {self.room:,} tokens there are"

    def count(self, atom: Atom) -> int:
        """Return the tokens of an atom, each message with its overhead."""
        return self.candidates.count_tokens((atom,), self.counter)
