"""What the server costs and whether it keeps its word, on real sockets and processes.

    python bench/server.py overhead            # search and context: HTTP beside the library, in pairs
    python bench/server.py saves --db URL      # 32 clients saving: server beside the library, in turns
    python bench/server.py memory              # its resident memory over 50,000 requests
    python bench/server.py kills               # SIGKILL under load: is everything that was answered there?

Each has numbers of its own; see ``--help``. Clients that save go by `httpx`.
"""

import argparse
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from conversation import conversation

import jiyi

QUESTIONS = ("what did she say about the port?", "where is the backup kept?", "上次说的端口是多少？")
_TURN = 25
UNLIMITED = {"JIYI_SERVER_REQUESTS_PER_MINUTE": "0"}


@contextmanager
def served(db: str, log: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Give the URL and the process of a server on a database, ready to answer."""
    command = [sys.executable, "-m", "jiyi", "serve", "--db", db, "--port", "0"]
    with log.open("ab") as lines:
        begun = lines.tell()
        process = subprocess.Popen(command, stderr=lines, env={**os.environ, **UNLIMITED})
        try:
            yield _url(process, log, begun), process
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            process.wait(60)


def _url(process: subprocess.Popen[bytes], log: Path, begun: int) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for line in log.read_bytes()[begun:].decode().splitlines():
            if "running on" in line:
                return str(json.loads(line)["message"]).split()[3]
        if process.poll() is not None:
            raise SystemExit(f"the server ended with {process.returncode}: {log.read_text()[-500:]}")
        time.sleep(0.02)
    raise SystemExit("the server did not begin to listen")


def overhead(folder: Path, messages: int, rounds: int) -> dict[str, Any]:
    """Return the p50 of search and context in milliseconds, by HTTP and in this process.

    They take turns of 25 questions, in random order. Every question is new to both; the connection is
    one of `http.client`, which costs next to nothing itself.
    """
    db = str(folder / "overhead.db")
    with jiyi.open(db, user_id="ana") as memory:
        memory.save_messages("s", conversation(messages))
        memory.flush()
    with ExitStack() as stack:
        memory = stack.enter_context(jiyi.open(db, user_id="ana"))
        url, _ = stack.enter_context(served(db, folder / "log"))
        line = stack.enter_context(closing(http.client.HTTPConnection(url.removeprefix("http://"))))

        def post(path: str, query: str) -> None:
            body = json.dumps({"user_id": "ana", "query": query})
            line.request("POST", path, body, {"content-type": "application/json"})
            answer = line.getresponse()
            answer.read()
            assert answer.status == 200

        ways: dict[str, Callable[[str], Any]] = {
            "search": memory.search,
            "search http": partial(post, "/v1/search"),
            "context": partial(memory.build_context, "s"),
            "context http": partial(post, "/v1/sessions/s/context"),
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(-1, max(1, rounds // _TURN)):  # the first is to get warm
            for name in random.sample(list(ways), len(ways)):
                for number in range(_TURN):
                    query = f"{QUESTIONS[number % 3]} {turn} {number} {name}"
                    began = time.perf_counter()
                    ways[name](query)
                    if turn >= 0:
                        taken[name].append(1000 * (time.perf_counter() - began))
    p50 = {name: round(median(values), 2) for name, values in taken.items()}
    more = {name: round(p50[f"{name} http"] - p50[name], 2) for name in ("search", "context")}
    return {"messages": messages, "rounds": len(taken["search"]), "p50_ms": p50, "http_adds_ms": more}


def saves(db: str, folder: Path, clients: int, seconds: float, turns: int) -> dict[str, Any]:
    """Return the saves a second of as many clients by HTTP and in one process of the library, in turns."""
    rates: dict[str, list[float]] = {"library": [], "http": []}
    for turn in range(turns):
        with jiyi.open(db, pool_max=clients) as memory:

            def save(client: int, number: int, memory: Any = memory, turn: int = turn) -> None:
                memory.save_message(f"l{turn}", role="user", content=_words(number), user_id=f"u{client}")

            rates["library"].append(_rate(save, clients, seconds))
        with served(db, folder / "log") as (url, _), httpx.Client(limits=_limits(clients), timeout=60) as web:

            def post(client: int, number: int, url: str = url, web: Any = web, turn: int = turn) -> None:
                body = {"user_id": f"u{client}", "message": {"role": "user", "content": _words(number)}}
                web.post(f"{url}/v1/sessions/h{turn}/messages", json=body).raise_for_status()

            rates["http"].append(_rate(post, clients, seconds))
    shown = {name: round(median(values), 1) for name, values in rates.items()}
    ratio = round(shown["http"] / shown["library"], 3)
    return {"clients": clients, "seconds": seconds, "saves_per_second": shown, "http_to_library": ratio}


def _limits(clients: int) -> httpx.Limits:
    return httpx.Limits(max_connections=clients, max_keepalive_connections=clients)


def _words(number: int) -> str:
    return f"The backup of host-{number} is kept at site {number % 7}. 备份放在{number % 5}号机房。"


def _rate(save: Callable[[int, int], None], clients: int, seconds: float) -> float:
    """Return how many saves a second all clients did together."""
    end = time.perf_counter() + seconds

    def work(client: int) -> int:
        number = 0
        while time.perf_counter() < end:
            save(client, number)
            number += 1
        return number

    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        done = sum(pool.map(work, range(clients)))
    return done / (time.perf_counter() - began)


def memory(folder: Path, requests: int, clients: int) -> dict[str, Any]:
    """Return the server's resident memory in MB as requests of many kinds go on."""
    sizes: list[float] = []
    with ExitStack() as stack:
        url, process = stack.enter_context(served(str(folder / "memory.db"), folder / "log"))
        web = stack.enter_context(httpx.Client(limits=_limits(clients), timeout=60))
        pool = stack.enter_context(ThreadPoolExecutor(clients))
        step = requests // 10
        for begun in range(0, requests, step):
            list(pool.map(lambda n: _any(web, url, n), range(begun, begun + step)))
            sizes.append(_resident(process.pid))
            print(f"{begun + step:>7,} requests: {sizes[-1]:.0f} MB", file=sys.stderr)
    ratio = round(sizes[-1] / sizes[len(sizes) // 2 - 1], 3)
    return {"requests": requests, "mb": [round(size, 1) for size in sizes], "last_to_half": ratio}


def _any(web: httpx.Client, url: str, number: int) -> None:
    """Send a request: a few of twenty users save, the others ask, and some ask for what is not there."""
    who = {"user_id": f"u{number % 20}"}
    match number % 10:
        case 0:
            body = {**who, "message": {"role": "user", "content": _words(number % 500)}}
            web.post(f"{url}/v1/sessions/s{number % 3}/messages", json=body)
        case 1 | 2 | 3:
            web.post(f"{url}/v1/search", json={**who, "query": QUESTIONS[number % 3]})
        case 4:
            web.post(f"{url}/v1/sessions/s1/context", json={**who, "query": QUESTIONS[0], "budget": 1000})
        case 5 | 6:
            web.get(f"{url}/v1/facts", params=who)
        case 7:
            web.get(f"{url}/v1/records/none{number}", params=who)
        case 8:
            web.post(f"{url}/v1/search", content=b"{")
        case _:
            web.get(f"{url}/v1/sessions/s{number}/messages", params=who)


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1000


def kills(folder: Path, times: int, clients: int, db: str) -> dict[str, Any]:
    """Kill the server again and again while clients save; return what was answered and what of it is lost."""
    answered: dict[str, str] = {}
    again: list[str] = []
    lock = threading.Lock()
    for number in range(times):
        with served(db, folder / "log") as (url, process):
            stop = threading.Event()

            def save(client: int, url: str = url, stop: threading.Event = stop) -> None:
                with httpx.Client(timeout=10) as web, suppress(httpx.HTTPError):
                    while not stop.is_set():
                        key, user = f"{os.urandom(8).hex()}", f"u{client}"
                        body = {"user_id": user, "message": {"role": "user", "content": f"word{key}"}}
                        said = web.post(
                            f"{url}/v1/sessions/s/messages", json=body, headers={"idempotency-key": key}
                        )
                        if said.status_code == 200:
                            with lock:
                                answered[said.json()["id"]] = user

            threads = [threading.Thread(target=save, args=(client,)) for client in range(clients)]
            for thread in threads:
                thread.start()
            before = len(answered)
            while len(answered) < before + clients:
                time.sleep(0.005)
            time.sleep(random.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
            stop.set()
            for thread in threads:
                thread.join()
        if (number + 1) % 20 == 0:
            print(f"{number + 1:>4} kills, {len(answered):,} answered", file=sys.stderr)
    with jiyi.open(db, background=False) as kept:
        for user in set(answered.values()):
            here = {message.id for message in _all(kept, user)}
            again += [id_ for id_, of in answered.items() if of == user and id_ not in here]
    return {"kills": times, "clients": clients, "answered": len(answered), "lost": len(again)}


def _all(memory: jiyi.MemoryManager, user: str) -> Iterator[jiyi.Message]:
    after = None
    while True:
        part = memory.session_messages("s", after=after, user_id=user)
        yield from part
        if part.next is None:
            return
        after = part.next


def main() -> None:
    """Run one of them and print its figures as JSON."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("what", choices=("overhead", "saves", "memory", "kills"))
    parser.add_argument("--db", help="a file or postgresql://…; a new file by default")
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--times", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        db = given.db or str(folder / "served.db")
        figures = {
            "overhead": lambda: overhead(folder, given.messages, given.rounds),
            "saves": lambda: saves(db, folder, given.clients, given.seconds, given.turns),
            "memory": lambda: memory(folder, given.requests, 8),
            "kills": lambda: kills(folder, given.times, 8, db),
        }[given.what]()
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
