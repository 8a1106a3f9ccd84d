"""Episodes to consolidate, and episodes of eight themes in both languages to tell apart."""

from datetime import UTC, datetime, timedelta

from tables import read_tables

from jiyi.records import Episode, Knowledge, Query, Scope, Step

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANA = Scope(user_id="ana")


def episode(id_, target=None, day=0, *, steps=(), user="ana", agent=None, failed=(), **fields):
    """An episode of the nth day; ``steps`` are descriptions, those in ``failed`` did not work."""
    scope = Scope(user_id=user, agent_id=agent, session_id="s")
    return Episode(
        id=id_,
        scope=scope,
        trigger_summary=fields.pop("trigger", "nginx returns 502"),
        outcome=fields.pop("outcome", "success"),
        outcome_summary=fields.pop("summary", ""),
        target=target,
        created_at=START + timedelta(days=day),
        steps=tuple(
            Step(
                id=f"{id_}-{n}",
                scope=scope,
                task_id=f"t-{id_}",
                description=text,
                tool_name="shell",
                result="exit 1" if text in failed else None,
                status="failed" if text in failed else "completed",
            )
            for n, text in enumerate(steps)
        ),
        **fields,
    )


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
