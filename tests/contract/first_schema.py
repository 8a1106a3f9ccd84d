"""A database as the first schema's code left it: its own script, and rows written the old way."""

import json

import apsw

from jiyi.storage.sql import load_migrations
from jiyi.text import analyse

_APPLICATION_ID = 0x6A697969


def make_first_schema(path, users, more=0):
    """Make a file at schema 1 with messages, an episode and knowledge for each user; return the ids.

    ``more`` messages are added to the first user's; every message says a word of its own, "w<id>".
    """
    return write_file(path, 1, users, _write_user, _write_message, more)


def write_file(path, version, users, write_user, write_message, more):
    """Make a file by the first scripts, and let the functions of a schema write what users have."""
    db = apsw.Connection(str(path))
    db.execute(f"PRAGMA page_size=8192; PRAGMA application_id={_APPLICATION_ID}; PRAGMA journal_mode=WAL")
    db.execute("BEGIN")
    for number in range(1, version + 1):
        db.execute(load_migrations("sqlite")[number])
    ids = {user: write_user(db, owner, user) for owner, user in enumerate(users, 1)}
    for i in range(more):
        ids[users[0]].append(write_message(db, 1, users[0], "big", i, "words 填充 " * 60))
    db.execute(f"PRAGMA user_version={version}; COMMIT")
    db.close()
    return ids


def _write_user(db, owner, user):
    db.execute("INSERT INTO owners (owner, user_id, vectors_generation) VALUES (?, ?, 7)", (owner, user))
    ids = [_write_message(db, owner, user, "s", i, "nginx 又 502 了，昨天重启过") for i in range(5)]
    past = {"trigger_type": "user_request", "trigger_summary": "disk full", "outcome_summary": "日志清理"}
    past |= {"target": "web-7", "tags": ["disk"], "steps": []}
    doc = _write_document(db, owner, user, "episode", "e", "disk full\n日志清理\nweb-7\ndisk")
    db.execute(
        "INSERT INTO episodes VALUES (?, NULL, 'success', 0.5, 0, NULL, 0, ?)", (doc, json.dumps(past))
    )
    lesson = {"topic": "certificates", "content": "renew early", "key_points": ["证书"]}
    lesson |= {"source_episodes": []}
    doc = _write_document(db, owner, user, "knowledge", "k", "certificates\nrenew early\n证书")
    db.execute("INSERT INTO knowledge VALUES (?, 0.5, 0, NULL, 0, ?)", (doc, json.dumps(lesson)))
    return [*ids, "e", "k"]


def _write_message(db, owner, user, session, seq, text):
    return write_message(
        _write_document, {"name": "Bob"} if seq == 0 else {}, db, owner, user, session, seq, text
    )


def write_message(write_document, more, db, owner, user, session, seq, text):
    """Write a message with ``more`` in its body by the function of a schema; return its id."""
    id_ = f"{seq}q{user}{session}"
    body = {"role": "user", "content": f"w{id_} {text}"} | more
    db.execute(
        "INSERT INTO sessions VALUES (?, ?, 0, 0, 1, 1) ON CONFLICT DO UPDATE SET next_seq = next_seq + 1, "
        "messages = messages + 1",
        (user, session),
    )
    doc = write_document(db, owner, user, "message", id_, body["content"], session, "user", seq)
    db.execute("INSERT INTO messages VALUES (?, ?, NULL, NULL, NULL)", (doc, json.dumps(body)))
    return id_


def _write_document(db, owner, user, kind, id_, text, session=None, role=None, seq=None):
    (doc,) = db.execute(
        "INSERT INTO documents (user_id, session_id, kind, id, role, seq, created_at, vector_state) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, 'pending') RETURNING doc",
        (user, session, kind, id_, role, seq, 1_700_000_000_000_000),
    ).fetchone()
    db.execute(
        "INSERT INTO search (rowid, owner, terms) VALUES (?, ?, ?)",
        (doc, f"u{owner}", " ".join(analyse(text))),
    )
    return doc
