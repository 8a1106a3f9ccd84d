"""Policies measured beside recall: ``python bench/policies.py FILE... --budget 250 [--budget 500]``.

Each policy sees all sessions of a conversation as one history. Shown is the share of the messages with the
answer that is in its window, and the time of deciding; jiyi itself and the rankings are measured by
``jiyi evaluate``. What counts as shown:

* token-budget: what `TokenBudget` keeps, the newest stretch that fits;
* importance: what `ImportanceSampling` keeps, the messages of the highest salience;
* summary: the conversation grows message by message in a `RunningSummary` of that window, an extractive
  `Summarize` may use half of it. Shown are the messages after the summary that fit, and those of which a
  sentence is still in the summary;
* relevance: the messages of which the filter `Relevance` keeps a sentence, the question as its query.

All but relevance decide once for each conversation and budget, with room for the longest of its questions.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from jiyi.compression import Compressed, Given, Relevance, Summarize, as_messages
from jiyi.compression.summarize_points import points_of
from jiyi.evaluate import Conversation, Question, Ranking, Shown, evaluate, load_dataset
from jiyi.evaluate.baselines import needed_alone
from jiyi.records import Message
from jiyi.short_term import ImportanceSampling, RunningSummary, TokenBudget
from jiyi.testing import HashEmbedder
from jiyi.text import TokenCounter, language

_SUMMARY = 0.5  # of a window is summary at most

Leaves = Callable[[Sequence[Message], int, TokenCounter], frozenset[str]]


def by_token_budget(messages: Sequence[Message], room: int, counter: TokenCounter) -> frozenset[str]:
    """Return the newest stretch of messages that fits."""
    return _ids(TokenBudget(room, counter, keep_last=False)(messages).kept)


def by_importance(messages: Sequence[Message], room: int, counter: TokenCounter) -> frozenset[str]:
    """Return what matters most, whatever is asked."""
    return _ids(ImportanceSampling(room, counter=counter, keep_last=False)(messages).kept)


def by_running_summary(messages: Sequence[Message], room: int, counter: TokenCounter) -> frozenset[str]:
    """Return what is in the running summary at the end, and the newest messages after it."""
    policy = RunningSummary(room, counter=counter)
    writer = Writer(Summarize(max_tokens=max(1, int(_SUMMARY * room)), counter=counter))
    after: list[Message] = []
    summary = None
    for message in messages:
        after.append(message)
        folded = policy.fold(after, summary, writer)
        if folded.changed:
            after, summary = list(folded.kept), folded.summary
    if summary is None:
        return by_token_budget(after, room, counter)
    left = room - counter.count(Message(role="system", content=summary.text))
    if left < counter.count_all([]):  # the summary alone is too large
        return by_token_budget(messages, room, counter)
    return by_token_budget(after, left, counter) | frozenset(writer.standing)


POLICIES: Mapping[str, Leaves | None] = {
    "token-budget": by_token_budget,
    "importance": by_importance,
    "summary": by_running_summary,
    "relevance": None,  # reads the question
}


class PolicySystem:
    """One conversation and what a policy leaves of it; it ranks nothing."""

    def __init__(self, name: str, conversation: Conversation, counter: TokenCounter) -> None:
        self._leaves = POLICIES[name]
        self._messages = [counter.counted(message) for message in conversation.messages]
        asked = [question for question in conversation.questions if question.answerable]
        self._needed = [counter.count(Message(role="user", content=one.text)) for one in asked]
        self._counter = counter
        self._left: dict[int, frozenset[str]] = {}

    def rank(self, question: Question, limit: int) -> Ranking:  # noqa: ARG002
        """Return nothing."""
        return Ranking(ids=(), ranked=False)

    def window(self, question: Question, budget: int) -> Shown:
        """Return what is left beside the question."""
        opening = self._counter.count_all([])  # of the reply: a policy's room includes it
        needed = needed_alone(question, budget, self._counter) - opening
        if self._leaves is None:
            return Shown(ids=self._relevant(question.text, budget - needed))
        if budget in self._left:
            return Shown(ids=self._left[budget], made=False)
        longest = max(size for size in [*self._needed, needed] if size + opening <= budget)
        self._left[budget] = self._leaves(self._messages, budget - longest, self._counter)
        return Shown(ids=self._left[budget])

    def _relevant(self, question: str, room: int) -> frozenset[str]:
        left = room - self._counter.count_all([Message(role="user", content="")])
        if left < 1:
            return frozenset()
        made = Relevance(counter=self._counter)(self._messages, max_tokens=left, query=question)
        return frozenset(made.sources)


class Writer:
    """Writes summaries, and knows of which messages there are words in the last one."""

    def __init__(self, write: Summarize) -> None:
        self._write = write
        self._said: dict[str, list[str]] = {}
        self.standing: list[str] = []

    def __call__(self, given: Given, **options: Any) -> Compressed:
        """Write a summary."""
        made = self._write(given, **options)
        for point in points_of(as_messages(given), language(made.text)):
            for source in point.sources:
                self._said.setdefault(source, []).append(point.said)
        earlier = [id_ for id_ in self.standing if any(said in made.text for said in self._said[id_])]
        self.standing = list(dict.fromkeys([*earlier, *made.sources]))
        return made


def _ids(messages: Sequence[Message]) -> frozenset[str]:
    return frozenset(message.id for message in messages)


def main() -> None:
    """Print a table for each file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--budget", action="append", type=int, required=True)
    given = parser.parse_args()
    for file in given.files:
        systems = {name: partial(PolicySystem, name) for name in POLICIES}
        found = evaluate(
            load_dataset(file), open={}, embedder=HashEmbedder(), budgets=given.budget, systems=systems
        )
        table = Table(
            "policy", *(f"in window @{size}" for size in given.budget), "ms p50", "ms p95", title=file.name
        )
        for run in found.runs:
            shares = [f"{run.evidence_in_context[size]:.3f}" for size in given.budget]
            times = [f"{ms:.1f}" for ms in (run.latency.context_p50, run.latency.context_p95)]
            table.add_row(run.system, *shares, *times)
        Console().print(table)


if __name__ == "__main__":
    main()
