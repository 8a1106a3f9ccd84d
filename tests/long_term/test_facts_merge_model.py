"""Merging against a model that keeps every statement: arrival, repetition, exceptions, retraction."""

from hypothesis import given
from hypothesis import strategies as st
from stating import Known, at, states, takes_back

from jiyi.extraction import Statement
from jiyi.long_term.facts.slots import Names

Saying = tuple[str, int]  # a value, and the day on which it was said

saying = st.tuples(st.sampled_from("abc"), st.integers(0, 30))
sayings = st.lists(saying, min_size=1, max_size=8, unique_by=lambda one: one[1])


def expected(said: list[Saying], day: float) -> str | None:
    before = [one for one in said if one[1] <= day]
    return max(before, key=lambda one: one[1])[0] if before else None


def checked(known: Known) -> None:
    """Links agree both ways, ranges do not overlap, one fact of a row is open."""
    for fact in known.facts.values():
        if fact.superseded_by:
            after = known.facts[fact.superseded_by]
            assert after.supersedes == fact.id
            assert fact.valid_to == (after.valid_from or after.created_at)
        if fact.supersedes and fact.status != "retracted":
            assert known.facts[fact.supersedes].superseded_by == fact.id
        assert 0 < fact.confidence < 1
    assert sum(fact.status == "active" and fact.valid_to is None for fact in known.facts.values()) <= 1


@given(st.data())
def test_any_order_of_arrival_gives_the_same_answers_and_repetition_changes_nothing(data):
    said = data.draw(sayings)
    known = Known()
    for value, day in data.draw(st.permutations(said)):
        known.take(states(value, day, source=f"{value}{day}"))
        checked(known)
    for day in range(32):
        assert known.value_at(day) == expected(said, day)
    before = dict(known.facts)
    for value, day in data.draw(st.permutations(said)):
        assert known.take(states(value, day, source=f"{value}{day}")).facts == ()
    assert known.facts == before


@given(sayings, st.integers(0, 30), st.integers(1, 9), st.integers(0, 30))
def test_an_exception_covers_its_range_and_nothing_else(said, begins, length, told):
    known = Known()
    for value, day in said:
        known.take(states(value, day, source=f"{value}{day}"))
    known.take(states("x", told + 0.5, valid_from=at(begins), valid_to=at(begins + length)))
    checked(known)
    for day in range(32):
        usual, run = expected(said, day), _run_begin(said, day)
        covers = begins <= day < begins + length and (run is None or run < told + 0.5)
        assert known.value_at(day) == ("x" if covers else usual)


def _run_begin(said: list[Saying], day: float) -> float | None:
    """Return when the value that holds on a day was first said without another between."""
    before = sorted((one for one in said if one[1] <= day), key=lambda one: one[1])
    run: float | None = None
    value = None
    for other, moment in before:
        if other != value:
            value, run = other, float(moment)
    return run


@given(sayings)
def test_taking_back_the_last_word_brings_back_the_one_before(said):
    ordered = sorted(said, key=lambda one: one[1])
    known = Known()
    for value, day in ordered:
        known.take(states(value, day, source=f"{value}{day}"))
    last = ordered[-1]
    kept = list(ordered)
    while kept and kept[-1][0] == last[0]:
        kept.pop()  # what was said again without another value between is one fact
    known.take(takes_back("当我没说", last[1] + 0.1))
    fact = max((one for one in known.facts.values()), key=lambda one: one.created_at)
    if fact.status != "retracted":  # said long ago first, and only repeated today
        return
    checked(known)
    for day in range(32):
        assert known.value_at(day) == expected(kept, day)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), max_size=12))
def test_names_join_as_in_a_plain_search(pairs):
    known = Known()
    for one, other in pairs:
        known.take(Statement(subject=f"x-{one}", object=f"x-{other}", action="rename", said_at=at(1)))
    names = Names(known.facts.values())
    for start in "abcdef":
        seen, todo = {start}, [start]
        while todo:
            here = todo.pop()
            for one, other in pairs:
                for end in ({one, other} - {here}) if here in (one, other) else ():
                    if end not in seen:
                        seen.add(end)
                        todo.append(end)
        assert set(names.of(f"x-{start}")) == {f"x-{one}" for one in seen}
