"""What a run of the gate did, and how that is gathered."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from jiyi.records import Kind, Scope, Searchable

__all__ = ["SHOWN", "GateItem", "GateReceipt", "Tally"]

SHOWN = 1_000
"""How many of the forgotten a receipt lists one by one; its counts are of all."""

_WORDS = 80  # characters of a record that a receipt shows


@dataclass(frozen=True, slots=True, kw_only=True)
class GateItem:
    """One record that went, or would go."""

    kind: Kind
    id: str
    reason: str  # why, as it stands in the trash
    created_at: datetime | None
    text: str  # how it begins, at most 80 characters
    importance: float | None = None  # what an episode was worth at last


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReceipt:
    """What a run of the gate did; of a dry run, what it would have done."""

    scope: Scope  # whose memory
    at: datetime  # the moment that ages were counted to
    dry_run: bool  # nothing was changed
    recomputed: int  # episodes whose importance changed
    discarded: Mapping[Kind, Mapping[str, int]]  # how many went into the trash, by kind and reason
    kept: Mapping[Kind, int]  # how many are left of each kind
    erased: int  # dropped from the trash for good; a dry run counts up to 10,000
    seconds: float  # how long it took
    items: tuple[GateItem, ...] = ()  # the first 1,000 that went, without the tasks of episodes

    @property
    def total(self) -> int:
        """How many records went into the trash, tasks included."""
        return sum(count for reasons in self.discarded.values() for count in reasons.values())


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts during a run."""

    recomputed: int = 0
    erased: int = 0
    looked_at: int = 0
    counts: dict[Kind, Counter[str]] = field(default_factory=dict)
    items: list[GateItem] = field(default_factory=list)

    @property
    def room(self) -> int:
        """How many more records can be listed."""
        return SHOWN - len(self.items)

    def add(self, reason: str, counts: Mapping[Kind, int]) -> None:
        """Count what went for one reason."""
        for kind, count in counts.items():
            if count:
                self.counts.setdefault(kind, Counter())[reason] += count

    def show(
        self, kind: Kind, reason: str, records: Iterable[Searchable], worth: Mapping[str, float]
    ) -> None:
        """List records; there must be room."""
        for record in records:
            self.items.append(
                GateItem(
                    kind=kind,
                    id=record.id,
                    reason=reason,
                    created_at=record.created_at,
                    text=" ".join(record.search_text[: 2 * _WORDS].split())[:_WORDS],
                    importance=worth.get(record.id),
                )
            )

    def gone(self, kind: Kind) -> int:
        """Return how many of a kind went so far."""
        return sum(self.counts.get(kind, Counter()).values())
