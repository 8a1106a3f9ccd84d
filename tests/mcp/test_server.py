import tomllib
from importlib.resources import files

import pytest
from mcp import MCPError

from jiyi.mcp.graph import GRAPH_TOOLS
from jiyi.mcp.tools import TOOLS


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
