"""How patiently an endpoint is asked: which failures are tried again, when, and for how long."""

import time

import pytest

from jiyi.endpoint import Endpoint, Failure, Faults, patiently
from jiyi.errors import LLMRefused, LLMUnreachable

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
    return FAULTS.answered(HERE, 503, "busy", retry_after=retry_after)


def test_the_answer_comes_back_and_the_time_left_shrinks():
    tries = Tries(passing("0.05"), passing("0.05"))
    assert patiently(tries, retries=2, time_limit=10) == "ok"
    assert tries.left == sorted(tries.left, reverse=True)
    assert tries.left[0] <= 10
    assert tries.left[2] <= 9.91


@pytest.mark.parametrize(
    "retry_after", [None, "", "soon", "Wed, 21 Oct 2026 07:28:00 GMT", "-1", "nan", "inf"]
)
def test_without_a_usable_word_on_when_it_waits_about_half_a_second(retry_after):
    started = time.monotonic()
    assert patiently(Tries(passing(retry_after)), retries=1, time_limit=10) == "ok"
    assert 0.37 <= time.monotonic() - started < 5


def test_what_fails_for_good_is_raised_with_its_cause():
    failure = FAULTS.answered(HERE, 404, "no such model")
    failure.cause = ValueError("below")
    tries = Tries(failure)
    with pytest.raises(LLMRefused, match=r"HTTP 404 \(no such model\): look elsewhere") as caught:
        patiently(tries, retries=5, time_limit=10)
    assert caught.value.__cause__ is failure.cause
    assert len(tries.left) == 1


def test_tries_and_time_both_end_it():
    tries = Tries(*(passing() for _ in range(9)))
    with pytest.raises(LLMUnreachable, match=r"HTTP 503 \(busy\)"):
        patiently(tries, retries=3, time_limit=10)
    assert len(tries.left) == 4
    started = time.monotonic()
    with pytest.raises(LLMUnreachable):
        patiently(Tries(passing("30")), retries=3, time_limit=5)
    assert time.monotonic() - started < 4


@pytest.mark.parametrize(
    ("status", "again"), [(400, 0), (404, 0), (408, 1), (409, 1), (429, 1), (500, 1), (501, 0), (599, 1)]
)
def test_which_statuses_pass(status, again):
    assert FAULTS.answered(HERE, status, "x").passing == bool(again)
    assert not FAULTS.answered(HERE, status, "x", lasting=True).passing


def test_no_words_give_the_key_away():
    failure = FAULTS.answered(HERE, 400, "bad sk-very-secret")
    assert "secret" not in f"{failure} {failure.error} {failure.words}"
    assert HERE.shareable(ValueError("sk-very-secret")) is None
    error = ValueError("fine")
    assert HERE.shareable(error) is error
    error.__cause__ = ValueError("sk-very-secret")
    assert HERE.shareable(error) is None
