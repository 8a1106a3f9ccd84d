"""Fixtures of the verbs' tests: a memory by a clock to turn by hand, here or on a server."""

from contextlib import ExitStack

import pytest
from at_a_server import NOT_AT_A_SERVER
from http_server import serving

import jiyi
from jiyi.server.app import make_app


@pytest.fixture(params=["here", pytest.param("server", marks=pytest.mark.slow)])
def open_memory(request, open_memory):
    """Open memories here; or serve what was opened here, and ask for it over HTTP."""
    if request.param == "here":
        yield open_memory
        return
    if why := NOT_AT_A_SERVER.get(request.node.originalname):
        pytest.skip(why)
    with ExitStack() as opened:

        def connected(*place, **options):
            app = make_app(open_memory(*place, **{"server_requests_per_minute": 0} | options))
            url = opened.enter_context(serving(app))
            whose = {name: options[name] for name in ("user_id", "agent_id") if name in options}
            return opened.enter_context(jiyi.connect(url, **{"user_id": "ana"} | whose))

        yield connected


@pytest.fixture
def memory(open_memory, clock):
    return open_memory(clock=clock, timezone="UTC")
