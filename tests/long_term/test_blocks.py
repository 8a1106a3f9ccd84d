"""Blocks: what recall found, in the words a window shows."""

from dataclasses import replace

import pytest
from embedders import unreachable
from recalling import recalled
from samples import START, episode, fact, knowledge, message
from tables import read_tables

from jiyi.long_term import Recall
from jiyi.long_term.blocks import Recalled
from jiyi.records import Hits
from jiyi.text import counter_for

COUNT = counter_for().count_text
TABLES = read_tables(__file__)


def test_blocks_have_the_words_of_a_record_and_say_where_they_are_from(store, recall, keep):
    (said,) = store.put([message("disk full on web-7", name="Ana")])
    known = knowledge("check the disk first", key_points=("df -h",))
    past, lesson = keep([episode("disk alarm", outcome_summary="deleted logs"), known])
    found = recalled(recall, "disk")
    by_section = {b.section: b for b in found.blocks}
    assert found.notes == ()
    talk = by_section["recalled"]
    assert (talk.text, talk.speaker, talk.created_at) == ("disk full on web-7", "Ana", START)
    assert (talk.source_id, talk.thread, talk.place) == (said.id, "s", 0)
    assert by_section["episodes"].text == "[success] disk alarm -> deleted logs"
    assert by_section["knowledge"].text == "**disks**\ncheck the disk first\n- df -h"
    assert [by_section[s].kind for s in ("episodes", "knowledge")] == ["episode", "knowledge"]
    assert {past.id, lesson.id} < {b.source_id for b in found.blocks}
    in_chinese = recalled(recall, "disk", language="zh").blocks
    assert "[成功]" in {b.section: b for b in in_chinese}["episodes"].text


@pytest.mark.parametrize(("text", "speaker", "subject", "shown"), TABLES["a fact, and its block"])
def test_a_fact_is_shown_in_its_own_words_if_these_name_its_subject(
    store, recall, text, speaker, subject, shown
):
    about = {"subject": subject, "predicate": "size", "object": "2 TB", "sources": ("m1",)}
    told = {"text": text, "speaker": speaker} if text else {}
    store.put([fact(**about | told)])
    (block,) = recalled(recall, "disk size").blocks
    assert (block.text, block.speaker, block.sources) == (shown, speaker, ("m1",))


def test_facts_read_from_the_same_words_are_one_block(store, recall):
    about = {"subject": "Ana", "speaker": "Ana", "text": "I am a welder at the yard", "sources": ("m1",)}
    points = (("job", "welder"), ("employer", "the yard"))
    store.put([fact(**about, predicate=point, object=value) for point, value in points])
    (block,) = recalled(recall, "welder yard").blocks
    assert block.text == "I am a welder at the yard"


def test_long_records_are_shown_as_the_excerpt_that_serves_the_question(recall, keep):
    keep([message("filler line of a log\n" * 300 + "disk full here\n" + "more of it\n" * 300)])
    (block,) = recalled(recall, "disk", max_tokens=60).blocks
    assert "disk full here" in block.text
    assert COUNT(block.text) <= 60
    assert block.note.startswith("excerpt, ")
    assert not block.whole


LESSON = " ".join(TABLES["a lesson"])


@pytest.mark.parametrize("longest", [5, 30, 45, 60])
def test_a_lesson_is_shown_in_whole_sentences(recall, keep, longest):
    points = ("raise the limit of orders-api", "reload nginx after that")
    keep([knowledge(LESSON, topic="502", key_points=points)])
    (block,) = recalled(recall, "which limit to raise against 502?", max_tokens=longest).blocks
    heading, *lines = block.text.splitlines()
    assert heading == "**502**"
    whole = [*TABLES["a lesson"], *(f"- {point}" for point in points)]
    assert set(lines) - {"…"} <= set(whole)
    assert set(lines) - {"…"}
    assert "…" in lines
    assert longest == 5 or COUNT(block.text) <= longest


def test_old_system_prompts_and_the_question_itself_are_not_recalled_nor_come_in_beside_a_hit(recall, keep):
    rules = [message(text, role="system") for text in ("disk rules", "Greet with: how may I help?")]
    keep([*rules, message("disk?", id="q", at=1), message("disk", id="a", at=2)])
    assert [b.source_id for b in recalled(recall, "disk", without="q").blocks] == ["a"]
    for nothing_asked in ("  ", "hi!", "thanks, great", "你好"):
        assert recalled(recall, nothing_asked) == Recalled()
    assert recalled(recall, "sure?") != Recalled()


def test_notes_of_a_failing_embedder_reach_the_window_once(store, recall, embedder):
    store.put([message("disk")])
    embedder.error = unreachable()
    found = recalled(recall, "disk")
    assert (len(found.blocks), len(found.notes)) == (1, 1)


class Marking(Recall):
    """A recall that says of some records what took their place."""

    marks: dict[str, dict[str, str]]

    def search(self, query, limits=None, **options):
        found = super().search(query, limits, **options)
        return Hits(tuple(replace(hit, **self.marks.get(hit.id, {})) for hit in found), found.notes)


@pytest.fixture
def marked(store, vectors, embedder):
    recall = Marking(store, vectors, embedder)
    store.put([message(f"disk on rack {n}", id=f"m{n}", at=n, session=f"s{n}") for n in range(4)])
    store.put([message("it moved to the cellar " + "and so on " * 90, id="far", at=9, session="other")])
    return recall


def test_what_took_the_place_of_a_hit_comes_with_it_in_short_unless_it_is_gone(store, marked):
    marked.marks = {"m0": {"outdated_by": "far"}, "m1": {"maybe_outdated_by": "m3"}}
    marked.marks["m2"] = {"outdated_by": "deleted"}
    found = {b.source_id: b for b in recalled(marked, "disk").blocks}
    assert (found["m0"].outdated, found["m0"].successor.source_id) == ("maybe", "far")
    assert COUNT(found["m0"].successor.text) <= 80
    assert "cellar" in found["m0"].successor.text
    assert (found["m1"].outdated, found["m1"].successor.source_id) == ("maybe", "m3")
    assert {(found[id_].outdated, found[id_].successor) for id_ in ("m2", "m3")} == {("", None)}


def test_of_a_chain_the_last_is_what_holds(store, marked):
    marked.marks = {f"m{n}": {"outdated_by": f"m{n + 1}"} for n in (1, 2)}
    marked.marks |= {"m0": {"maybe_outdated_by": "m1"}, "m3": {"outdated_by": "m2"}}  # the last two end it
    found = {b.source_id: b for b in recalled(marked, "disk").blocks}
    for id_ in ("m0", "m1"):
        assert (found[id_].outdated, found[id_].successor.source_id) == ("maybe", "m3")


def test_a_message_whose_fact_was_replaced_comes_with_the_message_that_replaced_it(store, recall, flush):
    store.put([message(f"disk on rack {n}", id=f"m{n}", at=n, session=f"s{n}") for n in range(3)])
    store.put([message("the cellar it is", id="new", at=9, session="other")])
    store.put(
        [
            fact(id="f0", sources=("m0",), status="unsure", superseded_by="f9"),
            fact(id="f1", sources=("m1",), status="superseded", superseded_by="gone"),
            fact(id="f2", sources=("m2",)),
            fact(id="f9", sources=("new",), object="cellar"),
        ]
    )
    flush()
    found = {b.source_id: b for b in recalled(recall, "disk").blocks}
    assert (found["m0"].outdated, found["m0"].successor.source_id) == ("maybe", "new")
    assert [found[id_].outdated for id_ in ("m1", "m2")] == ["", ""]
