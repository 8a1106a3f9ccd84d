"""The beginning of a window stays the same from turn to turn: what prompt caches live on."""

import json
from dataclasses import replace

import pytest
from conversations import calls, result
from hypothesis import given, settings
from hypothesis import strategies as st

from jiyi.context import Materials, arrange, build_window
from jiyi.records import Block, Budget, Message
from jiyi.text import counter_for

COUNTER = counter_for("gpt-4o")
TURNS = 30
FOLDED_EACH = 10  # turns between two versions of the summary
QUESTIONS = (
    "nginx 又 502 了，怎么修？",
    "which host was it?",
    "上次的 limit 提到多少？",
    "and the p95 today?",
)
SYSTEM = "你是团队的 ops agent。Changes need a confirmation first. " * 4


def skills(opened):
    def skill(id_, text, **fields):
        return Block(section="skills", text=text, tokens=0, kind="skill", source_id=id_, **fields)

    lines = [f"- **skill-{n}**: what it is good for" for n in range(4)]
    cards = [skill(f"c{n}", line, required=True) for n, line in enumerate(lines)]
    steps = "# deploy\n\n" + "Check the limit, then restart.\n" * 20
    return [*cards, skill("body", steps, score=1.0)] if opened else cards


def found(turn, count):
    """What is retrieved for a turn: other texts, scores and lengths each time."""
    return [
        Block(
            section=("recalled", "knowledge", "episodes")[n % 3],
            text=f"found in turn {turn}, number {n} " * (1 + (turn * 7 + n) % 9),
            tokens=0,
            kind="message",
            source_id=f"t{turn}-{n}",
            score=(turn * 31 + n * 17) % 29 / 10,
        )
        for n in range(count)
    ]


def run_of(turns, size, place="system"):
    """Yield each turn's window with what of its messages is stable: head, and history that has not slid."""
    talk, start, version = [Message(role="system", content=SYSTEM, id="sys")], 1, 0
    for turn in range(turns):
        if turn and turn % FOLDED_EACH == 0:
            start, version = len(talk) - 4, version + 1
        asked = Message(role="user", content=f"{QUESTIONS[turn % 4]} ({turn})", id=f"u{turn}")
        summary = f"Up to turn {turn // FOLDED_EACH * FOLDED_EACH}: " + "the limit is 1g. " * 12
        materials = replace(
            arrange([*talk[:1], *talk[start:], asked], None),
            skills=skills(opened=version >= 2),
            summary=Block(section="summary", text=summary, tokens=0, kind="summary") if version else None,
            blocks=found(turn, (turn * 5) % 13),
            shorten=lambda m, n: Message(role="user", content=COUNTER.truncate(m.text, n - 20)),
        )
        options = {"language": "zh" if turn % 2 == 0 else "en", "summary_place": place}
        window = build_window(materials, Budget(max_input_tokens=size), counter=COUNTER, **options)
        yield version, materials.history, window
        talk += [asked, Message(role="assistant", content=f"answer {turn} " * 9, id=f"a{turn}")]
        if turn % 4 == 1:
            talk += [calls(f"k{turn}", id=f"c{turn}"), result(f"k{turn}", "log line\n" * 90, id=f"r{turn}")]


def shared(before, after):
    """The longest common prefix of two windows, in characters of their JSON."""
    one, other = (json.dumps(w.messages, ensure_ascii=False) for w in (before, after))
    return next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))


def stable_part(window, history):
    """The length of head and history; of the head alone where some of the history is not shown whole."""
    place = len([m for m in window.messages if m["role"] == "system"])
    if place < len(window.messages) and "Conversation so far" in str(window.messages[place]["content"]):
        place += 1
    kept = [i for i in window.report.included if i.section == "history"]
    if len(kept) == len(history) and not window.report.saved:
        place += len(kept)
    return len(json.dumps(window.messages[:place], ensure_ascii=False)) - 1


@pytest.mark.parametrize("place", ["system", "message"])
@pytest.mark.parametrize("size", [16_000, 1_600])
def test_nine_tenths_of_the_stable_part_are_shared_by_successive_windows(size, place):
    before, slid = None, 0
    for version, history, window in run_of(TURNS, size, place):
        slid += any(i.section == "history" for i in window.report.left_out)
        if before and before[0] == version:
            stable = min(stable_part(w, h) for _, h, w in (before, (version, history, window)))
            assert shared(before[2], window) >= 0.9 * stable
            assert stable > len(SYSTEM)
        before = (version, history, window)
    assert (slid > 0) == (size == 1_600), "the small window has to slide, the large one must not"


@settings(deadline=None, max_examples=40)
@given(st.integers(500, 6_000), st.integers(0, 12), st.integers(0, 12), st.sampled_from(QUESTIONS))
def test_the_head_is_the_same_whatever_is_asked_and_found(size, few, many, question):
    heads = set()
    for turn, count, asked in ((1, few, "what now?"), (2, many, question)):
        materials = Materials(
            system=[Message(role="system", content=SYSTEM)],
            skills=skills(opened=False),
            summary=Block(section="summary", text="内存上限是 1g。", tokens=0, kind="summary"),
            current=Message(role="user", content=asked),
            blocks=found(turn, count),
        )
        window = build_window(
            materials, Budget(max_input_tokens=size), counter=COUNTER, language="zh" if turn == 1 else "en"
        )
        heads.add(window.messages[0]["content"])
    assert len(heads) == 1


def test_opening_a_skill_leaves_the_cards_before_it_as_they_were():
    texts = []
    for opened in (False, True):
        materials = Materials(system=[Message(role="system", content=SYSTEM)], skills=skills(opened))
        window = build_window(materials, Budget(max_input_tokens=4_000), counter=COUNTER, language="en")
        texts.append(window.messages[0]["content"])
    assert texts[1].startswith(texts[0])
