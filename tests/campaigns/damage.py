"""Random damage to the bytes of a real file, and every reading verb on what is left of it.

    python tests/campaigns/damage.py --minutes 10 [--seed 1]

One file is filled through the public verbs; each round damages a fresh copy: bits flipped, pages zeroed,
pages swapped, the end cut off, in the file or in its log. The oracle is the file before: a verb raises an
error of `jiyi.errors` or returns; a record that is given back says what it said before; what a repair
saves is, byte for byte, what the whole file holds; with the log untouched nothing is lost silently where
one byte of one text was damaged: doctor names it. Prints a table as JSON; exit code 1 on a fault.
"""

import json
import logging
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from campaign_run import asked, told

import jiyi
from jiyi.databases import check_database
from jiyi.errors import JiyiError
from jiyi.records import Scope
from jiyi.settings import load_settings
from jiyi.storage import SqliteDatabase
from jiyi.storage.backend import open_backend
from jiyi.storage.place import Place
from jiyi.storage.rows import encode
from jiyi.storage.transfer.copy import PARTS, canonical_text, read_batches
from jiyi.storage.transfer.repair import repair_file
from jiyi.storage.trash import key_of
from jiyi.testing import HashEmbedder

PAGE = 8192
USERS = ("ana", "ben")
WORDS = ("nginx", "网关", "certificate", "证书", "expired", "过期", "disk", "磁盘", "full", "满了", "缓存")


def opened(path: Path, user: str) -> jiyi.MemoryManager:
    return jiyi.open(path, user_id=user, embedder=HashEmbedder(), background=False)


def fill(path: Path, rng: random.Random, messages: int) -> None:
    """Make a file with every kind of record, a log that is not folded in, and a trash."""
    for user in USERS:
        memory = opened(path, user)
        for number in range(messages):
            words = " ".join(rng.choices(WORDS, k=rng.randint(3, 60)))
            memory.save_message(f"s{number % 3}", {"role": "user", "content": f"{number} {words}"})
        memory.save_message("s0", {"role": "user", "content": "我住在柏林。I work at Acme."})
        for number in range(4):
            task = memory.start_task("s0", f"mend {number} {rng.choice(WORDS)}")
            memory.add_step(task.id, f"look at {rng.choice(WORDS)}", result="found " * 20)
            if number:
                memory.complete_task(task.id, summary=f"done {number}")
        memory.forget(ids=memory.session_messages("s1")[0].id)
        memory.flush()
        memory.close()


def contents(path: Path) -> dict[tuple, str]:
    """Return everything a file holds, by user, part and key."""
    backend = open_backend(Place(path=path), load_settings())
    try:
        return {
            (user, part, key_of(item)): canonical_text(item)
            for user in USERS
            for part in PARTS
            for items, _ in read_batches(backend, Scope(user_id=user), part)
            for item in items
        }
    finally:
        backend.store.close()


def damage(data: bytearray, rng: random.Random) -> str:
    """Damage bytes in one of several ways; return which."""
    how = rng.choice(("bit", "bit", "bits", "text", "zeroed page", "swapped pages", "cut off"))
    pages = len(data) // PAGE
    if how in ("bit", "bits"):
        for _ in range(1 if how == "bit" else 30):
            data[rng.randrange(100, len(data))] ^= 1 << rng.randrange(8)
    elif how == "text":
        place = data.find(rng.choice(WORDS).encode(), rng.randrange(len(data)))
        data[place if place > 0 else rng.randrange(100, len(data))] = rng.choice((0xFF, 0x80, 0x41))
    elif how == "cut off":
        del data[rng.randrange(PAGE, len(data)) :]
    elif pages > 2:
        one, two = rng.sample(range(1, pages), 2)
        first, second = slice(one * PAGE, one * PAGE + PAGE), slice(two * PAGE, two * PAGE + PAGE)
        if how == "zeroed page":
            data[first] = bytes(PAGE)
        else:
            data[first], data[second] = data[second], data[first]
    return how


class Round:
    """One damaged file, and what its verbs did."""

    def __init__(self, path: Path, before: dict[tuple, str], counts: Counter[str]) -> None:
        self.path, self.before, self.counts = path, before, counts
        self.faults: list[str] = []
        self.bodies: dict[tuple[str, str], set[str]] = {}
        for user, _, (_, id_) in before:
            self.bodies.setdefault((user, id_), set())
        for (user, _, (_, id_)), text in before.items():
            self.bodies[user, id_].add(json.loads(text[text.index("{") :])["body"])

    def tried(self, name: str, call):
        """Call a verb: only errors of jiyi may come."""
        began = time.monotonic()
        try:
            found = call()
            self.counts["returned"] += 1
        except JiyiError as error:
            self.counts[type(error).__name__] += 1
            found = None
        except Exception:
            self.counts["untyped"] += 1
            self.faults.append(f"{name}: {traceback.format_exc(limit=-4)}")
            found = None
        if time.monotonic() - began > 20:
            self.faults.append(f"{name}: took {time.monotonic() - began:.0f} s")
        return found

    def same(self, user: str, records) -> None:
        """Compare records that were given back with what they said before."""
        for record in records or ():
            self.counts["records given back"] += 1
            body = encode(record)["body"]
            if body not in self.bodies.get((user, record.id), ()):
                self.faults.append(f"{type(record).__name__} {record.id} of {user} differs: {body[:200]}")

    def run(self, folder: Path) -> None:
        memory = self.tried("open", lambda: opened(self.path, "ana"))
        if memory is not None:
            try:
                self.read(memory, folder)
            finally:
                self.tried("close", memory.close)
        self.tried("doctor", lambda: check_database(self.path))

    def read(self, memory, folder: Path) -> None:
        for user in USERS:
            for session in ("s0", "s1", "s2"):
                found = self.tried(
                    "session_messages", lambda s=session, u=user: memory.session_messages(s, user_id=u)
                )
                self.same(user, found)
            self.tried("build_context", lambda u=user: memory.build_context("s0", "nginx 证书?", user_id=u))
            hits = self.tried("search", lambda u=user: memory.search("nginx 证书 disk", limit=20, user_id=u))
            self.same(user, [hit.record for hit in hits or ()])
            for name in ("facts", "episodes", "knowledge", "tasks", "sessions", "stats"):
                found = self.tried(name, lambda n=name, u=user: getattr(memory, n)(user_id=u))
                if name in ("facts", "episodes", "knowledge"):
                    self.same(user, found)
            target = folder / f"{user}.jsonl"
            self.tried("export", lambda t=target, u=user: memory.export(t, user_id=u))
            self.tried("markdown", lambda t=target, u=user: memory.export(t, format="markdown", user_id=u))
        self.tried("save", lambda: memory.save_message("s0", {"role": "user", "content": "after it"}))
        self.tried("flush", memory.flush)
        self.tried("maintain", memory.maintain)
        self.tried("forget", lambda: memory.forget(session_id="s2"))
        self.tried("forget words", lambda: memory.forget("缓存 磁盘"))
        self.tried("purge", lambda: memory.forget(everything=True, purge=True, user_id="ben"))

    def repaired(self, source: Path, target: Path) -> None:
        """Save what is whole, and compare it with the file before."""
        if self.tried("repair", lambda: repair_file(source, target, load_settings())) is None:
            return
        self.counts["repaired"] += 1
        for key, text in (self.tried("read the repaired", lambda: contents(target)) or {}).items():
            self.counts["records repaired"] += 1
            if not _within(text, self.before.get(key, "")):
                self.faults.append(f"repair: {key} is {text[:200]}, was {str(self.before.get(key))[:200]}")
        self.tried("check the repaired", lambda: check_database(target))


def _within(text: str, before: str) -> bool:
    """Say whether a record is as it was; a task may have lost steps, which are records of their own."""
    if text == before or '"steps":' not in text:
        return text == before
    now, then = (json.loads(one[one.index("{") :]) for one in (text, before))
    steps, were = now.pop("steps"), then.pop("steps")
    return now == then and all(step in were for step in steps)


def campaign(seconds: float, seed: int, messages: int = 40, most: int | None = None) -> dict:
    """Damage files for so long, and no more than ``most`` of them; return what came of it."""
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = folder / "whole.db"
        fill(whole, rng, messages)
        before = contents(whole)
        with_log = folder / "with_log.db"
        database = SqliteDatabase(whole)
        with database.write() as db:  # a log that nobody folded in
            db.run("set_meta", {"name": "note", "value": "x" * 20_000})
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{whole}{suffix}", f"{with_log}{suffix}")
        database.close()
        began = time.monotonic()
        while counts["rounds"] != most and (time.monotonic() - began < seconds or not counts["rounds"]):
            number = counts["rounds"]
            path = folder / f"{number}.db"
            for suffix in ("", "-wal"):
                shutil.copyfile(f"{with_log}{suffix}", f"{path}{suffix}")
            where = Path(f"{path}-wal") if rng.random() < 0.15 else path
            data = bytearray(where.read_bytes())
            how = damage(data, rng)
            where.write_bytes(data)
            counts[f"{how}, {'log' if where != path else 'file'}"] += 1
            here = Round(path, before, counts)
            here.repaired(path, folder / f"{number}.new.db")
            here.run(folder)
            faults += [f"round {number} ({how}): {fault}" for fault in here.faults]
            counts["rounds"] += 1
            for left in folder.glob(f"{number}.*"):
                left.unlink()
        took = round(time.monotonic() - began)
    return {
        "seed": seed,
        "seconds": took,
        **dict(sorted(counts.items())),
        "faults": faults[:20],
        "fault_count": len(faults),
    }


def main() -> int:
    given = asked(__doc__)
    logging.getLogger("jiyi").setLevel(logging.CRITICAL)  # each damaged record is told
    return told(campaign(60 * given.minutes, given.seed))


if __name__ == "__main__":
    sys.exit(main())
