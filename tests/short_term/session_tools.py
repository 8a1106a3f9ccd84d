"""Short-term memory over a real store: shared by the tests of sessions."""

import threading
from dataclasses import replace
from datetime import UTC, datetime

from conversations import assistant, user

from jiyi.records import Query, Scope

SCOPE = Scope(user_id="ana", session_id="s-1")
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def save(store, *messages, scope=SCOPE):
    return store.put([replace(m, scope=scope, created_at=NOON) for m in messages])


def talk_of(count):
    return [m for n in range(count) for m in (user(f"问题 {n}"), assistant(f"answer {n}"))]


def texts(messages):
    return [m.text for m in messages]


def whole(store, scope=SCOPE):
    return store.find(Query(scope=scope, kinds=("message",), limit=10_000))


def sweepers():
    return [t for t in threading.enumerate() if t.name == "jiyi-sweep"]


class CountingStore:
    """Passes everything on; counts questions and the rows that came back."""

    def __init__(self, store):
        self._store = store
        self.finds = self.rows = 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    def find(self, query):
        rows = self._store.find(query)
        self.finds += 1
        self.rows += len(rows)
        return rows

    def reset(self):
        self.finds = self.rows = 0
