"""What travels: every result of a verb comes back equal, errors keep their class, tenants never meet."""

import inspect
import tomllib
from importlib.resources import files
from typing import get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusing import raises, refused

import jiyi
from jiyi import errors, wire
from jiyi.errors import BadMessage, BadScope
from jiyi.manager import MemoryManager
from jiyi.records import Message, Scope
from jiyi.storage.postgres.errors import ConnectionLost

# Made of others, or of files.
HERE = {"close", "import_", "export", "pop_message", "search_episodes", "search_knowledge"}


@pytest.fixture
def memory(tmp_path):
    with jiyi.open(tmp_path / "m.db", user_id="ana", background=False) as memory:
        memory.save_message("s", {"role": "user", "content": "I live in Lisbon. 我喜欢茶", "kind": "message"})
        memory.save_message("s", role="user", content="tea 🍵", metadata={"a": [1]}, pinned=True)
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        memory.save_message("s", {"role": "assistant", "content": None, "tool_calls": [call]})
        memory.save_message("s", {"role": "tool", "content": "ok", "tool_call_id": "c", "scope": "odd"})
        task = memory.start_task("s", "renew", context={"n": 1})
        memory.add_step(task.id, "ask", args={"x": None})
        memory.complete_task(task.id)
        memory.remember("I prefer tea", speaker="Ana")
        yield memory


def asked(memory: MemoryManager) -> dict[str, object]:
    return {
        "session_messages": memory.session_messages("s"),
        "search": memory.search("where does Ana live?", around=2),
        "build_context": memory.build_context("s", "where?", budget=500),
        "facts": memory.facts(),
        "history": memory.history("Ana"),
        "episodes": memory.episodes(),
        "tasks": memory.tasks(),
        "sessions": memory.sessions(),
        "forget": memory.forget("tea", dry_run=True),
        "maintain": memory.maintain(dry_run=True),
        "session_health": memory.session_health("s"),
        "stats": memory.stats(),
        "summary": memory.summary("s"),
        "profile": memory.profile(),
    }


def test_results_come_back_equal(memory):
    for verb, value in asked(memory).items():
        of = get_type_hints(getattr(MemoryManager, verb))["return"]
        assert wire.adapter(of).validate_json(wire.to_json(value, of)) == value, verb


def test_half_a_surrogate_pair_travels_as_a_mark(memory):
    saved = memory.save_message("odd", role="user", content="\ud83d half a pair", importance=0.5)
    back = wire.adapter(Message).validate_json(wire.to_json(saved, Message))
    assert (back.content, back.importance) == ("\ufffd half a pair", 0.5)


def test_a_message_keeps_fields_that_are_named_like_those_of_the_record():
    given = {"role": "user", "content": "x", "id_": 1, "seq": 7, "scope": {"user_id": "ben"}, "kind": "other"}
    message = Message.from_openai(given, scope=Scope(user_id="ana", session_id="s"))
    back = wire.adapter(Message).validate_json(wire.to_json(message, Message))
    assert back == message
    assert back.to_dict() == given


def test_every_verb_has_one_route():
    verbs = {name for name, _ in inspect.getmembers(MemoryManager, inspect.isfunction) if name[0] != "_"}
    assert sorted(route.verb for route in wire.ROUTES) == sorted(verbs - HERE)
    assert len({(route.method, route.path) for route in wire.ROUTES}) == len(wire.ROUTES)


@pytest.mark.parametrize("route", wire.ROUTES, ids=lambda route: route.verb)
def test_examples_are_requests(route):
    call = wire.call_of(route)
    call.request.model_validate(route.notes("examples"))
    assert call.summary


def test_only_an_envelope_is_read_as_a_message(memory):
    assert wire.message_of({"role": "user", "content": "x"}) == {"role": "user", "content": "x"}
    one = memory.session_messages("s")[0]
    assert wire.message_of(wire.adapter(Message).dump_python(one, mode="json")) == one
    refused(BadMessage, "cannot be read", wire.message_of, {"kind": "message", "message": "no dict"})


_KNOWN = {
    "BudgetTooSmall": {"needed": 9, "available": 5},
    "RateLimited": {"retry_after": 7},
    "TextRefused": {"status": 418},
}


@pytest.mark.parametrize("name", errors.__all__)
def test_errors_keep_their_class(name):
    of = getattr(errors, name)
    error = of("why", **_KNOWN.get(name, {}))
    problem = wire.problem_of(error)
    assert 400 <= problem["status"] <= 599
    back = wire.error_of(problem)
    assert type(back) is of
    assert str(back) == "why"
    assert vars(back) == vars(error)


def test_an_error_within_the_package_travels_as_the_one_that_is_documented():
    problem = wire.problem_of(ConnectionLost("gone"))
    assert (problem["type"], problem["status"]) == ("/errors#DatabaseUnreachable", 503)
    assert type(wire.error_of(problem)) is errors.DatabaseUnreachable


def test_the_tables_name_what_there_is():
    statuses = tomllib.loads((files("jiyi.wire") / "statuses.toml").read_text("utf-8"))
    assert set(statuses) <= set(errors.__all__)
    hints = get_type_hints(wire.Route)
    for route in wire.ROUTES:
        assert route.access in get_args(wire.Access), route.verb
        assert route.method in get_args(hints["method"]), route.verb
        assert route.how in get_args(hints["how"]), route.verb
    assert {route.verb for route in wire.ROUTES} <= set(dir(MemoryManager))


def test_the_tables_have_no_row_that_nothing_reads():
    tables = tomllib.loads((files("jiyi.wire") / "routes.toml").read_text("utf-8"))
    parameters = {r.verb: inspect.signature(getattr(MemoryManager, r.verb)).parameters for r in wire.ROUTES}
    named = {name for of in parameters.values() for name in of}
    named |= {f"{verb}.{name}" for verb, of in parameters.items() for name in of}
    assert set(tables["shapes"]) <= named
    assert set(tables["examples"]) <= set(parameters)


def test_an_unknown_problem_is_an_error_of_the_server():
    assert type(wire.error_of({"title": "Not Found", "status": 404})) is errors.ServerError
    assert type(wire.error_of({"type": "/errors#__all__", "detail": "x"})) is errors.ServerError


@given(st.from_regex(r"[a-z0-9][a-z0-9-]{0,5}", fullmatch=True), st.text(min_size=1))
def test_tenants_never_meet(tenant, user):
    stored = wire.stored_user(wire.check_tenant(tenant), user)
    assert wire.shown_user(stored) == user
    assert wire.shown_text(f"user {stored!r} has nothing", tenant).startswith("user ")
    raises(BadScope, wire.stored_user, "", stored)


@pytest.mark.parametrize("name", ["A", "a/b", "-a", "a" * 64, "茶", "a_b"])
def test_odd_tenants_are_refused(name):
    refused(BadScope, "hyphens", wire.check_tenant, name)
