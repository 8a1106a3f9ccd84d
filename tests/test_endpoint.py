"""How patiently an endpoint is asked, and how long any call may take."""

import contextvars
import re
import sys
import threading
import time

import pytest
from at_once import at_once
from other_processes import run_apart
from refusing import raises, refused
from scripted_endpoint import Reply, ScriptedEndpoint

import jiyi
from jiyi.breaker import Breaker
from jiyi.embeddings import OpenAIEmbedder
from jiyi.endpoint import Endpoint, Failure, Faults, retry, skipped_endpoints
from jiyi.errors import EndpointRefused, EndpointUnreachable, LLMRefused, LLMUnreachable
from jiyi.llm import OpenAILLM
from jiyi.time_limit import OutOfTime, run_within

FAULTS = Faults(
    unreachable=LLMUnreachable, refused=LLMRefused, advice={404: "look elsewhere"}, other_advice="look again"
)
HERE = Endpoint(base_url="http://127.0.0.1:1/v1", api_key="sk-very-secret")


class Tries:
    """Fails so often, then answers; notes the seconds it was given."""

    def __init__(self, *failures: Failure) -> None:
        self.failures = list(failures)
        self.left: list[float] = []

    def __call__(self, left: float, number: int) -> str:
        self.left.append(left)
        assert number == len(self.left)
        if self.failures:
            raise self.failures.pop(0)
        return "ok"


def passing(retry_after: str | None = "0") -> Failure:
    return FAULTS.status_failure(HERE, 503, "busy", retry_after=retry_after)


def test_the_answer_comes_back_and_the_time_left_shrinks():
    tries = Tries(passing("0.05"), passing("0.05"))
    assert retry(tries, Breaker(), retries=2, time_limit=10) == "ok"
    assert tries.left == sorted(tries.left, reverse=True)
    assert tries.left[0] <= 10
    assert tries.left[2] <= 9.91


@pytest.mark.parametrize("retry_after", [None, "", "x", "Wed, 21 Oct 2026 07:28:00 GMT", "-1", "nan", "inf"])
def test_without_a_usable_word_on_when_it_waits_about_half_a_second(retry_after):
    started = time.monotonic()
    assert retry(Tries(passing(retry_after)), Breaker(), retries=1, time_limit=10) == "ok"
    assert 0.37 <= time.monotonic() - started < 5


def test_what_fails_for_good_is_raised_with_its_cause():
    failure = FAULTS.status_failure(HERE, 404, "no such model")
    failure.cause = ValueError("below")
    tries = Tries(failure)
    with pytest.raises(LLMRefused, match=r"HTTP 404 \(no such model\): look elsewhere") as caught:
        retry(tries, Breaker(), retries=5, time_limit=10)
    assert caught.value.__cause__ is failure.cause
    assert len(tries.left) == 1


def test_tries_and_time_both_end_it():
    tries = Tries(*(passing() for _ in range(9)))
    refused(LLMUnreachable, r"HTTP 503 \(busy\)", retry, tries, Breaker(), retries=3, time_limit=10)
    assert len(tries.left) == 4
    started = time.monotonic()
    raises(LLMUnreachable, retry, Tries(passing("60")), Breaker(), retries=3, time_limit=40)
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("status", "again"), [(400, 0), (404, 0), (408, 1), (409, 1), (429, 1), (500, 1), (501, 0), (599, 1)]
)
def test_which_statuses_pass(status, again):
    assert FAULTS.status_failure(HERE, status, "x").transient == bool(again)
    assert not FAULTS.status_failure(HERE, status, "x", permanent=True).transient


def test_no_words_give_the_key_away():
    failure = FAULTS.status_failure(HERE, 400, "bad sk-very-secret")
    assert "secret" not in f"{failure} {failure.error} {failure.words}"
    assert HERE.shareable(ValueError("sk-very-secret")) is None
    error = ValueError("fine")
    assert HERE.shareable(error) is error
    error.__cause__ = ValueError("sk-very-secret")
    assert HERE.shareable(error) is None


# --- an endpoint that kept failing is skipped


def embedder_at(url: str, *, timeout: float = 5, retries: int = 1) -> OpenAIEmbedder:
    return OpenAIEmbedder("m", endpoint=Endpoint(base_url=url, api_key="", timeout=timeout, retries=retries))


@pytest.mark.slow
def test_a_dead_model_is_waited_for_once_and_then_skipped_by_all_who_ask_it(dead):
    endpoint = Endpoint(base_url=dead, api_key="", retries=2)
    started = time.monotonic()
    with pytest.raises(LLMUnreachable, match="could not be reached, 3 time"):
        OpenAILLM("m", endpoint=endpoint).complete([{"role": "user", "content": "x"}])
    waited = time.monotonic()
    assert waited - started >= 1.1
    patient = Endpoint(base_url=dead, api_key="", retries=5)  # whose pauses take 11 s
    with pytest.raises(LLMUnreachable, match=r"could not be reached.*not asked for another.*1 failure"):
        OpenAILLM("m", endpoint=patient).complete([{"role": "user", "content": "x"}])
    assert time.monotonic() - waited < 5
    assert [dead in said for said in skipped_endpoints() if dead in said] == [True]
    with pytest.raises(EndpointUnreachable, match=r"2 time\(s\) .*right$"):  # something else of it
        embedder_at(dead).embed(["x"], "query")


@pytest.mark.slow
def test_searches_stall_once_and_say_why_vectors_are_not_used(dead, tmp_path):
    options = {"embedder": "openai", "embedding_model": "n", "embedding_base_url": dead}
    with jiyi.open(tmp_path / "a.db", user_id="u", background=False, **options) as memory:
        memory.save_message("s", role="user", content="the port is 8080")
        memory.search("which port?")
        started = time.monotonic()
        for _ in range(10):
            hits = memory.search("which port?")
        assert time.monotonic() - started < 5
    assert "the port is 8080" in [hit.text for hit in hits]
    assert any("not asked for another" in note for note in hits.notes), hits.notes


@pytest.mark.slow
def test_after_the_pause_one_call_tries_it_again_and_an_answer_ends_it(monkeypatch):
    monkeypatch.setattr("jiyi.breaker._FIRST_SKIP", 0.4)
    with ScriptedEndpoint(*[Reply(silent=True)] * 3) as server:
        embedder = embedder_at(server.url, timeout=0.4)

        def fails(reason: str) -> None:
            refused(EndpointUnreachable, reason, embedder.embed, ["x"], "passage")

        fails("0.4 s, 2 time")
        fails(r"1 failure\(s\) in a row")
        assert len(server.asked) == 2
        time.sleep(0.41)
        fails("0.4 s, 1 time")
        fails(r"2 failure\(s\) in a row")
        assert len(server.asked) == 3
        time.sleep(0.81)
        for _ in range(2):
            assert len(embedder.embed(["x"], "passage")) == 1
    assert len(server.asked) == 5
    assert not any(server.url in said for said in skipped_endpoints())


def test_an_endpoint_that_refuses_is_not_skipped():
    with ScriptedEndpoint(*[Reply(status=401, body={})] * 2) as server:
        for _ in range(2):
            refused(EndpointRefused, "check api_key", embedder_at(server.url).embed, ["x"], "query")
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("failures", "after", "pause"),
    [(1, None, 1), (2, None, 2), (5, None, 16), (2000, None, 300), (1, 30, 30)],
)
def test_pauses_double_up_to_five_minutes(failures, after, pause):
    breaker = Breaker()
    for _ in range(failures):
        breaker.record_failure(LLMUnreachable("away"), seconds=1, probing=True, after=after)
    breaker.record_failure(LLMUnreachable("away"), seconds=9)  # a call beside these counts once with them
    assert f"after {failures} failure" in breaker.skipped
    assert pause - 0.5 < float(re.search(r"another (\S+) s", breaker.skipped)[1]) <= pause
    breaker.record_answer(1.0, 2.0)
    assert breaker.skipped == ""


@pytest.mark.slow
def test_one_of_many_threads_tries_it_again():
    breaker, tried, skipped = Breaker(), [], []
    breaker.record_failure(LLMUnreachable("away"), seconds=0.03)
    assert not breaker.enter(), "too little time is lost to skip it"
    breaker.record_failure(LLMUnreachable("away"), seconds=0.03)
    refused(LLMUnreachable, "away", breaker.enter)

    def ask(_: int) -> None:
        try:
            tried.append(breaker.enter())
        except LLMUnreachable:
            skipped.append(1)

    time.sleep(1.01)
    at_once(ask, range(8))
    assert (tried, len(skipped)) == ([True], 7)


class Owner:
    """Somebody whose calls are counted."""


def stuck(gate: threading.Event) -> str:
    assert gate.wait(30)
    return "late"


def test_an_answer_or_an_error_in_time_is_the_calls_own_in_the_callers_context():
    assert run_within(lambda: 5, 5, owner=Owner()) == 5
    raises(ZeroDivisionError, run_within, lambda: 1 / 0, 5, owner=Owner())
    raises(SystemExit, run_within, lambda: sys.exit(3), 5, owner=Owner())
    variable = contextvars.ContextVar("variable", default="outside")
    variable.set("inside")
    assert run_within(variable.get, 5, owner=Owner()) == "inside"


def test_late_calls_are_left_alone_and_then_no_more_are_begun():
    gate, owner, begun = threading.Event(), Owner(), []

    def call() -> str:
        begun.append(1)
        return stuck(gate)

    started = time.monotonic()
    for _ in range(2):
        refused(OutOfTime, r"longer than 0\.05 s", run_within, call, 0.05, owner=owner)
    for _ in range(5):
        refused(OutOfTime, "2 earlier calls have not come back", run_within, call, 30, owner=owner)
    assert time.monotonic() - started < 20
    assert len(begun) == 2
    assert run_within(lambda: "others are not held up", 5, owner=Owner())
    gate.set()
    deadline = time.monotonic() + 30
    while True:  # once they are back, there is room again
        try:
            assert run_within(lambda: "again", 5, owner=owner) == "again"
            break
        except OutOfTime:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_late_error_is_nobodys(recwarn):
    gate, owner = threading.Event(), Owner()

    def call() -> None:
        stuck(gate)
        raise ValueError("too late to matter")

    raises(OutOfTime, run_within, call, 0.01, owner=owner)
    gate.set()
    time.sleep(0.1)
    assert not recwarn.list


RERANKER = """
from jiyi.rerank import rerank
class Stuck:
    name = "stuck"
    def score(self, query, texts): time.sleep(60)
assert "it gave no answer in time" in rerank(Stuck(), "q", ["a"], time_limit=0.1).note
"""
CALL = """
from jiyi.time_limit import *
try: run_within(lambda: time.sleep(60), 0.1, owner="x")
except OutOfTime: pass
else: raise AssertionError
"""


@pytest.mark.parametrize("code", [CALL, RERANKER], ids=["call", "reranker"])
def test_what_is_stuck_does_not_keep_the_process_alive(code):
    started = time.monotonic()
    assert run_apart(f"import time\n{code}") == ""
    assert time.monotonic() - started < 30
