"""A value stored under a key in a namespace, such as settings, notes or files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from jiyi.errors import InputError
from jiyi.records.checks import check_id, copy_object, explain_type_errors, iter_strings, set_utc, stable_id
from jiyi.records.session import Scope

__all__ = ["KEPT_VERSIONS", "Item", "check_labels", "item_id", "join_strings", "labels_in", "path_of"]

KEPT_VERSIONS = 10
"""How many former versions an item keeps."""

_VERSION_FIELDS = ("version", "value", "text", "updated_at")
_MAX_LABELS = 32
_MAX_BYTES = 2_000  # of a namespace, as the database writes it, and of a key
_MAX_VALUE_BYTES = 1_000_000  # bytes of a value as JSON
_MAX_TTL = 100 * 366 * 86_400.0


@explain_type_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One value, identified by user, agent, namespace and key; `InputError` for what cannot be kept."""

    scope: Scope  # whose; its session is the conversation the item belongs to, if any
    namespace: tuple[str, ...]  # 1 to 32 labels, outermost first
    key: str  # its name in the namespace
    value: Mapping[str, Any] = field(hash=False)  # a JSON object
    created_at: datetime  # of the first version
    updated_at: datetime  # of this version
    id: str = ""  # derived from user, agent, namespace and key by default
    text: str = ""  # what search reads; without it search does not find the item
    version: int = 1  # increases with every value
    ttl: float | None = None  # lifetime in seconds after it was put or refreshed
    expires_at: datetime | None = None  # absent from then on
    pinned: bool = False  # never forgotten automatically
    former: tuple[Mapping[str, Any], ...] = field(default=(), hash=False, repr=False)
    """Former versions, newest first: version, value, text, and updated_at as ISO 8601."""

    def __post_init__(self) -> None:
        check_labels(self.namespace)
        if not self.namespace:
            raise InputError("namespace is empty; give at least one label")
        check_id("key", self.key)
        if len(self.key.encode()) > _MAX_BYTES:
            raise InputError(f"key takes {len(self.key.encode()):,} bytes; at most {_MAX_BYTES:,} are kept")
        kind, advice = 'JSON object such as {"theme": "dark"}', "with an item; split it"
        value = copy_object("value", self.value, kind, most=_MAX_VALUE_BYTES, advice=advice)
        object.__setattr__(self, "value", value)
        if self.ttl is not None and (isinstance(self.ttl, bool) or not 0 < self.ttl <= _MAX_TTL):
            raise InputError(f"ttl={self.ttl!r} must be seconds, more than 0 and at most 100 years")
        if self.version < 1:
            raise InputError(f"version={self.version!r} must be 1 or more")
        if any(not isinstance(past, Mapping) or past.keys() != set(_VERSION_FIELDS) for past in self.former):
            raise InputError(f"each former version has {', '.join(sorted(_VERSION_FIELDS))}")
        if not self.id:
            object.__setattr__(self, "id", item_id(self.scope, self.namespace, self.key))
        set_utc(self, "created_at", "updated_at", "expires_at")

    @property
    def search_text(self) -> str:
        """What search reads."""
        return self.text

    @property
    def path(self) -> str:
        """Namespace and key in one line: "users/ana/settings"."""
        return "/".join([*self.namespace, self.key])

    def is_there(self, now: datetime) -> bool:
        """Say whether it has not expired."""
        return self.expires_at is None or self.expires_at > now

    def versions(self) -> Iterator[Self]:
        """Yield the stored former versions, newest first; they never expire."""
        for past in self.former:
            own = {**past, "updated_at": datetime.fromisoformat(past["updated_at"])}
            yield replace(self, **own, ttl=None, expires_at=None, former=())

    def without_history(self) -> Self:
        """Return the item without its former versions, as callers get it."""
        return replace(self, former=()) if self.former else self

    def history_with_self(self) -> tuple[Mapping[str, Any], ...]:
        """Return the ``former`` of the next version: this version and those before it."""
        current = {name: getattr(self, name) for name in _VERSION_FIELDS}
        current["updated_at"] = self.updated_at.isoformat()
        return (current, *self.former)[:KEPT_VERSIONS]


def check_labels(labels: object, name: str = "namespace") -> None:
    """Raise `InputError` unless it is a tuple of up to 32 labels."""
    if not isinstance(labels, tuple):
        raise InputError(f'{name} must be a tuple of labels such as ("users", "ana"), not {labels!r}')
    if len(labels) > _MAX_LABELS:
        raise InputError(f"{name} has {len(labels)} labels; at most {_MAX_LABELS} are allowed")
    for label in labels:
        check_id(f"a label of {name}", label)
    if (size := len(path_of(labels).encode())) > _MAX_BYTES:
        raise InputError(f"{name} takes {size:,} bytes; at most {_MAX_BYTES:,} are kept")


def item_id(scope: Scope, namespace: Sequence[str], key: str) -> str:
    """Return the id of an item, the same for the same user, agent, namespace and key."""
    return stable_id("item", scope.user_id, scope.agent_id or "", *namespace, key)


def path_of(labels: Sequence[str]) -> str:
    """Return labels as one text, each followed by "/", so that prefixes match whole labels only."""
    return "".join(label.replace("%", "%25").replace("/", "%2F") + "/" for label in labels)


def labels_in(path: str) -> tuple[str, ...]:
    """Return the labels of a path made by `path_of`."""
    return tuple(label.replace("%2F", "/").replace("%25", "%") for label in path.split("/")[:-1])


def join_strings(value: object) -> str:
    """Return all texts in a JSON value, one per line, without the keys of objects."""
    return "\n".join(iter_strings(value, keys=False))
