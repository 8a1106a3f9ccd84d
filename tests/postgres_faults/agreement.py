"""What must hold after any fault: all that was acknowledged is there once, and all parts agree."""

from collections import Counter
from collections.abc import Iterable
from urllib.parse import urlsplit

import numpy as np
import psycopg
from at_once import wait_until

import jiyi
from jiyi.embeddings import split_parts
from jiyi.records import Message, Query, Scope, Session
from jiyi.testing import HashEmbedder

MOST = 10_000


def check_whole(url: str, acknowledged: Iterable[str], *, every: int = 1) -> int:
    """Check a whole database and return how many messages it holds.

    Args:
        url: the database.
        acknowledged: ids of messages that must be there, each saved with a word made of its id.
        every: of so many messages one is searched for by its vector and by its words.
    """
    promised, there = set(acknowledged), set[str]()
    embedder = HashEmbedder(256)
    with jiyi.open(url, embedder=embedder, background=False) as memory:
        memory.flush()
        memory._store._db.check()
        for user in memory._store._db.users():
            messages = _messages(memory, user)
            _check_sessions(memory, user, messages)
            ids = [message.id for message in messages]
            assert len(set(ids)) == len(ids), "nothing is there twice"
            _check_vectors(memory, user, messages, embedder)
            for message in messages[::every]:
                _check_found(memory, user, message, embedder)
            assert memory.stats(user_id=user)["message"] == len(messages)
            assert memory.stats(user_id=user)["vectors_pending"] == 0
            there |= set(ids)
    assert promised <= there, f"lost: {sorted(promised - there)[:10]}"
    return len(there)


def order_of(url: str, user: str, session: str) -> dict[str, list[int]]:
    """Return the numbers in the ids NAME-THREAD-NUMBER of a session as they follow, by name and thread."""
    said: dict[str, list[int]] = {}
    with jiyi.open(url, embedder=HashEmbedder(256), background=False) as memory:
        for message in memory.session_messages(session, limit=MOST, user_id=user):
            who, _, number = message.id.rpartition("-")
            said.setdefault(who, []).append(int(number))
    return said


def _messages(memory: jiyi.MemoryManager, user: str) -> list[Message]:
    found: list[Message] = []
    for session in memory.sessions(limit=MOST, user_id=user):
        said = memory.session_messages(session.id, limit=MOST, user_id=user)
        assert len(said) < MOST, "this check reads whole sessions"
        found += said
    return found


def _check_sessions(memory: jiyi.MemoryManager, user: str, messages: list[Message]) -> None:
    for session in memory.sessions(limit=MOST, user_id=user):
        mine = [message for message in messages if message.scope.session_id == session.id]
        assert [message.seq for message in mine] == list(range(len(mine))), "no gap and nothing twice"
        assert isinstance(session, Session)
        assert session.messages == len(mine)
        moments = [message.created_at for message in mine]
        assert (session.started_at, session.last_active_at) == (min(moments), max(moments))
        window = memory.recent_messages(session.id, user_id=user)
        assert [message.id for message in window] == [message.id for message in mine[-len(window) :]]


def _check_vectors(
    memory: jiyi.MemoryManager, user: str, messages: list[Message], embedder: HashEmbedder
) -> None:
    """Every message has the vectors of its own text, each once."""
    keys = [("message", message.id) for message in messages]
    held = memory._long_term.indexer._vectors.read(Scope(user_id=user), keys)
    texts = {row: split_parts(message.search_text) for row, message in enumerate(messages)}
    assert Counter(held.rows.tolist()) == {row: len(parts) for row, parts in texts.items()}
    for row, parts in texts.items():
        assert np.abs(held.vectors[held.rows == row] - embedder.embed(parts, "passage")).max() < 0.01


def _check_found(memory: jiyi.MemoryManager, user: str, message: Message, embedder: HashEmbedder) -> None:
    scope = Scope(user_id=user)
    word = f"w{message.id.replace('-', 'q')}"
    found = memory._store.match(Query(scope=scope, text=word, kinds=("message",), limit=5))
    assert ("message", message.id) in found.keys, f"{message.id} is not found by its word"
    own = embedder.embed(split_parts(message.search_text)[:1], "query")[0]
    best = memory._long_term.indexer._vectors.nearest(Query(scope=scope, kinds=("message",), limit=5), own)
    assert best, f"{message.id} is not found by its vector"
    assert best[0].score > 0.999
    assert message.id in {match.id for match in best} or best[-1].score > 0.999


def sessions_of(superuser_url: str, url: str) -> int:
    """Return how many connections the server has open on a database."""
    words = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
    with psycopg.connect(superuser_url, autocommit=True) as server:
        row = server.execute(words, [urlsplit(url).path[1:]]).fetchone()
    return row[0] if row else 0


def wait_until_alone(superuser_url: str, url: str) -> None:
    """Wait until nobody is connected any more: what closed has left nothing on the server."""
    wait_until(lambda: not sessions_of(superuser_url, url))
