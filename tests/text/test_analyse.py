import base64
import random
import time

import pytest
from at_once import at_once
from hypothesis import given
from hypothesis import strategies as st

from jiyi.text import analyse, language, query_terms
from jiyi.text.analyse import MAX_TERM

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))
PIECES = st.sampled_from(
    [
        "记忆",
        "的",
        "nginx",
        "/",
        ".",
        "-",
        "_",
        ":",
        "@",
        "://",
        '"',
        "'",
        "\\",
        " ",
        "\0",
        "502",
        "aA",
        "é",
        ",",
    ]
)
ODD_TEXT = st.lists(PIECES, max_size=30).map("".join)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("nginx又502了", ["nginx", "又", "502", "了"]),
        ("记忆", ["记忆"]),
        ("猫", ["猫"]),
        ("长期记忆系统", ["长期", "期记", "记忆", "忆系", "系统", "记忆系统"]),
        ("Ｎｇｉｎｘ　５０２", ["nginx", "502"]),
        ("Retries retried RETRY", ["retri", "retri", "retri"]),
        ("café naïve Łódź", ["cafe", "naiv", "lodz"]),
        ("ひらがな", ["ひら", "らが", "がな"]),
        ("한국어", ["한국", "국어"]),
        ("Привет, мир", ["привет", "мир"]),
        ("done 😀!", ["😀"]),
        ("C++ or c#", ["c++", "c#"]),
        ("1,234.56 元", ["1234.56", "1234", "56", "元"]),
        ("I don't know the user's name", ["know", "user", "name"]),
        ("", []),
        ("  \n\t\0", []),
    ],
)
def test_terms(text, terms):
    assert analyse(text) == terms


@pytest.mark.parametrize(
    ("text", "whole", "parts"),
    [
        ("edge-01.prod 挂了", "edge-01.prod", {"edg", "01", "prod", "挂了"}),
        ("MaxRetryCount", "maxretrycount", {"max", "retri", "count"}),
        ("max_retry_count", "max_retry_count", {"max", "retri", "count"}),
        ("192.168.1.10:8443", "192.168.1.10:8443", {"192.168.1.10", "8443", "192", "168", "10"}),
        ("升级到v1.27.3。", "v1.27.3", {"1.27.3", "27"}),
        (
            "见 /var/log/nginx/error.log.",
            "/var/log/nginx/error.log",
            {"var", "log", "nginx", "error.log", "error"},
        ),
        ("ops@edge-01.prod,", "ops@edge-01.prod", {"edge-01.prod", "prod"}),
        (
            "(https://a.example.com/x/metrics?page=2).",
            "https://a.example.com/x/metrics?page=2",
            {"a.example.com", "metric"},
        ),
        ("3f2b8c1a-1111-4e2f-9abc-0123456789ab", "3f2b8c1a-1111-4e2f-9abc-0123456789ab", {"3f2b8c1a"}),
        ("at 2024-05-01T12:00:00Z", "2024-05-01t12:00:00z", {"2024-05-01", "2024"}),
        ("C:\\Users\\ana", "c:/users/ana", {"user", "ana"}),
        ("HTTP502", "http502", {"http", "502"}),
        ("PostgreSQL", "postgresql", {"sql"}),
    ],
)
def test_identifiers_are_kept_whole_and_in_parts(text, whole, parts):
    terms = analyse(text)
    assert whole in terms
    assert parts <= set(terms)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("502", "nginx又502了"),
        ("上次 502 是怎么修好的？", "502 的问题终于修好了"),
        ("服务器在哪里", "新服务器放在上海机房"),
        ("我的猫几岁了", "我家有一只猫"),
        ("max retry count", "set MaxRetryCount=3"),
        ("maxretrycount", "set MaxRetryCount=3"),
        ("error.log 在哪", "tail /var/log/nginx/error.log"),
        ("v1.27.3", "we run kubernetes 1.27.3"),
        ("CAFE", "le café"),
        ("IT 部门", "IT部门的电话"),
    ],
)
def test_query_meets_text(query, text):
    assert set(query_terms(query)) & set(analyse(text))


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("什么时候开会？", {"开会"}),
        ("谁是项目负责人", {"项目", "负责", "负责人", "目负", "责人"}),
        ("What is the name of my cat?", {"name", "cat"}),
        ("how do I restart nginx", {"restart", "nginx"}),
    ],
)
def test_question_words_are_left_out_of_queries(query, terms):
    assert set(query_terms(query)) == terms


@pytest.mark.parametrize("query", ["怎么", "what", "什么？", "the", "to be or not to be"])
def test_a_query_of_stop_words_keeps_them(query):
    assert query_terms(query)
    assert set(query_terms(query)) <= set(analyse(query))


def test_query_terms_are_distinct_and_analysed_ones_are_not():
    assert query_terms("重启 nginx，再重启 nginx") == ["重启", "nginx"]
    assert analyse("nginx nginx").count("nginx") == 2


def test_words_inside_long_words_are_found():
    assert {"中华人民共和国", "共和国"} <= set(analyse("中华人民共和国成立了"))


def test_a_two_character_word_counts_once():
    assert analyse("我们重启服务").count("重启") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nginx 又 502 了", "zh"),
        ("My friend 王小明 likes green tea", "en"),
        ("请看 /var/log", "zh"),
        ("hello", "en"),
        ("", "en"),
        ("502 !!", "en"),
        ("長期記憶", "zh"),
    ],
)
def test_language(text, expected):
    assert language(text) == expected


@given(st.one_of(ANY_TEXT, ODD_TEXT))
def test_terms_are_clean(text):
    for term in [*analyse(text), *query_terms(text)]:
        assert 0 < len(term) <= MAX_TERM
        assert not set(term) & set("\"'\\\0")
        assert not any(char.isspace() for char in term)


@given(st.one_of(ANY_TEXT, ODD_TEXT))
def test_case_and_width_do_not_matter_to_a_plain_word(text):
    assert analyse(text) == analyse(text)
    assert len(query_terms(text)) == len(set(query_terms(text)))


@given(st.text(alphabet="记忆系统上海机房服务器重启失败了", min_size=1, max_size=20))
def test_every_pair_of_neighbours_is_found(text):
    terms = analyse(text)
    assert all(text[i : i + 2] in terms for i in range(len(text) - 1))


def test_long_terms_are_cut():
    assert analyse("x" * 1000) == ["x" * MAX_TERM]


def test_encoded_binary_is_not_taken_apart():
    random.seed(1)
    blob = base64.b64encode(random.randbytes(30_000)).decode().replace("+", "/")
    assert len(analyse(f"image: {blob} end")) < 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "a.",
        "1,",
        "/",
        "--a",
        "_",
        "aA1",
        "a://",
        "http://",
        "e\u0301\u0316",
        "啊",
        "记忆系统又坏了",
        "か",
        "\ud800",
    ],
)
def test_five_megabytes_without_spaces(unit):
    text = unit * (5_000_000 // len(unit.encode("utf-8", "surrogatepass")))
    start = time.thread_time()
    analyse(text)
    assert time.thread_time() - start < 20  # 1 to 3 s; quadratic time would be minutes


def test_threads_get_the_same_terms():
    text = " ".join(f"running{chr(97 + i % 26)} memories{i} retries 系统" for i in range(500))
    expected = analyse(text)
    assert at_once(analyse, [text] * 8) == [expected] * 8
