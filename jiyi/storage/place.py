"""The location of a memory: a path or a URL, shown without its password."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from jiyi.errors import SettingsError
from jiyi.telling import mask

_SERVERS = ("postgresql", "postgres")
# user:password@host:port,host:port - each part may be missing; a host may be [an IPv6 address].
_HOST = r"(?:\[[^\]]*\]|[^:@\[\]]*)(?::\d*)?"
# Likely meant as the address of a server; otherwise it would become the name of a file.
_LIKE_ADDRESS = re.compile(
    r"\A(?:postgres(?:ql)?:|postgres(?:ql)?//"
    r"|[\w.%+-]+:[^/@]+@[\w.-]+(?::\d+)?/"
    r"|\s*\w+\s*=.*\b(?:host|user|dbname|password)\s*=)",
    re.DOTALL,
)
_AUTHORITY = re.compile(rf"\A(?:[^@]*@)?{_HOST}(?:,{_HOST})*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A file, or a database on a server; as text it shows no password."""

    path: Path | None = None  # the file
    url: str | None = field(default=None, repr=False)  # the database on a server, password and all

    def __str__(self) -> str:
        return str(self.path) if self.url is None else mask(self.url)

    def absolute(self) -> "Place":
        """Return the same place independent of the current folder."""
        return self if self.path is None else Place(path=self.path.absolute())


def locate(url: "str | Path | Place") -> Place:
    """Parse a path, ``sqlite:///path``, ``postgresql://…`` or ``postgres://…``, or raise `SettingsError`."""
    if isinstance(url, Place):
        return url
    if isinstance(url, Path):
        return Place(path=url)
    if not isinstance(url, str):
        raise SettingsError(f"a database is a path or a URL, not {type(url).__name__}")
    scheme, separator, rest = url.partition("://")
    if separator and scheme in _SERVERS:
        _check_authority(url, rest)
        return Place(url=url)
    if not separator and not _LIKE_ADDRESS.match(url):
        path = url
    elif scheme == "sqlite" and rest.startswith("/"):
        path = rest[1:]
    else:
        advice = "give a file path, sqlite:///path or postgresql://…"
        raise SettingsError(f"{mask(url)!r} names no backend of this jiyi; {advice}")
    if not path.strip() or path == ":memory:":
        raise SettingsError("jiyi keeps its data in a file; give a path, in a temporary folder if need be")
    return Place(path=Path(path).expanduser())


def _check_authority(url: str, rest: str) -> None:
    """Refuse a URL that the driver would split differently: its error might show the password."""
    before, _, query = rest.partition("?")
    authority, _, path = before.partition("/")
    nameless = any("=" not in part for part in query.split("&")) if query else False
    if "@" in path or nameless or not _AUTHORITY.fullmatch(authority):
        advice = "in user and password write @ as %40, : as %3A, / as %2F, ? as %3F, # as %23 and % as %25"
        raise SettingsError(f"{mask(url)} is no usable address; {advice}")
