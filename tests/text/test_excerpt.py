import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jiyi.text import counter_for, excerpt, query_terms
from jiyi.text.excerpt import densest

count = counter_for("gpt-4o").count_text

LOG = [f"12:{i // 60:02d}:{i % 60:02d} node-{i % 9} nginx: GET /items/{i} status ok" for i in range(2000)]
LOG[1200] = "12:20:00 node-3 nginx: upstream timed out, worker killed by the kernel"
LOG[1201] = "12:20:01 node-3 systemd: container restarted with more memory"


def lines_of(text):
    return [line for line in text.split("\n") if line != "…"]


def test_a_text_that_fits_is_unchanged():
    text = "a\n\n  b\n"
    assert excerpt(text, ["zzz"], 100, count) is text


@pytest.mark.parametrize("limit", [0, -1])
def test_no_budget_gives_nothing(limit):
    assert excerpt("some text", ["text"], limit, count) == ""


def test_the_line_that_answers_is_shown_whole_and_rare_terms_weigh_more():
    text = excerpt("\n".join(LOG), query_terms("why was the worker killed?"), 150, count)
    assert LOG[1200] in text
    assert LOG[1201] in text
    assert set(lines_of(text)) <= set(LOG)
    assert count(text) <= 150
    assert LOG[1200] in excerpt("\n".join(LOG), query_terms("nginx status ok kernel"), 60, count)


def test_gaps_are_shown_and_order_is_kept():
    log = list(LOG)
    log[300] = "disk full on node-1"
    text = excerpt("\n".join(log), query_terms("kernel disk"), 200, count)
    assert text.startswith(("…\n", log[0]))
    assert text.endswith("\n…")
    places = [log.index(line) for line in lines_of(text)]
    assert places == sorted(places)
    assert {300, 1200} <= set(places)
    assert "\n…\n" in text[text.index(log[300]) : text.index(log[1200])]


def test_every_term_is_covered_before_one_is_repeated_and_any_count_is_obeyed():
    noise = ["nothing to see here"] * 100
    log = [*noise, *["alpha failed again"] * 3, *noise, *["beta failed too"] * 10, *noise]
    text = excerpt("\n".join(log), query_terms("alpha beta"), 45, count)
    assert "alpha" in text
    assert "beta" in text
    found = excerpt("\n".join(f"ab {i}" for i in range(500)), ["ab"], 10_000, lambda part: len(part) ** 2)
    assert 0 < len(found) <= 100
    assert "ab" in found


def test_without_a_hit_or_terms_the_head_is_shown():
    text = excerpt("\n".join(LOG), query_terms("zebra"), 150, count)
    assert text.startswith(LOG[0])
    assert text.endswith(LOG[-1])
    assert "\n…\n" in text
    assert excerpt("\n".join(LOG), [], 100, count).startswith(LOG[0])


def test_a_long_line_of_json_is_cut_around_the_hit_and_prose_between_sentences():
    rows = [{"id": i, "name": f"user{i}", "state": "ok"} for i in range(4000)]
    rows[2500]["state"] = "磁盘已满"
    text = excerpt(json.dumps(rows, ensure_ascii=False), query_terms("谁的磁盘满了"), 120, count)
    assert "磁盘已满" in text
    assert "user2500" in text
    assert count(text) <= 120
    prose = "今天开会讨论了预算。" * 500 + "最后决定把服务器迁移到上海机房。" + "然后大家去吃饭。" * 500
    text = excerpt(prose, query_terms("服务器迁到哪里？"), 80, count)
    assert "把服务器迁移到上海机房。" in text
    assert all(line.endswith("。") for line in lines_of(text))


@pytest.mark.parametrize("limit", [2, 5, 10, 20])
def test_a_tiny_budget_shows_the_words_around_the_hit(limit):
    text = excerpt("\n".join(LOG), query_terms("kernel"), limit, count)
    assert "kernel" in text
    assert count(text) <= limit


@given(
    st.lists(st.text(alphabet="ab 记忆\u0301🧠\ud800,。.\n", max_size=200), max_size=12).map("\n".join),
    st.lists(st.sampled_from(["a", "b", "ab", "记忆", "忆记", "x"]), max_size=3),
    st.integers(-1, 120),
    st.sampled_from(
        [count, len, counter_for("deepseek").count_text, lambda text: len(text.encode("utf-8", "replace"))]
    ),
)
def test_never_longer_than_the_budget(text, terms, limit, counting):
    found = excerpt(text, terms, limit, counting)
    assert counting(found) <= max(0, limit)
    if limit > 0 and counting(text) <= limit:
        assert found == text


@given(st.integers(20, 400))
def test_same_input_same_excerpt(limit):
    log = "\n".join(LOG[1100:1300])
    terms = query_terms("node-3 kernel memory")
    assert excerpt(log, terms, limit, count) == excerpt(log, set(terms), limit, count)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["a\n", "\n", "a", "记忆\n", "a b c, ", LOG[0] + "\n"])
def test_one_megabyte_is_quick(unit):
    text = unit * (1_000_000 // len(unit.encode()))
    start = time.thread_time()
    found = excerpt(text, ["a", "记忆", "nginx"], 200, count)
    assert time.thread_time() - start < 20  # 0.3 s for a log; 4 s for half a million lines of one letter
    assert count(found) <= 200


def test_a_piece_after_a_gap_in_a_line_begins_with_a_word():
    line = " ".join(f"Region {n} sold {n * 37} units." for n in range(60)) + " Close the Lyon office."
    text = excerpt(line, query_terms("When does Lyon close?"), 40, count)
    assert text.startswith("…\nClose") or "\n" in text
    assert not any(part != part.strip() for part in lines_of(text))


def test_of_a_huge_text_the_stretches_with_the_terms_are_read_and_quickly():
    rows = [f"row {n}: {'lorem ipsum dolor ' * 5}" for n in range(60_000)]
    rows[41_234] = "row 41234: the turbines were switched off"
    huge = "\n".join(rows)
    assert densest(huge[:100_000], ["x"]) == huge[:100_000]
    near = densest(huge, query_terms("Which turbine was switched off?"))
    assert rows[41_234] in near.split("\n")
    assert near.startswith(rows[0])
    assert near.endswith(rows[-1])
    assert len(near) < 110_000
    started = time.perf_counter()
    assert rows[41_234] in excerpt(huge, query_terms("Which turbine was switched off?"), 60, count)
    assert time.perf_counter() - started < 3, "seven times that when all of it was read"
