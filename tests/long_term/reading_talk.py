"""Memories whose language model reads in the background, on both databases, and what is said in them."""

import pytest
from reading_model import ReadingModel, line

__all__ = ["keepers", "make", "read_later", "server", "talk"]


@pytest.fixture
def server():
    with ReadingModel() as running:
        yield running


@pytest.fixture
def make(open_memory, llm_at, place, clock, server):
    """Open memories with a language model that reads."""

    def build(**options):
        llm = llm_at(server.url, time_limit=options.pop("time_limit", 10))
        chosen = {"llm": llm, "clock": clock, "summaries": "off", "reader_messages": 4} | options
        return open_memory(place, **chosen)

    return build


def talk(memory, numbers, session="s", **options):
    return [memory.save_message(session, role="user", content=line(n), **options) for n in numbers]


def keepers(memory, **options):
    return {fact.subject: fact.object for fact in memory.facts(**options) if fact.predicate == "keeper"}


def read_later(memory, clock):
    """Maintain a memory an hour later; what was read then."""
    clock.forward(hours=1)
    return memory.maintain().reading
