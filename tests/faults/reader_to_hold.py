"""Another process on a file: reading, idle, or purging until it is killed."""

import sys
import time

import apsw


def stop() -> None:
    print("now", flush=True)
    time.sleep(120)


def purge(path: str, stage: str) -> None:
    from forgettable import Memory, words

    from jiyi.storage import SqliteDatabase

    memory = Memory(SqliteDatabase(path))
    memory.say("zyxomarkerqwv 魑魅魍魉标记", learn=False)
    if stage == "before the overwriting":
        memory.trash.scrub = stop
    else:
        erase = memory.trash.erase
        memory.trash.erase = lambda *args, **given: (erase(*args, **given), stop())[0]
    memory.purge(query=words("zyxomarkerqwv"))


def main() -> None:
    path, how = sys.argv[1:]
    if how.startswith("before"):
        purge(path, how)
        return
    connection = apsw.Connection(path)
    connection.execute("SELECT count(*) FROM documents").fetchall()
    if how == "reading":
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM documents").fetchall()
    stop()


main()
