"""A memory on a file of its own, filled with every kind of record, for tests of export and import."""

from dataclasses import replace
from datetime import timedelta

from samples import ANA, START, full, message, summary

from jiyi.importers.run import import_path
from jiyi.records import Fact, Message, Query
from jiyi.storage import SqliteDatabase, Store
from jiyi.storage.transfer.export import export_lines
from jiyi.text import counter_for

KINDS = ("message", "task", "episode", "knowledge", "fact", "item", "summary")


class File:
    """A memory on a file of its own."""

    def __init__(self, path):
        self.database = SqliteDatabase(path)
        self.store = Store(self.database)

    def export(self, path, scope=ANA, **options):
        return export_lines(self.store, scope, path, **options)

    def import_(self, path, scope=ANA, **options):
        return import_path(self.store, path, scope, prepare=counter_for().counted, **options)

    def everything(self, scope=ANA):
        found = self.store.find(Query(scope=scope, kinds=KINDS, limit=10_000))
        bare = (replace(r, tokens=None, tokens_by=None) if isinstance(r, Message) else r for r in found)
        return {(type(r).__name__, r.id): r for r in bare}


def fact(value="8443", at=0, **fields):
    fields = {"subject": "edge-02", "predicate": "port", **fields}
    scope = fields.pop("scope", ANA)
    return Fact(scope=scope, object=value, created_at=START + timedelta(seconds=at), **fields)


def fill(memory, text="你好 world"):
    """Every kind, every field, sessions whose order is not that of time, a gap."""
    memory.store.put(full(text))
    agents = (None, "ops")
    said = [message(f"{text} {n}", session=f"s{n % 3}", at=-n, agent=agents[n % 2]) for n in range(9)]
    memory.store.put(said)
    memory.store.delete(Query(scope=ANA, kinds=("message",), ids=(said[3].id,)))
    old = fact("8443", valid_to=START, status="superseded", superseded_by="new", sources=(said[0].id,))
    new = fact("8444", 5, id="new", supersedes=old.id, valid_from=START, category="decision", method="llm")
    odd = fact(text, 6, speaker=text, text=text, pinned=True, access_count=3, last_accessed_at=START)
    memory.store.put([old, new, odd])
    words = text if text.strip() else "blank"
    first = summary(None, [said[0].id, "gone"], 0, words, scope=ANA.in_session("s0"), language="zh", tokens=7)
    of_agent = replace(summary(None, [said[1].id], 0, words), scope=said[1].scope)
    later = summary(first, [said[3].id], 2, f"{words} and more", at=-9, method="llm")
    orphan = summary(None, ["nowhere"], 5, words, scope=ANA.in_session("without messages"))
    memory.store.put([orphan, first, of_agent, later])
