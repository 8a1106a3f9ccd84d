"""What it takes to spend a model's window well: budgets, selection, compression, life cycle, figures."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import jiyi
from jiyi import Budget, ImportanceSampling, Message, RunningSummary, SlidingWindow, TokenBudget
from jiyi.compression import Extract, PruneTokens, Relevance
from jiyi.context import PriorityContext, split_task
from jiyi.records.budget import PRESETS, RULES_OF_THUMB
from jiyi.text import counter_for

Open = Callable[..., jiyi.MemoryManager]
SYSTEM = {"role": "system", "content": "You run servers."}
COUNTER = counter_for("gpt-4o")


def said(role: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": text, **fields}


def talk(turns: int, words: int = 1) -> list[dict[str, Any]]:
    return [
        said(role, f"{role} {n} " + "and so on " * words)
        for n in range(turns)
        for role in ("user", "assistant")
    ]


# --- budgets


def test_the_limits_of_a_window_are_settings(open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """max_input_tokens and max_output_tokens come from arguments or the environment, per model too."""
    monkeypatch.setenv("JIYI_MAX_INPUT_TOKENS", "1234")
    budget = open_memory(max_output_tokens=77).build_context("s", "?").report.budget
    assert (budget.max_input_tokens, budget.max_output_tokens) == (1234, 77)
    limits = {"own": {"max_input_tokens": 900, "max_output_tokens": 60}}
    budget = open_memory(model="own", models=limits).build_context("s", "?").report.budget
    assert (budget.max_input_tokens, budget.max_output_tokens) == (900, 60)


@pytest.mark.parametrize("size", [300, 900])
def test_the_output_is_reserved_and_the_input_never_over_its_limit(
    memory: jiyi.MemoryManager, size: int
) -> None:
    """Whatever there is to show, what is sent leaves room for the reply in the model's window."""
    memory.save_messages("s", talk(10, words=10))
    memory.save_messages("old", talk(6, words=5))
    budget = Budget.of_window(size, max_output_tokens=100)
    window = memory.build_context("s", "what did the user say?", budget)
    assert budget.max_input_tokens + budget.max_output_tokens == size
    assert window.report.tokens <= size - 100
    sent = [Message.from_openai(message) for message in window.messages]
    assert COUNTER.count_all(sent) == window.report.tokens


def test_a_window_over_its_budget_degrades_in_order(memory: jiyi.MemoryManager) -> None:
    """First older talk is summarised, then history is trimmed, then what was retrieved."""
    for number in range(25):
        text = f"app-{number} was restarted because of a full disk " + "after a long night " * 12
        memory.save_message(f"old {number}", role="user", content=text)
    memory.save_messages("s", talk(30, words=12))
    memory.flush()
    window = memory.build_context("s", "which app was restarted because of a full disk?", 700)
    done = [step.what for step in window.report.steps]
    assert done == ["summarised", "trimmed history", "trimmed retrieved"]
    assert window.report.tokens <= 700
    left = {item.section for item in window.report.left_out}
    assert {"history", "recalled"} <= left


def test_the_usual_shares_of_a_window() -> None:
    """System 5-10 %, retrieved 20-40, history 20-30, input 5-15, output 20-30; others are pointed out."""
    assert RULES_OF_THUMB == {
        "system": (0.05, 0.10),
        "knowledge": (0.20, 0.40),
        "history": (0.20, 0.30),
        "input": (0.05, 0.15),
        "output": (0.20, 0.30),
    }
    assert PRESETS["conversation"].unusual()


@pytest.mark.parametrize(
    ("kind", "system", "knowledge", "history", "output"),
    [
        ("code_generation", 500, 3_000, 1_000, 3_500),
        ("conversation", 500, 1_000, 4_000, 2_500),
        ("analysis", 500, 4_000, 1_000, 2_500),
    ],
)
def test_a_kind_of_task_has_its_allocation(
    open_memory: Open, kind: str, system: int, knowledge: int, history: int, output: int
) -> None:
    """Of 8,000 tokens each kind of task gives the parts their own share, and windows follow it."""
    budget = Budget.for_task(kind, 8_000)
    assert (budget.max_input_tokens, budget.max_output_tokens) == (8_000 - output, output)
    left = 8_000 - output - system
    assert budget.shares["history"] * left == pytest.approx(history)
    retrieved = sum(share for section, share in budget.shares.items() if section != "history")
    assert retrieved * left == pytest.approx(knowledge)
    shares = open_memory().build_context("s", "?", 4_000, task_type=kind).report.budget.shares
    assert shares == budget.shares


def test_the_most_important_content_within_the_budget() -> None:
    """Pieces go in by priority; what does not fit is passed over for smaller ones."""
    context = PriorityContext(100)
    context.add("small talk", 0.1, tokens=40)
    context.add("the rules", 1.0, tokens=50)
    context.add("a long log", 0.8, tokens=60)
    context.add("the plan", 0.5, tokens=30)
    assert context.best() == ["the rules", "the plan"]
    assert context.left() == ["a long log", "small talk"]


# --- selection


def test_a_sliding_window_of_messages() -> None:
    """The last 20 messages stay, and system messages beside them."""
    given = [SYSTEM, *talk(15)]
    assert list(SlidingWindow(max_messages=20)(given).kept) == [SYSTEM, *given[-20:]]


def test_a_token_budget_drops_the_oldest_and_never_the_system_message() -> None:
    """4,000 tokens by default, each message's overhead counted; the oldest others leave first."""
    policy = TokenBudget()
    assert policy.max_tokens == 4_000
    given = [SYSTEM, *talk(60, words=20)]
    kept = list(policy(given).kept)
    assert kept == [SYSTEM, *given[len(given) - len(kept) + 1 :]]
    made = [Message.from_openai(one) for one in kept]
    words = sum(COUNTER.count_text(message.text) for message in made)
    assert words + 3 * len(made) < COUNTER.count_all(made) <= 4_000


def test_a_token_budget_tears_no_json_and_no_code() -> None:
    """A message stays as it is or leaves."""
    code = "```python\n" + "\n".join(f"value_{n} = {n}" for n in range(30)) + "\n```"
    given = [
        said("assistant", code),
        said("user", json.dumps({"rows": list(range(60))})),
        said("user", "ok?"),
    ]
    for limit in range(12, 500, 9):
        for message in TokenBudget(limit)(given).kept:
            assert message in given


@pytest.mark.parametrize(
    ("score", "texts"),
    [
        (1.0, ["记住：生产库只能在夜里重启", "Remember this: never restart the database by day"]),
        (0.7, ["8443 端口连接超时", "the upstream app-3 timed out after 30 s on port 8443"]),
        (0.5, ["看起来还可以再想想", "the garden looks a little wild"]),
        (0.3, ["好的，谢谢", "ok, thanks"]),
    ],
)
def test_importance_sampling_scores_messages(score: float, texts: list[str]) -> None:
    """Key decisions 1.0, technical details .7, ordinary words .5, small talk .3, in both languages."""
    for text in texts:
        given = [said("user", text), said("user", "now")]
        (gone,) = ImportanceSampling(max_messages=1)(given).dropped
        assert float(gone.reason.split()[1].rstrip(",")) == pytest.approx(score, abs=0.1)


def test_importance_sampling_drops_the_lowest_first_and_never_the_system_message() -> None:
    """Small talk leaves before ordinary words, these before details, these before decisions."""
    ranked = [
        "ok, thanks",
        "the garden looks wild",
        "port 8443 on app-3 timed out",
        "Remember: deploy on Monday",
    ]
    given = [SYSTEM, *(said("user", text) for text in reversed(ranked)), said("user", "now?")]
    for gone in range(5):
        kept = ImportanceSampling(max_messages=5 - gone)(given).kept
        assert SYSTEM in kept
        assert {m["content"] for m in kept} - {SYSTEM["content"], "now?"} == set(ranked[gone:])


# --- compression


def test_a_summary_is_due_after_ten_messages_and_leaves_the_last_three_whole() -> None:
    """The eleventh message sets it off; three turns stay as they are."""
    policy, given = RunningSummary(), talk(6)
    assert not policy.due(given[:10])
    assert policy.due(given[:11])
    folded = policy.fold(given)
    assert list(folded.kept) == given[-6:]
    assert folded.summary is not None
    assert len(folded.summary.covers) == 6


def test_token_compression_by_rate_with_forced_words() -> None:
    """Half of the tokens stay, and the words that were named stay among them."""
    text = (
        "大家早上好，其实我觉得呢，如果可以的话，我们今天不妨一起来看看这份报告里面重要的部分。"
        "关键的数字大概是在最后几页吧，回头有空的时候我也非常愿意再跟大家慢慢地聊一聊。"
    )
    plain = PruneTokens()(text)
    forced = PruneTokens(0.5, force_tokens=["重要", "慢慢地"])(text)
    for made in (plain, forced):
        assert 0.4 * made.tokens_before < made.tokens <= 0.5 * made.tokens_before + 1
    assert "重要" in forced.text
    assert "慢慢地" in forced.text
    assert "慢慢地" not in plain.text


def test_what_serves_the_question_is_taken_out_of_a_text() -> None:
    """Of a long text the sentences that answer the question stay."""
    filling = "The weather was fine on that day and nobody minded. "
    text = filling * 8 + "The certificate of edge-02 expires on 3 May. " + filling * 8
    made = Relevance()(text, max_tokens=30, query="When does the certificate of edge-02 expire?")
    assert "expires on 3 May" in made.text
    assert made.tokens <= 30 < made.tokens_before


def test_a_conversation_is_read_into_four_lists() -> None:
    """User information, topics, conclusions and things to do."""
    found = Extract().extract(
        [
            said("user", "My name is Ana and I live in Lisbon."),
            said("user", "The migration to PostgreSQL is slow, the migration needs more memory."),
            said("assistant", "We decided to move the migration to Sunday."),
            said("user", "I have to renew the certificate by Friday."),
        ]
    )
    assert any("Lisbon" in item.text for item in found.user_information)
    assert any("migration" in item.text.lower() for item in found.topics)
    assert any("Sunday" in item.text for item in found.conclusions)
    assert any("certificate" in item.text for item in found.todos)


# --- the life cycle


def test_a_growing_session_is_to_be_restarted_before_the_limit(memory: jiyi.MemoryManager) -> None:
    """Short it goes on; stale, repetitive and off its goal it is to start over before it is full."""
    memory.save_message("s", role="user", content="Find out why orders-api runs out of memory")
    assert memory.session_advice("s", 4_000).action == "continue"
    for number in range(15):
        text = f"the colours of the garden chairs in row {number} are still the same as they were before"
        memory.save_messages("s", [said("user", text), said("assistant", text)])
    health = memory.session_health("s", 1_200)
    assert 0.4 < health.length < 1
    advice = memory.session_advice("s", 1_200)
    assert advice.action == "restart"
    assert advice.reasons


def test_a_big_task_is_split_into_sessions_that_hand_over_a_plan() -> None:
    """Research, implementation and tests run in sessions of their own; only plan and results go on."""
    stages = split_task(["find the leak", "fix it"], session_id="leak")
    assert [stage.name for stage in stages] == ["research", "implement", "verify"]
    assert len({stage.session_id for stage in stages}) == 3
    opening = stages[1].opening({"research": "the cache has no limit"})
    for part in ("1. find the leak", "2. fix it", "the cache has no limit"):
        assert part in opening
    assert "the cache" not in stages[0].opening()


def test_a_session_is_handed_over_in_few_tokens(memory: jiyi.MemoryManager) -> None:
    """The next session begins with the goal, the state of the task and what was decided."""
    memory.save_message("s", role="user", content="Find out why orders-api runs out of memory")
    memory.save_message("s", role="assistant", content="We decided to limit the cache to 2 GB.")
    memory.save_messages("s", talk(8, words=10))
    task = memory.start_task("s", "stop the leak of orders-api")
    memory.add_step(task.id, "read the heap dump", status="completed")
    text = memory.handover("s", 300)
    assert COUNTER.count_text(text) <= 300
    for part in ("stop the leak of orders-api", "limit the cache to 2 GB", "read the heap dump"):
        assert part in text


# --- monitoring


def test_the_monitor_says_length_summaries_and_hit_rate(open_memory: Open) -> None:
    """Lengths and their mean, summaries set off, and whether the replies used what was recalled."""
    memory = open_memory(monitor=True)
    memory.save_message("old", role="user", content="the wifi of the flat is called tulip-88")
    memory.flush()
    windows = []
    for number, reply in enumerate(("It is called tulip-88.", "Bread needs an oven.")):
        windows.append(memory.build_context(f"s{number}", "what is the wifi of the flat called?", 2_000))
        memory.save_message(f"s{number}", role="assistant", content=reply)
    memory.save_messages("long", talk(30))
    windows.append(memory.build_context("long", "?", 2_000))
    seen = memory.monitor.gauges()
    lengths = [window.report.tokens for window in windows]
    assert (seen.windows, seen.summaries, seen.hit_rate) == (3, 1, 0.5)
    assert (seen.tokens.largest, seen.tokens.mean) == (max(lengths), pytest.approx(sum(lengths) / 3))


def test_the_monitor_suggests_the_output_reserve(open_memory: Open) -> None:
    """One and a half times the mean of the replies."""
    memory = open_memory(monitor=True)
    replies = ["words " * size for size in (10, 30, 80)]
    for text in replies:
        memory.build_context("s", "?", 2_000)
        memory.save_message("s", role="assistant", content=text)
    mean = sum(COUNTER.count_text(text) for text in replies) / 3
    assert memory.monitor.gauges().output_reserve == -(-1.5 * mean // 1)


@pytest.mark.parametrize("why", ["repeats", "leaves"])
def test_the_monitor_raises_an_alarm_when_the_goal_is_lost(open_memory: Open, why: str) -> None:
    """Retrying what fails, or leaving the first instruction, raises an alarm; work on it does not."""
    memory = open_memory(monitor=True)
    memory.build_context("s", "write a unit test for parse_date", 2_000)
    task = memory.start_task("s", "write a unit test for parse_date")
    for step in ("open parse_date", "write the unit test for parse_date"):
        memory.add_step(task.id, step, status="completed")
    assert memory.monitor.alerts() == ()
    away = ["water the plants", "feed the goldfish", "paint the fence", "call grandmother", "fly a kite"]
    for step in ["run the unit test of parse_date"] * 3 if why == "repeats" else away:
        memory.add_step(task.id, step, status="failed" if why == "repeats" else "completed")
    (alarm,) = memory.monitor.alerts()
    assert alarm.name == {"repeats": "failures", "leaves": "drift"}[why]
    assert memory.monitor.drift("s", user_id="ana").drifting
