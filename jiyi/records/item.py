"""A value kept under a key in a namespace: settings, notes, files, or others that a program keeps by name."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self, cast

from jiyi.errors import InputError
from jiyi.records.checks import UNSTORABLE, check_id, plain, set_utc, stable_id, texts_in
from jiyi.records.fits import checked
from jiyi.records.session import Scope

__all__ = ["KEPT_VERSIONS", "Item", "check_labels", "item_id", "labels_in", "path_of", "strings_of"]

KEPT_VERSIONS = 10
"""How many former versions an item keeps."""

_FORMER = {"version", "value", "text", "updated_at"}
_MOST_LABELS = 32
_MOST_BYTES = 2_000  # of a namespace, as the database writes it, and of a key
_MOST_VALUE = 1_000_000  # bytes of a value as JSON
_MOST_SECONDS = 100 * 366 * 86_400.0


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One value; user, agent, namespace and key name it, and give it its id.

    Raises:
        InputError: labels, a key or a value that cannot be kept, or an impossible ttl.
    """

    scope: Scope  # whose; its session is the conversation the item belongs to, if any
    namespace: tuple[str, ...]  # 1 to 32 labels, from the outermost on
    key: str  # its name in the namespace
    value: Mapping[str, Any] = field(hash=False)  # a JSON object
    created_at: datetime  # of the first version
    updated_at: datetime  # of this version
    id: str = ""  # where none is given, made of user, agent, namespace and key
    text: str = ""  # what search reads; of an item without any nothing is found
    version: int = 1  # counts up with every value
    ttl: float | None = None  # seconds it lasts after it was put or refreshed
    expires_at: datetime | None = None  # from then on it is absent
    pinned: bool = False  # not forgotten by itself
    former: tuple[Mapping[str, Any], ...] = field(default=(), hash=False, repr=False)
    """The versions before, newest first: version, value, text, and updated_at as ISO 8601."""

    def __post_init__(self) -> None:
        """Bring the times to UTC, make the id, and refuse what cannot be kept."""
        check_labels(self.namespace)
        if not self.namespace:
            raise InputError("namespace is empty; give at least one label")
        check_id("key", self.key)
        if len(self.key.encode()) > _MOST_BYTES:
            raise InputError(f"key takes {len(self.key.encode()):,} bytes; at most {_MOST_BYTES:,} are kept")
        object.__setattr__(self, "value", _checked_value(self.value))
        if self.ttl is not None and (isinstance(self.ttl, bool) or not 0 < self.ttl <= _MOST_SECONDS):
            raise InputError(f"ttl={self.ttl!r} must be seconds, more than 0 and at most 100 years")
        if self.version < 1:
            raise InputError(f"version={self.version!r} must be 1 or more")
        if any(not isinstance(past, Mapping) or past.keys() != _FORMER for past in self.former):
            raise InputError(f"each former version has {', '.join(sorted(_FORMER))}")
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
        """Say whether its time is not over."""
        return self.expires_at is None or self.expires_at > now

    def versions(self) -> Iterator[Self]:
        """Give the former versions that are kept, newest first; they have no end of their own."""
        for past in self.former:
            yield replace(
                self,
                version=past["version"],
                value=past["value"],
                text=past["text"],
                updated_at=datetime.fromisoformat(past["updated_at"]),
                ttl=None,
                expires_at=None,
                former=(),
            )

    def bare(self) -> Self:
        """Return it without its former versions, as verbs give it out."""
        return replace(self, former=()) if self.former else self

    def past(self) -> tuple[Mapping[str, Any], ...]:
        """Return ``former`` of the version that follows on this one."""
        own = {
            "version": self.version,
            "value": self.value,
            "text": self.text,
            "updated_at": self.updated_at.isoformat(),
        }
        return (own, *self.former)[:KEPT_VERSIONS]


def check_labels(labels: object, name: str = "namespace") -> None:
    """Refuse what is no tuple of up to 32 labels.

    Raises:
        InputError: says what is wrong.
    """
    if not isinstance(labels, tuple):
        raise InputError(f'{name} must be a tuple of labels such as ("users", "ana"), not {labels!r}')
    if len(labels) > _MOST_LABELS:
        raise InputError(f"{name} has {len(labels)} labels; at most {_MOST_LABELS} are allowed")
    for label in labels:
        check_id(f"a label of {name}", label)
    if (size := len(path_of(labels).encode())) > _MOST_BYTES:
        raise InputError(f"{name} takes {size:,} bytes; at most {_MOST_BYTES:,} are kept")


def item_id(scope: Scope, namespace: Sequence[str], key: str) -> str:
    """Return the id of an item: the same for the same place."""
    return stable_id("item", scope.user_id, scope.agent_id or "", *namespace, key)


def path_of(labels: Sequence[str]) -> str:
    """Return labels as one text, each followed by "/": a path begins with another only by whole labels."""
    return "".join(label.replace("%", "%25").replace("/", "%2F") + "/" for label in labels)


def labels_in(path: str) -> tuple[str, ...]:
    """Undo `path_of`."""
    return tuple(label.replace("%2F", "/").replace("%25", "%") for label in path.split("/")[:-1])


def strings_of(value: object) -> str:
    """Return all texts in a JSON value, a line each, without the keys of objects."""
    return "\n".join(texts_in(value, keys=False))


def _checked_value(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(
            f'value must be a JSON object such as {{"theme": "dark"}}, not {type(value).__name__}'
        )
    copied = cast("dict[str, Any]", plain(value, "value"))
    if any(map(UNSTORABLE.search, texts_in(copied))):
        raise InputError("value holds a zero character or half of a surrogate pair; use plain text")
    if (size := len(json.dumps(copied, ensure_ascii=False).encode())) > _MOST_VALUE:
        raise InputError(f"value takes {size:,} bytes as JSON, at most {_MOST_VALUE:,} are kept; split it")
    return copied
