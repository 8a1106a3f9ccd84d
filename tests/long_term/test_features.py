"""Features: each says what it promises, for any candidates, in whatever order they come."""

import numpy as np
import pytest
from candidate_tables import Row, at_random, evidence, permuted, question, questions, table, tables, units
from hypothesis import assume, given
from hypothesis import strategies as st
from tables import read_tables

from jiyi.long_term.recall.features import FEATURE_NAMES, build_evidence, compute_features, standardise
from jiyi.text import Trait

TABLES = read_tables(__file__)
BY_VECTORS = ["meaning", "apart", "first_by_meaning", "before", "after", "before_last"]
BY_VECTORS += ["like_the_best", "like_its_peers"]


def numbers(cell):
    return [int(number) for number in cell.split()]


def column(name, found, asked=None, about=None):
    return compute_features(asked or question(), found, about).column(name).tolist()


@given(found=tables(), asked=questions, seed=st.integers(0, 2**32), pending=st.sampled_from([0.0, 0.5, 0.9]))
def test_features_are_finite_for_any_candidates(found, asked, seed, pending):
    for about in (None, at_random(seed, len(found), pending=pending)):
        features = compute_features(asked, found, about)
        assert features.matrix.shape == (len(found), len(FEATURE_NAMES))
        assert features.matrix.dtype == np.float32
        assert np.isfinite(features.matrix).all()
        assert ((features.cover >= 0) & (features.cover <= 1 + 1e-5)).all()


@pytest.mark.parametrize(
    "row", [Row(words=(1, 1)), Row(), Row(session=-1, speaker=None, role=None, kind="episode", length=0)]
)
@pytest.mark.parametrize("about", [None, evidence([(1, 0, 0)]), evidence([(0, 1, 0)])])
def test_one_row_alone_has_features_too(row, about):
    features = compute_features(question("When did I tell you about 3 disks?"), table(row), about)
    assert np.isfinite(features.matrix).all()
    assert features.column("words").tolist() == features.column("meaning").tolist() == [0]
    assert features.column("recent").tolist() == [0]


@given(found=tables(), asked=questions)
def test_without_vectors_what_they_say_is_nothing(found, asked):
    features = compute_features(asked, found, None)
    for name in BY_VECTORS:
        assert not features.column(name).any(), name


@given(size=st.integers(2, 12), seed=st.integers(0, 2**32), asked=questions, data=st.data())
def test_the_order_of_rows_plays_no_part(size, seed, asked, data):
    chance = np.random.default_rng(seed)
    said = []
    for speaker in chance.choice(["Ana", "Ben"], size):
        whole = {"session": int(chance.integers(3)), "length": int(chance.integers(20))}
        said.append(Row(words=tuple(chance.random(2)), at=float(chance.normal()), speaker=speaker, **whole))
    found, about = table(*said, idf=(1.5, 0.5)), at_random(seed, size)
    words, meaning = (standardise(values) for values in (found.text, about.similarity))
    for values in (words, meaning, words + meaning):  # equal ones may come in any order
        assume(np.diff(np.sort(values)).min() > 1e-3)
    order = list(data.draw(st.permutations(range(size))))
    parts = build_evidence(np.arange(size), about.vectors[order], size, about.question)
    got = compute_features(asked, permuted(found, order), parts)
    expected = compute_features(asked, found, about)
    for name in FEATURE_NAMES:
        assert got.column(name) == pytest.approx(expected.column(name)[order], abs=1e-3), name
    assert got.cover == pytest.approx(expected.cover[order], abs=1e-5)


@pytest.mark.parametrize("about", [None, evidence([(0, 1, 0)] * 4)])
def test_more_and_rarer_words_of_the_question_are_more(about):
    found = table(Row(), Row(words=(0.5,)), Row(words=(0, 0.5)), Row(words=(0.5, 0.5)), idf=(1, 3))
    for name in ("words", "window", "cover", "first_by_words"):
        assert np.argsort(column(name, found, about=about)).tolist() == [0, 1, 2, 3], name
    assert column("cover", found) == pytest.approx([0, 0.25, 0.75, 1])
    assert column("first_by_words", found) == pytest.approx([0, 1 / 7, 1 / 6, 1 / 5])
    assert compute_features(question(), found, None).cover == pytest.approx([0, 0.25, 0.75, 1])
    found = table(Row(words=(0.9,)), Row(), terms=("disk", "unheard"), idf=(1, 3))
    assert column("cover", found) == pytest.approx([1, 0]), "measured by the best row, and by all words"
    assert compute_features(question(), found, None).cover == pytest.approx([0.25, 0])


def test_equal_rows_are_equally_early():
    found = table(*[Row(words=(word,)) for word in (0.5, 0.9, 0.5, 0.2, 0)])
    assert column("first_by_words", found) == pytest.approx([1 / 6, 1 / 5, 1 / 6, 1 / 8, 0])
    about = evidence([(1, 0, 0), (1, 0, 0), (0, 1, 0), None, (1, 1, 0)])
    got = column("first_by_meaning", found, about=about)
    assert got == pytest.approx([1 / 5, 1 / 5, 1 / 8, 1 / 8, 1 / 7])


def test_an_answer_without_the_words_is_in_the_window_of_its_question():
    talk = [Row(words=(0.6,), speaker="Ana"), Row(speaker="Ben"), Row(speaker="Ana", session=1)]
    found = table(*talk, Row(speaker="Ben", session=1))
    words, window = column("words", found), column("window", found)
    assert words[1] == words[2]
    assert window[0] > window[1] > window[2] == window[3]


def test_being_first_by_words_counts_less_where_a_question_has_many():
    def first(terms):
        return column("first_by_words", table(Row(words=(0.6,)), terms=[f"w{i}" for i in range(terms)]))

    assert first(1) == first(10) == pytest.approx([1 / 5])
    assert first(20) == pytest.approx([1 / 10])


def test_nearer_rows_mean_more():
    found = table(*[Row(session=i) for i in range(4)])
    about = evidence([(0.1, 1, 0), (0.9, 0.1, 0), (0.5, 0.5, 0), None])
    assert about.similarity[3] == about.similarity.min()
    for name in ("meaning", "apart"):
        assert np.argsort(column(name, found, about=about)[:3]).tolist() == [0, 2, 1], name
    assert column("first_by_meaning", found, about=about)[:3] == pytest.approx([1 / 7, 1 / 5, 1 / 6])


def test_neighbours_in_a_dialogue_bring_their_meaning():
    about = evidence([(1, 0, 0), (0, 1, 0), (0, 1, 0.1), (0, 1, 0.2), (0, 1, 0.3)])
    talk = table(*[Row(speaker=name) for name in ("Ana", "Ben", "Ana", "Ben")], Row(session=1))
    meaning = column("meaning", talk, about=about)
    assert column("before", talk, about=about) == pytest.approx([0, *meaning[:3], 0])
    assert column("after", talk, about=about) == pytest.approx([*meaning[1:4], 0, 0])
    assert column("before_last", talk, about=about) == pytest.approx([0, 0, *meaning[:2], 0])
    notes = table(*[Row(speaker="Ana") for _ in range(5)])
    for name in ("before", "after", "before_last", "session", "length"):
        assert not any(column(name, notes, about=about)), name


def test_a_row_in_a_good_session_has_that_for_it():
    good = [Row(words=(0.5,), speaker=name) for name in ("Ana", "Ben") * 3]
    poor = [Row(speaker=name, session=1) for name in ("Ana", "Ben") * 3]
    got = column("session", table(*good, *poor, Row(session=-1, kind="knowledge", speaker=None, role=None)))
    assert len(set(got[:6])) == len(set(got[6:12])) == 1
    assert got[0] > 0 > got[6]
    assert got[12] == 0


def test_rows_like_the_best_and_like_good_ones():
    words = [(0.9, 0.9)] * 6 + [()] * 2
    vectors = [(1, 0.1 * i, 0) for i in range(6)] + [(1, 0.2, 0.1), (-1, 0, 1)]
    found = table(*[Row(words=some, session=i) for i, some in enumerate(words)])
    for name in ("like_the_best", "like_its_peers"):
        got = column(name, found, about=evidence(vectors))
        assert got[6] > got[7], name
    assert column("like_the_best", found, about=evidence([*vectors[:7], None]))[7] == 0


SPEAKERS = [Row(speaker="Melanie"), Row(speaker="Ben"), Row(speaker=None, role=None, kind="episode")]


@pytest.mark.parametrize(("text", "expected"), TABLES["who is asked about"])
def test_the_one_who_is_asked_about_and_the_others(text, expected):
    features = compute_features(question(text), table(*SPEAKERS), None)
    assert features.column("speaker").tolist() == numbers(expected)
    assert features.names_speaker == any(numbers(expected))


def test_the_name_of_the_speaker_counts_as_no_word():
    """Who calls somebody by name is mostly the other one."""
    said = [Row(words=(0.9,), speaker="Ben"), Row(words=(0, 0.5), speaker="Mel")]
    asked = question("Where does Mel cook?")
    assert column("words", table(*said, terms=("mel", "cook")), asked)[1] > 0
    assert column("words", table(*said, terms=("mel", "cook")), question("who cooks?"))[1] < 0
    alone = table(said[0], Row(speaker="Mel"), terms=("mel",))
    assert column("words", alone, question("Mel?"))[0] > 0, "unless there is no other word"


@pytest.mark.parametrize(("text", "you_said", "i_did"), TABLES["whose words are asked for"])
def test_whether_user_or_assistant_said_it(text, you_said, i_did):
    sides = [Row(role="assistant", speaker="assistant"), Row(), Row(role="tool", speaker="tool")]
    found = table(*sides, Row(kind="episode", role=None, speaker=None))
    assert column("you_said", found, question(text)) == numbers(you_said)
    assert column("i_did", found, question(text)) == numbers(i_did)


@pytest.mark.parametrize("text", ["What did you recommend?", "Where did I park?"])
def test_without_two_sides_it_does_not_matter_who_said_it(text):
    alone = table(Row(), Row(speaker="Ben"))
    named = table(Row(speaker="Melanie"), Row(role="assistant", speaker="assistant"))
    for found, asked in ((alone, text), (named, f"{text} And Melanie?")):
        for name in ("you_said", "i_did"):
            assert not any(column(name, found, question(asked))), name


def test_what_kind_of_thing_a_row_says_and_its_length_up_to_sixty_terms():
    said = [Row(traits=Trait.GREETING, length=20, speaker="Ana"), Row(length=3, speaker="Ben")]
    said += [Row(length=4, traits=Trait.ASKS_LAST, speaker="Ana"), Row(length=9, role="tool", speaker="tool")]
    found = table(*said, Row(session=-1, kind="knowledge", role=None, speaker=None, length=9))
    assert (column("small_talk", found), column("asks", found)) == ([1, 1, 0, 0, 0], [0, 0, 1, 0, 0])
    assert column("length", found) == pytest.approx([*np.log1p([20, 3, 4, 9]), 0])
    found = table(*[Row(length=n, speaker=who) for n, who in ((59, "Ana"), (60, "Ben"), (900, "Ana"))])
    assert column("length", found) == pytest.approx(np.log1p([59, 60, 60]))


@pytest.mark.parametrize(("text", "number", "time"), TABLES["whether a number or a date is asked for"])
def test_numbers_and_dates_count_where_they_are_asked_for(text, number, time):
    found = table(Row(traits=Trait.NUMBER), Row(traits=Trait.DATE), Row(traits=Trait.NAME))
    assert column("tells_number", found, question(text)) == [int(number), 0, 0]
    assert column("tells_time", found, question(text)) == [0, int(time), 0]


def test_names_titles_and_numbers_of_the_question():
    said = [Row(words=(0.5, 0, 0)), Row(words=(0, 0.5, 0)), Row(words=(0.5, 0.5, 0.5)), Row()]
    found = table(*said, terms=("boston", "42", "meet"), idf=(3, 1, 2))
    got = column("entities", found, question("Did we meet in Boston at 42?"))
    assert got == pytest.approx([0.75, 0.25, 1, 0])
    assert column("entities", found, question("did we meet?")) == [0, 0, 0, 0]


def test_the_time_a_question_names_and_the_day_after():
    said = [Row(at=days) for days in (-2.6, -1.6, -0.6, 0.4, 0.6)]  # START is noon
    assert column("in_time", table(*said), question("what broke yesterday?", 1)) == [0, 0, 0, 1, 1]
    got = column("in_time", table(*said), question("what broke on 2026-02-28?", 1))
    assert got == [0, 0, 1, 1, 0]
    assert column("in_time", table(*said), question("2026年2月28日坏了什么", 1)) == got
    two = question("what broke on 2026-02-27 or on 2026-03-01?", 3)
    assert column("in_time", table(*said), two) == [0, 1, 1, 1, 1]
    assert not any(column("in_time", table(*said), question("what broke?")))


def test_newer_rows_are_more_recent_and_those_a_day_after_the_question_or_more_are_later():
    found = table(*[Row(at=days) for days in (0, 4, 5.9, 6.1, 60)])
    assert column("later", found, question(days=5)) == [0, 0, 0, 1, 1]
    assert not any(column("later", found, question(days=100)))
    found = table(*[Row(at=days) for days in (3, 1, 2, 9)])
    assert column("recent", found) == pytest.approx([0.5, 0, 0.25, 0.75])


def test_what_a_later_row_says_as_well():
    said = [Row(words=(0.5, 0.5), at=1), Row(words=(0.5,), at=2), Row(words=(0.5, 0.5), at=0), Row(at=3)]
    assert column("said_again", table(*said, idf=(3, 1))) == pytest.approx([0.75, 0, 1, 0])


def naive_evidence(rows, parts, size, asked):
    similarity = [min(float(part @ asked) for part in parts)] * size
    vectors = np.zeros((size, parts.shape[1]))
    for row in set(rows.tolist()):
        mine = parts[rows == row].astype(np.float64)
        similarity[row] = max(float(part @ asked) for part in mine)
        mean = mine.mean(0)
        vectors[row] = mean / max(np.linalg.norm(mean), 1e-9)
    return similarity, vectors


def test_a_damaged_vector_which_is_read_as_zeros_is_none():
    said, parts = table(*[Row(at=place) for place in range(3)]), np.eye(3, dtype=np.float32)
    parts[1] = 0
    found = compute_features(question(), said, build_evidence(np.arange(3), parts, 3, units(np.ones(3))))
    assert found.vector_count == 2
    assert not found.vectors[1].any()
    assert found.nearness[1] == 0


@given(size=st.integers(1, 8), seed=st.integers(0, 2**32), data=st.data())
def test_a_row_counts_with_its_best_part_and_stands_where_their_mean_points(size, seed, data):
    rows = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=20)), np.intp)
    chance = np.random.default_rng(seed)
    parts, asked = units(chance.normal(size=(len(rows), 6))), units(chance.normal(size=6))
    got = build_evidence(rows, parts, size, asked)
    similarity, vectors = naive_evidence(rows, parts, size, asked)
    assert got.similarity == pytest.approx(np.array(similarity), abs=1e-5)
    assert got.vectors == pytest.approx(vectors, abs=1e-3)
    assert got.vectors.shape == (size, 6)
    assert not got.vectors[np.setdiff1d(np.arange(size), rows)].any()
    assert (got.question == asked).all()


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=30))
def test_standardised_values_have_mean_0_and_deviation_1(values):
    exact = np.array(values)
    got = standardise(np.array(values, np.float32))
    assert got.dtype == np.float32
    if exact.std() > 0.01:
        assert got == pytest.approx((exact - exact.mean()) / exact.std(), abs=0.1, rel=0.01)


@given(value=st.floats(-100, 100, width=32), count=st.integers(1, 2_000))
def test_standardised_equal_values_are_zeros(value, count):
    assert not standardise(np.full(count, value, np.float32)).any()


def test_an_output_also_has_the_words_and_the_nearness_of_its_call():
    said = [Row(role="assistant", words=(0.9, 0)), Row(role="tool"), Row(role="tool", words=(0, 0.5))]
    said += [Row(role="user", words=(0.9, 0)), Row(role="tool", speaker="tool")]
    found = table(*said, idf=(1, 1))
    assert column("cover", found) == pytest.approx([0.5, 0.5, 1, 0.5, 0])
    about = evidence([(1, 0, 0), (0, 1, 0), (0, 1, 0), (1, 0, 0), (0, 1, 0)])
    near = column("meaning", found, about=about)
    assert near[:4] == pytest.approx([near[0]] * 4)
    assert near[4] < near[0], "what follows a user's message is no answer to a call"
