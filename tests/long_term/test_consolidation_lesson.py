"""What is counted over a group of episodes, and how sure it is."""

import random

import pytest
from consolidation_tools import episode
from hypothesis import given
from hypothesis import strategies as st
from tables import read_tables

from jiyi.long_term.consolidation.lesson import Brief, compute_confidence, extract_lesson, group_language

TABLES = read_tables(__file__)
RESTART, CHECK = "docker restart nginx", "curl -I localhost"


def briefs(*episodes):
    return [Brief.of(one) for one in episodes]


NGINX = briefs(
    *(episode(f"ok{n}", "nginx container", n, steps=[RESTART, CHECK], summary="back") for n in range(5)),
    *(episode(f"ok{n}", "nginx container", n, steps=[RESTART], summary="back") for n in (5, 6)),
    episode("f1", "the nginx container", 7, outcome="failed", summary="Port in use.", steps=["kill 1234"]),
    episode("f2", "nginx container", 8, outcome="failed", summary="port in use", trigger="health check"),
)


def test_a_lesson_in_english():
    lesson = extract_lesson(NGINX, 9, "en", one_target=True)
    assert lesson.topic == "nginx container"
    assert lesson.content == (
        "9 episodes about nginx container, 2026-03-01 to 2026-03-09: 7 succeeded, 2 failed. "
        "Set off by: nginx returns 502 (8); health check. "
        "Worked last, on 2026-03-07: nginx returns 502. Steps: docker restart nginx. back."
    )
    *steps, failure = lesson.key_points
    assert steps == ["docker restart nginx (7 of 9)", "curl -I localhost (5 of 9)"]
    assert failure == "Did not succeed: port in use (2 of 2)"


def test_a_lesson_in_chinese():
    common = {"target": "nginx 容器", "trigger": "nginx 502", "steps": ["重启容器"]}
    worked = [episode(f"e{n}", day=n, summary="恢复", **common) for n in range(3)]
    some = briefs(*worked, episode("e3", day=3, outcome="partial", failed=["重启容器"], **common))
    lesson = extract_lesson(some, 4, "zh", one_target=True)
    assert lesson.content == (
        "关于 nginx 容器 的 4 次经历，2026-03-01 至 2026-03-04：3 次成功，1 次部分成功。"
        "起因：nginx 502（4 次）。最近一次有效（2026-03-03）：nginx 502。步骤：重启容器。恢复。"
    )
    step, failure = lesson.key_points
    assert (step, failure) == ("重启容器（4 次中有 4 次，其中 1 次失败）", "未成功：exit 1（1 次中有 1 次）")


def test_ids_dates_and_case_do_not_make_another_step():
    steps = enumerate(TABLES["steps"])
    some = briefs(*(episode(f"e{n}", "x", n, steps=[step]) for n, step in steps))
    *others, last = extract_lesson(some, 9, "en", one_target=True).key_points
    assert others == ["kill 4711471 (3 of 9)", "restore 2026-02-03 04:05:06 (2 of 9)"]
    assert last == "rm /tmp/00000000-aa00-4b1c-9d3e-0123456789ab (2 of 9)"


def test_what_is_left_out_is_counted():
    many = [f"step {letter}" for letter in "abcdefghijkl"]
    some = briefs(
        *(episode(f"e{n}", "x", n, steps=many, trigger=f"cause {'abcd'[n]}") for n in range(4)),
        *(episode(f"f{n}", "x", n, outcome="failed", summary=f"reason {'abcdefg'[n]}") for n in range(7)),
        episode("g", "x", outcome="failed"),
    )
    lesson = extract_lesson(some, 5_000, "en", one_target=True)
    assert "; and 2 more." in lesson.content
    assert "step h → and 4 more." in lesson.content
    assert lesson.content.endswith("Counted over the newest 12.")
    assert "4 other steps more than once" in lesson.key_points
    assert "Did not succeed: other reasons (2 of 8)" in lesson.key_points
    assert "Did not succeed: no reason given (1 of 8)" in lesson.key_points


def test_the_order_of_the_episodes_does_not_matter():
    shuffled, expected = list(NGINX), extract_lesson(NGINX, 9, "en", one_target=True)
    for seed in range(5):
        random.Random(seed).shuffle(shuffled)
        assert extract_lesson(shuffled, 9, "en", one_target=True) == expected


def test_huge_and_odd_texts_stay_small():
    odd = ["x" * 3_000_000, "\0\ud800\u2028", "", " \n\t", "中" * 100_000]
    some = []
    for n, text in enumerate(odd):
        told = {"trigger": text, "summary": text, "steps": [text] * 200}
        some += briefs(*(episode(f"e{n}", text, n, outcome=end, **told) for end in ("success", "failed")))
    for language in ("zh", "en"):
        lesson = extract_lesson(some, len(some), language, one_target=True)
        assert len(lesson.topic) <= 80
        assert len(lesson.content) + sum(map(len, lesson.key_points)) < 6_000
        assert lesson.topic.strip()
    assert some[0].more_steps == 180


def test_the_language_is_that_of_most():
    zh, en = episode("z", trigger="nginx 又挂了"), episode("e", trigger="nginx is down")
    assert (group_language(briefs(zh, zh, en)), group_language(briefs(zh, en, en))) == ("zh", "en")
    assert group_language(briefs(zh, en)) == "zh"


def outcomes(success=0, partial=0, failed=0):
    names = ["success"] * success + ["partial"] * partial + ["failed"] * failed
    return briefs(*(episode(f"e{n}", "x", outcome=name) for n, name in enumerate(names)))


@pytest.mark.parametrize(("numbers", "expected"), TABLES["succeeded, in part, failed, and how sure that is"])
def test_confidence_by_number_and_agreement(numbers, expected):
    some = outcomes(*map(int, numbers.split()))
    assert compute_confidence(some, len(some)) == float(expected)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 10**6))
def test_confidence_stays_between_a_half_and_one(success, partial, failed, more):
    some = outcomes(success, partial, failed)
    if some:
        assert 0.5 <= compute_confidence(some, len(some) + more) <= 1
