"""What a consolidation did."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["ConsolidatedGroup", "ConsolidationMethod", "ConsolidationReceipt"]

ConsolidationMethod = Literal["llm", "extractive"]
"""Who wrote the lesson: a language model, or counting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidatedGroup:
    """One group of episodes that became, or went into, a knowledge."""

    knowledge_id: str
    topic: str
    created: bool  # a new knowledge; False: one that was there grew
    episodes: int  # how many went in now
    sources: int  # how many it rests on altogether
    method: ConsolidationMethod
    note: str = ""  # why it was not the language model, or what it was not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationReceipt:
    """What one run did; equal runs on unchanged data have no groups."""

    groups: tuple[ConsolidatedGroup, ...]  # in the order they were written
    waiting: int  # episodes left for later: their groups are too small
    skipped: int  # groups that are too small, or that another process changed meanwhile
    notes: tuple[str, ...]  # what else should be known
    seconds: float

    @property
    def created(self) -> tuple[str, ...]:
        """Ids of the knowledge that is new."""
        return tuple(group.knowledge_id for group in self.groups if group.created)

    @property
    def updated(self) -> tuple[str, ...]:
        """Ids of the knowledge that grew."""
        return tuple(group.knowledge_id for group in self.groups if not group.created)

    @property
    def episodes(self) -> int:
        """How many episodes went into a knowledge."""
        return sum(group.episodes for group in self.groups)

    @property
    def methods(self) -> Mapping[ConsolidationMethod, int]:
        """How many groups were written in which way."""
        return Counter(group.method for group in self.groups)
