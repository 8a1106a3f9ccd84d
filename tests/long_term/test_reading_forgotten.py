"""What was read goes with the message it was read from, whenever that is forgotten."""

import pytest
from reading_model import ReadingModel, line, read_fact, says_facts
from reading_talk import keepers, make, read_later, server, talk
from scripted_endpoint import Reply

__all__ = ["make", "server"]


@pytest.mark.parametrize("purge", [False, True])
def test_what_was_read_goes_with_its_message_and_comes_back_with_it(make, clock, purge):
    memory = make()
    first, _ = talk(memory, [1, 2])
    read_later(memory, clock)
    receipt = memory.forget(ids=[first.id], purge=purge)
    assert (receipt.counts, keepers(memory)) == ({"message": 1, "fact": 1}, {"pump-2": "Mei"})
    if not purge:
        memory.restore(forgotten_at=receipt.at)
        assert set(keepers(memory)) == {"pump-1", "pump-2"}


def test_nothing_of_a_purged_message_is_left_in_the_file(open_memory, path, server, clock):
    options = {"llm_model": "m", "llm_base_url": server.url, "llm_api_key": "", "clock": clock}
    memory = open_memory(path, **options)
    memory.save_message("s", role="user", content="if zanzibar breaks, ask Quetzal")
    read_later(memory, clock)
    assert keepers(memory) == {"zanzibar": "Quetzal"}
    memory.forget(session_id="s", purge=True)
    memory.close()
    for file in path.parent.iterdir():
        assert b"anzibar" not in file.read_bytes()
        assert b"Quetzal" not in file.read_bytes()


@pytest.mark.parametrize("again", [False, True])
def test_what_is_forgotten_while_it_is_read_is_not_kept(make, server, clock, again):
    memory, other = make(), make()
    first, _ = talk(memory, [1, 2])
    clock.forward(hours=1)

    def slow(asked):
        other.forget(ids=[first.id], purge=True)
        if again:
            other.save_message("s", role="user", content="something else", id=first.id)
        return ReadingModel.honest(asked)

    server.replies.append(Reply(body=slow))
    memory.maintain()
    assert keepers(memory) == {"pump-2": "Mei"}


def test_by_hand_as_well(make, server, clock):
    memory = make(reader="off")
    first, _ = talk(memory, [1, 2])

    def slow(asked):
        memory.forget(ids=[first.id])
        return ReadingModel.honest(asked)

    server.replies.append(Reply(body=slow))
    memory.learn_facts("s")
    assert keepers(memory) == {"pump-2": "Mei"}


@pytest.mark.parametrize("gone", [0, 1])
def test_an_answer_rests_on_its_question_too(make, server, clock, gone):
    memory = make()
    question = memory.save_message("s", role="assistant", content="Shall I ask Quetzal about pump-1?")
    clock.forward(seconds=5)
    reply = memory.save_message("s", role="user", content="certainly")
    server.replies.append(says_facts(read_fact(2, "pump-1", "Quetzal", "certainly")))
    read_later(memory, clock)
    (fact,) = memory.facts("pump-1")
    assert fact.sources == (question.id, reply.id)
    memory.forget(ids=[fact.sources[gone]])
    assert memory.facts("pump-1") == []


def test_a_fact_that_is_said_twice_stays_as_long_as_one_says_it(make, clock):
    memory = make()
    first = memory.save_message("s", role="user", content=line(1))
    clock.forward(minutes=1)
    memory.save_message("s", role="user", content="really, " + line(1))
    read_later(memory, clock)
    memory.forget(ids=[first.id])
    assert keepers(memory) == {"pump-1": "Mei"}
