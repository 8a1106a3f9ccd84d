"""The caller of a request: tenant, access, and the users whose memory it may use."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import get_args

from jiyi.errors import Forbidden, InputError, ScopeMissing
from jiyi.records import Scope
from jiyi.wire import Access, stored_user

__all__ = ["LOCAL_CALLER", "Caller", "parse_access"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sent a request, determined by the key alone."""

    key: str = ""  # the key's name; "" where the server needs none
    tenant: str = ""  # "" for none: users are stored under their own ids
    access: frozenset[Access]
    user: str | None = None  # the only one the key is for

    def check(self, needed: Access) -> None:
        """Raise `Forbidden` unless the key has this access; admin also needs a key without tenant."""
        if needed not in self.access:
            has = ", ".join(sorted(self.access))
            raise Forbidden(f"this needs a key with the scope {needed!r}; this one has {has}")
        if needed == "admin" and self.tenant:
            raise Forbidden("this concerns the whole database; it needs a key without a tenant")

    def stored_user(self, given: str | None) -> str:
        """Return the id under which the user that is meant is stored.

        Raises:
            ScopeMissing: none is named, and the key is for more than one.
            Forbidden: the key is for another user.
            BadScope: no user can have this id.
        """
        user = self.user if given is None else given
        if user is None:
            raise ScopeMissing("whose memory? Send user_id, or use a key that is for one user")
        if self.user is not None and user != self.user:
            raise Forbidden("this key is for one user, and not for the one that user_id names")
        return stored_user(self.tenant, Scope(user_id=user).user_id)


LOCAL_CALLER = Caller(access=frozenset(get_args(Access)))
"""The caller of a server without keys: a program on the same machine."""


def parse_access(names: Collection[str]) -> frozenset[Access]:
    """Return what scopes allow, by their names; InputError: there is no such scope, or none is named."""
    scopes = get_args(Access)
    if unknown := sorted(set(names) - set(scopes)):
        raise InputError(f"no scope is named {', '.join(unknown)}; there are {', '.join(scopes)}")
    if not names:
        raise InputError(f"name at least one scope: {', '.join(scopes)}")
    return frozenset(name for name in scopes if name in names)
