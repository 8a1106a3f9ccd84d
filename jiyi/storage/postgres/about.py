"""What a server is: asked before its tables are opened, and by those who look after it."""

from dataclasses import dataclass

from jiyi.storage.place import masked
from jiyi.storage.postgres.migrate import look
from jiyi.storage.postgres.pool import connect

__all__ = ["About", "about", "has_tables"]

_ABOUT = """
SELECT current_setting('server_version'),
       (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
       (SELECT extversion FROM pg_extension WHERE extname = 'citus'),
       current_user,
       (SELECT NOT (rolsuper OR rolbypassrls) FROM pg_roles WHERE rolname = current_user),
       (SELECT sum(numbackends) FROM pg_stat_database),
       current_setting('max_connections')::int
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """A server as one role sees it."""

    server: str  # its version, such as "18.6"
    vector: str | None  # version of the extension pgvector, None where the database lacks it
    citus: str | None  # version of the extension Citus, None where the database lacks it
    role: str  # who is connected
    walled: bool  # row level security holds for this role
    connections: int  # open ones on the whole server
    most_connections: int  # that it allows


def has_tables(url: str) -> bool:
    """Say whether jiyi's tables are in a database; nothing changes.

    Raises:
        StorageError: the server cannot be reached, or the database cannot be used; says why.
    """
    with connect(url) as server:
        return look(server, masked(url)).schema > 0


def about(url: str) -> About:
    """Ask a server what it is.

    Raises:
        StorageError: the server cannot be reached, or refuses.
    """
    with connect(url) as server:
        row = server.execute(_ABOUT).fetchone()
    assert row is not None
    version, vector, citus, role, walled, connections, most = row
    return About(
        server=version.split()[0],
        vector=vector,
        citus=citus,
        role=role,
        walled=walled,
        connections=int(connections),
        most_connections=most,
    )
