"""Questions that ask for one point of one person ("Where do I live?"), and the facts that answer them.

A fact that holds says what the point is now, in whatever words it was told: "we unpacked the last box in
Leeds" shares none with the question. So what it says comes first, and after it the message it was read from.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import cast

from jiyi.records import Fact, Query, Scope
from jiyi.storage import Store
from jiyi.text.keys import entity_key, predicate_key

__all__ = ["AskedPoint", "asked_point", "holding"]

_LONGEST = 120  # characters; a longer text tells something, too
_MOST = 200  # facts of a point that are looked at, the newest
_LIFTED = 3  # facts that a question is answered with at most
_OWN = frozenset({"i", "we", "user", "me", "我", "我们", "咱", "咱们", "用户"})
_MINE = re.compile(r"(?i:my|our) |我们?(?:家)?的?")
_OF = re.compile(r"'s\Z")


@dataclass(frozen=True, slots=True)
class AskedPoint:
    """Which point of whom a question asks for."""

    points: tuple[str, ...]  # predicates, any of them
    name: str = ""  # whose: a name; "" for the one who asks
    relation: str = ""  # whose: what somebody is to the one who asks ("sister", 老婆); "" for nobody such


@cache
def _forms() -> Sequence[tuple[tuple[str, ...], Sequence[re.Pattern[str]]]]:
    """Return the points that are asked for, with the patterns of both languages: English ones first."""
    table = tomllib.loads(files(__package__).joinpath("points.toml").read_text("utf-8"))
    out = []
    for row in table["point"]:
        patterns = [
            re.compile(
                pattern.replace("{who}", table["who"][language])
                .replace("{whose}", table["whose"][language])
                .replace("{kin}", table["kin"]),
                re.I if language == "en" else 0,
            )
            for language in ("en", "zh")
            for pattern in row[language]
        ]
        out.append((tuple(row["points"]), patterns))
    return out


def asked_point(text: str) -> AskedPoint | None:
    """Return which point of whom a question asks for; None for most questions."""
    if len(text) > _LONGEST:
        return None
    plain = text.replace("’", "'").strip()
    for points, patterns in _forms():
        for pattern in patterns:
            if found := pattern.search(plain):
                groups = found.groupdict()
                return _of_whom(points, (groups.get("who") or groups.get("whose") or "").strip())
    return None


def _of_whom(points: tuple[str, ...], who: str) -> AskedPoint | None:
    name = _OF.sub("", who)
    if name.casefold() in _OWN or name.casefold() in ("my", "our", "我的", "我们的"):
        return AskedPoint(points)
    mine = _MINE.match(name)
    if mine:
        relation = name[mine.end() :].split()[-1] if name[mine.end() :].strip() else ""
        return AskedPoint(points, relation=relation) if relation else AskedPoint(points)
    return AskedPoint(points, name=name)


def holding(store: Store, scope: Scope, asked: AskedPoint, now: datetime) -> list[Fact]:
    """Return the active facts that answer, the newest first, at most three; one statement.

    Where several people speak of themselves, "I" is nobody's and nothing is returned.
    """
    wanted = (*asked.points, asked.relation) if asked.relation else asked.points
    query = Query(
        scope=Scope(user_id=scope.user_id, agent_id=scope.agent_id),
        kinds=("fact",),
        predicate=wanted,
        fact_status=("active",),
        newest_first=True,
        limit=_MOST,
    )
    found = [fact for fact in cast("list[Fact]", store.find(query)) if _holds(fact, now)]
    keys = {predicate_key(point) for point in asked.points}
    told = [fact for fact in found if predicate_key(fact.predicate) in keys]
    if asked.name:
        chosen = [fact for fact in told if entity_key(fact.subject) == entity_key(asked.name)]
    elif asked.relation:
        named = predicate_key("name") in keys  # who my sister is says what she is called
        people = [fact for fact in found if predicate_key(fact.predicate) == predicate_key(asked.relation)]
        chosen = _of_relation(asked.relation, found, told) or (people if named else [])
    else:
        chosen = [fact for fact in told if _is_own(fact)]
        if len({fact.subject for fact in chosen}) > 1:
            return []
    return chosen[:_LIFTED]


def _of_relation(relation: str, found: Sequence[Fact], told: Iterable[Fact]) -> list[Fact]:
    """Return facts about somebody who is called by what they are to the one who asks."""
    key = predicate_key(relation)
    people = [fact for fact in found if predicate_key(fact.predicate) == key and _is_own(fact)]
    names = {entity_key(fact.object) for fact in people}
    called = re.compile(rf"(?i:'s |的|我|\bmy ){re.escape(relation)}\Z")
    return [fact for fact in told if entity_key(fact.subject) in names or called.search(fact.subject)]


def _is_own(fact: Fact) -> bool:
    return fact.subject in (fact.speaker, "user")


def _holds(fact: Fact, now: datetime) -> bool:
    begun = fact.valid_from is None or fact.valid_from <= now
    return begun and (fact.valid_to is None or fact.valid_to > now)
