"""Threads of LangGraph as items of a memory: checkpoints, what tasks wrote after them, and their values.

- ``("langgraph", "checkpoints", thread, ":" + ns)``, key: the checkpoint's id;
- ``("langgraph", "writes", thread, ":" + ns, checkpoint id)``, key: the task's id and the write's index;
- ``("langgraph", "values", thread)``, key: a reference, see `jiyi.integrations.langgraph_values`;
- ``("langgraph", "newest", thread)``, key: ``":" + ns``: the greatest id of a checkpoint there.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from typing import Any

from jiyi.errors import Changed, NotFound
from jiyi.integrations.common import get_by_path, read_all
from jiyi.integrations.langgraph_values import Packer, Read, Row, Rows, refs_in, refs_of
from jiyi.manager import MemoryManager
from jiyi.records import Item

__all__ = ["Place", "Threads", "matches", "superseded"]

_ROOT = "langgraph"
_PAGE = 1_000
_MAX_ITEMS_PER_WRITE = 10_000  # items of a transaction
_MAX_CACHED_CHECKPOINTS = 200  # checkpoints whose references are kept in mind

_Labels = tuple[str, ...]
_by_key: Callable[[Item], str] = attrgetter("key")


@dataclass(frozen=True, slots=True)
class Place:
    """A thread of a user, there a graph or a subgraph, and there a checkpoint."""

    user: str | None  # None: whom the memory was opened for
    thread: str
    ns: str | None = None  # None: all of them
    id: str | None = None

    def of(self, kind: str) -> _Labels:
        """Return the namespace of a kind of item."""
        below: _Labels = ()
        if kind in ("checkpoints", "writes") and self.ns is not None:
            below = (self.label,) if kind == "checkpoints" or self.id is None else (self.label, self.id)
        return (_ROOT, kind, self.thread, *below)

    @property
    def label(self) -> str:
        """The name of the graph or subgraph, which may be empty, as a label or key, which may not."""
        return f":{self.ns}"


class Threads:
    """Reads and writes threads; from several threads of Python at once, too."""

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory
        self._refs: OrderedDict[tuple[str, int], frozenset[str]] = OrderedDict()
        self._rows = Rows()
        self._guard = threading.Lock()

    def checkpoint(self, place: Place) -> Item | None:
        """Return the checkpoint, or the one with the greatest id where the place names none."""
        return next(self.checkpoints(place), None)

    def checkpoints(self, place: Place) -> Iterator[Item]:
        """Yield the checkpoints of a thread, or of one of its namespaces, greatest id first.

        The first one, and those of a place that names an id, are read without the others.
        """
        all_of = place.of("checkpoints")
        spaces = [all_of]
        if place.ns is None:
            spaces = self._memory.namespaces(all_of, limit=_MAX_ITEMS_PER_WRITE, user_id=place.user)
        if place.id is not None:
            for space in spaces:
                yield from self._memory.get_items(space, [place.id], user_id=place.user)
            return
        newest = self._newest(place, spaces)
        if newest is not None:
            yield newest
        for item in sorted(self._all(all_of, place.user), key=_by_key, reverse=True):
            # One that is written meanwhile is not listed after those that it came after.
            if newest is None or (item.id != newest.id and item.key <= newest.key):
                yield item

    def _newest(self, place: Place, spaces: Sequence[_Labels]) -> Item | None:
        """Return the checkpoint with the greatest id of these namespaces; None where one names none."""
        heads = self._memory.get_items(place.of("newest"), [space[3] for space in spaces], user_id=place.user)
        if not heads or len(heads) < len(spaces):
            return None
        head = max(heads, key=lambda item: str(item.value["id"]))
        space = (*place.of("checkpoints")[:3], head.key)
        return self._memory.get_item(space, head.value["id"], user_id=place.user)

    def of_user(self, user: str | None) -> list[Item]:
        """Return the checkpoints of all threads of a user, greatest id first."""
        return sorted(self._all((_ROOT, "checkpoints"), user), key=_by_key, reverse=True)

    def writes(self, place: Place) -> list[Item]:
        """Return what tasks wrote after a checkpoint."""
        return list(self._all(place.of("writes"), place.user))

    def reader(self, place: Place) -> Read:
        """Return what reads the rows of a thread."""
        return lambda refs: self._rows.of(refs, partial(self._read, place))

    def known(self, place: Place) -> tuple[Item | None, frozenset[str]]:
        """Return a checkpoint with the references of it and its writes; none where it is not stored.

        As long as it is stored, so is what they refer to. Those of writes of another process are left out.
        """
        item = None if place.id is None else self.checkpoint(place)
        if item is None:
            return None, frozenset()
        with self._guard:
            there = self._refs.get((item.id, item.version))
        if there is None:
            there = frozenset(refs_of(_packed(item), self.reader(place)))
            self._remember(item, there)
        return item, there

    def put(self, place: Place, row: Row, packer: Packer) -> None:
        """Write a checkpoint, and the rows that are new with it, all or none."""
        values = _puts(place, packer)
        put = _put(place, place.of("checkpoints"), str(place.id), row)
        while True:
            head = self._memory.get_item(place.of("newest"), place.label, user_id=place.user)
            former = head.value["id"] if head else max(map(_by_key, self.checkpoints(place)), default="")
            newest = _put(place, place.of("newest"), place.label, {"id": max(former, str(place.id))})
            newest["if_version"] = head.version if head else 0
            try:
                made = self._write(place, [*values, newest, put])
            except Changed:  # somebody else wrote a checkpoint of the thread meanwhile
                continue
            break
        self._rows.hold(packer.new)
        self._remember(made[-1], packer.refs)

    def put_writes(
        self, place: Place, writes: Mapping[str, Row], packer: Packer, checkpoint: Item | None
    ) -> None:
        """Write what a task wrote after a checkpoint, by key, and the rows that are new with it."""
        rows = [_put(place, place.of("writes"), key, row) for key, row in writes.items()]
        self._write(place, [*_puts(place, packer), *rows])
        if checkpoint is not None:
            self._remember(checkpoint, packer.refs)

    def written(self, place: Place, keys: Sequence[str]) -> set[str]:
        """Return those keys of writes that are there."""
        return {item.key for item in self._memory.get_items(place.of("writes"), keys, user_id=place.user)}

    def copy(self, source: Place, target: Place) -> None:
        """Copy a thread: first what the checkpoints need, then them."""
        for kind in ("values", "writes", "checkpoints"):
            there = target.of(kind)
            rows = (
                _put(target, (*there, *item.namespace[3:]), item.key, dict(item.value))
                for item in self._all(source.of(kind), source.user)
            )
            while page := list(islice(rows, _PAGE)):
                self._write(target, page)
        self._purge(target, self._heads(target))

    def forget(self, place: Place) -> None:
        """Forget the conversation with the name of the thread; it can be restored."""
        self._memory.forget(session_id=place.thread, user_id=place.user, reason="thread deleted")

    def delete(self, place: Place) -> None:
        """Delete all items of a thread, for good."""
        for kind in ("checkpoints", "newest", "writes", "values"):
            self._memory.forget(namespace=place.of(kind), purge=True, user_id=place.user)

    def drop(self, place: Place, checkpoints: Sequence[Item]) -> None:
        """Delete checkpoints of a thread with their writes, and the rows that nothing needs, for good."""
        # Rows are listed first: what others write from now on is not among them.
        values = {item.key: item for item in self._all(place.of("values"), place.user)}
        gone = [*self._heads(place), *(item.id for item in checkpoints)]
        for item in checkpoints:
            gone += [one.id for one in self.writes(replace(place, ns=item.namespace[3][1:], id=item.key))]
        self._purge(place, gone)
        held = {key: str(item.value.get("refs", "")).split() for key, item in values.items()}
        left = chain(*(self._all(place.of(kind), place.user) for kind in ("checkpoints", "writes")))
        needed = refs_in((packed for item in left for packed in _packed(item)), held)
        self._purge(place, [item.id for key, item in values.items() if key not in needed])

    def _read(self, place: Place, refs: Iterable[str]) -> Mapping[str, Row]:
        """Read rows; NotFound: some are not there, as when they were forgotten one by one."""
        asked = list(refs)
        rows = self._memory.get_items(place.of("values"), asked, user_id=place.user)
        found = {item.key: dict(item.value) for item in rows}
        if len(found) < len(asked):
            raise NotFound(f"thread {place.thread!r} lacks {len(asked) - len(found)} of its values")
        return found

    def _heads(self, place: Place) -> list[str]:
        return [item.id for item in self._all(place.of("newest"), place.user)]

    def _purge(self, place: Place, ids: Sequence[str]) -> None:
        if ids:
            self._memory.forget(ids=ids, purge=True, reason="pruned", user_id=place.user)

    def _write(self, place: Place, puts: Sequence[Row]) -> list[Item]:
        made = list[Item]()
        for at in range(0, len(puts), _MAX_ITEMS_PER_WRITE):  # what needs the others comes last
            made += self._memory.put_items(puts[at : at + _MAX_ITEMS_PER_WRITE], user_id=place.user)
        return made

    def _remember(self, item: Item, refs: Iterable[str]) -> None:
        key = (item.id, item.version)
        with self._guard:
            self._refs[key] = self._refs.pop(key, frozenset()).union(refs)
            if len(self._refs) > _MAX_CACHED_CHECKPOINTS:
                self._refs.popitem(last=False)

    def _all(self, namespace: _Labels, user: str | None) -> Iterator[Item]:
        return read_all(lambda after: self._memory.items(namespace, limit=_PAGE, after=after, user_id=user))


def superseded(items: Sequence[Item], deltas: Callable[[Item], Iterable[str]]) -> list[Item]:
    """Return the checkpoints of a thread, given greatest id first, that its newest ones do not need.

    ``deltas`` returns the channels of a checkpoint that are rebuilt from the writes of former ones.
    """
    at = {(item.namespace, item.key): item for item in items}
    needed = set[str]()
    for newest in {item.namespace: item for item in reversed(items)}.values():
        item: Item | None = newest
        missing = set(deltas(newest))
        while item is not None and item.id not in needed:
            needed.add(item.id)
            missing.difference_update(item.value["channels"])
            item = at.get((item.namespace, item.value["parent"])) if missing else None
    return [item for item in items if item.id not in needed]


def matches(metadata: Mapping[str, Any], filter: Mapping[str, Any]) -> bool:
    """Say whether fields of metadata are equal to these; dots lead into nested ones."""
    return all(
        (metadata[name] if name in metadata else get_by_path(metadata, name)) == value
        for name, value in filter.items()
    )


def _put(place: Place, namespace: _Labels, key: str, row: Row) -> Row:
    return {"namespace": namespace, "key": key, "value": row, "text": "", "session_id": place.thread}


def _puts(place: Place, packer: Packer) -> list[Row]:
    return [_put(place, place.of("values"), ref, row) for ref, row in packer.new.items()]


def _packed(item: Item) -> list[Any]:
    """Return the packed values of a checkpoint or a write."""
    return list(item.value["channels"].values()) if "channels" in item.value else [item.value["value"]]
