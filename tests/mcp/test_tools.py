"""The tools as a model sees and calls them, prompts, resources, and the settings of clients in the pages."""

import json
import re
import tomllib
from datetime import datetime
from importlib.resources import files
from pathlib import Path

import pytest
import typer
from mcp import MCPError
from tables import read_tables

from jiyi.cli.app import app
from jiyi.mcp.caller import Caller
from jiyi.mcp.graph import GRAPH_TOOLS
from jiyi.mcp.tools import TOOLS
from jiyi.text import counter_for


def test_what_is_remembered_is_recalled(call):
    kept = call("remember", text="Ana prefers green tea")
    found = call("recall", query="which tea does Ana prefer?")["hits"][0]
    assert kept["id"] in {fact["id"] for fact in kept["facts"]}
    assert found["kind"] == "fact"
    assert "green tea" in found["text"]


def test_chinese_is_found_by_its_words(call):
    said = [{"role": "user", "content": "nginx 又 502 了"}, {"role": "assistant", "content": "重启后恢复"}]
    saved = call("save_conversation", session="夜班", messages=said)
    found = call("recall", query="502 怎么恢复的")["hits"]
    assert {hit["id"] for hit in found} == set(saved["ids"])
    assert found[0]["session"] == "夜班"


def test_nothing_relevant_is_passed_on(call):
    assert call("recall", query="anything?")["notes"]
    call("remember", text="the printer is on floor 3")
    assert call("recall", query="Tolstoy's birthplace")["nothing_relevant"] > 0.5


def test_secrets_are_marked(call):
    call("remember", text="my wifi password is Tr0ub4dor&3")
    assert call("recall", query="wifi password")["hits"][0]["secrets"] == ["password"]


def test_a_newer_value_replaces_an_older_one(call, host):
    call("remember", text="edge-02 的端口是 8443")
    later = call("remember", text="edge-02 的端口改成 9443 了")
    holds = [fact["object"] for fact in call("facts", subject="edge-02")["facts"]]
    known = call("history", subject="edge-02")["facts"]
    assert holds == ["9443"]
    assert [fact["status"] for fact in known] == ["superseded", "active"]
    assert later["replaced"] == [known[0]["id"]]
    assert known[0]["replaced_by"] == known[1]["id"]


def test_pages_follow_each_other_and_none_is_large(call, client):
    words = " ".join(f"word{n}" for n in range(400))
    said = [{"role": "user", "content": f"apples {n}: {words}"} for n in range(25)]
    ids = call("save_conversation", session="s", messages=said)["ids"]
    seen, cursor = [], None
    while True:
        arguments = {"query": "apples", "limit": 20, "kinds": ["message"], "cursor": cursor}
        page = client(lambda c, a=arguments: c.call_tool("recall", a))
        assert counter_for().count_text(page.content[0].text) <= 10_000
        assert json.loads(page.content[0].text) == page.structured_content
        seen += [hit["id"] for hit in page.structured_content["hits"]]
        cursor = page.structured_content.get("next")
        if cursor is None:
            break
    assert sorted(seen) == sorted(ids)


def test_a_huge_text_comes_as_the_part_that_matters(call):
    text = "filler words. " * 5_000 + "The code of the gate is 4711. " + "more filler. " * 5_000
    call("save_conversation", session="s", messages=[{"role": "user", "content": text}])
    hit = call("recall", query="code of the gate", kinds=["message"])["hits"][0]
    assert hit["cut"]
    assert "4711" in hit["text"]
    assert len(hit["text"]) < len(text) / 10


def test_context_keeps_its_budget(call):
    call("remember", text="always answer in German", always=True)
    view = call("context", query="what should I answer in?", budget=300)
    assert view["tokens"] <= 300
    assert "German" in view["text"]


def test_forgetting_is_planned_then_done_then_undone(call, host):
    call("remember", text="the safe opens with 1234")
    plan = call("forget", query="safe")
    assert not plan["done"]
    assert plan["total"] == 1
    assert call("recall", query="safe")["hits"]
    done = call("forget", query="safe", confirm=plan["confirm"])
    assert done["done"]
    assert not call("recall", query="safe")["hits"]
    host.memory.restore(forgotten_at=datetime.fromisoformat(done["restore"]), user_id="ana")
    assert call("recall", query="safe")["hits"]


def test_forgetting_without_a_choice_names_the_tools_own_arguments(call):
    assert "query, ids or session" in call("forget")


def test_a_plan_that_changed_is_not_carried_out(call):
    call("remember", text="the safe opens with 1234")
    word = call("forget", query="safe")["confirm"]
    call("remember", text="the safe is blue")
    assert "look at the plan again" in call("forget", query="safe", confirm=word)
    assert len(call("recall", query="safe")["hits"]) == 2


BAD = [*read_tables(__file__)["bad input"], ("remember", json.dumps({"text": "x" * 1_000_001}))]


@pytest.mark.parametrize(("tool", "arguments"), BAD, ids=[f"{tool} {told[:40]}" for tool, told in BAD])
def test_bad_input_is_an_error_that_says_why(client, tool, arguments):
    result = client(lambda c: c.call_tool(tool, json.loads(arguments)))
    assert result.is_error
    assert len(result.content[0].text) > 30
    assert "Traceback" not in result.content[0].text


def test_rights_are_kept(call, host):
    host.who = Caller(user_id="ana", rights=frozenset({"read"}))
    assert "may not write" in call("remember", text="x")
    assert "may not forget" in call("forget", query="x")
    assert not call("recall", query="x")["hits"]


def test_users_are_apart_and_their_stored_names_are_not_shown(call, host):
    host.memory.remember("bob's secret", user_id="acme//bob")
    host.who = Caller(user_id="acme//ana", public_text=lambda text: text.replace("acme//", ""))
    assert not call("recall", query="secret")["hits"]
    error = call("forget", ids=["no-such-id"])
    assert "no-such-id" in error
    assert "acme//" not in error


def test_dates_without_a_zone_are_in_the_memorys_own(call):
    call("save_conversation", session="s", messages=[
        {"role": "user", "content": "apples in May", "created_at": "2026-05-02T12:00:00+00:00"},
        {"role": "user", "content": "apples in June", "created_at": "2026-06-02T12:00:00+00:00"},
    ])  # fmt: skip
    found = call("recall", query="apples", kinds=["message"], since="2026-06-01")["hits"]
    assert [hit["text"] for hit in found] == ["apples in June"]


def test_messages_with_ids_are_saved_once(call, host):
    for _ in range(2):
        call("save_conversation", session="s", messages=[{"role": "user", "content": "hi", "id": "m1"}])
    assert len(host.memory.session_messages("s", user_id="ana")) == 1


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(("compat", "rights"), [("", TOOLS), ("server-memory", GRAPH_TOOLS)])
def test_tools_are_annotated_structured_and_in_the_users_language(client, language, compat, rights):
    tools = client(lambda c: c.list_tools(), language, compat).tools
    assert [tool.name for tool in tools] == list(rights)
    for tool in tools:
        assert tool.annotations.read_only_hint == (rights[tool.name] == "read")
        assert tool.annotations.destructive_hint == (rights[tool.name] == "forget")
        assert tool.output_schema["type"] == "object"
        words = [tool.description, tool.title]
        if not compat:
            words += [schema["description"] for schema in tool.input_schema["properties"].values()]
        for said in words:
            assert any("\u4e00" <= letter <= "\u9fff" for letter in said) == (language == "zh"), said


def test_both_languages_say_the_same_things():
    words = tomllib.loads(files("jiyi.mcp").joinpath("words.toml").read_text("utf-8"))
    told = {language: {part: set(words[language][part]) for part in words["en"]} for language in words}
    del told["en"]["instructions"], told["zh"]["instructions"]
    assert told["en"] == told["zh"]


def test_tools_are_few_words(client):
    """A model reads all of it in every conversation."""
    tools = client(lambda c: c.list_tools()).tools
    shown = {"name", "description", "input_schema"}
    assert sum(len(tool.model_dump_json(include=shown)) for tool in tools) < 7_000


def test_the_prompt_teaches_when(client):
    prompt = client(lambda c: c.get_prompt("with_memory"), "zh")
    assert "recall" in prompt.messages[0].content.text
    assert "记忆" in prompt.messages[0].content.text


def test_resources_show_sessions_and_facts(client, host):
    for n in range(30):
        said = f"消息{n} " + "long words " * 900
        host.memory.save_message("夜班", role="user", content=said, user_id="ana")
    host.memory.remember("小李 lives in Hangzhou", speaker="小李", user_id="ana")

    def read(uri):
        return client(lambda c: c.read_resource(uri), "zh").contents[0].text

    assert "夜班: 30 条消息" in read("memory://sessions")
    shown = read("memory://sessions/%E5%A4%9C%E7%8F%AD")
    assert "消息29" in shown
    assert "更早的" in shown
    assert host.memory.counter.count_text(shown) <= 10_000
    assert "Hangzhou" in read("memory://facts/%E5%B0%8F%E6%9D%8E")
    told = client(lambda c: c.list_resource_templates()).resource_templates
    assert {one.uri_template for one in told} == {"memory://sessions/{id}", "memory://facts/{subject}"}


def test_what_is_not_there_says_so(client):
    async def read(c):
        with pytest.raises(MCPError, match="Unknown prompt"):
            await c.get_prompt("none")
        with pytest.raises(MCPError, match="memory://sessions lists them"):
            await c.read_resource("memory://sessions/none")

    client(read)


DOCS = Path(__file__).parents[2] / "docs"


def commands(page):
    for block in re.findall(r"^```json\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S):
        settings = json.loads(block)
        yield from (settings.get("mcpServers") or settings["servers"]).values()


@pytest.mark.parametrize("page", [DOCS / "mcp.md", DOCS / "zh" / "mcp.md"], ids=["en", "zh"])
def test_settings_of_clients_start_a_command_that_exists(page):
    found = list(commands(page))
    assert sum(server.get("url", "").endswith("/mcp") for server in found) == 2
    started = [server for server in found if "command" in server]
    assert len(started) == 5
    for server in started:
        assert server["command"] == "jiyi"
        name, *rest = server["args"]
        typer.main.get_command(app).get_command(None, name).make_context(name, rest)


def test_both_pages_have_the_same_settings():
    assert list(commands(DOCS / "mcp.md")) == list(commands(DOCS / "zh" / "mcp.md"))
