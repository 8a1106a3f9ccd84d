"""Sharing out tokens among the sections that compete."""

from collections.abc import Mapping

from jiyi.records import Section

__all__ = ["allot"]


def allot(
    available: int, demands: Mapping[Section, int], shares: Mapping[Section, float]
) -> dict[Section, int]:
    """Return how many tokens each section may use; together at most ``available``.

    A section gets at most what it asks for. What a section leaves over flows to those
    that ask for more, in proportion to their shares. A section without a share gets what
    nobody else wants.
    """
    given: dict[Section, int] = dict.fromkeys(demands, 0)
    left = max(available, 0)
    while left > 0:
        hungry = {name: shares.get(name, 0.0) for name in demands if given[name] < demands[name]}
        if not hungry:
            break
        total = sum(hungry.values())
        if total == 0:
            hungry, total = dict.fromkeys(hungry, 1.0), float(len(hungry))
        before = left
        for name, share in hungry.items():
            more = min(int(before * share / total), demands[name] - given[name], left)
            given[name] += more
            left -= more
        if left == before:  # too little to divide: the largest share takes it
            name = max(hungry, key=lambda section: hungry[section])
            more = min(left, demands[name] - given[name])
            given[name] += more
            left -= more
    return given
