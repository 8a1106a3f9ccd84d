"""What a policy alone leaves of a conversation, to compare with: no index, and mostly no question."""

from collections.abc import Callable, Mapping, Sequence

from jiyi.compression import Compressed, Given, as_messages
from jiyi.compression.relevance import Relevance
from jiyi.compression.summarize import Summarize
from jiyi.compression.summarize_points import points_of
from jiyi.errors import BudgetTooSmall
from jiyi.evaluate.dataset import Question
from jiyi.evaluate.systems import Ranking, Shown
from jiyi.records import Message
from jiyi.short_term import ImportanceSampling, RunningSummary, TokenBudget
from jiyi.text import TokenCounter
from jiyi.text import language as language_of

__all__ = [
    "POLICIES",
    "Leaves",
    "PolicySystem",
    "by_importance",
    "by_relevance",
    "by_running_summary",
    "by_token_budget",
]

_SUMMARY = 0.5  # of a window is summary at most

Leaves = Callable[[Sequence[Message], int, TokenCounter], frozenset[str]]
"""From a conversation and a number of tokens to the ids of the messages that are left in them."""


def by_token_budget(messages: Sequence[Message], room: int, counter: TokenCounter) -> frozenset[str]:
    """Return the newest stretch of messages that fits; see `TokenBudget`."""
    return _ids(TokenBudget(room, counter, keep_last=False)(messages).kept)


def by_importance(messages: Sequence[Message], room: int, counter: TokenCounter) -> frozenset[str]:
    """Return what matters most, whatever is asked; see `ImportanceSampling`."""
    return _ids(ImportanceSampling(room, counter=counter, keep_last=False)(messages).kept)


def by_running_summary(messages: Sequence[Message], room: int, counter: TokenCounter) -> frozenset[str]:
    """Return what is in the running summary at the end, and the newest messages behind it.

    The conversation grows message by message and is folded whenever `RunningSummary` says so;
    the extractive `Summarize` may use half of the window. A message is in the summary as long
    as one of its sentences is.
    """
    policy = RunningSummary(room, counter=counter)
    writer = _Writer(Summarize(max_tokens=max(1, int(_SUMMARY * room)), counter=counter))
    behind: list[Message] = []
    summary = None
    for message in messages:
        behind.append(message)
        folded = policy.fold(behind, summary, writer)
        if folded.changed:
            behind, summary = list(folded.kept), folded.summary
    if summary is None:
        return by_token_budget(behind, room, counter)
    left = room - counter.count(Message(role="system", content=summary.text))
    if left < counter.count_all([]):  # the summary alone is too large
        return by_token_budget(messages, room, counter)
    return by_token_budget(behind, left, counter) | frozenset(writer.standing)


def by_relevance(
    messages: Sequence[Message], question: str, room: int, counter: TokenCounter
) -> frozenset[str]:
    """Return the messages of which the relevance filter keeps something; see `Relevance`."""
    left = room - counter.count_all([Message(role="user", content="")])
    if left < 1:
        return frozenset()
    return frozenset(Relevance(counter=counter)(messages, max_tokens=left, query=question).sources)


POLICIES: Mapping[str, Leaves | None] = {
    "token-budget": by_token_budget,
    "importance": by_importance,
    "summary": by_running_summary,
    "relevance": None,
}
"""The policies by name; None for the one that reads the question."""


class PolicySystem:
    """One conversation, all its sessions one history, and what a policy leaves of it.

    It has no order of messages. A policy that does not read the question decides once for each
    budget, with room for the longest of the questions that fit it.
    """

    def __init__(
        self,
        name: str,
        messages: Sequence[Message],
        questions: Sequence[Question],
        *,
        counter: TokenCounter,
    ) -> None:
        self._leaves = POLICIES[name]
        self._messages = [counter.counted(message) for message in messages]
        self._needed = [_needed(question, counter) for question in questions]
        self._counter = counter
        self._left: dict[int, frozenset[str]] = {}

    def rank(self, question: Question, limit: int) -> Ranking:  # noqa: ARG002
        """Return nothing: a policy does not rank."""
        return Ranking(ids=(), ranked=False)

    def window(self, question: Question, budget: int) -> Shown:
        """Return what is left beside the question."""
        needed = _needed(question, self._counter)
        opening = self._counter.count_all([])
        if needed + opening > budget:
            raise BudgetTooSmall(
                f"the question takes {needed + opening} of {budget} tokens; raise the budget",
                needed=needed + opening,
                available=budget,
            )
        if self._leaves is None:
            return Shown(ids=by_relevance(self._messages, question.text, budget - needed, self._counter))
        if budget in self._left:
            return Shown(ids=self._left[budget], made=False)
        longest = max(size for size in [*self._needed, needed] if size + opening <= budget)
        self._left[budget] = self._leaves(self._messages, budget - longest, self._counter)
        return Shown(ids=self._left[budget])


class _Writer:
    """Writes summaries, and knows of which messages there are words in the last one."""

    def __init__(self, write: Summarize) -> None:
        self._write = write
        self._said: dict[str, list[str]] = {}
        self.standing: list[str] = []

    def __call__(
        self,
        given: Given,
        *,
        max_tokens: int | None = None,
        query: str | None = None,
        previous: str | None = None,
    ) -> Compressed:
        made = self._write(given, max_tokens=max_tokens, query=query, previous=previous)
        for point in points_of(as_messages(given), language_of(made.text)):
            for source in point.sources:
                self._said.setdefault(source, []).append(point.said)
        earlier = [id_ for id_ in self.standing if any(said in made.text for said in self._said[id_])]
        self.standing = list(dict.fromkeys([*earlier, *made.sources]))
        return made


def _ids(messages: Sequence[Message]) -> frozenset[str]:
    return frozenset(message.id for message in messages)


def _needed(question: Question, counter: TokenCounter) -> int:
    """Return the tokens of a question, without the opening of the reply."""
    return counter.count(Message(role="user", content=question.text))
