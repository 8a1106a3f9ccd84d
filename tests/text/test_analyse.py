import base64
import random
import time

import pytest
from at_once import at_once
from hypothesis import given
from hypothesis import strategies as st
from tables import literals, read_tables

from jiyi.text import analyse, language, query_terms
from jiyi.text.analyse import MAX_TERM

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))
PIECES = st.sampled_from(["记忆", "的", "nginx", "502", "aA", "é", " ", "\0", "://", *"/.-_:@\"'\\,"])
TABLES = read_tables(__file__)
ODD_TEXT = st.lists(PIECES, max_size=30).map("".join)


@pytest.mark.parametrize(("text", "terms"), [*TABLES["terms"], ("", ""), ("  \n\t\0", "")])
def test_terms(text, terms):
    assert analyse(text) == terms.split()


@pytest.mark.parametrize(("text", "whole", "parts"), TABLES["identifiers, whole and in parts"])
def test_identifiers_are_kept_whole_and_in_parts(text, whole, parts):
    terms = analyse(text)
    assert whole in terms
    assert set(parts.split()) <= set(terms)


@pytest.mark.parametrize(("query", "text"), TABLES["queries and texts that meet"])
def test_query_meets_text(query, text):
    assert set(query_terms(query)) & set(analyse(text))


@pytest.mark.parametrize(("query", "terms"), TABLES["queries without their question words"])
def test_question_words_are_left_out_of_queries(query, terms):
    assert set(query_terms(query)) == set(terms.split())


@pytest.mark.parametrize("query", ["怎么", "what", "什么？", "the", "to be or not to be"])
def test_a_query_of_stop_words_keeps_them(query):
    assert query_terms(query)
    assert set(query_terms(query)) <= set(analyse(query))


def test_terms_of_a_query_are_distinct_and_words_inside_long_ones_are_found_once():
    assert query_terms("重启 nginx，再重启 nginx") == ["重启", "nginx"]
    assert analyse("nginx nginx").count("nginx") == 2
    assert {"中华人民共和国", "共和国"} <= set(analyse("中华人民共和国成立了"))
    assert analyse("我们重启服务").count("重启") == 1


@pytest.mark.parametrize(("text", "expected"), [*TABLES["languages"], ("", "en")])
def test_language(text, expected):
    assert language(text) == expected


@given(st.one_of(ANY_TEXT, ODD_TEXT))
def test_terms_are_clean_and_always_the_same_and_those_of_a_query_distinct(text):
    for term in [*analyse(text), *query_terms(text)]:
        assert 0 < len(term) <= MAX_TERM
        assert not set(term) & set("\"'\\\0")
        assert not any(char.isspace() for char in term)
    assert analyse(text) == analyse(text)
    assert len(query_terms(text)) == len(set(query_terms(text)))


@given(st.text(alphabet="记忆系统上海机房服务器重启失败了", min_size=1, max_size=20))
def test_every_pair_of_neighbours_is_found(text):
    terms = analyse(text)
    assert all(text[i : i + 2] in terms for i in range(len(text) - 1))


def test_long_terms_are_cut_and_encoded_binary_is_not_taken_apart():
    assert analyse("x" * 1000) == ["x" * MAX_TERM]
    random.seed(1)
    blob = base64.b64encode(random.randbytes(30_000)).decode().replace("+", "/")
    assert len(analyse(f"image: {blob} end")) < 10


@pytest.mark.slow
@pytest.mark.parametrize("unit", literals(TABLES["what a text without spaces repeats"]))
def test_five_megabytes_without_spaces(unit):
    text = unit * (5_000_000 // len(unit.encode("utf-8", "surrogatepass")))
    start = time.thread_time()
    analyse(text)
    assert time.thread_time() - start < 20  # 1 to 3 s; quadratic time would be minutes


def test_threads_get_the_same_terms():
    text = " ".join(f"running{chr(97 + i % 26)} memories{i} retries 系统" for i in range(500))
    assert at_once(analyse, [text] * 8) == [analyse(text)] * 8
