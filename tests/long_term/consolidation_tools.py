"""Episodes to consolidate, and episodes of eight themes in both languages to tell apart."""

from datetime import UTC, datetime, timedelta

from tables import read_tables

from jiyi.records import Episode, Knowledge, Query, Scope, Step

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANA = Scope(user_id="ana")


def episode(id_, target=None, day=0, *, steps=(), user="ana", agent=None, failed=(), **fields):
    """An episode of the nth day; ``steps`` are descriptions, those in ``failed`` did not work."""
    scope = Scope(user_id=user, agent_id=agent, session_id="s")
    done = {"scope": scope, "task_id": f"t-{id_}", "tool_name": "shell"}
    ends = {True: {"status": "failed", "result": "exit 1"}, False: {"status": "completed"}}
    said = [(text, ends[text in failed]) for text in steps]
    taken = [Step(id=f"{id_}-{n}", description=text, **done, **end) for n, (text, end) in enumerate(said)]
    given = {"trigger": "nginx returns 502", "summary": "", "outcome": "success"} | fields
    given["trigger_summary"], given["outcome_summary"] = given.pop("trigger"), given.pop("summary")
    created_at = START + timedelta(days=day)
    return Episode(id=id_, scope=scope, target=target, created_at=created_at, steps=tuple(taken), **given)


def knowledge_of(store, user="ana"):
    """All knowledge of a user, oldest first."""
    query = Query(scope=Scope(user_id=user), kinds=("knowledge",), limit=10_000)
    found = store.find(query)
    assert all(isinstance(record, Knowledge) for record in found)
    return found


def unconsolidated(store, user="ana"):
    """Ids of the episodes that are in no knowledge."""
    query = Query(scope=Scope(user_id=user), kinds=("episode",), consolidated=False, limit=10_000)
    return {record.id for record in store.find(query)}


def themed(language):
    """Episodes without a target, of mixed themes in turn, with the theme of each by id."""
    episodes, theme_of = [], {}
    for day, (theme, trigger, summary, *steps) in enumerate(read_tables(__file__)[language]):
        id_ = f"{theme}-{day}"
        episodes.append(episode(id_, day=day, trigger=trigger, summary=summary, steps=steps))
        theme_of[id_] = theme
    return episodes, theme_of
