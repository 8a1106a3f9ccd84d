"""What an agent framework asks of its memory: goals, actions, memory, environment."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import jiyi
from jiyi import Agent, Goal, Message, Pipeline, RunningSummary, SlidingWindow, TokenBudget, action
from jiyi.agent import Environment
from jiyi.compression import Summarize
from jiyi.errors import LLMUnreachable
from jiyi.llm import Reply, Turn
from jiyi.records import ToolCall
from jiyi.text import TokenCounter, counter_for

Open = Callable[..., jiyi.MemoryManager]
SYSTEM = {"role": "system", "content": "You run servers."}


class Writer:
    """A language model that writes the same summary each time, and notes what it was asked."""

    def __init__(self, text: str = "- the port is 8443", error: Exception | None = None) -> None:
        self.text, self.error, self.asked = text, error, list[str]()

    def complete(self, messages: Any, **options: Any) -> Reply:
        self.asked.append(messages[0]["content"])
        if self.error:
            raise self.error
        return Reply(text=self.text)


class Talker:
    """A chat model that takes these turns, and notes what it was shown."""

    def __init__(self, *turns: Turn) -> None:
        self.turns, self.shown = list(turns), list[list[dict[str, Any]]]()

    def chat(self, messages: Any, **options: Any) -> Turn:
        self.shown.append([dict(message) for message in messages])
        return self.turns.pop(0)


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def with_a_tool(number: int) -> list[dict[str, Any]]:
    """A round: a question, a tool call with its result, and the answer."""
    call = {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": "shell", "arguments": '{"cmd": "df"}'},
    }
    return [
        said("user", f"question {number}"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"output {number}"},
        said("assistant", f"answer {number}"),
    ]


def rounds(count: int) -> list[dict[str, Any]]:
    return [SYSTEM, *(message for number in range(count) for message in with_a_tool(number))]


@action
def shell(cmd: str) -> str:
    """Run a command."""
    return f"ran {cmd}"


def calling(*commands: str) -> Turn:
    some = (ToolCall(id=f"c-{cmd}", name="shell", arguments=f'{{"cmd": "{cmd}"}}') for cmd in commands)
    return Turn(tool_calls=tuple(some), finish="tool_calls")


# --- SlidingWindowMemory


@pytest.mark.parametrize("k", [1, 3, 10])
def test_sliding_window_keeps_the_last_k_rounds_with_their_tool_messages(k: int) -> None:
    """The last k rounds stay whole, tool pairs included, and the system prompt stays first."""
    talk = rounds(15)
    kept = list(SlidingWindow(k)(talk).kept)
    assert kept == [SYSTEM, *talk[1 + 4 * (15 - k) :]]


def test_sliding_window_keeps_ten_rounds_by_default() -> None:
    """Without a number it is ten rounds."""
    assert list(SlidingWindow()(rounds(15)).kept) == list(SlidingWindow(10)(rounds(15)).kept)


@pytest.mark.parametrize("most", range(1, 12))
def test_sliding_window_never_splits_a_tool_pair(most: int) -> None:
    """However few messages may stay, a call stays with its result or neither does."""
    kept = SlidingWindow(max_messages=most)(rounds(6)).kept
    calls = {call["id"] for message in kept for call in message.get("tool_calls", ())}
    assert calls == {message["tool_call_id"] for message in kept if message["role"] == "tool"}
    assert sum(message["role"] in ("user", "assistant") for message in kept) == most


# --- TokenTruncationMemory


@pytest.mark.parametrize("limit", [60, 150, 400])
def test_token_truncation_counts_exactly_and_keeps_the_system_prompt(limit: int) -> None:
    """As many of the newest messages stay as fit by the model's own vocabulary; the system prompt stays."""
    counter, talk = counter_for("gpt-4"), rounds(20)
    kept = list(TokenBudget(limit, counter=counter)(talk).kept)
    assert (counter.encoding, counter.exact) == ("cl100k_base", True)
    assert kept == [SYSTEM, *talk[len(talk) - len(kept) + 1 :]]
    tokens = counter.count_all([Message.from_openai(one) for one in kept])
    assert tokens <= limit
    more = [SYSTEM, *talk[len(talk) - len(kept) - 1 :]]  # a call and its result leave together
    assert counter.count_all([Message.from_openai(one) for one in more]) > limit


def test_token_truncation_leaves_something_to_answer() -> None:
    """At least one message stays, however full the window is."""
    talk = [SYSTEM, *(said("user", "words " * 20) for _ in range(9))]
    assert list(TokenBudget(40)(talk).kept) == [SYSTEM, talk[-1]]


def test_token_truncation_starts_at_nine_tenths_of_the_models_limit() -> None:
    """The usual threshold is 90 % of the window."""
    assert TokenBudget.of_window(4096).max_tokens == int(0.9 * 4096)


def test_token_truncation_knows_what_to_do_with_an_unknown_model() -> None:
    """An unknown model is counted by a known vocabulary, and the counter says that it estimates."""
    counter = counter_for("no-such-model-7b")
    assert not counter.exact
    assert counter.encoding in ("o200k_base", "cl100k_base")
    assert counter.count_text("hello, how are you today?") >= counter_for("gpt-4").count_text(
        "hello, how are you today?"
    )


def test_token_truncation_counts_tool_calls_and_the_overhead_of_messages() -> None:
    """A message takes more than its words, and its tool calls count."""
    counter = counter_for("gpt-4")
    plain = Message(role="user", content="df")
    call = Message.from_openai(with_a_tool(0)[1])
    assert counter.count(plain) > counter.count_text("df")
    assert counter.count(call) > counter.count(replace(call, tool_calls=()))
    assert counter.count_all([plain, call]) > counter.count(plain) + counter.count(call)


def test_token_truncation_does_not_count_again_what_was_counted(memory: jiyi.MemoryManager) -> None:
    """A stored message carries its count, so that a longer conversation costs no second counting."""

    class Silent(TokenCounter):
        def count_text(self, text: str) -> int:
            raise AssertionError("counted again")

    memory.save_messages("s", rounds(5))
    stored = memory.session_messages("s")
    assert [m.tokens for m in stored] == [memory.counter.count(replace(m, tokens=None)) for m in stored]
    assert 1 < len(TokenBudget(100, counter=Silent())(stored).kept) < len(stored)


# --- SummarizationMemory


def test_summarization_is_progressive() -> None:
    """Each new summary is made of the one before and of what left the window since."""
    model = Writer()
    policy = RunningSummary(max_messages=4, keep_turns=1)
    first = policy.fold(rounds(4), None, Summarize(llm=model))
    model.text = "- the port is 9443 now"
    second = policy.fold([*first.kept, *rounds(3)[1:]], first.summary, Summarize(llm=model))
    assert "the port is 8443" in model.asked[1]
    assert "question 0" in model.asked[0]
    assert second.summary is not None
    assert second.summary.text == "- the port is 9443 now"


def test_summarization_is_one_shot_where_asked() -> None:
    """A whole conversation can be summarised at once, within its limit."""
    made = Summarize(max_tokens=60)([said("user", f"we decided to use port {8000 + n}") for n in range(30)])
    assert 0 < made.tokens <= 60 < made.tokens_before


def test_summarization_wraps_any_other_memory_as_it_was_made() -> None:
    """Another policy after the summary keeps its own arguments."""
    both = Pipeline(RunningSummary(max_messages=8, keep_turns=5), SlidingWindow(2))
    talk = rounds(12)
    assert list(both(talk).kept) == list(SlidingWindow(2)(talk).kept)


def test_summarization_leaves_the_newest_message_as_it_is() -> None:
    """The newest message is never in the summary."""
    talk = [*rounds(9), said("user", "and now?")]
    folded = RunningSummary(max_messages=3, keep_turns=1).fold(talk)
    assert folded.changed
    assert list(folded.kept) == [SYSTEM, talk[-1]]


def test_the_summary_stands_in_the_system_message_in_front(memory: jiyi.MemoryManager) -> None:
    """Models see the summary in a system message before the conversation."""
    memory.save_messages("s", [said("user", "Remember: the port is 6543"), said("assistant", "noted")])
    memory.save_messages("s", rounds(15)[1:])
    assert memory.summary("s") is None
    window = memory.build_context("s", "what next?", 4_000)
    assert window.messages[0]["role"] == "system"
    summary = memory.summary("s")
    assert summary is not None
    assert summary.text in window.messages[0]["content"].replace("\n> ", "\n").replace("> ", "")


def test_nothing_is_lost_when_the_model_fails(open_memory: Open) -> None:
    """Where the language model fails, messages stay where they are, and the next call tries again."""
    model = Writer(error=LLMUnreachable("nobody answers"))
    memory = open_memory(llm=model, reader="off")
    memory.save_messages("s", rounds(13))
    window = memory.build_context("s", "?", 8_000)
    assert any("nobody answers" in note for note in window.report.notes)
    assert memory.summary("s") is None
    assert "answer 0" in [message["content"] for message in window.messages]
    model.error = None
    memory.build_context("s", "?", 8_000)
    assert memory.summary("s").text == "- the port is 8443"


# --- the conversation's knowledge graph


def test_a_knowledge_graph_grows_with_the_talk(memory: jiyi.MemoryManager) -> None:
    """Entities and their relations are read from messages as they come, and can be walked."""
    memory.save_message("s", role="user", content="pay-gw's owner is Alice.")
    assert [n.name for n in memory.neighbours("pay-gw")] == ["Alice"]
    memory.remember(subject="Alice", predicate="works with", object="Bob")
    found = {n.name: (n.depth, len(n.facts)) for n in memory.neighbours("pay-gw", depth=2)}
    assert found == {"Alice": (1, 1), "Bob": (2, 2)}
    memory.save_message("s", role="user", content="pay-gw's owner is Carol now.")
    assert [n.name for n in memory.neighbours("pay-gw")] == ["Carol"]


# --- VectorMemory


def test_vector_memory_keeps_texts_with_vectors_and_roles(memory: jiyi.MemoryManager) -> None:
    """What user and assistant said is stored with its vector and role, and recalled by a query."""
    memory.save_message("s", role="user", content="my cat is called Momo")
    memory.save_message("s", role="assistant", content="Momo is a lovely name for a cat")
    for number in range(9):
        memory.save_message("s", role="user", content=f"the weather of day {number} was cat weather")
    assert memory.stats()["vectors_pending"] >= 11
    memory.flush()
    assert memory.stats()["vectors_pending"] == 0
    found = memory.search("cat Momo", limit=3, kinds="message")
    assert len(found) == 3
    assert {hit.record.role for hit in found[:2]} == {"user", "assistant"}
    assert all("Momo" in hit.text for hit in found[:2])


def test_vector_memory_outlives_the_process_and_its_ids_do_not_meet(open_memory: Open) -> None:
    """What a first process stored is found by the next, whose ids are new ones."""
    ids = set()
    for number in range(3):
        memory = open_memory()
        ids.add(memory.save_message("s", role="user", content=f"note {number}").id)
        memory.close()
    memory = open_memory()
    assert len(ids) == 3
    assert {hit.id for hit in memory.search("note", limit=9)} == ids


# --- HybridMemory and the agent


def test_hybrid_memory_shows_what_it_recalls_just_before_the_newest_user_message(
    memory: jiyi.MemoryManager,
) -> None:
    """The recent talk comes from short-term memory; recalled snippets stand before the question."""
    memory.save_message("old", role="user", content="the wifi of the flat is called tulip")
    memory.save_messages("new", [said("user", "hello there"), said("assistant", "hi")])
    memory.flush()
    shown = memory.build_context("new", "what is the wifi of the flat called?").messages
    assert shown[-1]["content"] == "what is the wifi of the flat called?"
    assert "tulip" in shown[-2]["content"]
    assert [message["content"] for message in shown[:-2]][-2:] == ["hello there", "hi"]


def test_the_agent_calls_tools_in_a_loop_until_it_is_done(memory: jiyi.MemoryManager) -> None:
    """Tool calls are carried out and their results shown until the model answers in words."""
    model = Talker(calling("df"), calling("ps", "top"), Turn(text="all is well"))
    run = Agent("Keep the shop up", [shell], memory, llm=model).run("how is it?", "s")
    assert (run.answer, run.stopped, run.model_calls) == ("all is well", "done", 3)
    assert [step.result for step in run.steps] == ["ran df", "ran ps", "ran top"]
    assert [m["content"] for m in model.shown[2] if m["role"] == "tool"] == ["ran df", "ran ps", "ran top"]


def test_the_agent_searches_its_memory_once_for_a_question(memory: jiyi.MemoryManager) -> None:
    """Each step shows what the first one recalled; no step searches again."""

    @action(name="shell")
    def note(cmd: str) -> str:
        """Run a command, which leaves a message that a search would find."""
        memory.save_message("elsewhere", role="user", content=f"the disk of app-1 was {cmd}ed just now")
        return "ok"

    memory.save_message("old", role="user", content="the disk of app-1 was full last week")
    model = Talker(calling("empti"), calling("count"), Turn(text="full"))
    Agent("Keep the shop up", [note], memory, llm=model).run("is the disk of app-1 full?", "s")
    seen = ["\n".join(str(message["content"]) for message in shown) for shown in model.shown]
    assert ["last week" in text for text in seen] == [True] * 3
    assert not any("just now" in text for text in seen)
    assert "just now" in memory.build_context("new", "is the disk of app-1 full?").markdown


def test_a_question_does_not_recall_itself(memory: jiyi.MemoryManager) -> None:
    """The question that was just saved is not among what is recalled for it."""
    asked = memory.save_message("s", role="user", content="is the disk of app-1 full?")
    memory.save_message("old", role="user", content="the disk of app-1 was full")
    memory.flush()
    window = memory.build_context("s")
    assert asked.id not in [block.source_id for block in window.blocks]
    assert [block.text for block in window.blocks] == ["the disk of app-1 was full"]
    assert sum(message["content"].count(asked.text) for message in window.messages) == 1


def test_an_agent_is_made_of_goals_actions_memory_and_environment(memory: jiyi.MemoryManager) -> None:
    """Goals are in the system prompt, actions are offered and carried out by the environment."""

    class Careful(Environment):
        def execute(self, action: Any, args: Any) -> Any:
            ran.append((action.name, dict(args)))
            return super().execute(action, args)

    ran: list[tuple[str, dict[str, Any]]] = []
    model = Talker(calling("df"), Turn(text="done"))
    goals = [
        Goal(name="Keep the shop up", description="day and night"),
        Goal(name="Lose no data", priority=9),
    ]
    Agent(goals, [shell], memory, Careful(), llm=model).run("go", "s")
    prompt = model.shown[0][0]
    assert prompt["role"] == "system"
    assert (
        0
        < prompt["content"].index("Lose no data")
        < prompt["content"].index("Keep the shop up: day and night")
    )
    assert ran == [("shell", {"cmd": "df"})]
    assert [m.role for m in memory.session_messages("s")] == ["user", "assistant"]
