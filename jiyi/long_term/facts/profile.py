"""The profile: what every window of a user shows, whatever is asked."""

from datetime import datetime

from jiyi.extraction import RULE_POINTS
from jiyi.long_term.facts.known import find_facts, wide
from jiyi.long_term.facts.timeline import start_of
from jiyi.records import Block, Fact, Scope, names_point
from jiyi.storage import Store
from jiyi.text import Secrecy, language

__all__ = ["profile_block", "profile_of"]

_POINTS = (
    *("name", "nickname", "pronouns", "language", "native language", "time zone", "rule"),
    *(name for names in RULE_POINTS.values() for name in names),
)
_MOST = 200  # facts of these points, the newest, and as many that are pinned


def profile_of(store: Store, scope: Scope, now: datetime) -> list[Fact]:
    """Return the facts that every window of a user shows, oldest first.

    They are the rules that the user gave, what users say of their own name and language, and
    pinned facts of every kind, whatever the session, as long as they hold.

    Args:
        store: where facts are.
        scope: whose; the session does not count.
        now: aware; what begins later or is over is not shown.
    """
    found = find_facts(store, wide(scope), predicate=_POINTS, fact_status=("active",), limit=_MOST)
    found += find_facts(store, wide(scope), pinned=True, fact_status=("active", "unsure"), limit=_MOST)
    shown = {fact.id: fact for fact in found if fact.pinned or _is_of_user(fact)}
    holding = [
        one for one in shown.values() if start_of(one) <= now and not (one.valid_to and one.valid_to <= now)
    ]
    return sorted(holding, key=lambda fact: (start_of(fact), fact.created_at, fact.id))


def profile_block(fact: Fact) -> Block:
    """Return a fact as a line of the profile, with a speaker who has a name, secrets hidden.

    Where not all fit, pinned ones come first, then rules, of equals the newest.
    """
    text = fact.line
    if fact.category in ("rule", "note"):
        text = fact.object if fact.speaker in (None, "user") else f"{fact.speaker}: {fact.object}"
    shown = Secrecy("", (), language(text))(text, fact.text)
    return Block(
        section="profile",
        kind="fact",
        source_id=fact.id,
        text=shown,
        whole=shown == text,
        tokens=0,
        created_at=fact.created_at,
        score=2 * fact.pinned + (fact.category == "rule") + fact.created_at.timestamp() / 1e11,
    )


def _is_of_user(fact: Fact) -> bool:
    own = fact.category == "profile" and fact.subject == fact.speaker
    return fact.category == "rule" or (own and names_point(fact.predicate))  # not "(name)", some name
