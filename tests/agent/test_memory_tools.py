"""The tools over the memory that the model is offered: what they do, and what they refuse."""

import re
from typing import Any

import pytest
from scripted_chat import call, calls, says
from scripted_endpoint import Reply

from jiyi.agent import action


def results(asked: dict[str, Any]) -> list[str]:
    return [m["content"] for m in asked["messages"] if m["role"] == "tool"]


@pytest.fixture
def use(scripted, make_agent):
    """Let the model call tools one after the other and return what it saw; a function gets what was asked."""

    def use(*some: tuple[str, Any], **options: Any) -> list[str]:
        def reply(number: int, name: str, args: Any) -> Reply:
            def body(asked: dict[str, Any]) -> Any:
                return calls(call(name, args(asked) if callable(args) else args, f"c{number}")).body(asked)

            return Reply(body=body)

        server = scripted(*(reply(n, name, args) for n, (name, args) in enumerate(some)), says("done"))
        run = make_agent(server, **options).run("do it please", "s")
        assert run.answer == "done", run.reason
        return results(server.asked[-1])

    return use


def test_remember_keeps_facts_and_puts_some_into_every_window(memory, use):
    told = use(*(("remember", {"text": text}) for text in ("The port of pay-gw is 9443.", "buy milk & eggs")))
    assert "9443" in told[0]
    assert [f.object for f in memory.facts("pay-gw")] == ["9443"]
    assert any("milk" in f.object for f in memory.facts())
    use(
        ("remember", {"text": "Mika reads code on a phone", "always": True}),
        ("remember", {"text": "buy milk & eggs", "always": False}),
    )
    assert [fact.object for fact in memory.profile()] == ["Mika reads code on a phone"]
    assert "> Mika reads code on a phone" in memory.build_context("new", "What is for dinner?").markdown


def test_recall_quotes_with_ids_and_not_the_question(memory, use):
    memory.save_message("old", role="user", content="the certificate of edge-01 expires in May", id="m-1")
    memory.save_message("old", role="user", content="please do it again: edge-01", id="m-2")
    told, nothing = use(
        ("recall", {"query": "certificate edge-01, do it please"}), ("recall", {"query": "?"})
    )
    assert "[m-1] user" in told
    assert "> the certificate of edge-01 expires in May" in told
    assert "> do it please\n" not in f"{told}\n"
    assert nothing


def test_recall_says_where_none_of_it_is_likely_to_be_the_answer(memory, use):
    memory.save_message("old", role="user", content="The wifi of the flat is called tulip.")
    memory.save_message("old", role="user", content="the rent of the flat is 900 euros")
    memory.flush()
    asked = ["How do I bake bread?", "Wohin fahren wir?", "zebra", "面包怎么烤？"]
    told = use(*(("recall", {"query": query}) for query in asked))
    doubts = [re.search(r"\(probability (\d+) % that none of these is an answer: ", text) for text in told]
    assert any(doubts)
    assert all(int(found[1]) >= 50 for found in doubts if found)
    assert all("tulip" in text for text in told)


def test_recall_hides_secrets_not_asked_for_and_forget_reaches_no_other_user(memory, use):
    memory.save_message("old", role="user", content="the router's wifi password is tulip-88", id="m-1")
    other, asked = use(("recall", {"query": "router"}), ("recall", {"query": "wifi password"}))
    assert "> the router's wifi password is [password hidden]" in other
    assert "> the router's wifi password is tulip-88" in asked
    memory.save_message("old", role="user", content="bob's secret", id="m-bob", user_id="bob")
    recalled, refused = use(("recall", {"query": "bob's secret"}), ("forget", {"ids": ["m-bob"]}))
    assert "secret" not in recalled
    assert "m-bob" in refused
    assert [m.id for m in memory.session_messages("old", user_id="bob")] == ["m-bob"]


def test_forget_takes_only_what_was_recalled(memory, use):
    memory.save_message("old", role="user", content="my password is hunter2", id="m-1")
    memory.save_message("old", role="user", content="keep this", id="m-2")
    refused, _, done, again, words = use(
        ("forget", {"ids": ["m-1"]}),
        ("recall", {"query": "password hunter2"}),
        ("forget", {"ids": ["m-1"]}),
        ("forget", {"ids": ["m-1", "m-2"]}),
        ("forget", {"query": "keep"}),
    )
    assert "only ids that recall returned" in refused
    assert "records forgotten" in done
    assert "m-1" in again
    assert "do not fit" in words
    assert [m.id for m in memory.session_messages("old")] == ["m-2"]


def test_plans_are_steps_of_the_task(memory, use):
    seen: list[Any] = []

    def look(asked: dict[str, Any]) -> dict[str, Any]:
        task = memory.current_task("s")
        assert task is not None
        seen.append([(s.description, s.status) for s in task.steps if s.tool_name is None])
        seen.append([m["content"] for m in asked["messages"] if m["role"] == "user"])
        return {"steps": ["[x] look", "restart", "tell Ana"]}

    told = use(
        ("plan", {"steps": ["look", "[ ] mend"]}),
        ("plan", look),
        ("plan", {"steps": ["[X] look", "[x] mend"]}),
        ("plan", {"steps": [" ", "[x]"]}),
        ("plan", {"steps": []}),
    )
    assert told[:3] == ["0 of 2 steps done", "1 of 3 steps done", "2 of 2 steps done"]
    assert "at least one step" in told[3]
    assert "do not fit" in told[4]
    assert seen[0] == [("look", "pending"), ("mend", "pending")]
    assert any("look" in text and "mend" in text for text in seen[1]), "the plan is in the window"
    (episode,) = memory.episodes()
    left = {s.description: s.status for s in episode.steps if s.tool_name is None}
    assert left == {"look": "completed", "mend": "completed", "restart": "failed", "tell Ana": "failed"}


def test_skills_are_offered_where_the_memory_has_them(write_skill, open_memory, use):
    folder = write_skill("restart-nginx", body="First drain the node.", hosts_md="edge-01 and edge-02")
    memory = open_memory(skills=[str(folder.parent)])
    opened, file, none = use(
        ("open_skill", {"name": "restart-nginx"}),
        ("open_skill", {"name": "restart-nginx", "resource": "hosts.md"}),
        ("open_skill", {"name": "mend"}),
        memory=memory,
    )
    assert opened == "skill restart-nginx is open"
    assert "edge-01 and edge-02" in file
    assert "restart-nginx" in none
    assert memory.opened_skills("s") == ("restart-nginx",)


def test_an_action_of_the_callers_takes_the_place_of_a_tool(memory, scripted, make_agent):
    @action
    def recall(query: str) -> str:
        """Ask elsewhere."""
        return f"elsewhere: {query}"

    server = scripted(calls(call("recall", {"query": "x"})), says("ok"))
    make_agent(server, recall).run("go", "s")
    assert results(server.asked[1]) == ["elsewhere: x"]
    assert [tool["function"]["name"] for tool in server.asked[0]["tools"]].count("recall") == 1


def test_a_chinese_model_is_told_in_chinese_who_spoke_and_what_left_its_plan(memory, use):
    use(("plan", {"steps": ["看", "改"]}), ("plan", {"steps": ["看"]}), goals="让商店一直开着")
    assert [step.result for step in memory.tasks()[0].steps if step.tool_name is None] == [
        None,
        "已不在计划里",
    ]
    memory.save_message("old", role="user", content="edge-01 的证书五月到期", id="m-1")
    (told,) = use(("recall", {"query": "edge-01 证书"}), goals="让商店一直开着")
    assert "[m-1] 用户" in told
