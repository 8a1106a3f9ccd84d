"""Records of every kind, with the values that are most likely to get lost on the way to a disk."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

from jiyi.records import Episode, Fact, Item, Knowledge, Message, Scope, Step, Summary, Task, ToolCall

ANA, BEN = Scope(user_id="ana"), Scope(user_id="ben")
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
AWKWARD = {
    "empty": "",
    "blank": " \n\t ",
    "nul": "before\0after",
    "only nul": "\0",
    "lone surrogate": "broken \ud83d text \udc00",
    "emoji": "👩‍👩‍👧‍👦🎉",
    "mixed scripts": "重启 nginx ありがとう שלום مرحبا देवनागरी",
    "line breaks": "a\r\nb\u2028c\x85d\x0be",
    "quotes": """it's "quoted" `code` \\ {"json": [1]} %s :name ?""",
    "sql": "'); DROP TABLE messages; --",
}
MEGABYTE = "nginx 502 重启\n" * 60_000


def message(text="hi", session="s", user="ana", at=0, role="user", **fields):
    scope = Scope(user_id=user, session_id=session, agent_id=fields.pop("agent", None))
    moment = START + timedelta(seconds=at)
    return Message(role=role, content=text, scope=scope, created_at=moment, **fields)


def episode(text="the disk was full", user="ana", at=0, **fields):
    own = {"scope": Scope(user_id=user, session_id="s"), "created_at": START + timedelta(seconds=at)}
    return Episode(**({"trigger_summary": text, "outcome": "success"} | own | fields))


def knowledge(text="clean the logs first", user="ana", at=0, **fields):
    moment = START + timedelta(seconds=at)
    own = {"scope": Scope(user_id=user), "topic": "disks", "created_at": moment, "updated_at": moment}
    return Knowledge(content=text, **(own | fields))


def fact(subject="edge-02 网关", predicate="监听端口", object="8444", user="ana", at=0, **fields):
    own = {"scope": Scope(user_id=user), "created_at": START + timedelta(seconds=at)}
    return Fact(subject=subject, predicate=predicate, object=object, **(own | fields))


def item(text="tea", user="ana", at=0, **fields):
    moment = START + timedelta(seconds=at)
    own = {"scope": Scope(user_id=user), "namespace": ("notes", "of/all%"), "key": fields.get("id", "k")}
    own |= {"value": {"n": [1, 1.0, None, {"x": True}]}, "created_at": moment, "updated_at": moment}
    return Item(text=text, **(own | fields))


def task(request="restart nginx", user="ana", at=0, **fields):
    moment = START + timedelta(seconds=at)
    scope = fields.pop("scope", Scope(user_id=user, session_id="s"))
    return Task(scope=scope, request=request, started_at=moment, updated_at=moment, **fields)


def summary(after=None, covers=(), upto=0, text="they spoke of disks", user="ana", at=0, **fields):
    """The next version after another, of session "s" unless told."""
    version, previous = (after.version + 1, after.id) if after else (1, None)
    own = {"scope": after.scope if after else Scope(user_id=user, session_id="s"), "method": "extractive"}
    own |= {"created_at": START + timedelta(seconds=at), "version": version, "previous": previous}
    return Summary(text=text, covers=tuple(covers), upto_seq=upto, **(own | fields))


def by_words(store, query):
    """The ids of what a store finds by words and may return, best first."""
    found = store.match(query)
    rows = zip(found.keys, found.text, found.eligible, strict=True)
    return [id_ for (_, id_), score, may in rows if may and score > 0][: query.limit]


def _outliving(text, scope, step, odd_zone):
    used = {"scope": scope, "last_accessed_at": odd_zone, "pinned": True}
    past = {"outcome": "partial", "outcome_summary": text, "task_id": step.task_id, "access_count": 3}
    past |= {"trigger_type": "scheduled", "steps": (step,), "target": text, "tags": (text,)}
    past |= {"importance": 0.75, "consolidated": True}
    known = {"topic": text, "key_points": (text, ""), "source_episodes": ("e1",), "confidence": 0.9}
    known |= {"access_count": 2, "last_accessed_at": START}
    said = {"category": "plan", "text": text, "speaker": text, "sources": ("m1", text, "m1"), "method": "llm"}
    said |= {"valid_from": odd_zone, "valid_to": START + timedelta(days=9), "status": "superseded"}
    said |= {"confidence": 0.35, "supersedes": "f1", "superseded_by": "f2", "access_count": 4}
    outliving = [episode(text, **used, **past), knowledge(text, **(used | known))]
    return [*outliving, fact(text, text, text, **used, **said), _kept(text, scope, odd_zone)]


def _kept(text, scope, odd_zone):
    plain = re.sub("[\0\ud800-\udfff]", "", text)
    own = {"scope": scope, "namespace": (plain or "n", "a/b%"), "key": plain or "k", "updated_at": odd_zone}
    own |= {"value": {plain: [plain, {"deep": [10**20, -0.0, 1.5, None, {plain: plain}]}]}, "version": 7}
    former = {"version": 6, "value": {plain: 1}, "text": text, "updated_at": odd_zone.isoformat()}
    end = START + timedelta(days=9)
    return item(text, expires_at=end, ttl=777_600.5, pinned=True, former=(former,), **own)


def full(text):
    """One record of each kind with every field set, the text in each place that holds text."""
    scope = Scope(user_id="ana", agent_id="ops", session_id="s")
    nested = {"deep": [{"er": [text, None, True, 1.5, -(10**20)]}, []], text or "key": {}}
    calls = (
        ToolCall(id="c1", name="shell", arguments=text, extra={"index": 0}),
        ToolCall(id="c2", name="grammar", arguments=text, type="custom"),
    )
    parts = ({"type": "text", "text": text}, {"type": "image_url", "image_url": nested})
    odd_zone = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    said = message(text, agent="ops", importance=0.25, pinned=True, tokens=7, tokens_by="o200k_base")
    job = task(text or "x", scope=scope, target=text, trigger_type="alert", tags=(text, "b"), context=nested)
    job = replace(job, summary=text, outcome="partial", status="completed", completed_at=odd_zone)
    told = {"description": text, "tool_name": text, "args": nested, "result": text, "status": "failed"}
    step = Step(scope=scope, task_id=job.id, started_at=odd_zone, completed_at=START, seq=0, **told)
    return [
        said,
        replace(said, id="parts", content=parts, name="Ana", extra={"annotations": nested, "audio": None}),
        Message(
            role="assistant", tool_calls=calls, scope=scope, created_at=odd_zone, extra={"content": None}
        ),
        Message(role="tool", tool_call_id="c1", content=text, scope=scope, created_at=START),
        job,
        step,
        *_outliving(text, scope, step, odd_zone),
    ]
