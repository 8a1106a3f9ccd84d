"""What the client does when a server is slow, busy, gone, wrong, or no jiyi, and how it follows jobs."""

import asyncio
import json
import logging
import os
import time

import pytest
from other_processes import run_apart
from refusing import raises, refused
from tables import literals, read_tables

import jiyi
from jiyi import errors
from jiyi.wire import problem_of

KEY = "jiyi_sesame_7f3a"
STATS = b'{"message": 1}'
SAVED = b'{"kind": "message", "id": "m", "message": {"role": "user", "content": "hello"}}'
GONE = (0, {}, b"")
BUSY = (503, {}, b"busy")


@pytest.fixture
def memory(scripted):
    with jiyi.connect(scripted.url, api_key=KEY, user_id="ana", retries=3, timeout=5) as memory:
        yield memory


def problem(error, **headers):
    body = problem_of(error)
    headers = {"content-type": "application/problem+json", **headers}
    return body["status"], headers, json.dumps(body).encode()


@pytest.mark.parametrize("trouble", [GONE, BUSY, (502, {}, b"<html>"), (429, {"retry-after": "0"}, b"")])
def test_what_passes_is_asked_again_and_done_once(scripted, memory, trouble):
    scripted.answers = [trouble, trouble, (200, {}, SAVED)]
    assert memory.save_message("s", role="user", content="hello").id == "m"
    keys = {headers["idempotency-key"] for _, _, headers, _ in scripted.asked}
    assert (len(scripted.asked), len(keys)) == (3, 1)
    memory.save_message("s", role="user", content="hello")
    assert scripted.asked[-1][2]["idempotency-key"] not in keys


def test_what_took_too_long_is_asked_again_where_it_is_done_once(scripted, memory):
    late = problem(errors.RequestTimedOut("too slow"))
    scripted.answers = [late, (200, {}, SAVED)]
    assert memory.save_message("s", role="user", content="hello").id == "m"
    scripted.answers = [late, (200, {}, STATS)]
    raises(errors.RequestTimedOut, memory.stats)


def test_what_is_no_server_of_jiyi_is_not_taken_for_one(scripted, memory):
    scripted.is_jiyi, scripted.answers = False, [(200, {}, b'{"hello": "world"}')]
    for ask in (lambda: memory.search("hello"), memory.facts, lambda: memory.export("all.jsonl")):
        refused(errors.ServerError, r"answered 200 .*check the address", ask)
    assert not os.path.exists("all.jsonl")


def test_an_address_without_its_scheme_is_refused():
    refused(errors.SettingsError, "http://127", jiyi.connect, "127.0.0.1:8710")


def test_what_only_reads_needs_no_idempotency_key(scripted, memory):
    scripted.answers = [BUSY, (200, {}, STATS)]
    assert memory.stats() == {"message": 1}
    assert all("idempotency-key" not in headers for _, _, headers, _ in scripted.asked)


@pytest.mark.slow
def test_the_server_says_how_long_to_wait(scripted, memory):
    scripted.answers = [(429, {"retry-after": "1"}, b""), (200, {}, STATS)]
    started = time.monotonic()
    memory.stats()
    assert time.monotonic() - started >= 1
    scripted.answers = [problem(errors.RateLimited("ask again tomorrow"), **{"retry-after": "86400"})]
    refused(errors.RateLimited, "tomorrow", memory.stats)


@pytest.mark.parametrize(
    ("answer", "error", "told"),
    [
        (problem(errors.BudgetTooSmall("small", needed=9, available=5)), errors.BudgetTooSmall, "small"),
        (problem(errors.NotFound("nothing")), errors.NotFound, "nothing"),
        (problem(errors.DatabaseLocked("locked")), errors.DatabaseLocked, "locked"),
        (GONE, errors.ServerUnreachable, "check that it runs"),
        ((200, {"content-length": "99"}, STATS, 15), errors.ServerUnreachable, "check that it runs"),
        *((answer, errors.ServerError, told) for answer, told in literals(read_tables(__file__)["answers"])),
    ],
)
def test_errors_are_ours_and_never_show_the_key(scripted, answer, error, told, caplog):
    caplog.set_level(logging.DEBUG)
    scripted.answers = [answer]
    with jiyi.connect(scripted.url, api_key=KEY, user_id="ana", retries=1, timeout=2) as memory:
        with pytest.raises(error, match=told) as caught:
            memory.stats()
        assert KEY not in repr(memory)
    assert type(caught.value) is error
    assert scripted.asked[0][2]["authorization"] == f"Bearer {KEY}"
    assert KEY not in f"{caught.value!r} {caught.value.__cause__!r} {caplog.text}"


def test_a_silent_server_is_given_up_after_the_timeout(scripted):
    scripted.answers = [lambda: time.sleep(1) or GONE]
    with (
        jiyi.connect(scripted.url, user_id="ana", timeout=0.2) as memory,
        pytest.raises(errors.ServerUnreachable, match="ReadTimeout"),
    ):
        memory.stats()
    assert len(scripted.asked) == 1


def test_nothing_is_asked_after_close(scripted, memory):
    memory.stats()
    memory.close()
    memory.close()
    raises(errors.Closed, memory.stats)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_process_opens_connections_of_its_own(scripted):
    program = """
        import jiyi, os, sys
        memory = jiyi.connect(sys.argv[1], user_id='ana')
        memory.stats()
        child = os.fork()
        for _ in range(20): assert memory.stats() == {'message': 1}
        memory.close()
        if child: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    run_apart(program, scripted.url)
    assert len(scripted.asked) == 41


@pytest.mark.slow
async def test_asyncio_asks_as_patiently(scripted):
    scripted.answers = [BUSY, GONE, (200, {}, STATS)]
    async with jiyi.connect_async(scripted.url, api_key=KEY, user_id="ana") as memory:
        assert await asyncio.gather(*(memory.stats() for _ in range(10))) == [{"message": 1}] * 10
        scripted.answers = [lambda: time.sleep(1) or GONE]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(memory.stats(), 0.1)
        scripted.answers = [(200, {}, STATS)]
        assert await memory.stats() == {"message": 1}
        assert KEY not in repr(memory)
    with pytest.raises(errors.Closed):
        await memory.stats()


NOBODY = (
    404,
    {"content-type": "application/problem+json"},
    json.dumps(problem_of(errors.NotFound("gone"))).encode(),
)


@pytest.fixture
def watching(scripted):
    with jiyi.connect(scripted.url, user_id="ana", retries=1, timeout=2) as memory:
        yield memory


def job(state, *progress, result=None, problem=None):
    return {"id": "j", "state": state, "progress": list(progress), "result": result, "problem": problem}


def begun(**told):
    return (202, {}, json.dumps(job("waiting") | told).encode())


def events(*jobs, **headers):
    body = "".join(f"event: {one['state']}\r\ndata: {json.dumps(one)}\r\n\r\n" for one in jobs).encode()
    return (200, {"content-type": "text/event-stream", **headers}, body)


DONE = job("done", 2, result=2)


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        ([events(job("running"), job("running", 1), job("running", 1), DONE)], 2),
        ([events(job("running", 1)), events(DONE)], 3),  # the stream ended before the job
        ([(*events(job("running", 1), DONE), 60), events(job("running", 1), DONE)], 3),  # cut off
        ([(0, {}, b""), (0, {}, b""), (200, {}, json.dumps(job("running", 1)).encode()), events(DONE)], 5),
        ([events(job("running", 1)), NOBODY, begun(), events(DONE)], 5),  # the server began again
    ],
)
def test_a_job_is_followed_until_it_has_ended(scripted, watching, answers, asked):
    scripted.answers = [begun(), *answers]
    told = []
    assert watching.flush(told.append) == 2
    assert told[-1] == 2
    assert len(scripted.asked) == asked
    keys = {headers["idempotency-key"] for method, _, headers, _ in scripted.asked if method == "POST"}
    assert len(keys) == 1


def test_what_a_job_failed_with_is_raised(scripted, watching):
    problem = problem_of(errors.EmbeddingError("no model"))
    scripted.answers = [begun(), events(job("failed", problem=problem))]
    refused(errors.EmbeddingError, "no model", watching.flush)


def test_a_server_that_forgets_each_job_is_given_up(scripted, watching):
    scripted.answers = [begun(), NOBODY, begun(), NOBODY, begun(), NOBODY]
    refused(errors.NotFound, "gone", watching.flush)


def test_what_is_no_job_is_said(scripted, watching):
    for answers in ([(200, {}, b"7")], [begun(), events({"state": "odd"})]):
        scripted.answers = answers
        refused(errors.ServerError, "did not answer as this jiyi knows", watching.flush)
