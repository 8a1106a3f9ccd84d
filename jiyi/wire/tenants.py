"""Whose user it is: tenants share a database, and no two of them share a user.

The user "ana" of the tenant "acme" is stored as "acme//ana". A tenant's name has no slash, so each
stored id is read in one way; users without a tenant may not have ids of that form.
"""

import re

from jiyi.errors import BadScope

__all__ = ["check_tenant", "shown_text", "shown_user", "stored_user"]

_TENANT_NAME = r"[a-z0-9][a-z0-9-]{0,62}"
_TENANT_PATTERN = re.compile(_TENANT_NAME)
_TENANT_PREFIX = re.compile(rf"\A{_TENANT_NAME}//")


def check_tenant(name: str) -> str:
    """Return the name of a tenant, "" for none; BadScope: it cannot be one."""
    if name and not _TENANT_PATTERN.fullmatch(name):
        raise BadScope(f"the tenant {name[:80]!r} is not 1 to 63 lower-case letters, digits and hyphens")
    return name


def stored_user(tenant: str, user: str) -> str:
    """Return the id under which a tenant's user is stored.

    Raises:
        BadScope: a user without a tenant has an id of the form that users of tenants have.
    """
    if tenant:
        return f"{tenant}//{user}"
    if _TENANT_PREFIX.match(user):
        raise BadScope("this user_id begins like that of a tenant's user, name//; use another one")
    return user


def shown_user(stored: str) -> str:
    """Return the id of a user as their tenant knows it."""
    return _TENANT_PREFIX.sub("", stored)


def shown_text(text: str, tenant: str) -> str:
    """Return a text about a tenant's users with their ids as the tenant knows them."""
    return text.replace(f"{tenant}//", "") if tenant else text
