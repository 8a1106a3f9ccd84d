"""Long work that is followed: told step by step, silent, cut off, failed, forgotten by its server."""

import json

import pytest
from refusing import refused

import jiyi
from jiyi import errors
from jiyi.wire import problem_of

NOBODY = (
    404,
    {"content-type": "application/problem+json"},
    json.dumps(problem_of(errors.NotFound("gone"))).encode(),
)


@pytest.fixture
def memory(scripted):
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
def test_a_job_is_followed_until_it_has_ended(scripted, memory, answers, asked):
    scripted.answers = [begun(), *answers]
    told = []
    assert memory.flush(told.append) == 2
    assert told[-1] == 2
    assert len(scripted.asked) == asked
    keys = {headers["idempotency-key"] for method, _, headers, _ in scripted.asked if method == "POST"}
    assert len(keys) == 1


def test_what_a_job_failed_with_is_raised(scripted, memory):
    problem = problem_of(errors.EmbeddingError("no model"))
    scripted.answers = [begun(), events(job("failed", problem=problem))]
    refused(errors.EmbeddingError, "no model", memory.flush)


def test_a_server_that_forgets_each_job_is_given_up(scripted, memory):
    scripted.answers = [begun(), NOBODY, begun(), NOBODY, begun(), NOBODY]
    refused(errors.NotFound, "gone", memory.flush)


def test_what_is_no_job_is_said(scripted, memory):
    for answers in ([(200, {}, b"7")], [begun(), events({"state": "odd"})]):
        scripted.answers = answers
        refused(errors.ServerError, "did not answer as this jiyi knows", memory.flush)
