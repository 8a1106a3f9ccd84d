"""What reading may cost: limits hold for every process, for each call, and are given back in time."""

from datetime import timedelta

from at_once import at_once
from reading_model import ReadingModel
from reading_talk import make, read_later, server, talk
from scripted_chat import refuses, says
from scripted_endpoint import Reply

from jiyi.testing import ManualClock

__all__ = ["make", "server"]


def test_limits_of_cost_hold_for_the_whole_database(make, server, clock):
    memory, other = make(reader_calls_per_hour=2), make(reader_calls_per_hour=2)
    for session in "abc":
        talk(memory, [1], session)
    assert read_later(memory, clock).stretches == 2
    for one in (memory, other):
        done = one.maintain().reading
        assert (done.stretches, done.waiting) == (0, 1)
        assert "reader_calls_per_hour=2" in done.notes[0]
    assert len(server.asked) == 2
    assert (memory.reading().calls, memory.reading().tokens) == (2, 20), "as the endpoint counts"
    clock.forward(hours=1)
    assert other.maintain().reading.stretches == 1
    assert (memory.reading().calls, memory.reading().tokens) == (1, 30)


def test_a_day_has_so_many_tokens_and_no_call_begins_that_might_go_over(make, server, clock):
    memory = make(reader_tokens_per_day=3_000)
    for session in "abc":
        talk(memory, [1], session)
    clock.forward(hours=1)
    usage = {"prompt_tokens": 600, "completion_tokens": 100, "total_tokens": 700}
    server.replies.append(Reply(body=lambda asked: ReadingModel.honest(asked) | {"usage": usage}))
    done = memory.maintain().reading
    assert (done.stretches, len(server.asked), memory.reading().tokens) == (1, 1, 700)
    assert "reader_tokens_per_day=3000 leaves 2300" in done.notes[0]
    assert memory.maintain().reading.stretches == 0
    clock.forward(days=1)
    assert memory.maintain().reading.stretches == 2


def test_a_second_answer_to_mend_the_first_is_paid_as_well_or_not_asked_for(make, server, clock):
    memory = make(reader_calls_per_hour=3)
    talk(memory, [1], "a")
    talk(memory, [2], "b")
    server.replies += [says("no JSON"), Reply(), says("no JSON")]
    done = read_later(memory, clock)
    assert (done.new, memory.reading().calls, len(server.asked)) == (1, 3, 3)
    assert "reader_calls_per_hour=3 is used up" in done.notes[0]
    assert read_later(memory, clock).new == 1


def test_readers_at_once_never_make_more_calls_than_they_may(make, server, clock):
    memories = [make(reader_calls_per_hour=5) for _ in range(3)]
    for number in range(12):
        talk(memories[0], [number], f"s-{number}")
    clock.forward(hours=1)
    at_once(lambda memory: memory.maintain(), memories)
    assert (len(server.asked), memories[0].reading().calls, memories[0].reading().tokens) == (5, 5, 50)


def test_a_call_that_failed_costs_what_was_asked_and_gives_back_the_rest(make, server, clock):
    memory = make()
    talk(memory, [1])
    server.replies.append(refuses("bad key", status=401))
    read_later(memory, clock)
    state = memory.reading()
    assert state.calls == 1
    assert 100 < state.tokens < 2_000


def test_a_process_whose_clock_is_behind_takes_no_limit_away(make, clock):
    ahead = ManualClock(clock() + timedelta(hours=2))
    behind, other = make(reader_calls_per_hour=1), make(clock=ahead, reader_calls_per_hour=1)
    for session in "abc":
        talk(behind, [1], session)
    clock.forward(hours=1)
    ahead.forward(hours=1)
    assert other.maintain().reading.stretches == 1
    assert behind.maintain().reading.stretches == 1
    assert other.maintain().reading.stretches == 0


def test_a_reader_without_an_allowance_asks_nothing(make, server, clock):
    for options in ({"reader_calls_per_hour": 0}, {"reader_tokens_per_day": 0}):
        memory = make(**options)
        talk(memory, [1])
        assert "is used up" in read_later(memory, clock).notes[0]
    assert server.asked == []
