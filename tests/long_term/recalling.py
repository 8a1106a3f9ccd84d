"""Short ways to fill a memory and to ask it."""

from samples import ANA, message

from jiyi.long_term import BlockWriter, recall_blocks
from jiyi.records import Query
from jiyi.text import counter_for


def search(recall, text, scope=ANA, around=0, **parts):
    return recall.search(Query(scope=scope, text=text, **parts), around=around)


def texts(hits):
    return [hit.text for hit in hits]


def talk(store, *lines, session="s", at=0):
    """Store what was said, each line as "name: text", one second after the other."""
    said = [line.split(": ", 1) for line in lines]
    where = {"session": session}
    return store.put([message(text, name=name, at=at + i, **where) for i, (name, text) in enumerate(said)])


def recalled(recall, text, without="", floor=0.0, **options):
    """What a window would be given for a question."""
    chosen = {"counter": counter_for(), "language": "en", "max_tokens": 1000} | options
    write = BlockWriter(question=text, **chosen)
    return recall_blocks(recall, Query(scope=ANA, text=text), write, without=without, floor=floor)
