"""Random operations of many tenants at once: no answer may hold anything of somebody else.

Tenants call their users, sessions and records by the same names, and every text carries the mark of its
owner. Whatever comes back, an error, an export or a header, is searched for the marks of others and for
the form in which users are stored. At length, with a line for every turn; exit code 1 on a fault:

    python tests/server/walls_http.py --operations 200000 [--db FILE_OR_URL]
"""

import argparse
import json
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from somebody import SESSIONS, STILL, Somebody, World

from jiyi.testing import HashEmbedder

TURN = 2_000  # operations until the vectors are made
MUCH = 60  # records of a user from which on all is purged


def save(me: Somebody) -> None:
    place = f"/v1/sessions/{me.drawn.choice(SESSIONS)}/messages"
    named = {"id": f"m-{me.drawn.randrange(300)}"} if me.drawn.random() < 0.3 else {}
    key = {"idempotency-key": f"k-{me.drawn.randrange(50)}"} if me.drawn.random() < 0.3 else {}
    said = {"role": me.drawn.choice(["user", "assistant"]), "content": me.text()}
    me.keep(me.ask("POST", place, {"message": said, **named}, headers=key))


def save_several(me: Somebody) -> None:
    said = [{"role": "user", "content": me.text()} for _ in range(3)]
    me.keep(me.ask("POST", f"/v1/sessions/{me.drawn.choice(SESSIONS)}/messages/batch", {"messages": said}))


def change_end(me: Somebody) -> None:
    place = f"/v1/sessions/{me.drawn.choice(SESSIONS)}/messages"
    if me.drawn.random() < 0.7:
        me.ask("POST", f"{place}/pop", {"limit": 2})
    else:
        me.keep(me.ask("PUT", place, {"messages": [{"role": "user", "content": me.text()}]}))


def look_around(me: Somebody) -> None:
    session = f"/v1/sessions/{me.drawn.choice(SESSIONS)}"
    whole = [
        *(f"{session}/{name}" for name in ("window", "summary", "health", "advice", "handover", "task")),
        *(f"/v1/{name}" for name in ("profile", "stats", "skills")),
    ]
    me.ask("GET", me.drawn.choice(whole))
    if me.drawn.random() < 0.2:
        me.ask("POST", f"{session}/summary")


def lists(me: Somebody) -> None:
    """Read a list, then go on in it, sometimes with somebody else's cursor."""
    session = f"/v1/sessions/{me.drawn.choice(SESSIONS)}/messages"
    place = me.drawn.choice(
        [session, "/v1/sessions", "/v1/tasks", "/v1/episodes", "/v1/knowledge", "/v1/facts"]
    )
    part = me.ask("GET", place, limit=2)
    after = part.json()["next"] if part.status_code == 200 else None
    if after is not None:
        with me.world.lock:
            me.world.cursors.append((me.tenant, me.user, after))
            tenant, user, foreign = me.drawn.choice(me.world.cursors[-500:])
        me.ask("GET", place, limit=2, after=after)
        tried = me.ask("GET", place, limit=2, after=foreign)
        mine = (tenant, user) == (me.tenant, me.user)
        me.expect(mine or tried.status_code == 400, f"a cursor of {tenant} {user} was taken")


def search(me: Somebody) -> None:
    query = me.drawn.choice(["Which port?", "where do I live", "喜欢喝什么", "tea", "mark street", "said"])
    how = me.drawn.random()
    if how < 0.4:
        me.ask("POST", "/v1/search", {"query": query, "limit": 20, "around": 2})
    elif how < 0.8:
        me.ask("POST", f"/v1/sessions/{me.drawn.choice(SESSIONS)}/context", {"query": query, "budget": 1_000})
    else:
        me.ask("GET", "/v1/history", subject="user")
        me.ask("GET", "/v1/neighbours", entity="user")


def remember(me: Somebody) -> None:
    me.keep(me.ask("POST", "/v1/facts", {"text": me.text(), "pinned": me.drawn.random() < 0.2}))


def task(me: Somebody) -> None:
    where = f"/v1/sessions/{me.drawn.choice(SESSIONS)}/tasks"
    begun = me.ask("POST", where, {"request": me.text(), "target": me.mark})
    me.keep(begun)
    id_ = begun.json().get("id", "none")
    step = me.ask("POST", f"/v1/tasks/{id_}/steps", {"description": me.text()})
    me.keep(step)  # none where another thread made the user forget the task
    me.ask("PATCH", f"/v1/steps/{step.json().get('id')}", {"status": "completed", "result": me.text()})
    me.keep(me.ask("POST", f"/v1/tasks/{id_}/complete", {"summary": me.text()}))


def trespass(me: Somebody) -> None:
    """Try somebody else's id in every place that takes one: it must be as unknown as one nobody has."""
    foreign, unknown = me.foreign_id(), f"{me.drawn.getrandbits(128):032x}"
    tries: list[Callable[[str], httpx.Response]] = [
        lambda id_: me.ask("GET", f"/v1/records/{id_}"),
        lambda id_: me.ask("GET", f"/v1/outputs/{id_}"),
        lambda id_: me.ask("PATCH", f"/v1/tasks/{id_}", {"summary": me.text()}),
        lambda id_: me.ask("PATCH", f"/v1/steps/{id_}", {"status": "completed"}),
        lambda id_: me.ask("POST", f"/v1/tasks/{id_}/steps", {"description": me.text()}),
        lambda id_: me.ask("POST", f"/v1/tasks/{id_}/complete"),
        lambda id_: me.ask("POST", "/v1/pin", {"ids": [id_]}),
        lambda id_: me.ask("POST", "/v1/forget", {"ids": [id_], "dry_run": True}),
        lambda id_: me.ask("POST", "/v1/restore", {"ids": [id_]}),
    ]
    attempt = me.drawn.choice(tries)
    if me.drawn.random() < 0.5:  # whoever comes first finds nothing warm
        seen = [attempt(foreign), attempt(unknown)]
    else:
        seen = [attempt(unknown), attempt(foreign)][::-1]
    mine = foreign == "none" or foreign.startswith("m-")  # a name that everybody gives
    told = [answer.text.replace(id_, "ID") for answer, id_ in zip(seen, (foreign, unknown), strict=True)]
    same = seen[0].status_code == seen[1].status_code == 404 and told[0] == told[1]
    me.expect(mine or same, f"an id of others is told apart: {told}")
    if not mine:
        with me.world.lock:
            for name, answer in zip(("foreign", "unknown"), seen, strict=True):
                me.world.seconds[f"{name} id"].append(answer.elapsed.total_seconds())


def forget(me: Somebody) -> None:
    """Forget a little and bring it back, or purge all of a user who has much."""
    how = me.drawn.random()
    if sum(me.ask("GET", "/v1/stats").json().values()) > MUCH:
        me.ask("POST", "/v1/forget", {"everything": True, "purge": True})
        return
    asked = {"query": me.drawn.choice(["tea", "street", me.mark]), "dry_run": how < 0.9}
    gone = me.ask("POST", "/v1/forget", {"ids": [me.own_id()]} if how < 0.5 else asked)
    if gone.status_code == 200 and me.drawn.random() < 0.7:
        me.ask("POST", "/v1/restore", {"forgotten_at": gone.json()["at"]})


def transfer(me: Somebody) -> None:
    form = me.drawn.choice(["jsonl", "markdown"])
    out = me.ask("GET", "/v1/export", format=form)
    if form == "jsonl" and me.drawn.random() < 0.3:
        headers = {"content-type": "application/x-ndjson"}
        begun = me.ask("POST", "/v1/import", content=out.content, headers=headers)
        with me.world.lock:
            me.world.jobs.append((me.tenant, me.user, begun.json()["id"]))


def jobs(me: Somebody) -> None:
    if me.drawn.random() < 0.3:
        kind = me.drawn.choice(["maintenance", "consolidation", "forget-gate"])
        begun = me.ask("POST", f"/v1/{kind}", headers={"idempotency-key": f"j-{me.drawn.randrange(20)}"})
        if begun.status_code == 202:
            with me.world.lock:
                me.world.jobs.append((me.tenant, me.user, begun.json()["id"]))
    with me.world.lock:
        tenant, user, id_ = me.drawn.choice(me.world.jobs or [("", "", "none")])
    if tenant == me.tenant:  # a tenant's key may look at the jobs of all its users
        Somebody(me.world, me.drawn, tenant, user).ask("GET", f"/v1/jobs/{id_}")
    else:
        me.expect(me.ask("GET", f"/v1/jobs/{id_}").status_code == 404, f"a job of {tenant} is shown")


def figures(me: Somebody) -> None:
    client = me.world.clients[me.tenant]
    users = client.get("/v1/users")
    me.check("GET /v1/users", users)
    named = set(users.json())
    me.expect(all(re.fullmatch(r"u\d+|still", name) for name in named), f"users are {named}")
    me.check("GET /v1/monitor", client.get("/v1/monitor"))
    stored = f"{me.drawn.choice(list(me.world.clients))}//{STILL}"
    reached = client.get("/v1/stats", params={"user_id": stored})
    me.check("GET /v1/stats", reached)
    me.expect(reached.status_code == 400 or reached.json()["message"] == 0, f"{stored} is reached as a user")
    stats = Somebody(me.world, me.drawn, me.tenant, STILL).ask("GET", "/v1/stats").json()
    stats.pop("vectors_pending", None)
    with me.world.lock:
        first = me.world.stills.setdefault(me.tenant, stats)
    me.expect(stats == first, f"figures of a user who did nothing: {first}, then {stats}")


def proxied(me: Somebody) -> None:
    """Ask through the proxy an upstream that repeats all it is sent, and what was recalled with it."""
    said = {"role": "user", "content": me.drawn.choice(["Which port?", "喜欢喝什么", me.text()])}
    asked = {"model": "m", "messages": [said], "user": me.user}
    headers = {"x-jiyi-session": me.drawn.choice(SESSIONS)}
    answer = me.world.clients[me.tenant].post("/openai/v1/chat/completions", json=asked, headers=headers)
    me.check("POST /openai/chat", answer)
    me.expect(answer.status_code == 200, f"the proxy answered {answer.status_code}")


def tools(me: Somebody) -> None:
    """Use a tool of the Model Context Protocol."""
    name, given = me.drawn.choice(
        [
            ("remember", {"text": me.text()}),
            ("recall", {"query": me.drawn.choice(["Which port?", "喜欢喝什么", "street"])}),
            ("facts", {}),
            ("history", {"subject": "user"}),
            ("context", {"session": me.drawn.choice(SESSIONS), "query": "Which port?"}),
            ("forget", {"query": me.drawn.choice(["tea", me.mark])}),
        ]
    )
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": given}}
    headers = {"accept": "application/json, text/event-stream", "x-jiyi-user": me.user}
    answer = me.world.clients[me.tenant].post("/mcp", json=call, headers=headers)
    me.check("POST /mcp/tools", answer)
    done = answer.status_code == 200 and not answer.json().get("result", {}).get("isError")
    me.expect(done, f"the tool {name} answered {answer.text[:300]}")


def as_mem0(me: Somebody) -> None:
    """Ask as mem0's client does, with an id of somebody else among the rest."""
    client, whose = me.world.clients[me.tenant], {"user_id": me.user}
    how = me.drawn.random()
    if how < 0.4:
        said = {"messages": [{"role": "user", "content": me.text()}], "infer": how < 0.2, **whose}
        answer = client.post("/compat/mem0/v3/memories/add/", json=said)
    elif how < 0.7:
        asked = {"query": "Which port?", "filters": whose, "top_k": 10}
        answer = client.post("/compat/mem0/v3/memories/search/", json=asked)
    elif how < 0.8:
        answer = client.post("/compat/mem0/v3/memories/", json={"filters": whose})
    else:
        answer = client.get(f"/compat/mem0/v1/memories/{me.user}%3A{me.foreign_id()}/")
    me.check("POST /mem0/memories", answer)


OPERATIONS: dict[Callable[[Somebody], None], int] = {
    save: 20, save_several: 4, change_end: 4, look_around: 8, lists: 10, search: 12, remember: 6, task: 3,
    trespass: 12, forget: 4, transfer: 2, jobs: 3, figures: 3, proxied: 6, tools: 8, as_mem0: 8,
}  # fmt: skip


def walk(world: World, users: int, operations: int, seed: int) -> None:
    """Let random users do random things, one after the other."""
    drawn = random.Random(seed)
    for _ in range(operations):
        me = Somebody(world, drawn, drawn.choice(list(world.clients)), f"u{drawn.randrange(users)}")
        (operation,) = drawn.choices(list(OPERATIONS), list(OPERATIONS.values()))
        operation(me)
        with world.lock:
            world.counts[operation.__name__] += 1


def run(world: World, users: int, operations: int, number: int, seed: int) -> None:
    """Let threads do some of the operations each."""
    from at_once import at_once

    at_once(lambda n: walk(world, users, operations // number, seed + n), range(number))


def begin(clients: dict[str, httpx.Client], seed: int = 0) -> World:
    """Return a world in which the user who does nothing has said one thing."""
    world = World(clients)
    for tenant in clients:
        still = Somebody(world, random.Random(seed), tenant, STILL)
        said = {"role": "user", "content": f"{still.mark} said one thing"}
        still.ask("POST", "/v1/sessions/main/messages", {"message": said})
    return world


def parrot() -> Any:
    """Return an upstream that answers with all that it was sent."""
    from scripted_chat import ScriptedChat, answer

    chat = ScriptedChat()
    chat.honest = lambda asked: answer(json.dumps(asked["messages"], ensure_ascii=False))
    return chat


def tenants(server: Any, number: int) -> Iterator[tuple[str, httpx.Client]]:
    """Give tenants and a client for each; the first is none, whose users are those of the machine."""
    for name in ("", *(f"t{n}" for n in range(1, number))):
        yield name, server.client(name)


def main() -> int:
    """Run it at length and print what was seen."""
    here = Path(__file__).parents[1]
    sys.path[:0] = [str(here / folder) for folder in ("server", "", "llm", "embeddings")]
    from conftest import running

    options = argparse.ArgumentParser(description=__doc__)
    for name, default in (("operations", 2_000), ("tenants", 20), ("users", 5), ("threads", 4), ("seed", 1)):
        options.add_argument(f"--{name}", type=int, default=default)
    options.add_argument("--db", help="a database; a new file by default")
    asked = options.parse_args()
    settings = {"server_requests_per_minute": 0, "embedder": HashEmbedder(64)}
    with tempfile.TemporaryDirectory() as folder, parrot() as upstream:
        place = asked.db or Path(folder) / "walls.db"
        with running(place, proxy_upstream=upstream.url, **settings) as server:
            world = begin(dict(tenants(server, asked.tenants)))
            turns, started = -(-asked.operations // TURN), time.monotonic()
            for turn in range(turns):
                seed = asked.seed * 1_000_000 + turn * 1_000
                run(world, asked.users, asked.operations // turns, asked.threads, seed)
                server.memory.flush()  # searches by meaning, too, may not find what is not theirs
                print(seen(world, time.monotonic() - started), flush=True)
    medians = {name: statistics.median(found) * 1_000 for name, found in sorted(world.seconds.items())}
    print(json.dumps({"operations": dict(world.counts), "statuses": dict(world.statuses)}))
    print(json.dumps({"median_ms": {name: round(ms, 2) for name, ms in medians.items()}}))
    for fault in world.faults[:20]:
        print(fault)
    return bool(world.faults)


def seen(world: World, seconds: float) -> str:
    """Return the figures up to now in one line."""
    with world.lock:
        done, requests, faults = world.counts.total(), world.statuses.total(), len(world.faults)
    spent = f"{seconds:.0f} s, {time.process_time():.0f} s of CPU"
    return f"{done:,} operations, {requests:,} requests in {spent}, {faults} faults"


if __name__ == "__main__":
    sys.exit(main())
