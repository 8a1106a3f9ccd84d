"""Tenants share a server and a database, and never see each other; `walls_http.py` does it at length."""

import pytest
from walls_http import OPERATIONS, begin, parrot, tenants, walk


@pytest.mark.slow
def test_no_answer_holds_anything_of_others(serve):
    with parrot() as upstream, serve(server_requests_per_minute=0, proxy_upstream=upstream.url) as server:
        world = begin(dict(tenants(server, 4)))
        walk(world, 3, 240, seed=3)
    assert world.faults == []
    assert set(world.counts) == {operation.__name__ for operation in OPERATIONS}
    assert world.statuses[200] > 200
    assert world.statuses[404] > 20
