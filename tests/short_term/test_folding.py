"""SummaryUpdater on a real database: when, what stays, restarts, failures, and two at once."""

from dataclasses import replace

import pytest
from conversations import assistant, user
from session_tools import SCOPE, save, talk_of

from jiyi.compression.summarize import Summarize
from jiyi.errors import DiskFull
from jiyi.records import Message
from jiyi.short_term import RunningSummary, ShortTermMemory
from jiyi.short_term.summaries import Summaries, SummaryState, SummaryUpdater

WIDE = 100_000  # a window no conversation here fills


class Noting:
    """The extractive way, noting how many messages it was given each time."""

    def __init__(self):
        self.pieces = []

    def __call__(self, given, **options):
        self.pieces.append(len(given))
        return Summarize(max_tokens=120)(given, **options)


def folding(store, summarize=None, backlog=None, **policy):
    extractive, made = Summarize(max_tokens=120), RunningSummary(8_000, **policy)
    return SummaryUpdater(Summaries(store), made, summarize or extractive, backlog=backlog or extractive)


def recent(store, turns=20, scope=SCOPE):
    return ShortTermMemory(store, max_turns=turns).messages(scope)


def test_nothing_happens_before_it_is_time(store):
    save(store, *talk_of(25))
    assert folding(store).fold_if_due(SCOPE, recent(store, 30), WIDE) == SummaryState()


@pytest.mark.parametrize(("turns", "window"), [(26, WIDE), (10, 100)])
def test_many_messages_or_a_full_window_make_it_time(store, turns, window):
    save(store, *talk_of(turns))
    standing = folding(store).fold_if_due(SCOPE, recent(store, 30), window)
    assert standing.summary.covers == tuple(m.id for m in recent(store, 30)[: 2 * (turns - 3)])
    assert standing.summary.upto_seq == 2 * (turns - 3) - 1
    assert (standing.step.what, standing.step.items) == ("summarised", 2 * (turns - 3))
    assert standing.step.tokens == standing.summary.tokens
    assert [m.text for m in standing.uncovered(recent(store, 30))] == [m.text for m in recent(store, 3)]
    again = folding(store).fold_if_due(SCOPE, recent(store, 30), WIDE)
    assert (again.summary, again.step) == (standing.summary, None)


def test_what_leaves_the_window_of_the_session_is_folded(store):
    save(store, *talk_of(6))
    assert folding(store, keep_turns=2).fold_if_due(SCOPE, recent(store, 4), WIDE).summary.upto_seq == 7
    save(store, *talk_of(2))
    settled = folding(store, keep_turns=2).fold_if_due(SCOPE, recent(store, 4), WIDE)
    assert settled.step is None, "all that is not in the summary is in the window"


def test_a_gap_left_by_other_agents_is_no_reason(store):
    theirs, mine = replace(SCOPE, agent_id="theirs"), replace(SCOPE, agent_id="mine")
    for question, answer in zip(talk_of(8)[::2], talk_of(8)[1::2], strict=True):
        save(store, question, answer, scope=theirs)
        save(store, user("mine"), assistant("yes"), scope=mine)
    assert folding(store).fold_if_due(mine, recent(store, 20, mine), WIDE).summary is None


def test_system_and_pinned_messages_stay_beside_the_summary(store):
    rule, pinned = Message(role="system", content="只说中文"), user("the blue door", pinned=True)
    save(store, rule, *talk_of(5), pinned, assistant("noted"), *talk_of(25))
    standing = folding(store).fold_if_due(SCOPE, recent(store, 20), WIDE)
    assert [m.text for m in standing.uncovered(recent(store, 20))[:2]] == ["只说中文", "the blue door"]
    assert rule.id not in standing.summary.covers
    assert pinned.id not in standing.summary.covers


def test_it_grows_and_survives_a_restart(store):
    save(store, user("记住：数据库的端口是 6543"), assistant("好的"), *talk_of(26))
    first = folding(store).fold_if_due(SCOPE, recent(store), WIDE).summary
    save(store, *talk_of(26))
    second = folding(store).fold_if_due(SCOPE, recent(store), WIDE).summary
    assert (second.version, second.previous) == (2, first.id)
    assert "6543" in first.text
    assert "6543" in second.text
    assert set(first.covers).isdisjoint(second.covers)
    assert Summaries(store).latest(SCOPE) == second


def test_a_long_conversation_is_folded_in_pieces_none_of_them_skipped(store):
    save(store, *talk_of(700))
    now, before = Noting(), Noting()
    standing = folding(store, now, before).fold(SCOPE)
    assert len(before.pieces) == 2
    assert len(now.pieces) == 1
    covered = [id_ for version in Summaries(store).versions(SCOPE) for id_ in version.covers]
    assert len(covered) == len(set(covered)) == 1_394 == sum(before.pieces + now.pieces)
    assert (standing.step.items, standing.summary.upto_seq) == (1_394, 1_393)


def test_a_turn_longer_than_a_piece_is_folded_whole(store):
    save(store, user("go"), *(assistant(f"step {i}") for i in range(900)), *talk_of(5))
    assert folding(store).fold(SCOPE).summary.upto_seq == 900 + 4


def test_a_full_disk_costs_no_window_its_summary(store, monkeypatch):
    save(store, *talk_of(30))
    update = folding(store)
    with monkeypatch.context() as full:
        full.setattr(store, "together", lambda *_, **__: (_ for _ in ()).throw(DiskFull("no space left")))
        standing = update.fold_if_due(SCOPE, recent(store, 30), WIDE)
        assert standing.notes == ("the summary was not stored: no space left",)
        assert isinstance(update.fold(SCOPE).error, DiskFull), "who asks for it is told"
    assert standing.summary.text
    assert len(standing.uncovered(recent(store, 30))) == 6
    assert update.current_state(SCOPE).summary is None
    assert update.fold_if_due(SCOPE, recent(store, 30), WIDE).step.items == 54
