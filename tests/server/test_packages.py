"""How many packages the server's extras bring, as the metadata of what is installed says."""

from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def brought(wanted):
    """Return the names of all packages that a requirement needs here, without its own."""
    found, waiting = {}, [Requirement(wanted)]
    own = canonicalize_name(waiting[0].name)
    while waiting:
        one = waiting.pop()
        extras = found.setdefault(canonicalize_name(one.name), set())
        for extra in {"", *one.extras} - extras:
            extras.add(extra)
            needed = map(Requirement, requires(one.name) or ())
            waiting += [n for n in needed if n.marker is None or n.marker.evaluate({"extra": extra})]
    return found.keys() - {own}


@pytest.mark.parametrize(("wanted", "most"), [("jiyi[api]", 36), ("jiyi[api,mcp]", 50)])
def test_the_server_brings_few_packages(wanted, most):
    names = sorted(brought(wanted))
    assert "uvicorn" in names
    assert len(names) <= most, names
