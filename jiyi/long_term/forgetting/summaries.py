"""Which versions of summaries go with what is forgotten, and how they are taken out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from jiyi.long_term.forgetting.receipt import ASKED
from jiyi.long_term.forgetting.select import pieces, scan
from jiyi.long_term.forgetting.words import Words
from jiyi.records import Query, Scope, Summary
from jiyi.storage.store import Store
from jiyi.storage.upkeep import Upkeep

__all__ = ["drop_summaries", "drop_summaries_of", "summaries_that_go"]

_PIECE = 1_000
_COVERS = "covers a message that goes"
_HOLDS = "holds the words"
_BUILDS = "builds on a version that goes"
_NARROWER = (
    "ids",
    "roles",
    "since",
    "until",
    "pinned",
    "metadata",
)  # filters that speak of messages, not of summaries


def summaries_that_go(
    store: Store,
    upkeep: Upkeep,
    user: Scope,
    *,
    lost: Sequence[str],
    asked: Mapping[Scope, int],
    query: Query | None = None,
) -> Iterator[tuple[Summary, str]]:
    """Give the versions that go, each with why: from the first that must on, all of the same summary.

    Those that cover a lost message; those asked for; and where a query asks for words in
    messages by nothing but words, those whose own text holds them, for the messages may have
    left in another way.

    Args:
        store, upkeep: of one database.
        user: whose.
        lost: ids of the messages that go, and of those that are out already.
        asked: the first version that was asked for itself, by session and agent.
        query: what was asked for.
    """
    first = {scope: (version, ASKED) for scope, version in asked.items()}

    def note(summary: Summary, why: str) -> None:
        if summary.scope not in first or summary.version < first[summary.scope][0]:
            first[summary.scope] = (summary.version, why)

    for piece in pieces(lost):
        for summary in _all(store, upkeep, user, sources=tuple(piece)):
            note(summary, _COVERS)
    if query is not None and _asks_for_words_alone(query):
        words = Words.of(query.text)
        for summary in _all(store, upkeep, query.scope):
            going = summary.scope in first and summary.version >= first[summary.scope][0]
            if not going and words.are_in(summary.text):
                note(summary, _HOLDS)
    for whose, (version, why) in first.items():
        for summary in _all(store, upkeep, whose):
            if summary.scope == whose and summary.version >= version:
                yield summary, why if summary.version == version else _BUILDS


def drop_summaries(store: Store, user: Scope, ids: Sequence[str]) -> None:
    """Take versions out for good: what is brought back later is folded anew."""
    for piece in pieces(ids):
        store.delete(Query(scope=user, kinds=("summary",), ids=tuple(piece), limit=len(piece)))


def drop_summaries_of(store: Store, scope: Scope) -> None:
    """Take all versions of a scope out for good."""
    everything = Query(scope=scope, kinds=("summary",), limit=_PIECE)
    while store.delete(everything)["summary"]:
        pass


def _asks_for_words_alone(query: Query) -> bool:
    narrows = any(getattr(query, name) is not None for name in _NARROWER)
    return bool(query.text) and "message" in query.kinds and not narrows


def _all(
    store: Store, upkeep: Upkeep, scope: Scope, *, sources: tuple[str, ...] | None = None
) -> Iterator[Summary]:
    query = Query(scope=scope, kinds=("summary",), sources=sources, limit=_PIECE)
    return cast("Iterator[Summary]", scan(store, upkeep, query))
