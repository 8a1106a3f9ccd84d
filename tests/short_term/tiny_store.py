"""The message side of the store protocol in lists, for queries that name a session, and a wrapper that counts what is asked."""

import threading
from contextlib import nullcontext
from dataclasses import replace

from jiyi.errors import DuplicateId


class TinyStore:
    def __init__(self):
        self._lock = threading.Lock()
        self._rows = {}  # (user, session) -> messages
        self._next = {}

    def transaction(self):
        return nullcontext()

    def put(self, records):
        with self._lock:
            return [self._put(record) for record in records]

    def _put(self, record):
        key = (record.scope.user_id, record.scope.session_id)
        rows = self._rows.setdefault(key, [])
        for row in rows:
            if row.id == record.id:
                if replace(record, seq=row.seq) == row:
                    return row
                raise DuplicateId(record.id)
        seq = self._next.get(key, 0)
        self._next[key] = seq + 1
        rows.append(replace(record, seq=seq))
        return rows[-1]

    def find(self, query):
        with self._lock:
            rows = self._rows.get((query.scope.user_id, query.scope.session_id), [])
            found = [m for m in rows if _asked_for(m, query)]
        found.sort(key=lambda m: m.seq, reverse=query.newest_first)
        return found[: query.limit]

    def delete(self, query):
        gone = {m.id for m in self.find(query)}
        with self._lock:
            for key, rows in self._rows.items():
                self._rows[key] = [m for m in rows if m.id not in gone]
        return {"message": len(gone)}

    def match(self, query):
        raise NotImplementedError

    def count(self, query):
        raise NotImplementedError

    def close(self):
        pass


def _asked_for(message, query):
    scope, asked = message.scope, query.scope
    return (
        "message" in query.kinds
        and asked.agent_id in (None, scope.agent_id)
        and (query.ids is None or message.id in query.ids)
        and (query.roles is None or message.role in query.roles)
        and (query.pinned is None or message.pinned == query.pinned)
        and (query.after_seq is None or message.seq > query.after_seq)
        and (query.before_seq is None or message.seq < query.before_seq)
    )


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
