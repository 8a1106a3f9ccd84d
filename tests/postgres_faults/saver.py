"""A program that saves messages from several threads and says what it was promised.

    python saver.py URL NAME THREADS COUNT [SETTING=NUMBER ...]

It prints ``saved ID`` for what was acknowledged and ``failed ID ERROR`` for what was not; that is
saved again under the same id, as a careful program would. Every second message goes into the
session ``shared`` of the user ``ana``, the others into a session of the thread's own user. Every
seventh teaches a fact, which takes ten times as long to save as what teaches nothing.
"""

import logging
import os
import sys
import threading
import time

import jiyi
from jiyi.errors import StorageError
from jiyi.testing import HashEmbedder


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # one call each: a killed program leaves no half of a line


def save_all(memory: jiyi.MemoryManager, name: str, thread: int, count: int) -> None:
    for i in range(count):
        id_ = f"{name}-{thread}-{i}"
        user, session = ("ana", "shared") if i % 2 else (f"user-{name}-{thread}", "own")
        while True:
            try:
                word = f"w{id_.replace('-', 'q')}"
                text = f"第 {i} 条 {word}" if i % 7 == 0 else f"又说了 {word}"
                memory.save_message(session, role="user", content=text, id=id_, user_id=user)
            except StorageError as error:
                say(f"failed {id_} {type(error).__name__} {error}")
                time.sleep(0.1)
            else:
                say(f"saved {id_}")
                break


def main() -> None:
    url, name, threads, count, *settings = sys.argv[1:]
    logging.disable(logging.WARNING)
    chosen = {key: float(value) for key, _, value in (setting.partition("=") for setting in settings)}
    with jiyi.open(url, embedder=HashEmbedder(256), lock_timeout=30, **chosen) as memory:
        say("ready")
        sys.stdin.readline()
        work = [
            threading.Thread(target=save_all, args=(memory, name, thread, int(count)))
            for thread in range(int(threads))
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
    say("closed")


if __name__ == "__main__":
    main()
