"""Passages: blocks that follow on each other are shown in short, and what that saves is used."""

from jiyi.context import Materials, build_window
from jiyi.context.order import joined
from jiyi.records import Block, Budget, Message
from jiyi.text import counter_for

COUNTER = counter_for()


def block(place, *, thread="s", score=1.0, words="a remark"):
    text = f"[2026-03-01 12:{place:02} · Ana]\n{words} {place}"
    return Block(
        section="recalled",
        text=text,
        follows=f"[Ana] {words} {place}",
        tokens=COUNTER.count_text(text),
        source_id=f"{thread}{place}",
        thread=thread,
        place=place,
        score=score,
    )


def window(blocks, budget):
    materials = Materials(current=Message(role="user", content="What was it?"), blocks=blocks)
    return build_window(materials, Budget(max_input_tokens=budget), counter=COUNTER, language="en")


def test_only_what_stands_right_behind_its_predecessor_is_short():
    texts = [b.text for b in joined([block(1), block(2), block(4), block(5, thread="t"), block(6)])]
    assert [text.startswith("[2026") for text in texts] == [True, False, True, True, True]
    assert joined([]) == []


def test_a_block_without_a_short_form_stays_as_it_is():
    plain = Block(section="recalled", text="x", tokens=1, thread="s", place=2)
    assert joined([block(1), plain])[1] is plain


def test_what_passages_save_is_given_to_those_that_wait():
    talk = [block(i, score=1 - i / 100) for i in range(30)]
    apart = [block(2 * i, score=1 - i / 100) for i in range(30)]
    for budget in (200, 300):
        together, alone = window(talk, budget), window(apart, budget)
        assert len(together.blocks) > len(alone.blocks)
        for made in (together, alone):
            assert made.report.tokens <= budget
            assert {i.id for i in (*made.report.included, *made.report.left_out)} >= {
                b.source_id for b in made.blocks
            }
    assert window(talk, 300).messages[0]["content"].count("2026-03-01") == 1


def test_nothing_that_would_fit_stays_out():
    talk = [block(i, score=1 - i / 100) for i in range(30)]
    made = window(talk, 250)
    shown = {b.source_id for b in made.blocks}
    left = [b for b in talk if b.source_id not in shown]
    assert left
    assert made.report.tokens + min(COUNTER.count_text(b.text) for b in left) + 2 > 250
