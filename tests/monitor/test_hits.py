"""Retrieval hits: told from shared words, on labelled replies in both languages."""

import json
from pathlib import Path
from typing import Any

import pytest

from jiyi.monitor import find_hits
from jiyi.monitor.hits import USED_SHARE
from jiyi.records import Block, Section

WINDOWS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("replies.json").read_text("utf-8"))


def blocks_of(*texts: str, section: Section = "recalled") -> list[Block]:
    return [Block(section=section, text=text, tokens=1, source_id=str(i)) for i, text in enumerate(texts)]


def verdicts(**like: str) -> list[tuple[bool, bool]]:
    """What was found and what is true, for each block of the labelled windows of this kind."""
    out = []
    for window in WINDOWS:
        if like.items() <= window.items():
            blocks = blocks_of(*(block["text"] for block in window["blocks"]))
            hits = find_hits(window["question"], blocks, window["reply"]).blocks
            out += [(hit.used, one["used"]) for hit, one in zip(hits, window["blocks"], strict=True)]
    return out


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("part", ["tuned on", "held out"])
def test_what_was_used_is_told_from_what_was_not(language, part):
    found = verdicts(language=language, part=part)
    assert len(found) >= 20
    right = sum(said and true for said, true in found)
    precision = right / sum(said for said, _ in found)
    recall = right / sum(true for _, true in found)
    assert precision >= 0.9
    assert recall >= 0.75


def test_numbers_weigh_more_than_words_and_words_of_every_block_less():
    block = blocks_of("The gateway listens on 8443 behind the old balancer in the corner rack")
    by_number = find_hits("which port?", block, "It is 8443.").blocks[0]
    by_word = find_hits("which port?", block, "Ask the balancer people.").blocks[0]
    assert by_number.used
    assert not by_word.used
    assert by_number.share > 2 * by_word.share
    blocks = blocks_of("server moved to Oslo", "server moved to Bergen", "server moved to Tromso")
    oslo, bergen, tromso = find_hits("where is it?", blocks, "The server moved to Bergen").blocks
    assert bergen.share == 1.0
    assert oslo.share == tromso.share < bergen.share


def test_one_thing_taken_is_enough_and_words_of_the_question_prove_nothing():
    filler = " ".join(f"chapter{letter} talks about {letter}things" for letter in "abcdefghijklmnop")
    long = blocks_of(f"{filler}. The vault code is 7719 and Harald keeps the spare key.")
    assert find_hits("code?", long, "7719, and Harald has a spare key").blocks[0].share >= USED_SHARE
    block = blocks_of("nginx 502")
    assert find_hits("why nginx 502?", block, "nginx gives 502 because ...").blocks[0].share == 0.0
    assert find_hits("what is broken?", block, "nginx gives 502").blocks[0].share == 1.0
    found = find_hits("?", [*blocks_of("a 1g limit"), *blocks_of("a 1g limit", section="task")], "limit 1g")
    assert [hit.section for hit in found.blocks] == ["recalled"]
    assert found.used == 1


@pytest.mark.parametrize(("question", "reply"), [("", ""), ("?", "好"), ("为什么", "\ud800 \x00")])
def test_nothing_said_is_nothing_used(question, reply):
    found = find_hits(question, blocks_of("", "…", "the limit is 1g"), reply)
    assert [hit.used for hit in found.blocks] == [False, False, False]
    assert find_hits(question, [], reply).blocks == ()
