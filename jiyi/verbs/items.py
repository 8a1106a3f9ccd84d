"""Verbs about items: values kept under a key in a namespace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast

from jiyi.errors import BadQuery, Changed, InputError
from jiyi.long_term.finding import find_by_ids
from jiyi.records import Item, Listing, Query, check_limit, item_id, join_strings, labels_in, read_filter
from jiyi.records.checks import check_id
from jiyi.records.session import Scope
from jiyi.storage import Amendment
from jiyi.verbs.base import Verbs
from jiyi.verbs.checks import Filters, Id, Names, as_labels, as_utc, check_flags
from jiyi.verbs.cursors import list_page

_MAX_ITEMS = 10_000  # put or read at once
_PAGE_SIZE = 1_000  # namespaces read at once
_ANY_LABEL = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class _ItemWrite:
    """One item to write: the arguments of `ItemVerbs.put_item`."""

    scope: Scope
    namespace: Any
    key: str
    value: Mapping[str, Any]
    text: str | None = None
    ttl: float | None = None
    if_version: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "namespace", as_labels(self.namespace))
        if self.if_version is not None and (type(self.if_version) is not int or self.if_version < 0):
            raise InputError(f"if_version={self.if_version!r} must be a whole number; 0: it must be absent")
        if self.text is not None and not isinstance(self.text, str):
            raise InputError(f"text must be text, not {type(self.text).__name__}")

    def next_version(self, known: Item | None, now: datetime) -> Item:
        """Return the version that follows ``known``, the stored one if any."""
        version = 0 if known is None else known.version
        if self.if_version not in (None, version):
            there = "is not there" if known is None else f"has version {version}"
            raise Changed(f"item {self.key!r} {there}, not version {self.if_version}; read it again")
        kept: dict[str, Any] = {"created_at": now}
        if known is not None:
            former = known.history_with_self()
            kept = {"created_at": known.created_at, "pinned": known.pinned, "former": former}
        of = {"scope": self.scope, "namespace": self.namespace, "key": self.key}
        made = Item(**of, value=self.value, version=version + 1, ttl=self.ttl, updated_at=now, **kept)
        text = join_strings(made.value) if self.text is None else self.text
        return replace(made, text=text, expires_at=_expiry(made, now))


class ItemVerbs(Verbs):
    """Keep values by name, and read them again."""

    def put_item(
        self,
        namespace: Names,
        key: str,
        value: Mapping[str, Any],
        *,
        text: str | None = None,
        ttl: float | None = None,
        if_version: int | None = None,
        session_id: Id = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Item:
        """Keep a JSON object under a key, replacing the present one, and return the item.

        The former value stays in `item_history`. Items are not read for facts. Another agent's item of the
        same name is another item.

        Args:
            namespace: labels from the outermost on, such as ``("users", "ana")``; a text is one label.
            value: at most 1,000,000 bytes.
            text: what search reads; all texts in the value by default; no search finds "".
            ttl: seconds after which it expires, unless it is put or refreshed before.
            if_version: only if it has this version; 0: only if it does not exist.
            session_id: the conversation it belongs to, and is forgotten with.

        Raises:
            Changed: it has another version; nothing was changed.
            InputError: labels, a key or a value that cannot be kept, or an impossible ttl.
        """
        scope = self._scope(user_id, agent_id, session_id)
        put = _ItemWrite(
            scope=scope, namespace=namespace, key=key, value=value, text=text, ttl=ttl, if_version=if_version
        )
        return self._write_items([put])[0]

    def put_items(
        self, items: Sequence[Mapping[str, Any]], *, user_id: Id = None, agent_id: Id = None
    ) -> list[Item]:
        """Keep at most 10,000 items in one transaction, all or none, and return them in their order.

        Each is a dict of arguments of `put_item`, except user and agent. If one is named twice, the last
        counts. Raises as `put_item`, and `InputError` for an unknown argument; nothing was changed then.
        """
        if len(items) > _MAX_ITEMS:
            raise BadQuery(f"{len(items):,} items at once; at most {_MAX_ITEMS:,} are put in one transaction")
        puts = []
        for given in items:
            if not isinstance(given, Mapping):
                raise InputError(f"an item is a dict of arguments of put_item, not {type(given).__name__}")
            own = dict(given)
            scope = self._scope(user_id, agent_id, own.pop("session_id", None))
            try:
                puts.append(_ItemWrite(scope=scope, **own))
            except TypeError as error:
                names = ", ".join(map(str, given))
                known = "namespace, key, value; text, ttl, if_version, session_id"
                raise InputError(f"an item has {known}; not {names}") from error
        return self._write_items(puts)

    def get_item(
        self,
        namespace: Names,
        key: str,
        *,
        as_of: datetime | None = None,
        refresh: bool = False,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Item | None:
        """Return an item, None if there is none or it has expired.

        ``as_of`` gives the value it had then, as far as `item_history` goes back; ``refresh`` restarts its
        ttl. Raises `InputError` for labels or a key that no item can have, `NaiveDatetime` if ``as_of`` has
        no time zone.
        """
        check_flags(refresh=refresh)
        scope, moment = self._scope(user_id, agent_id), as_utc(as_of, "as_of")
        found = self._read_items([_checked_id(scope, as_labels(namespace), key)], scope)
        if not found:
            return None
        item, now = found[0], self._clock()
        if moment is not None and item.updated_at > moment:
            return next((past for past in item.versions() if past.updated_at <= moment), None)
        if not item.is_there(moment or now):
            return None
        if refresh and (end := _expiry(item, now)) is not None:
            self._store.amend(scope, "item", [Amendment(id=item.id, expires_at=end)])
            return replace(item, expires_at=end, former=())
        return item.without_history()

    def get_items(
        self, namespace: Names, keys: Sequence[str], *, user_id: Id = None, agent_id: Id = None
    ) -> list[Item]:
        """Return the existing items of a namespace under these keys, in the given order, in one read."""
        if isinstance(keys, str):
            raise InputError(f"keys is a list of names, not the text {keys!r}: use get_item for one")
        scope, labels = self._scope(user_id, agent_id), as_labels(namespace)
        ids = list(dict.fromkeys(_checked_id(scope, labels, key) for key in keys))
        now = self._clock()
        found = {i.id: i.without_history() for i in self._read_items(ids, scope) if i.is_there(now)}
        return [found[id_] for id_ in ids if id_ in found]

    def items(
        self,
        namespace: Names = (),
        *,
        filters: Filters = None,
        limit: int = 100,
        after: str | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Listing[Item]:
        """Return the items in and below a namespace, most recently put first; all items by default.

        A namespace is matched by whole labels: ``("acme",)`` does not match ``("acme-corp",)``. ``filters``
        are conditions on their values, such as ``{"theme": "dark", "size.width": {"gt": 100}}``; a dot leads
        into an object. Operators as in `search`; ``after`` is the `next` of the previous page.

        Raises:
            BadQuery: an impossible limit or filter, a cursor of another list.
            InputError: labels that no item can have.
        """
        query = Query(
            scope=self._scope(user_id, agent_id),
            kinds=("item",),
            namespace=as_labels(namespace),
            there_at=self._clock(),
            where=read_filter(filters, within="value") if filters else None,
            newest_first=True,
            limit=limit,
        )
        found = cast("Listing[Item]", list_page(self._store, query, after))
        return Listing([item.without_history() for item in found], found.next)

    def namespaces(
        self,
        prefix: Names = (),
        *,
        suffix: Names = (),
        depth: int | None = None,
        limit: int = 100,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> list[tuple[str, ...]]:
        """Return the namespaces that hold items, sorted.

        ``prefix`` and ``suffix`` are labels they begin and end with; "*" stands for any one label. With
        ``depth`` they are cut to so many labels, without duplicates. Raises `BadQuery` for an impossible
        depth or limit, `InputError` for labels that no item can have.
        """
        check_limit(limit)
        if depth is not None and (not isinstance(depth, int) or isinstance(depth, bool) or depth < 1):
            raise BadQuery(f"depth={depth!r} must be a whole number, 1 or more")
        begins, ends = as_labels(prefix, "prefix"), as_labels(suffix, "suffix")
        fixed = begins[: begins.index(_ANY_LABEL)] if _ANY_LABEL in begins else begins
        scope, now = self._scope(user_id, agent_id), self._clock()
        query = Query(scope=scope, kinds=("item",), namespace=fixed, there_at=now, limit=_PAGE_SIZE)
        found: set[tuple[str, ...]] = set()
        after = ""
        while paths := self._store.paths(query, after):
            after = paths[-1]
            for labels in map(labels_in, paths):
                if _match(labels[: len(begins)], begins) and _match(labels[::-1][: len(ends)], ends[::-1]):
                    found.add(labels[:depth])
        return sorted(found)[:limit]

    def item_history(
        self, namespace: Names, key: str, *, user_id: Id = None, agent_id: Id = None
    ) -> list[Item]:
        """Return the newest 10 former versions of an item, newest first; none if it does not exist."""
        scope = self._scope(user_id, agent_id)
        found = self._read_items([_checked_id(scope, as_labels(namespace), key)], scope)
        now = self._clock()
        return [past for item in found if item.is_there(now) for past in item.versions()]

    def _read_items(self, ids: Sequence[str], scope: Scope) -> list[Item]:
        return list(find_by_ids(self._store, Scope(user_id=scope.user_id), "item", ids))

    def _write_items(self, puts: Sequence[_ItemWrite]) -> list[Item]:
        if not puts:
            return []
        ids = [_checked_id(put.scope, put.namespace, put.key) for put in puts]
        last = dict(zip(ids, puts, strict=True))

        def keep() -> dict[str, Item]:
            now = self._clock()
            known = {item.id: item for item in self._read_items([*last], puts[0].scope) if item.is_there(now)}
            made = {id_: put.next_version(known.get(id_), now) for id_, put in last.items()}
            self._store.put(list(made.values()))
            return made

        made = self._indexed(self._store.together(keep))
        return [made[id_].without_history() for id_ in ids]


def _checked_id(scope: Scope, namespace: tuple[str, ...], key: str) -> str:
    check_id("key", key)
    return item_id(scope, namespace, key)


def _expiry(item: Item, now: datetime) -> datetime | None:
    """Return when an item that is put or refreshed now expires."""
    return None if item.ttl is None else now + timedelta(seconds=item.ttl)


def _match(labels: Sequence[str], pattern: Sequence[str]) -> bool:
    return len(labels) == len(pattern) and all(
        wanted in (_ANY_LABEL, label) for label, wanted in zip(labels, pattern, strict=True)
    )
