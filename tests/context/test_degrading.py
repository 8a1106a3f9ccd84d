"""What is done when a window is over budget, in which order, and what the report says of it."""

from conversations import assistant, calls, materials_of, result, user

from jiyi.context import Materials, arrange, build_window
from jiyi.records import Block, Budget, ReportStep
from jiyi.short_term import SlidingWindow
from jiyi.text import counter_for

COUNTER = counter_for("gpt-4o")
LONG = "line of a log, upstream timed out\n" * 60


def halved(message, max_tokens):
    return user(COUNTER.truncate(message.text, max_tokens // 2))


def built(talk, size, shorten=halved, blocks=(), policy=None, question="what now?", **parts):
    materials = materials_of(talk, question, shorten=shorten, blocks=blocks, **parts)
    budget = Budget(max_input_tokens=size)
    return build_window(materials, budget, counter=COUNTER, language="en", policy=policy)


def recalled(count):
    return [
        Block(section="recalled", text=f"note {n} " * 20, tokens=0, source_id=f"r{n}", score=n)
        for n in range(count)
    ]


def run(text=LONG):
    return [user("look"), calls("x"), result("x", text, id="out"), assistant("a timeout")]


def test_nothing_is_done_where_all_fits_and_what_others_saved_is_added_to():
    report = built(run(), 4_000, blocks=recalled(2)).report
    assert report.steps == ()
    assert report.saved == {}
    assert report.left_out == ()
    report = built(run(), 500, saved={"tool_output": 1_000}).report
    assert report.saved["tool_output"] == 1_000 + report.steps[0].tokens_before - report.steps[0].tokens


def test_a_large_tool_output_of_an_earlier_turn_is_shortened_before_anything_leaves():
    window = built(run(), 500)
    report = window.report
    assert [s.what for s in report.steps] == ["shortened tool outputs"]
    assert report.left_out == ()
    line = next(i for i in report.included if i.id == "out")
    step = report.steps[0]
    shortened = f"tool output shortened from {step.tokens_before} to {line.tokens} tokens"
    assert line.reason == f"recent history; {shortened}"
    assert (step.items, step.tokens) == (1, line.tokens)
    assert report.saved == {"tool_output": step.tokens_before - step.tokens}
    sent = next(m for m in window.messages if m["role"] == "tool")
    assert sent["tool_call_id"] == "x"
    assert LONG.startswith(sent["content"])
    assert 0 < len(sent["content"]) < len(LONG)


def test_small_results_the_newest_turn_and_pins_stay_whole():
    small = [user("a"), calls("s"), result("s", "ok", id="small"), assistant("b")]
    held = [user("a"), calls("p", pinned=True), result("p", LONG, id="pinned")]
    tail = [user("what now?"), calls("t"), result("t", LONG, id="newest")]
    asked = []

    def noting(message, max_tokens):
        asked.append(message.id)
        return halved(message, max_tokens)

    window = built([*small, *held, *run(), *tail], 1_600, shorten=noting)
    assert asked == ["out"]
    texts = {i.id: i.tokens for i in window.report.included}
    assert texts["pinned"] == texts["newest"] > 400
    arranged = arrange([*run(), calls("y"), result("y", LONG, id="newest")], None)
    materials = Materials(history=[arranged.current, *arranged.tail], shorten=halved)
    report = build_window(materials, Budget(max_input_tokens=1_200), counter=COUNTER, language="en").report
    assert report.saved == {}


def test_results_of_the_newest_turn_that_do_not_fit_are_shortened_instead_of_dropped():
    talk = [*run(), user("what now?"), calls(*"12345"), *(result(call, LONG) for call in "12345")]
    window = built(talk, 1_600, blocks=recalled(20))
    shown = {m["tool_call_id"]: m["content"] for m in window.messages if m["role"] == "tool"}
    assert all(0 < len(shown[call]) < len(LONG) for call in "12345")


def test_a_shortener_may_decline_and_may_not_lengthen():
    for refusing in (lambda m, n: None, lambda m, n: user(m.text + " and more")):
        report = built(run(), 500, shorten=refusing).report
        assert report.saved == {}
        assert [s.what for s in report.steps] == ["trimmed history"]


def test_what_leaves_after_all_saves_nothing_by_being_shortened():
    talk = [*run(), *[m for n in range(30) for m in (user(f"q {n}"), assistant("words " * 20))]]
    report = built(talk, 500).report
    assert "out" in {i.id for i in report.left_out}
    assert report.saved == {}


def test_the_order_of_degrading_is_shorten_history_retrieved():
    summarised = ReportStep(what="summarised", items=20, tokens_before=900, tokens=100)
    talk = [*run(), *[m for n in range(8) for m in (user(f"q {n}"), assistant("words " * 20))]]
    report = built(talk, 600, blocks=recalled(20), steps=[summarised]).report
    first, shortened, history, retrieved = report.steps
    assert (first.what, shortened.what) == ("summarised", "shortened tool outputs")
    assert (history.what, retrieved.what) == ("trimmed history", "trimmed retrieved")
    for section, step in (("history", history), ("recalled", retrieved)):
        out = [i.tokens for i in report.left_out if i.section == section]
        assert (step.items, step.tokens_before - step.tokens) == (len(out), sum(out))
        assert step.tokens == report.sections[section]


def test_what_a_policy_drops_is_trimming_and_what_is_broken_is_not():
    talk = [m for n in range(6) for m in (user(f"q {n}"), assistant("yes"))]
    report = built(talk, 4_000, policy=SlidingWindow(2)).report
    assert [(s.what, s.items) for s in report.steps] == [("trimmed history", 8)]
    orphan = built([result("nobody"), user("hi")], 4_000).report
    assert orphan.steps == ()
    assert [i.reason for i in orphan.left_out] == ["tool result without its call"]


def test_a_result_is_shortened_to_the_same_words_and_stays_where_it_would_have_left():
    texts = set()
    for question, count in (("why?", 0), ("why? " * 20, 9), ("and what else happened then?", 4)):
        window = built(run(3 * LONG), 1_200, blocks=recalled(count), question=question)
        texts.add(next(m["content"] for m in window.messages if m["role"] == "tool"))
    assert len(texts) == 1
    whole = built(run(), 1_000, shorten=None, blocks=recalled(12)).report
    short = built(run(), 1_000, blocks=recalled(12)).report
    assert "out" in {i.id for i in whole.left_out}
    assert not [i for i in short.left_out if i.section == "history"]
    assert short.sections["recalled"] > 0.65 * 1_000, "what is freed goes to who asks for more"
