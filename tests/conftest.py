"""Fixtures for whole memories: a real file, the instant embedder, and a clock to turn by hand."""

import asyncio
import inspect
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from local_llm import local_llm, local_reranker  # noqa: F401
from other_processes import hold  # noqa: F401
from postgres_server import (  # noqa: F401
    IN_MEMORY,
    PASSABLE,
    _cluster,
    _server_of_the_run,
    citus_url,
    empty_postgres_url,
    passable_folder,
    postgres_server,
    postgres_url,
)

import jiyi
from jiyi.endpoint import Endpoint
from jiyi.llm import OpenAILLM
from jiyi.long_term.facts.memory import FactMemory
from jiyi.long_term.facts.merge import Learned
from jiyi.records import Message, Scope
from jiyi.storage import SqliteDatabase, Store
from jiyi.testing import HashEmbedder, ManualClock

# A run in the background may ignore Ctrl-C, and so would the programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where nothing compiled is kept, every program that a test starts compiles all it loads, for seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The files of tests, and of the programs they start, lie where the servers' do.
if IN_MEMORY:
    os.environ.setdefault("TMPDIR", PASSABLE)
    tempfile.tempdir = None  # what pytest asked for already

# rich takes the width once, when the console is made; tests of the terminal set their own later.
os.environ.pop("COLUMNS", None)

# Where a run decides whether a change goes in, it looks at the same examples each time;
# everywhere else hypothesis goes on looking for new ones. How long one takes says nothing.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "explore")


SLOW_FOLDERS = ("faults", "postgres_faults")  # they kill processes and servers
LONG = {f"test_{name}.py" for name in ("fresh_clone", "rest", "fork", "deploy", "linear_time", "campaigns")}


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, int, int]:
    """Give the slow tests, which wait much of their time, one worker more than there are cores."""
    return (yield) + (config.option.markexpr == "slow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave whole folders to `make test-slow`, and begin with the files that take longest."""
    for item in items:
        if item.path.parent.name in SLOW_FOLDERS:
            item.add_marker("slow")
    items.sort(key=lambda item: item.path.name not in LONG)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in a loop of its own, where no plugin has done so."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**given))
    return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    """No setting, key or proxy of whoever runs the tests, and no endpoint that another test found dead."""
    for name in [name for name in os.environ if name.startswith("JIYI_") and "_TEST_" not in name]:
        monkeypatch.delenv(name)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("jiyi.endpoint._breakers", {})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "agent.db"


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, path):
    """A new file, and a new database of a server: what holds on one holds on the other."""
    return path if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def database(path):
    database = SqliteDatabase(path)
    yield database
    database.close()


@pytest.fixture
def store(database):
    return Store(database)


@pytest.fixture
def clock():
    """A clock to turn by hand."""
    return ManualClock(datetime(2026, 1, 5, 9, tzinfo=UTC))


@pytest.fixture
def facts_day_by_day(store):
    """A memory of facts, and a function by which it learns what Ana says, each time a day later."""
    clock = ManualClock(datetime(2026, 6, 1, 9, tzinfo=UTC))
    memory = FactMemory(store, clock=clock)

    def learn(text: str, **by: Any) -> Learned:
        said = {"role": "user", "name": "Ana", "content": text, **by}
        message = Message(**said, created_at=clock(), scope=Scope(user_id="ana", session_id="s"))
        with store.transaction():
            learned = memory.learn([one for one in store.put([message]) if isinstance(one, Message)])
        clock.forward(days=1)
        return learned

    return memory, learn


@pytest.fixture
def open_memory(path):
    """Open memories on one file, for "ana" and without a worker unless told; all are closed in the end."""
    opened: list[jiyi.MemoryManager] = []

    def make(url: Path | str = path, **options: Any) -> jiyi.MemoryManager:
        chosen = {"user_id": "ana", "embedder": HashEmbedder(), "background": False} | options
        opened.append(jiyi.open(url, **chosen))
        return opened[-1]

    yield make
    for memory in opened:
        memory.close()


@pytest.fixture
def memory(open_memory):
    return open_memory()


@pytest.fixture
def write_skill(tmp_path):
    """Write a SKILL.md and other files below ``tmp_path/skills``; return the skill's folder."""

    def write(
        name: str = "one",
        head: str | None = None,
        body: str | bytes = "Do it.",
        inside: str = "skills",
        **files: str,
    ) -> Path:
        folder = tmp_path / inside / name
        folder.mkdir(parents=True, exist_ok=True)
        fields = f"name: {name}\ndescription: Does {name}." if head is None else head
        words = body.encode() if isinstance(body, str) else body
        (folder / "SKILL.md").write_bytes(f"---\n{fields}\n---\n".encode() + words)
        for path, text in files.items():
            file = folder / path.replace("__", "/").replace("_md", ".md")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        return folder

    return write


@pytest.fixture
def adapter_at():
    """Make adapters of models at a URL; all that can be are closed in the end."""
    made: list[Any] = []

    def make(
        adapter: Callable[..., Any], url: str, model: str = "m", *, key: str = "", **options: Any
    ) -> Any:
        timeout, retries = options.pop("timeout", 10.0), options.pop("retries", 0)
        endpoint = Endpoint(base_url=url, api_key=key, timeout=timeout, retries=retries)
        made.append(adapter(model, endpoint=endpoint, **options))
        return made[-1]

    yield make
    for one in made:
        getattr(one, "close", lambda: None)()


@pytest.fixture
def llm_at(adapter_at):
    return partial(adapter_at, OpenAILLM)


@pytest.fixture
def dead():
    """The address of a socket that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{free.getsockname()[1]}/v1"


@pytest.fixture
def no_network(monkeypatch):
    """Every attempt to look up an address; none succeeds."""
    asked: list[object] = []

    def refuse(*address: object, **_: object) -> None:
        asked.append(address)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return asked
