"""Users of many tenants, what is known of each, and how an answer is searched for what is not theirs."""

import random
import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import httpx

MARK = re.compile(r"mark[a-z]*\d*x\w+?zz")
STORED = re.compile(r"[a-z0-9][a-z0-9-]*//[a-z]")
SESSIONS = ("main", "work")
URLS = ("https://jiyi", "http://127")  # slashes that stand for no tenant
STILL = "still"  # a user of each tenant who says one thing in the beginning


@dataclass
class World:
    """What is known of everybody, shared by all threads."""

    clients: dict[str, httpx.Client]  # by tenant
    ids: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))  # of an owner
    jobs: list[tuple[str, str, str]] = field(default_factory=list)  # tenant, user, id
    cursors: list[tuple[str, str, str]] = field(default_factory=list)  # tenant, user, cursor
    stills: dict[str, Any] = field(default_factory=dict)  # figures of users who do nothing
    counts: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    faults: list[str] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)


@dataclass
class Somebody:
    """A user of a tenant, who asks."""

    world: World
    drawn: random.Random
    tenant: str
    user: str

    @property
    def mark(self) -> str:
        return f"mark{self.tenant}x{self.user}zz"

    def text(self) -> str:
        n = self.drawn.randrange(1_000)
        return self.drawn.choice(
            [
                f"My port is {n}, says {self.mark}.",
                f"I live in {self.mark} street {n}. 我喜欢喝茶 {n}",
                f"Please remember: {self.mark} prefers tea {n}.",
                f"{self.mark} said {n}",
            ]
        )

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """Send a request in the user's name and look for what is not theirs in the answer."""
        content, headers = more.pop("content", None), more.pop("headers", {})
        if method == "GET" or content is not None:
            params, body = {"user_id": self.user, **more}, None
        else:
            params, body = None, {"user_id": self.user, **(body or {}), **more}
        client = self.world.clients[self.tenant]
        started = time.perf_counter()
        answer = client.request(method, path, params=params, json=body, content=content, headers=headers)
        self.check(f"{method} {path}", answer, time.perf_counter() - started)
        return answer

    def check(self, what: str, answer: httpx.Response, seconds: float = 0.0) -> None:
        told = f"{answer.headers}\n{answer.text}"
        for url in URLS:
            told = told.replace(url, "")
        faults = [f"foreign {found}" for found in set(MARK.findall(told)) - {self.mark}]
        faults += [f"stored form {found}" for found in STORED.findall(told)]
        if answer.status_code >= 500:
            faults.append(f"status {answer.status_code}")
        with self.world.lock:
            self.world.statuses[answer.status_code] += 1
            self.world.seconds[what.split("/")[2]].append(seconds)
            self.world.faults += [f"{self.tenant} {self.user} {what}: {f} in {told[:2_000]}" for f in faults]

    def expect(self, condition: bool, why: str) -> None:
        if not condition:
            with self.world.lock:
                self.world.faults.append(f"{self.tenant} {self.user}: {why}")

    def keep(self, answer: httpx.Response) -> None:
        """Note the ids that an answer made, for others to try."""
        if answer.status_code == 200:
            with self.world.lock:
                self.world.ids[self.tenant, self.user] += re.findall(r'"id": ?"([^"]+)"', answer.text)

    def own_id(self) -> str:
        with self.world.lock:
            return self.drawn.choice(self.world.ids.get((self.tenant, self.user)) or ["none"])

    def foreign_id(self) -> str:
        with self.world.lock:
            others = [own for own, ids in self.world.ids.items() if own != (self.tenant, self.user) and ids]
            return self.drawn.choice(self.world.ids[self.drawn.choice(others)]) if others else "none"
