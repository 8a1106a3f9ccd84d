"""Threads of LangGraph as items of a memory: checkpoints, what tasks wrote after them, and their values.

- ``("langgraph", "checkpoints", thread, ":" + ns)``, key: the checkpoint's id;
- ``("langgraph", "writes", thread, ":" + ns, checkpoint id)``, key: the task's id and the write's index;
- ``("langgraph", "values", thread)``, key: a reference, see `jiyi.integrations.langgraph_values`;
- ``("langgraph", "newest", thread)``, key: ``":" + ns``: the greatest id of a checkpoint there.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any

from jiyi.errors import Changed, NotFound
from jiyi.integrations.common import RecentEntries, read_all
from jiyi.integrations.langgraph_values import Packer, Read, Row, RowCache, collect_refs, find_refs, unpack
from jiyi.manager import MemoryManager
from jiyi.records import Item
from jiyi.storage import batched

_ROOT = "langgraph"
_PAGE_SIZE = 1_000
_MAX_ITEMS_PER_WRITE = 10_000  # items of a transaction
_MAX_CACHED_CHECKPOINTS = 200  # checkpoints whose references are kept in mind

_Labels = tuple[str, ...]
_get_key: Callable[[Item], str] = attrgetter("key")


@dataclass(frozen=True, slots=True)
class Place:
    """A thread of a user, there a graph or a subgraph, and there a checkpoint."""

    user: str | None  # None: whom the memory was opened for
    thread: str
    ns: str | None = None  # None: all of them
    id: str | None = None

    @classmethod
    def of_checkpoint(cls, user: str | None, item: Item) -> "Place":
        """Return the place of a stored checkpoint."""
        return cls(user, item.namespace[2], item.namespace[3][1:], item.key)

    def namespace(self, kind: str) -> _Labels:
        """Return the namespace of a kind of item: of this checkpoint, this graph, or the whole thread."""
        labels = {"checkpoints": (self.label,), "writes": (self.label, self.id)}.get(kind, ())
        inner = () if self.ns is None else tuple(label for label in labels if label is not None)
        return (_ROOT, kind, self.thread, *inner)

    @property
    def label(self) -> str:
        """The name of the graph or subgraph, which may be empty, as a label or key, which may not."""
        return f":{self.ns}"


class Threads:
    """Reads and writes threads; from several threads of Python at once, too."""

    def __init__(self, memory: MemoryManager, serde: Any) -> None:
        self._memory = memory
        self._serde = serde
        self._refs = RecentEntries[tuple[str, int], frozenset[str]](_MAX_CACHED_CHECKPOINTS)
        self._rows = RowCache()

    def list_checkpoints(self, place: Place) -> Iterator[Item]:
        """Yield the checkpoints of a thread, or of one of its namespaces, greatest id first.

        The first one, and those of a place that names an id, are read without the others.
        """
        common = place.namespace("checkpoints")
        namespaces = [common]
        if place.ns is None:
            namespaces = self._memory.namespaces(common, limit=_MAX_ITEMS_PER_WRITE, user_id=place.user)
        if place.id is not None:
            for namespace in namespaces:
                yield from self._memory.get_items(namespace, [place.id], user_id=place.user)
            return
        newest = self._read_newest(place, namespaces)
        if newest is not None:
            yield newest
        for item in sorted(self._list_items(common, place.user), key=_get_key, reverse=True):
            # One that is written meanwhile is not listed after those that it came after.
            if newest is None or (item.id != newest.id and item.key <= newest.key):
                yield item

    def _read_newest(self, place: Place, namespaces: Sequence[_Labels]) -> Item | None:
        """Return the checkpoint with the greatest id; None where a namespace does not say which that is."""
        labels = [namespace[3] for namespace in namespaces]
        heads = self._memory.get_items(place.namespace("newest"), labels, user_id=place.user)
        if not heads or len(heads) < len(labels):
            return None
        head = max(heads, key=lambda item: str(item.value["id"]))
        namespace = (*place.namespace("checkpoints")[:3], head.key)
        return self._memory.get_item(namespace, head.value["id"], user_id=place.user)

    def list_all_checkpoints(self, user: str | None) -> list[Item]:
        """Return the checkpoints of all threads of a user, greatest id first."""
        return sorted(self._list_items((_ROOT, "checkpoints"), user), key=_get_key, reverse=True)

    def list_writes(self, place: Place) -> list[Item]:
        """Return what tasks wrote after a checkpoint."""
        return list(self._list_items(place.namespace("writes"), place.user))

    def unpack(self, place: Place, packed: Sequence[Any]) -> list[Any]:
        """Return the values that packed values of a thread stand for."""
        return unpack(packed, self._serde, self._make_reader(place))

    def _make_reader(self, place: Place) -> Read:
        return lambda refs: self._rows.get(refs, partial(self._read_rows, place))

    def _read_known(self, place: Place) -> tuple[Item | None, frozenset[str]]:
        """Return a checkpoint with the references of it and its writes; none where it is not stored.

        As long as it is stored, so is what they refer to. Those of writes of another process are left out.
        """
        item = None if place.id is None else next(self.list_checkpoints(place), None)
        if item is None:
            return None, frozenset()
        refs = self._refs.get((item.id, item.version))
        if refs is None:
            refs = frozenset(find_refs(_packed_values(item), self._make_reader(place)))
            self._refs.put((item.id, item.version), refs)
        return item, refs

    def put(self, parent: Place, place: Place, row: Row, channels: Mapping[str, Any]) -> None:
        """Write a checkpoint that follows a parent, and the rows that are new with it, all or none."""
        packer = Packer(self._serde, self._read_known(parent)[1])
        row = {**row, "channels": {name: packer.pack(value) for name, value in channels.items()}}
        values = _build_value_puts(place, packer)
        checkpoint = _build_put(place, place.namespace("checkpoints"), str(place.id), row)
        namespace = place.namespace("newest")
        while True:
            head = self._memory.get_item(namespace, place.label, user_id=place.user)
            former = map(_get_key, self.list_checkpoints(place))
            newest = head.value["id"] if head else max(former, default="")
            put_head = _build_put(place, namespace, place.label, {"id": max(newest, str(place.id))})
            put_head["if_version"] = head.version if head else 0
            try:
                item = self._write(place, [*values, put_head, checkpoint])[-1]
            except Changed:  # somebody else wrote a checkpoint of the thread meanwhile
                continue
            break
        self._rows.add(packer.new)
        self._refs.put((item.id, item.version), frozenset(packer.refs))

    def put_writes(self, place: Place, writes: Mapping[str, Row], lasting: Container[str]) -> None:
        """Write what a task wrote after a checkpoint, by key, and the rows that are new with it.

        A write with one of the ``lasting`` keys that is stored stays as it is.
        """
        checkpoint, known = self._read_known(place)
        namespace, packer = place.namespace("writes"), Packer(self._serde, known)
        stored = self._memory.get_items(namespace, list(writes), user_id=place.user)
        kept = {item.key for item in stored if item.key in lasting}
        puts = [
            _build_put(place, namespace, key, {**row, "value": packer.pack(row["value"])})
            for key, row in writes.items()
            if key not in kept
        ]
        self._write(place, [*_build_value_puts(place, packer), *puts])
        if checkpoint is not None:
            version = (checkpoint.id, checkpoint.version)
            self._refs.put(version, (self._refs.get(version) or frozenset()).union(packer.refs))

    def copy(self, source: Place, target: Place) -> None:
        """Copy a thread: first what the checkpoints need, then them."""
        for kind in ("values", "writes", "checkpoints"):
            namespace = target.namespace(kind)
            puts = (
                _build_put(target, (*namespace, *item.namespace[3:]), item.key, dict(item.value))
                for item in self._list_items(source.namespace(kind), source.user)
            )
            while page := list(islice(puts, _PAGE_SIZE)):
                self._write(target, page)
        self._purge(target, self._list_items(target.namespace("newest"), target.user))

    def forget(self, place: Place) -> None:
        """Forget the conversation with the name of the thread; it can be restored."""
        self._memory.forget(session_id=place.thread, user_id=place.user, reason="thread deleted")

    def delete(self, place: Place) -> None:
        """Delete all items of a thread, for good."""
        for kind in ("checkpoints", "newest", "writes", "values"):
            self._memory.forget(namespace=place.namespace(kind), purge=True, user_id=place.user)

    def delete_checkpoints(self, place: Place, checkpoints: Sequence[Item]) -> None:
        """Delete checkpoints of a thread with their writes, and the rows that nothing needs, for good."""

        def list_items(kind: str) -> Iterator[Item]:
            return self._list_items(place.namespace(kind), place.user)

        # Rows are listed first: what others write from now on is not among them.
        rows = {item.key: item for item in list_items("values")}
        places = [Place.of_checkpoint(place.user, item) for item in checkpoints]
        writes = [item for checkpoint in places for item in self.list_writes(checkpoint)]
        self._purge(place, [*list_items("newest"), *checkpoints, *writes])
        inner_refs = {key: str(item.value.get("refs", "")).split() for key, item in rows.items()}
        remaining = [*list_items("checkpoints"), *list_items("writes")]
        needed = collect_refs((packed for item in remaining for packed in _packed_values(item)), inner_refs)
        self._purge(place, [item for key, item in rows.items() if key not in needed])

    def _read_rows(self, place: Place, refs: Iterable[str]) -> Mapping[str, Row]:
        """Read rows; NotFound: some do not exist, as when they were forgotten one by one."""
        wanted = list(refs)
        items = self._memory.get_items(place.namespace("values"), wanted, user_id=place.user)
        if len(items) < len(wanted):
            raise NotFound(f"thread {place.thread!r} lacks {len(wanted) - len(items)} of its values")
        return {item.key: dict(item.value) for item in items}

    def _purge(self, place: Place, items: Iterable[Item]) -> None:
        if ids := [item.id for item in items]:
            self._memory.forget(ids=ids, purge=True, reason="pruned", user_id=place.user)

    def _write(self, place: Place, puts: Sequence[Row]) -> list[Item]:
        items: list[Item] = []
        for batch in batched(puts, _MAX_ITEMS_PER_WRITE):  # what needs the others comes last
            items += self._memory.put_items(batch, user_id=place.user)
        return items

    def _list_items(self, namespace: _Labels, user: str | None) -> Iterator[Item]:
        return read_all(self._memory.items, namespace, limit=_PAGE_SIZE, user_id=user)


def find_superseded(items: Sequence[Item], deltas: Mapping[str, Iterable[str]]) -> list[Item]:
    """Return the checkpoints of a thread, given greatest id first, that its newest ones do not need.

    ``deltas`` has by an item's id the channels that are rebuilt from the writes of former checkpoints.
    """
    by_place = {(item.namespace, item.key): item for item in items}
    needed: set[str] = set()
    for newest in {item.namespace: item for item in reversed(items)}.values():
        item: Item | None = newest
        missing = set(deltas[newest.id])
        while item is not None and item.id not in needed:
            needed.add(item.id)
            missing.difference_update(item.value["channels"])
            item = by_place.get((item.namespace, item.value["parent"])) if missing else None
    return [item for item in items if item.id not in needed]


def _build_put(place: Place, namespace: _Labels, key: str, row: Row) -> Row:
    return {"namespace": namespace, "key": key, "value": row, "text": "", "session_id": place.thread}


def _build_value_puts(place: Place, packer: Packer) -> list[Row]:
    return [_build_put(place, place.namespace("values"), ref, row) for ref, row in packer.new.items()]


def _packed_values(item: Item) -> list[Any]:
    return list(item.value["channels"].values()) if "channels" in item.value else [item.value["value"]]
