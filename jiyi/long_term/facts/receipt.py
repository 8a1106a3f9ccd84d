"""What learning changed."""

from dataclasses import dataclass

from jiyi.long_term.facts.merge import Changes
from jiyi.records import Fact, FactMethod

__all__ = ["Learned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What was learned from messages, or from what the caller said."""

    facts: tuple[Fact, ...] = ()  # every fact that is new or changed, as stored
    new: tuple[str, ...] = ()  # ids of facts that were not known
    reinforced: tuple[str, ...] = ()  # ids of facts that were said again
    superseded: tuple[str, ...] = ()  # ids of facts whose place a newer one took
    retracted: tuple[str, ...] = ()  # ids of facts that were taken back
    revived: tuple[str, ...] = ()  # ids of facts that hold again
    kept: str | None = None  # id of the fact that holds the whole of what was told to remember
    passed: int = 0  # statements that changed nothing
    method: FactMethod = "patterns"  # how the messages were read
    notes: tuple[str, ...] = ()  # what was not as it should be, such as why the model was not used

    @classmethod
    def of(cls, changes: Changes, *, method: FactMethod, notes: tuple[str, ...] = ()) -> "Learned":
        """Return the receipt of changes that were stored."""
        return cls(
            facts=changes.put,
            new=changes.new,
            reinforced=changes.reinforced,
            superseded=changes.superseded,
            retracted=changes.retracted,
            revived=changes.revived,
            passed=changes.passed,
            method=method,
            notes=notes,
        )
