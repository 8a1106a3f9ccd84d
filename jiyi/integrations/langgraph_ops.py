"""What LangGraph's operations on a store do in a memory, and its filters as those of the memory."""

import math
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import accumulate, islice
from typing import Any

from jiyi.errors import BadQuery
from jiyi.integrations.common import get_by_path, read_all, require_framework
from jiyi.long_term import ForgetReceipt
from jiyi.manager import MemoryManager
from jiyi.records import Hit, Item, Scope
from jiyi.records.checks import UNSTORABLE

__all__ = ["FoundItem", "Operations", "UserFrom"]

with require_framework("LangGraph", "langgraph"):
    from langgraph.store.base import (
        GetOp,
        IndexConfig,
        InvalidNamespaceError,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        get_text_at_path,
        validate_op_namespace,
    )
    from langgraph.store.base import Item as StoreItem

UserFrom = Callable[[tuple[str, ...]], str]
"""Says whose items are in a namespace, such as ``lambda namespace: namespace[1]``."""

_PAGE = 10_000  # records that one verb returns
_MINUTE = 60.0
_RESERVED = "langgraph"  # the first label of what is LangGraph's own, such as checkpoints

_Space = tuple[str, ...]


class FoundItem(SearchItem):
    """An item that a query found.

    Attributes:
        score: the cosine similarity of its text and the query; no lower than the score of an item that comes
            after it, for the order is the memory's, which goes by words, too.
        relevance: 0 to 1, how likely it is an answer; see `MemoryManager.search`.
        nothing_relevant: the probability that the store holds no answer.
        why: the share of each feature in its rank.
    """

    __slots__ = ("nothing_relevant", "relevance", "why")

    def __init__(self, item: Item, hit: Hit, score: float, nothing_relevant: float | None) -> None:
        super().__init__(**_fields(item), score=score)
        self.relevance = hit.relevance
        self.nothing_relevant = nothing_relevant
        self.why = dict(hit.why)


class Operations:
    """Does operations; see `JiyiStore` for what it promises and takes."""

    def __init__(
        self,
        memory: MemoryManager,
        user_id: str | None,
        user_from: UserFrom | None,
        index: IndexConfig | None,
    ) -> None:
        _ = memory.parts  # raises for a memory on a server
        self.memory = memory
        self._user_id = user_id
        self._user_from = user_from
        self._paths = _paths_of(index)
        self._users: set[str | None] = {user_id} if user_from is None else set()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations and return their results in the same order.

        Raises:
            InvalidNamespaceError: a namespace that cannot be, or that does not say whose it is.
            InputError: a value that is no JSON, or a filter that cannot be. Nothing was changed.
        """
        asked = list(ops)
        for op in asked:
            _check(op)
        got = self._get_all((tuple(op.namespace), op.key) for op in asked if isinstance(op, GetOp))
        results = [self._read(op, got) for op in asked]
        self._write([op for op in asked if isinstance(op, PutOp)])
        return results

    def check(self, op: PutOp | SearchOp) -> None:
        """Refuse what cannot be done, as `batch` does, before it is done together with what can."""
        _check(op)
        if isinstance(op, SearchOp):
            self._user(tuple(op.namespace_prefix))
            _Filter(op.filter)
        else:
            space, now = tuple(op.namespace), self.memory.parts.clock()
            scope = Scope(user_id=self._user(space) or "anyone")
            Item(scope=scope, namespace=space, key=op.key, value=op.value, created_at=now, updated_at=now)

    def delete_namespace(self, namespace: Sequence[str]) -> ForgetReceipt:
        """Delete the items of a namespace and of those below it; ``memory.restore`` brings them back."""
        space = tuple(namespace)
        _check(PutOp(space, "", {}))
        return self.memory.forget(namespace=space, reason="namespace deleted", user_id=self._user(space))

    def sweep_ttl(self) -> int:
        """Drop the items whose time is over, of the users this store has served; return how many."""
        over = {"kind": "item", "expires_at": {"lte": self.memory.parts.clock()}}
        forget = partial(self.memory.forget, filters=over, reason="expired")
        swept = 0
        for user in list(self._users):
            if forget(user_id=user, dry_run=True).total:  # a purge overwrites, even where nothing goes
                swept += forget(user_id=user, purge=True).total
        return swept

    def _user(self, space: _Space) -> str | None:
        if self._user_from is None:
            return self._user_id
        try:
            user = self._user_from(space)
        except LookupError as error:
            raise InvalidNamespaceError(f"the namespace {space!r} does not say whose it is") from error
        self._users.add(user)
        return user

    def _get_all(self, places: Iterable[tuple[_Space, str]]) -> dict[tuple[_Space, str], Item]:
        """Return those items that are there; those of a namespace are read at once."""
        keys: dict[_Space, list[str]] = defaultdict(list)
        for space, key in places:
            keys[space].append(key)
        return {
            (space, item.key): item
            for space, own in keys.items()
            for item in self.memory.get_items(space, own, user_id=self._user(space))
        }

    def _read(self, op: Op, got: Mapping[tuple[_Space, str], Item]) -> Result:
        match op:
            case GetOp():
                item = got.get((tuple(op.namespace), op.key))
                if item is not None and op.refresh_ttl:
                    self._refresh([item])
                return None if item is None else StoreItem(**_fields(item))
            case SearchOp():
                return self._search(op)
            case ListNamespacesOp():
                return self._list(op)
        return None

    def _search(self, op: SearchOp) -> list[SearchItem]:
        if op.limit < 1:
            return []
        asked = _Filter(op.filter)
        user = self._user(tuple(op.namespace_prefix))
        if op.query and op.query.strip():
            found = list(self._rank(op, asked, user))
        else:
            found = [(item, SearchItem(**_fields(item))) for item in self._newest(op, asked, user)]
        if op.refresh_ttl:
            self._refresh(item for item, _ in found)
        return [shown for _, shown in found]

    def _refresh(self, items: Iterable[Item]) -> None:
        for item in items:
            if item.ttl is not None:
                user = item.scope.user_id
                self.memory.get_item(item.namespace, item.key, refresh=True, user_id=user)

    def _rank(self, op: SearchOp, asked: "_Filter", user: str | None) -> Iterator[tuple[Item, SearchItem]]:
        """Give the items that a query finds, best first."""
        until = op.offset + op.limit
        hits = self.memory.search(
            str(op.query),
            kinds="item",
            namespace=tuple(op.namespace_prefix),
            filters=asked.filters("value."),
            limit=min(until, _PAGE) if asked.exact else _PAGE,
            user_id=user,
        )
        held = [
            (hit.record, hit)
            for hit in hits
            if isinstance(hit.record, Item) and asked.holds(hit.record.value)
        ][:until]
        scores = list(accumulate((hit.similarity for _, hit in reversed(held)), max))[::-1]
        for (item, hit), score in list(zip(held, scores, strict=True))[op.offset :]:
            yield item, FoundItem(item, hit, score, hits.nothing_relevant)

    def _newest(self, op: SearchOp, asked: "_Filter", user: str | None) -> list[Item]:
        """Return the items of a search without a query, the last changed first."""
        until, filters, prefix = op.offset + op.limit, asked.filters(), op.namespace_prefix
        size = min(until, _PAGE)
        there = read_all(
            lambda after: self.memory.items(prefix, filters=filters, limit=size, after=after, user_id=user)
        )
        found = (item for item in there if item.namespace[0] != _RESERVED and asked.holds(item.value))
        return list(islice(found, op.offset, until))

    def _list(self, op: ListNamespacesOp) -> list[_Space]:
        paths: dict[str, list[_Space]] = {"prefix": [], "suffix": []}
        for condition in op.match_conditions or ():
            paths[condition.match_type].append(tuple(condition.path))
        # The memory is asked for one of each; an operation may have more.
        prefix, *prefixes = paths["prefix"] or [()]
        suffix, *suffixes = paths["suffix"] or [()]
        known = prefix[: prefix.index("*")] if "*" in prefix else prefix
        found = [
            space
            for space in self.memory.namespaces(prefix, suffix=suffix, limit=_PAGE, user_id=self._user(known))
            if space[0] != _RESERVED
            and all(_begins(space, path) for path in prefixes)
            and all(_begins(space[::-1], path[::-1]) for path in suffixes)
        ]
        cut = list(dict.fromkeys(space[: op.max_depth] for space in found))
        return cut[op.offset : op.offset + op.limit]

    def _write(self, ops: Sequence[PutOp]) -> None:
        last = {(tuple(op.namespace), op.key): op for op in ops}
        puts: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
        gone = [place for place, op in last.items() if op.value is None]
        for (space, key), op in last.items():
            if op.value is not None:
                ttl = None if op.ttl is None else op.ttl * _MINUTE
                entry = {"namespace": space, "key": key, "value": op.value, "text": self._text(op)}
                puts[self._user(space)].append({**entry, "ttl": ttl})

        def write() -> None:
            for user, entries in puts.items():
                self.memory.put_items(entries, user_id=user)
            ids: dict[str, list[str]] = defaultdict(list)
            for item in self._get_all(gone).values():
                ids[item.scope.user_id].append(item.id)
            for owner, own in ids.items():
                self.memory.forget(ids=own, reason="deleted", user_id=owner)

        if last:
            self.memory.parts.store.together(write)

    def _text(self, op: PutOp) -> str | None:
        """Return what of a value is searched; None where it is all of its texts."""
        if op.index is False:
            return ""
        paths = self._paths if op.index is None else op.index
        if paths is None or "$" in paths:
            return None
        return "\n".join(text for path in paths for text in get_text_at_path(op.value, path))


def _check(op: Op) -> None:
    """Refuse what methods of `BaseStore` would refuse: a batch may be given directly."""
    validate_op_namespace(op)
    if isinstance(op, PutOp) and op.value is not None:
        if not op.namespace:
            raise InvalidNamespaceError("a namespace needs at least one label")
        if op.namespace[0] == _RESERVED:
            raise InvalidNamespaceError(f"a namespace cannot begin with {_RESERVED!r}")


def _fields(item: Item) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": deepcopy(item.value),
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def _paths_of(index: Mapping[str, Any] | None) -> list[str] | None:
    """Return the paths that an index configuration names; None where it names none."""
    if index is None:
        return None
    if index.get("embed") is not None:
        warnings.warn(
            "dims and embed of the index are not used: the memory has its own embedder", stacklevel=4
        )
    paths = index.get("fields") or index.get("text_fields")  # SqliteStore's name for it
    return [paths] if isinstance(paths, str) else paths


def _begins(labels: _Space, path: _Space) -> bool:
    return len(labels) >= len(path) and all(b in ("*", a) for a, b in zip(labels, path, strict=False))


_OPERATORS = {"$eq": "eq", "$ne": "ne", "$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}
_INVALID_KEY = re.compile(r"[\"'`\\\0-\x1f]")  # never reaches SQL: such a key is a mistake or an attack
_MAX_FLOAT = sys.float_info.max
_MAX_INT = 2**63  # whole numbers beyond are compared as floating-point numbers


class _Filter:
    """What a filter of LangGraph, field names with values or operators, asks of the values of items.

    Names with dots reach into objects, and so do objects in the filter. A field that is not there is equal to
    None only, ``$ne`` to all else, and neither greater nor less than anything; nor is a text than a number.

    Raises:
        BadQuery: a key with quotes or control characters, or an unknown operator.
    """

    def __init__(self, given: Mapping[str, Any] | None) -> None:
        self._said: list[dict[str, Any]] = []
        self._left: list[tuple[str, bool, Any]] = []
        for key, asked in (given or {}).items():
            self._field(_key(key), asked)

    @property
    def exact(self) -> bool:
        """Whether `filters` say all of it."""
        return not self._left

    def filters(self, before: str = "") -> dict[str, Any] | None:
        """Return as much of it as the memory's filters say; ``before`` is what names begin with there."""
        parts = [{before + name: asked for name, asked in part.items()} for part in self._said]
        return {"and": parts} if parts else None

    def holds(self, value: Any) -> bool:
        """Say whether a value meets the rest: lists and objects compared as a whole, and None."""
        return all((get_by_path(value, name) == wanted) is equal for name, equal, wanted in self._left)

    def _field(self, name: str, asked: Any) -> None:
        if not isinstance(asked, Mapping):
            self._compare(name, "$eq", asked)
        elif any(str(key).startswith("$") for key in asked):
            for operator, value in asked.items():
                self._compare(name, operator, value)
        else:
            self._said.append({name: {"exists": True}})
            for key, inner in asked.items():
                self._field(f"{name}.{_key(key)}", inner)

    def _compare(self, name: str, operator: str, value: Any) -> None:
        if operator not in _OPERATORS:
            raise BadQuery(f"Unsupported operator: {operator!r}; there are {', '.join(_OPERATORS)}")
        if operator in ("$eq", "$ne") and (value is None or isinstance(value, list | tuple | Mapping)):
            self._left.append((name, operator == "$eq", list(value) if isinstance(value, tuple) else value))
        elif not _equals_nothing(value):
            self._said.append({name: {_OPERATORS[operator]: _finite(value)}})
        elif operator != "$ne":  # which holds of everything
            self._said.append({name: {"gt": _MAX_FLOAT}})  # which holds of nothing


def _key(key: object) -> str:
    if not isinstance(key, str) or not key or _INVALID_KEY.search(key):
        raise BadQuery(
            f"Invalid filter key: {key!r}; it names a field, without quotes and control characters"
        )
    return key


def _equals_nothing(value: Any) -> bool:
    """Say whether no value in JSON, or in a database, is the same."""
    if isinstance(value, float):
        return math.isnan(value)
    return isinstance(value, str) and UNSTORABLE.search(value) is not None


def _finite(value: Any) -> Any:
    """Return a number that every database knows; JSON has none beyond the largest, so that is as good."""
    if isinstance(value, float):
        return max(-_MAX_FLOAT, min(value, _MAX_FLOAT))
    if isinstance(value, int) and not -_MAX_INT <= value < _MAX_INT:
        return float(max(-int(_MAX_FLOAT), min(value, int(_MAX_FLOAT))))
    return value
