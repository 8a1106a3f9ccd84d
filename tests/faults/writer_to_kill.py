"""A process that forks writers: each saves until it is killed, and says what it was promised.

Imports and vocabularies are loaded once, so that a writer is at work within milliseconds.
"""

import os
import sys
from datetime import UTC, datetime

import jiyi
from jiyi.extraction import extract
from jiyi.short_term.summaries import Summaries
from jiyi.testing import HashEmbedder
from jiyi.text import analyse, counter_for


def say(line: str) -> None:
    # Several processes write here and some die doing so: each line is one call, and begins anew.
    os.write(1, f"\n{line}\n".encode())


def fold(summaries: Summaries, scope: jiyi.Scope) -> str | None:
    """Fold what is new in a session, if it is a few messages; return the id of the version."""
    before = summaries.latest(scope)
    new = summaries.unfolded(scope, before.upto_seq if before else -1, limit=4)
    if len(new) < 4:
        return None
    told = (before.text if before else "") + "".join(f" {message.id}" for message in new)
    ids = [message.id for message in new]
    return summaries.add(scope, told, covers=ids, upto_seq=new[-1].seq, method="extractive", after=before).id


def write(path: str, number: str) -> None:
    # The last of 36 embeds nothing, so that some is left whenever it dies.
    memory = jiyi.open(path, user_id="ana", embedder=HashEmbedder(), background=int(number) != 35)
    summaries = Summaries(memory._store)
    written = 0
    while True:
        session = ("one", "two")[written % 2]
        ids = [f"{number}-{written + i}" for i in range(1 + 3 * (written % 7 == 0))]
        batch = [
            jiyi.Message.from_openai(
                {"role": "user", "content": f"说了第 {id_} 条 w{id_.replace('-', 'q')}"}, id=id_
            )
            for id_ in ids
        ]
        for message in memory.save_messages(session, batch):
            say(f"saved {message.id} .")
        written += len(batch)
        # Every second writer leaves the time between two saves to the embedding.
        folds = int(number) % 2 == 0
        made = fold(summaries, jiyi.Scope(user_id="ana", session_id=session)) if folds else None
        if made:
            say(f"folded {made} .")


def main() -> None:
    counter_for().count_text("warm")
    analyse("热身 warm")
    extract("第 1 条 w1", speaker=None, role="user", said_at=datetime.now(UTC), zone=UTC)
    say("ready")
    for line in sys.stdin:
        number, path = line.rstrip("\n").split(" ", 1)
        child = os.fork()
        if child == 0:
            write(path, number)
        say(f"started {child}")
        os.waitpid(child, 0)
        say("gone")


main()
