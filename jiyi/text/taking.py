"""Places of a text taken within a budget of tokens, best first, and shown in their old order."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

__all__ = ["Taken"]


@dataclass(slots=True)
class Taken:
    """Places taken so far; a line that says what is left out takes tokens too."""

    cost: Callable[[int], int]  # tokens of a place
    gap: int  # tokens of a line that stands for places left out
    used: int  # tokens, with those reserved at the beginning
    ends: Collection[int] = ()  # places that open no gap
    places: dict[int, None] = field(default_factory=dict)  # in the order they were taken

    def take(self, place: int, limit: float) -> bool:
        """Take a place if it, and the gap it opens, stay within ``limit``; say whether it is in."""
        if place in self.places:
            return True
        beside = place in self.ends or not self.places.keys().isdisjoint((place - 1, place + 1))
        cost = self.cost(place) + (0 if beside else self.gap)
        if self.used + cost > limit:
            return False
        self.used += cost
        self.places[place] = None
        return True

    def shown(self, write: Callable[[list[int]], str], fits: Callable[[str], bool]) -> str:
        """Return what ``write`` makes of the places, without the last taken until it fits; "" for none."""
        order = list(self.places)
        while order:
            text = write(sorted(order))
            if fits(text):
                return text
            order = order[: len(order) * 9 // 10]
        return ""
