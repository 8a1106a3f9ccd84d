"""The report adds up, whatever is in the window."""

from datetime import timedelta

import pytest
from conversations import TEXTS, conversations, materials_of
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import START

from jiyi.context import Materials, build_window
from jiyi.errors import BudgetTooSmall
from jiyi.records import Block, Budget, Message
from jiyi.text import counter_for

EXACT, ESTIMATE = counter_for("gpt-4o"), counter_for("some-other-model")
TOOL = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {}}}}
SECTIONS_OF = {"knowledge": "knowledge", "fact": "knowledge", "episode": "episodes", "message": "recalled"}
words = st.sampled_from((*TEXTS, "。", "\n\n", "...", "端口改到 9443。\n旧的是 8443\n", "a" * 60)) | st.text(
    max_size=30
)


@st.composite
def blocks(draw, kind=None, depth=0):
    kind = kind or draw(st.sampled_from(tuple(SECTIONS_OF)))
    number = draw(st.integers(0, 9))
    successor = draw(st.none() | blocks(depth=1)) if depth == 0 else None
    return Block(
        section=SECTIONS_OF[kind],
        kind=kind,
        text=draw(words) * draw(st.sampled_from((1, 1, 4))),
        tokens=draw(st.integers(0, 50)),
        source_id=draw(st.sampled_from((f"m{number}", f"{kind}{number}"))),
        sources=(f"m{number}",) if draw(st.booleans()) else (),
        speaker=draw(st.sampled_from(("", "user", "Ana", "林若"))),
        created_at=draw(st.none() | st.just(START + timedelta(minutes=7 * number))),
        thread=draw(st.sampled_from(("", "s", "t"))),
        place=number,
        outdated=draw(st.sampled_from(("surely", "maybe"))) if successor else "",
        successor=successor,
        whole=draw(st.booleans()),
        score=draw(st.floats(-3, 3)),
    )


@st.composite
def materials(draw):
    text = draw(words)
    return materials_of(
        draw(conversations(max_size=10)),
        draw(st.none() | st.sampled_from(TEXTS)),
        skills=[
            Block(
                section="skills", kind="skill", text=draw(words), tokens=0, source_id=f"k{n}", required=n == 0
            )
            for n in range(draw(st.integers(0, 2)))
        ],
        summary=draw(st.none() | st.just(Block(section="summary", kind="summary", text=text, tokens=0))),
        tools=[TOOL] if draw(st.booleans()) else [],
        blocks=draw(st.lists(blocks(), max_size=10)),
        asked_at=draw(st.none() | st.just(START)),
    )


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(
    materials(),
    st.integers(20, 900),
    st.sampled_from((EXACT, ESTIMATE)),
    st.sampled_from(("zh", "en")),
    st.sampled_from(("system", "message")),
)
def test_items_and_framing_of_any_window_sum_to_its_tokens(given_materials, size, counter, language, place):
    options = {"counter": counter, "language": language, "summary_place": place}
    try:
        window = build_window(given_materials, Budget(max_input_tokens=size), **options)
    except BudgetTooSmall:
        return
    report = window.report
    sent = counter.count_all([Message.from_openai(m) for m in window.messages])
    sent += counter.count_tools(given_materials.tools) if given_materials.tools else 0
    assert sent == report.tokens <= size
    assert report.framing >= 0
    assert sum(report.sections.values()) + report.framing == report.tokens
    assert all(item.tokens >= 0 for item in report.included)
    for section, tokens in report.sections.items():
        assert tokens == sum(item.tokens for item in report.included if item.section == section)


def test_a_text_is_counted_as_it_is_shown():
    said = "端口从今天起改到 9443。\n旧的是 8443，已经停用。"
    block = Block(section="recalled", text=said, tokens=999, source_id="m", speaker="林若", created_at=START)
    summary = Block(section="summary", kind="summary", text=said, tokens=999)
    current = Message(role="user", content="?")
    lines = "端口从今天起改到 9443。\n> 旧的是 8443，已经停用。"
    for parts, shown in (
        ({"blocks": [block]}, f"> [2026-03-01 12:00 · 林若] {lines}"),
        ({"summary": summary}, f"> {lines}"),
    ):
        made = build_window(
            Materials(current=current, **parts), Budget(max_input_tokens=500), counter=EXACT, language="zh"
        )
        assert shown in made.messages[0]["content"]
        (item,) = [i for i in made.report.included if i.section in ("recalled", "summary")]
        assert abs(item.tokens - EXACT.count_text(shown)) <= 1
