"""schemathesis against a server, its short phases; `schemas.py` does it at length."""

import pytest
from schemas import campaign

from jiyi.server.rest import describe_api


def test_the_description_has_the_headers_that_are_read():
    told = describe_api()
    record = told["paths"]["/v1/records/{record_id}"]
    headers = {method: {one["name"] for one in record[method]["parameters"]} for method in ("get", "patch")}
    assert headers["get"] >= {"If-Match", "If-None-Match"}
    assert headers["patch"] >= {"If-Match", "Idempotency-Key"}
    assert told["components"]["securitySchemes"]["header"]["name"] == "X-API-Key"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_server_is_as_its_description_says(server, tmp_path):
    phases = ("--phases", "examples,coverage", "--max-examples", "1", "--generation-deterministic")
    seen, failed = campaign(server, tmp_path, *phases)
    assert not failed
    assert [label for label, cases in seen.items() if not cases["coverage"]] == []


def test_links_lead_to_what_is_there(server):
    """Every link names an operation and says what it asks for."""
    paths = server.client().get("/openapi.json").json()["paths"]
    operations = {told["operationId"]: told for methods in paths.values() for told in methods.values()}
    for told in operations.values():
        for link in told["responses"].get("200", {}).get("links", {}).values():
            named = {parameter["name"] for parameter in operations[link["operationId"]]["parameters"]}
            assert set(link.get("parameters", ())) <= named
            assert bool(link.get("requestBody")) == ("parameters" not in link)
    assert "links" in operations["save_message"]["responses"]["200"]
