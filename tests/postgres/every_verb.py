"""One use of every verb, and what was asked of the server meanwhile."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from samples import START, episode, fact, item, knowledge, message, task
from tables import read_tables

import jiyi
from jiyi.records import Query, Scope, Step
from jiyi.storage import Amendment
from jiyi.storage.backend import open_backend
from jiyi.storage.place import locate
from jiyi.storage.postgres.connection import PostgresConnection
from jiyi.storage.postgres.statements import Statement
from jiyi.testing import HashEmbedder

NARROW = {"ids": ("a", "b"), "roles": ("user",), "since": START, "pinned": True, "task_id": "t"}
NARROW |= {"status": "failed", "target": "disk", "consolidated": False, "entity": "edge", "subject": "edge"}
NARROW |= {"predicate": "port", "as_of": START, "fact_status": ("active",), "sources": ("m",), "after_seq": 1}
"""Each condition of a query, with a value."""


@contextmanager
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, tuple[str | None, Any]]]:
    """Give each statement of the block once, with the user it is for and the values it had first."""
    asked: dict[str, tuple[str | None, Any]] = {}
    built = PostgresConnection._statement

    def note(self: PostgresConnection, *given: Any, **parts: str) -> Statement:
        statement, values = built(self, *given, **parts)
        asked.setdefault(statement, (self._user_id, values))
        return statement, values

    with monkeypatch.context() as patch:
        patch.setattr(PostgresConnection, "_statement", note)
        yield asked


def use_every_verb(url: str, folder: Path, user_id: str = "ana") -> None:
    """Do everything a memory can do, for one user."""
    with jiyi.open(url, user_id=user_id, embedder=HashEmbedder(), background=False) as memory:
        for number in range(12):
            role = "assistant" if number % 2 else "user"
            memory.save_message("s", role=role, content=f"the disk of edge-{number} is full", id=f"m{number}")
        started = memory.start_task("s", request="clean the disk")
        step = memory.add_step(started.id, "look")
        memory.update_task(started.id, goal="clean both disks", context={"host": "edge-1"})
        memory.update_step(step.id, description="look again", status="completed")
        memory.complete_task(started.id, outcome="success", summary="cleaned")
        memory.search("disk", filters={"role": "user", "since": START})
        memory.facts("edge-1", as_of=START)
        for verb, given, named in read_tables(__file__)["said, asked, kept, and let go"]:
            getattr(memory, verb)(*json.loads(given.replace("FOLDER", str(folder))), **json.loads(named))
    _ask_of_storage(url, Scope(user_id=user_id))


def _ask_of_storage(url: str, user: Scope) -> None:
    backend = open_backend(locate(url), jiyi.settings.load_settings())
    in_session = Scope(user_id=user.user_id, session_id="s", agent_id="a")
    own, port = {"user": user.user_id}, {"user": user.user_id, "id": "f1", "sources": ("a",)}
    made = [message("x", id="a", **own), episode(target="disk", id="e1", **own), item("x", id="i1", **own)]
    made += [knowledge("x", id="k1", source_episodes=("e1",), **own), task("x", id="t", **own)]
    made += [fact("edge", "port", "1", **port)]
    try:
        store = backend.store
        store.put(made)
        store.put([Step(scope=user, task_id="t", id="st", description="x")])
        store.put([fact("edge", "port", "1", status="retracted", **port)])
        store.put([message(f"bulk {n}", user=user.user_id, session="bulk") for n in range(200)])
        for kind in ("message", "episode", "knowledge", "fact", "item", "task", "step", "session", "summary"):
            for scope in (user, in_session):
                for name, value in [("limit", 5), *NARROW.items()]:
                    query = Query(scope=scope, kinds=(kind,), **{name: value})
                    store.find(query)
                    store.count(query)
            if kind not in ("task", "step", "session", "summary"):
                page = backend.store.scan(Query(scope=user, kinds=(kind,), limit=1))
                backend.store.scan(Query(scope=user, kinds=(kind,), limit=1), page.next)
                backend.store.amend(user, kind, [Amendment(id=made[0].id, pinned=True)])
                store.match(Query(scope=user, kinds=(kind,), text="x", **{"pinned": True}))
        backend.store.targets(Query(scope=user, kinds=("episode",)))
        keys = [("message", "a"), ("episode", "e1"), ("task", "t")]
        backend.trash.discard(user, keys, reason="x", at=START)
        backend.trash.discarded(Query(scope=user, kinds=("message", "task")))
        backend.trash.walk(Query(scope=user, kinds=("message", "task")))
        backend.trash.restore(user, keys[:1])
        backend.trash.erase(user, keys=keys[1:])
        backend.trash.erase(user, before=START + timedelta(days=1))
        store.delete(Query(scope=user, kinds=("message", "fact", "summary", "task"), limit=3))
        backend.database.users()
        backend.database.check()
    finally:
        backend.database.close()


def plain(statement: str) -> str:
    """Write a statement's parameters as ``queries.sql`` does."""
    return re.sub(r"%\((\w+)\)s", r":\1", statement).replace("%%", "%")
