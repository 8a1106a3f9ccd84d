"""A database as the second schema's code left it: its own scripts, and rows written the old way."""

import json

from first_schema import write_file, write_message

from jiyi.storage.search.postings import pack
from jiyi.text import analyse

_MOMENT = 1_700_000_000_000_000
TARGETS = {"e0": "nginx 容器", "e1": "the nginx container", "e2": "web-7", "e3": None}
"""What each episode of a user is about."""


def make_second_schema(path, users, more=0):
    """Make a file at schema 2 with messages, four episodes and two knowledges for each user; return the ids.

    ``more`` messages are added to the first user's; every message says a word of its own, "w<id>".
    The knowledges rest on episodes; the traits of all texts are those of an older jiyi: none.
    """
    return write_file(path, 2, users, _write_user, _write_message, more)


def _write_user(db, owner, user):
    if owner == 1:
        db.execute("INSERT INTO meta VALUES ('embedder_name', 'older'), ('embedder_dims', '2')")
    db.execute("INSERT INTO owners (owner, user_id, generation) VALUES (?, ?, 7)", (owner, user))
    ids = [_write_message(db, owner, user, "s", i, "nginx 又 502 了，昨天重启过") for i in range(5)]
    for id_, target in TARGETS.items():
        past = {"trigger_type": "alert", "trigger_summary": "disk full", "outcome_summary": "日志清理"}
        past |= {"target": target, "tags": ["disk"], "steps": []}
        text = "\n".join(filter(None, ["disk full", target, "日志清理", "disk"]))
        doc = _write_document(db, owner, user, "episode", id_, text)
        db.execute(
            "INSERT INTO episodes VALUES (?, NULL, 'success', 0.5, 2, ?, ?, ?)",
            (doc, _MOMENT, id_ == "e0", json.dumps(past)),
        )
    for id_, sources in (("k0", ["e0", "e1", "e0"]), ("k1", [None, 5, "e2"])):
        lesson = {"topic": "certificates", "content": id_, "key_points": ["证书"], "source_episodes": sources}
        doc = _write_document(db, owner, user, "knowledge", id_, f"certificates\n{id_}\n证书")
        db.execute("INSERT INTO knowledge VALUES (?, 0.5, 0, NULL, ?, ?)", (doc, _MOMENT, json.dumps(lesson)))
    return [*ids, *TARGETS, "k0", "k1"]


def _write_message(*where_and_what):
    return write_message(_write_document, {}, *where_and_what)


def _write_document(db, owner, user, kind, id_, text, session=None, role=None, seq=None):
    state = "pending" if kind == "message" else "ready"
    (doc,) = db.execute(
        "INSERT INTO documents (user_id, session_id, kind, id, role, seq, created_at, vector_state) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING doc",
        (user, session, kind, id_, role, seq, _MOMENT, state),
    ).fetchone()
    terms = analyse(text)
    db.execute("INSERT INTO terms VALUES (?, ?, ?, 0, ?, ?)", (doc, owner, len(terms), role, pack(terms)))
    if state == "ready":
        db.execute("INSERT INTO vectors (doc, owner, vector) VALUES (?, ?, ?)", (doc, owner, b"\0\x3c\0\0"))
    return doc
