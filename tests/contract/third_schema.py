"""A database as the third schema's code left it: brought there by its migrations, with a full trash."""

import json
import re
from unittest import mock

import apsw
from second_schema import make_second_schema

from jiyi.storage import SqliteDatabase
from jiyi.storage.sql import load_migrations
from jiyi.storage.sqlite import connection
from jiyi.storage.sqlite import migrate as sqlite_migrate

_MOMENT = 1_700_000_000_000_000


def make_third_schema(path, users, more=0):
    """Make a file at schema 3 with what `make_second_schema` writes; return the ids.

    In the trash of each user lies a message that was said last in session "s": "lying".
    """
    ids = make_second_schema(path, users, more)
    older = {number: script for number, script in load_migrations("sqlite").items() if number <= 3}
    asked = {name: re.sub(r", (\w\.)?crc\b", "", text) for name, text in connection._SQL.items()}
    with (
        mock.patch.object(sqlite_migrate, "load_migrations", return_value=older),
        mock.patch.object(connection, "_SQL", asked),  # no row had a checksum
    ):
        SqliteDatabase(path).close()
    db = apsw.Connection(str(path))
    for number, user in enumerate(users):
        row = {"user_id": user, "agent_id": None, "session_id": "s", "id": "lying", "seq": 5, "pinned": 0}
        row |= {"created_at": _MOMENT, "importance": None, "tokens": None, "tokens_by": None}
        row["body"] = json.dumps({"role": "user", "content": "out already"})
        db.execute(
            "INSERT INTO trash (user_id, kind, id, doc, session_id, discarded_at, reason, body) "
            "VALUES (?, 'message', 'lying', ?, 's', ?, 'old', ?)",
            (user, 900_000 - number, _MOMENT, json.dumps(row)),
        )
    db.execute("UPDATE sessions SET next_seq = 6 WHERE session_id = 's'")
    db.close()
    return ids
