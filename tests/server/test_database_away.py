"""A server whose database does not answer: it says that it lives, and goes on when the database is back."""

import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import pytest
from postgres_faults.proxy import Proxy

HANGING = 50


@pytest.mark.slow
def test_healthz_answers_while_requests_wait_for_the_database(serve_at, postgres_url):
    """Each brings a key of its own that the server has never seen, and must look up."""
    with (
        Proxy(postgres_url) as wire,
        serve_at(wire.url, learn_facts=False) as server,
        ThreadPoolExecutor(HANGING) as others,
    ):
        server.client("acme").get("/v1/users").raise_for_status()
        client = server.client()
        before = seconds_of_healthz(client)
        keys = [f"jiyi_{number:010}_{'x' * 43}" for number in range(HANGING)]
        wire.silence()
        waiting = [
            others.submit(client.get, "/v1/users", headers={"authorization": f"Bearer {key}"}) for key in keys
        ]
        time.sleep(0.5)
        meanwhile = seconds_of_healthz(client)
        assert client.get("/readyz", timeout=10).status_code == 503
        assert not any(one.done() for one in waiting)
        wire.speak()
        assert {one.result().status_code for one in waiting} == {401}
    assert meanwhile < max(0.1, 10 * before), "the others wait for half a minute, or until it answers"


def seconds_of_healthz(client) -> float:
    took = []
    for _ in range(9):
        began = time.monotonic()
        assert client.get("/healthz").status_code == 200
        took.append(time.monotonic() - began)
    return median(took)
