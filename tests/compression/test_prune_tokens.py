"""Pruning without a model: what goes, what stays, and how much of the answers."""

import importlib.util
import re
from pathlib import Path

import pytest
from refusing import refused
from tables import read_tables

from jiyi.compression import PruneTokens
from jiyi.errors import InputError
from jiyi.records import Message
from jiyi.text import counter_for

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
COUNT = counter_for().count_text

TABLES = read_tables(__file__)
CHAT_EN, CHAT_ZH = TABLES["chats"]


@pytest.mark.parametrize("text", [CHAT_EN, CHAT_ZH], ids=["en", "zh"])
def test_half_is_left_and_it_is_the_half_that_matters(text):
    made = PruneTokens(0.6)(text)
    assert made.tokens == COUNT(made.text) <= 0.62 * made.tokens_before
    assert made.tokens_before == COUNT(text)
    for kept in ("pay-gw", "14", "18:30", "https://pay.example.com/health", "db-west-02"):
        assert kept in made.text, kept
    assert re.search(r"not restart|不要.*重启", made.text)
    for gone in ("Thank you", "By the way", "非常感谢", "对了", "好吗"):
        assert gone not in made.text, gone


def test_words_are_whole_and_in_their_order_whatever_is_asked():
    assert PruneTokens()(CHAT_EN, query="anything").text == PruneTokens(0.5)(CHAT_EN).text
    left = iter(re.findall(r"[\w'-]+", CHAT_EN))
    assert all(word in left for word in re.findall(r"[\w'-]+", PruneTokens(0.4)(CHAT_EN).text))


def test_no_punctuation_is_doubled_and_numbers_do_not_run_together():
    made = PruneTokens(0.6)(*TABLES["with fillers"]).text
    assert not re.search(r"[，。,.]{2}", made)
    assert "84448443" not in made
    assert "不是" in made
    assert not made.startswith("，")


@pytest.mark.parametrize("kept", TABLES["protected spans"])
def test_protected_spans_stay_as_they_are(kept):
    text = (
        f"Well, I really think that it is a very nice idea to have a look at it:\n{kept}\nThank you so much!"
    )
    assert kept in PruneTokens(0.5)(text).text


def test_forced_tokens_stay_and_repeated_text_goes_first():
    text = "well you know it is really very important to me, thank you so much, and that is just about it"
    assert "really" not in PruneTokens(0.4)(text).text
    assert "really" in PruneTokens(0.4, force_tokens=["really"])(text).text
    made = PruneTokens(0.25)("\n".join(["The disk of app-03 is full: 98 % of /data, mounted on vol-7."] * 4))
    assert made.text.count("app-03") == 1
    assert "98 %" in made.text
    assert made.text.count("\n") == 0


def test_the_limit_wins_over_what_is_protected_and_that_over_the_rate():
    text = "\n".join(f"the value of item-{n} is {n * 1117}" for n in range(60))
    made = PruneTokens()(text, max_tokens=50)
    assert 0 < made.tokens <= 50
    assert "did not fit" in made.notes[0]
    assert all(number in text.split() for number in made.text.split() if number.isdigit())
    text = "https://a.example.com/1 https://b.example.com/2 https://c.example.com/3"
    made = PruneTokens(0.3)(text)
    assert made.text == text
    assert "never cut" in made.notes[0]


def test_sources_are_the_messages_something_is_left_of():
    messages = [
        Message(role="user", content="Hello! Thank you so much!", id="a"),
        Message(role="assistant", content="The port of edge-02 is 8443, the owner is Ana.", id="b"),
        Message(role="user", content="Great, thanks, that is really very nice of you.", id="c"),
    ]
    made = PruneTokens(0.4)(messages)
    assert "b" in made.sources
    assert "a" not in made.sources
    assert list(made.sources) == sorted(made.sources)


def test_lists_keep_their_bullets_and_a_small_text_or_rate_1_everything():
    made = PruneTokens(0.7)("- well, you know, so\n- the port is 8443\n1. and the owner is Ana Lopez").text
    assert "- " in made
    assert "8443" in made
    assert not re.search(r"^-\s*$", made, re.MULTILINE)
    assert PruneTokens(1.0)(CHAT_EN).text == CHAT_EN
    assert PruneTokens(0.2)(CHAT_EN, max_tokens=500).text == CHAT_EN
    assert PruneTokens()("").text == ""


@pytest.mark.parametrize("rate", [0, -1, 1.5, "half", True, float("nan")])
def test_a_bad_rate_and_tokens_that_are_no_list_are_named(rate):
    refused(InputError, "rate=", PruneTokens, rate)
    refused(InputError, "force_tokens", PruneTokens, force_tokens="重要")


@pytest.mark.parametrize("text", ["{" * 20_000, "a" * 40_000, "x1-" * 8_000, '"' * 20_000, "a.b" * 8_000])
@pytest.mark.timeout(60)
def test_odd_text_takes_linear_time(text):
    assert PruneTokens()(text).tokens <= COUNT(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["locomo-en-dev", "lifecycle-zh-dev"])
def test_answers_are_kept_at_half_the_tokens(name):
    file = DATA / f"{name}.json"
    if not file.is_file():
        pytest.skip(f"needs the evaluation file {file.name}")
    spec = importlib.util.spec_from_file_location("bench_compression", ROOT / "bench" / "compression.py")
    assert spec is not None
    assert spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    found = list(bench.cases(str(file)))
    ways = bench.compressors(0.5)
    pruned = bench.score(found, ways["prune_tokens"])
    drawn = bench.score(found, ways["random"])
    assert pruned.tokens <= 0.52
    assert pruned.terms >= 0.95
    assert drawn.terms < 0.7
