"""What policies share: their form, what must stay, limits, and dicts in place of messages."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from jiyi.errors import BadBudget, BudgetTooSmall, SettingsError
from jiyi.records import Message
from jiyi.records.atoms import Atom, atoms
from jiyi.text import TokenCounter

__all__ = [
    "DEFAULT_TOKENS",
    "Candidates",
    "Dropped",
    "Given",
    "Kept",
    "Limit",
    "Policy",
    "as_given",
    "as_messages",
    "check_count",
    "check_tokens",
    "put_back",
]

Given = Message | Mapping[str, Any]
"""A message, or the same as an OpenAI Chat Completions dict."""

_S = TypeVar("_S")
_P = ParamSpec("_P")
DEFAULT_TOKENS = 4_000
"""Tokens of a policy that is given no limit."""


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
  that call is broken: a window no model accepts is useless;
- each message that left has a reason.
"""


def as_messages(given: Sequence[Given]) -> list[Message]:
    """Return a conversation as messages.

    Raises:
        BadMessage: a dict breaks the Chat Completions form, or something is neither.
    """
    return [one if isinstance(one, Message) else Message.from_openai(one) for one in given]


def put_back(kept: Kept, given: Sequence[Given], messages: Sequence[Message]) -> Kept:
    """Return a decision about ``messages`` with the very things they were made of, ``given``."""
    original = {id(message): one for message, one in zip(messages, given, strict=True)}
    return Kept(
        kept=tuple(original[id(message)] for message in kept.kept),
        dropped=tuple(Dropped(message=original[id(one.message)], reason=one.reason) for one in kept.dropped),
    )


def as_given(
    decide: Callable[Concatenate[_S, Sequence[Message], _P], Kept],
) -> Callable[Concatenate[_S, Sequence[Given], _P], Kept]:
    """Make a policy that takes messages take dicts too, and give back what it was given."""

    @wraps(decide)
    def call(policy: _S, messages: Sequence[Given], /, *args: _P.args, **kwargs: _P.kwargs) -> Kept:
        if all(isinstance(one, Message) for one in messages):
            return decide(policy, cast("Sequence[Message]", messages), *args, **kwargs)
        made = as_messages(messages)
        return put_back(decide(policy, made, *args, **kwargs), messages, made)

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What a policy decides about; the part it has no say in is decided already.

    Broken atoms go even where a message in them is pinned: a window that no model accepts
    helps nobody. A pin holds its whole atom.
    """

    messages: Sequence[Message]  # the conversation, in its order
    required: tuple[Atom, ...]  # system and pinned: stay in any case
    optional: tuple[Atom, ...]  # sound, and the policy's to choose
    broken: tuple[Atom, ...]  # go in any case

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "Candidates":
        """Sort a conversation; linear in its length."""
        required, optional, broken = [], [], []
        held = [message.pinned or message.role == "system" for message in messages]
        for atom in atoms(messages):
            if atom.broken is not None:
                broken.append(atom)
            elif any(map(held.__getitem__, atom.indices)):
                required.append(atom)
            else:
                optional.append(atom)
        return cls(messages=messages, required=(*required,), optional=(*optional,), broken=(*broken,))

    @property
    def held(self) -> set[int]:
        """The places of the messages that must stay."""
        return {i for atom in self.required for i in atom.indices}

    def without(self, leaving: Mapping[int, str]) -> Kept:
        """Return the decision that these messages leave, each for its reason, and the broken ones too.

        ``leaving`` maps places in the conversation to reasons and names whole optional atoms.
        """
        reasons = {i: atom.broken for atom in self.broken for i in atom.indices} | dict(leaving)
        kept, dropped = [], []
        for place, message in enumerate(self.messages):
            reason = reasons.get(place)
            if reason is None:
                kept.append(message)
            else:
                dropped.append(Dropped(message=message, reason=reason))
        return Kept(kept=tuple(kept), dropped=tuple(dropped))


def check_tokens(name: str, value: object) -> None:
    """Refuse a number of tokens that is not a whole number of at least 1, with `BadBudget`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadBudget(f"{name}={value!r} must be a whole number of tokens, at least 1")


def check_count(name: str, value: object) -> None:
    """Refuse a number of messages or turns that is not a whole number of at least 1, with `SettingsError`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SettingsError(f"{name}={value!r} must be a whole number of at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A conversation under a limit: what must stay, what that leaves, and what may leave."""

    candidates: Candidates
    tokens: int  # in all
    room: int  # left by what must stay and the opening of the reply
    optional: tuple[Atom, ...]  # may leave, oldest first
    counter: TokenCounter

    @classmethod
    def of(cls, candidates: Candidates, tokens: int, counter: TokenCounter, *, keep_last: bool) -> "Limit":
        """Look at what must stay: required atoms and, with ``keep_last``, the newest sound one.

        Raises:
            BudgetTooSmall: that takes more than ``tokens``.
        """
        last = _last(candidates) if keep_last else ()
        stay = (*candidates.required, *last)
        needed = counter.count_all(()) + _count(candidates, stay, counter)
        if needed > tokens:
            system = sum(candidates.messages[a.first].role == "system" for a in candidates.required)
            raise BudgetTooSmall(
                f"what must stay (system messages: {system}, pinned: {len(candidates.required) - system}, "
                f"newest: {len(last)}) takes {needed} tokens, {needed - tokens} more than the budget of "
                f"{tokens}; raise the budget, shorten these messages, or unpin some",
                needed=needed,
                available=tokens,
            )
        return cls(
            candidates=candidates,
            tokens=tokens,
            room=tokens - needed,
            optional=candidates.optional[: len(candidates.optional) - len(last)],
            counter=counter,
        )

    @property
    def over(self) -> str:
        """Why something left: it is over the limit."""
        return f"over the budget of {self.tokens:,} tokens"

    @property
    def too_large(self) -> str:
        """Why an atom left that would not fit even if all others did."""
        return f"with what belongs to it larger than the {self.room:,} tokens there are"

    def count(self, atom: Atom) -> int:
        """Return the tokens of an atom, each message with its overhead."""
        return _count(self.candidates, (atom,), self.counter)


def _count(candidates: Candidates, atoms: Iterable[Atom], counter: TokenCounter) -> int:
    return sum(counter.count(candidates.messages[i]) for atom in atoms for i in atom.indices)


def _last(candidates: Candidates) -> tuple[Atom, ...]:
    """Return the newest optional atom, nothing where a pinned one is newer and stays anyway."""
    last = candidates.optional[-1:]
    stays = (a for a in candidates.required if candidates.messages[a.first].role != "system")
    return () if last and any(a.first > last[0].first for a in stays) else last
