"""A process that forks writers: each saves until it is killed, and says what it was promised.

Imports and vocabularies are loaded once, so that a writer is at work within milliseconds.
"""

import os
import sys

import jiyi
from jiyi.testing import HashEmbedder
from jiyi.text import analyse, counter_for


def say(line: str) -> None:
    # Several processes write here and some die doing so: each line is one call, and begins anew.
    os.write(1, f"\n{line}\n".encode())


def write(path: str, number: str) -> None:
    memory = jiyi.open(path, user_id="ana", embedder=HashEmbedder())
    written = 0
    while True:
        session = ("one", "two")[written % 2]
        ids = [f"{number}-{written + i}" for i in range(1 + 3 * (written % 7 == 0))]
        batch = [
            jiyi.Message.from_openai(
                {"role": "user", "content": f"第 {id_} 条 w{id_.replace('-', 'q')}"}, id=id_
            )
            for id_ in ids
        ]
        for message in memory.save_messages(session, batch):
            say(f"saved {message.id} .")
        written += len(batch)


def main() -> None:
    counter_for().count_text("warm")
    analyse("热身 warm")
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
