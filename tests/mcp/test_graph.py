import json

import pytest
from at_once import at_once

from jiyi.mcp.caller import load_words
from jiyi.mcp.graph import GraphTools

ANA = {"name": "Ana", "entityType": "person", "observations": ["likes tea", "speaks Spanish"]}
LI = {"name": "小李", "entityType": "人", "observations": ["住在杭州", "对花生过敏"]}
KNOWS = {"from": "Ana", "to": "小李", "relationType": "knows"}


@pytest.fixture
def graph(call):
    return lambda tool, **arguments: call(tool, compat="server-memory", **arguments)


@pytest.fixture
def filled(graph):
    graph("create_entities", entities=[ANA, LI])
    graph("create_relations", relations=[KNOWS])


def names(answer):
    return [entity["name"] for entity in answer["entities"]]


def test_entities_are_created_once(graph, filled):
    again = graph("create_entities", entities=[{**ANA, "entityType": "robot"}, {**ANA, "name": "Bo"}])
    assert names(again) == ["Bo"]
    whole = graph("read_graph")
    assert whole["entities"][:2] == [ANA, LI]
    assert whole["relations"] == [KNOWS]


def test_observations_and_relations_stand_side_by_side(graph, filled):
    more = [{"entityName": "Ana", "contents": ["speaks French", "likes tea"]}]
    assert graph("add_observations", observations=more)["results"] == [
        {"entityName": "Ana", "addedObservations": ["speaks French"]}
    ]
    second = {**KNOWS, "to": "Bo"}
    assert graph("create_relations", relations=[KNOWS, second])["relations"] == [second]
    shown = graph("open_nodes", names=["Ana"])
    assert shown["relations"] == [KNOWS, second]
    assert shown["entities"][0]["observations"] == [*ANA["observations"], "speaks French"]


def test_an_unknown_entity_takes_no_observations(graph, filled):
    added = [{"entityName": "Ana", "contents": ["x"]}, {"entityName": "Zed", "contents": ["x"]}]
    assert "Zed" in graph("add_observations", observations=added)
    assert graph("open_nodes", names=["Ana"])["entities"] == [ANA]


@pytest.mark.parametrize(
    ("query", "found"),
    [("TEA", ["Ana"]), ("person", ["Ana"]), ("杭州", ["小李"]), ("Spanish tea", ["Ana"]), ("quux", [])],
)
def test_nodes_are_found_by_words_in_any_order(graph, filled, query, found):
    assert names(graph("search_nodes", query=query)) == found


def test_deleting(graph, filled):
    graph("delete_observations", deletions=[{"entityName": "Ana", "observations": ["likes tea", "no"]}])
    assert graph("open_nodes", names=["Ana"])["entities"][0]["observations"] == ["speaks Spanish"]
    graph("delete_relations", relations=[{**KNOWS, "to": "nobody"}])
    assert graph("read_graph")["relations"] == [KNOWS]
    assert graph("delete_entities", entityNames=["小李", "Zed"])["success"]
    whole = graph("read_graph")
    assert names(whole) == ["Ana"]
    assert whole["relations"] == []
    fresh = {**LI, "observations": ["住在上海"]}
    graph("create_entities", entities=[fresh])
    assert graph("open_nodes", names=["小李"])["entities"] == [fresh]


def test_other_tools_see_the_graph_and_the_graph_sees_theirs(call, graph, filled):
    assert "花生" in call("recall", query="花生")["hits"][0]["text"]
    call("remember", text="edge-02 的端口是 8443")
    node = graph("open_nodes", names=["edge-02"])["entities"][0]
    assert any("8443" in text for text in node["observations"])
    graph("delete_observations", deletions=[{"entityName": "edge-02", "observations": node["observations"]}])
    assert call("facts", subject="edge-02")["facts"] == []


def test_the_graph_is_a_resource(client, graph, filled):
    read = client(lambda c: c.read_resource("memory://knowledge-graph"), compat="server-memory")
    assert json.loads(read.contents[0].text) == graph("read_graph")


def test_writers_lose_nothing_of_each_other(host):
    tools = GraphTools(host, load_words("en"), "write")

    def write(who):
        for n in range(5):
            tools.create_entities([{"name": f"{who}-{n}", "entityType": "t", "observations": ["shared"]}])

    at_once(write, "abcd")
    entities = tools.read_graph()["entities"]
    assert len(entities) == 20
    assert all(entity["observations"] == ["shared"] for entity in entities)
