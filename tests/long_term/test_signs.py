"""What a single statement shows: its tables are sound, any text has signs, and none takes long."""

import re
import tomllib
from importlib.resources import files
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import AWKWARD
from tables import read_tables

from jiyi.extraction.values import find_values
from jiyi.long_term.recall import pairs
from jiyi.long_term.recall.pairs import SCALARS, VALUE_KINDS, classify_question, extract_features
from jiyi.text import traits

CUES = tomllib.loads(files("jiyi.long_term.recall").joinpath("cues.toml").read_text("utf-8"))
TABLES = read_tables(__file__)
PATTERNS = {
    **CUES["said"],
    "names": CUES["names"]["pattern"],
    **{f"asked {place}": row["pattern"] for place, row in enumerate(CUES["asked"])},
}
UNITS = ["a", "A", "1", " ", "\n", ",", ".", "-", "_", "/", "@", ":", "'", "&", "“", "é", "中", "一", "每"]
UNITS += ["，", "？", "老", "还", "吗", "Aa ", "a A&", "1.", "a-", "， A", "周一", "还吗", "year ", "7", "七"]
UNITS += ["A b", "a1-", ". ", "it is ", "没了", "周", "£1"]


@pytest.mark.parametrize("name", PATTERNS)
def test_every_pattern_compiles_and_finds_nothing_in_nothing(name):
    assert re.compile(PATTERNS[name], re.IGNORECASE).search("") is None


def test_every_cue_is_a_sign_and_every_kind_that_is_asked_for_exists():
    assert set(CUES["said"]) <= set(SCALARS)
    for row in CUES["asked"]:
        assert set(row) == {"pattern", "kinds"}
        assert set(row["kinds"]) <= set(VALUE_KINDS)
    assert (len(set(SCALARS)), len(set(VALUE_KINDS))) == (len(SCALARS), len(VALUE_KINDS))


def seconds(call):
    least = 9.0
    for _ in range(3):
        began = process_time()
        call()
        least = min(least, process_time() - began)
    return least


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_time_is_linear_in_the_text(unit):
    """Eight times the text takes at most eight times as long, within a factor of four."""
    short, long = (unit * (size // len(unit)) for size in (4_000, 32_000))
    for name, pattern in PATTERNS.items():
        found = re.compile(pattern, re.IGNORECASE)
        base = seconds(lambda found=found: list(found.finditer(short)))
        assert seconds(lambda found=found: list(found.finditer(long))) <= 32 * base + 0.05, name
    base = seconds(lambda: list(find_values(short)))
    assert seconds(lambda: list(find_values(long))) <= 32 * base + 0.05


@pytest.mark.parametrize("unit", UNITS)
def test_of_a_long_statement_the_beginning_decides_and_it_takes_no_longer(unit):
    assert seconds(lambda: extract_features.__wrapped__(unit * 32_000)) < 0.5
    text = (unit * 32_000)[:1_500]
    assert extract_features(text + " Ana pays £99 on port 8443 since Monday." * 800) == extract_features(text)


@given(st.text() | st.sampled_from(list(AWKWARD.values())))
def test_any_text_has_signs(text):
    said, found = pairs.extract_values.__wrapped__(text), extract_features.__wrapped__(text)
    assert (len(found.scalars), len(said.kinds)) == (len(SCALARS), len(VALUE_KINDS))
    assert all(0 <= value <= 1 for value in (*found.scalars, *said.kinds))
    assert set(found.frame) <= set(found.terms)
    for words in (said.values, said.names, found.terms):
        assert len(set(words)) == len(words)
    assert pairs.extract_values.__wrapped__(text) == said
    assert extract_features.__wrapped__(text) == found
    which, wanted = classify_question(text)
    assert which.shape == (len(CUES["asked"]),)
    assert set(np.unique(np.concatenate([which, wanted]))) <= {0.0, 1.0}


@given(st.text(min_size=1, max_size=200))
def test_known_traits_are_not_read_again(text):
    read, told = extract_features.__wrapped__(text), extract_features.__wrapped__(text, int(traits(text)))
    assert read == told


@pytest.mark.parametrize(("text", "kinds"), TABLES["kinds of values"])
def test_the_kinds_of_its_values(text, kinds):
    found = pairs.extract_values(text)
    there = {name for name, has in zip(VALUE_KINDS, found.kinds, strict=True) if has}
    assert set(kinds.split()) <= there
    assert bool(found.values) == bool(there - {"name"})
    assert bool(extract_features(text).scalars[SCALARS.index("has value")]) == bool(kinds)
    assert kinds or not found.values


@pytest.mark.parametrize(("text", "sign"), TABLES["signs"])
def test_turns_of_phrase_are_signs(text, sign):
    assert extract_features(text).scalars[SCALARS.index(sign)] == 1
    assert extract_features("The shelf holds nine jars.").scalars[SCALARS.index(sign)] == 0


@pytest.mark.parametrize(("question", "kind"), TABLES["what is asked for"])
def test_what_a_question_asks_for(question, kind):
    _, wanted = classify_question(question)
    assert wanted[VALUE_KINDS.index(kind)] == 1
    assert not classify_question("tell me about it")[1].any()
