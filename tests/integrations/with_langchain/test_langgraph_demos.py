"""The examples run: a thread goes on after its memory was closed, and users are answered from their notes."""

import pytest
from examples_run import printed_by

pytest.importorskip("langgraph.graph")


def test_the_saver_s_goes_on_where_it_stopped_and_goes_when_it_is_told_to():
    assert printed_by("langgraph_saver_demo.py").splitlines() == [
        "asked: app-01 hangs. Restart it? 可以重启吗？",
        "yes: restarted",
        "before that: ['app-01 hangs.']",
        "checkpoints: 3",
        "after pruning: 1",
        "after deleting: 0",
    ]


def test_the_store_s_answers_from_the_notes_of_who_asks():
    told = printed_by("langgraph_store_demo.py").splitlines()
    assert "ana: What is the code of the blue door? -> The blue door's code is 7341." in told
    assert "ana: 打印机在几楼？ -> 打印机在三楼，常卡纸。" in told
    assert "ana-b: What is the code of the blue door? -> The blue door's code is 9999." in told
    assert "bo: 打印机在几楼？ -> nothing noted" in told
    assert told[-2:] == ["forgotten: 2", 'left: ["The blue door\'s code is 9999."]']
