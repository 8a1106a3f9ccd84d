"""The loop on a real model of this machine: small as it is, the loop lives through whatever it says."""

import pytest

import jiyi
from jiyi.agent import Agent, Limits, action


@pytest.fixture
def llm(local_llm, llm_at):
    return llm_at(local_llm, "smollm2", timeout=120, retries=4, time_limit=240)


@action
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@pytest.mark.slow
def test_three_questions_in_one_session(llm, memory):
    budget = jiyi.Budget(max_input_tokens=1_500, max_output_tokens=40)
    limits, goal = Limits(max_steps=3), "Answer in one short sentence"
    agent = Agent(goal, [weather], memory, llm=llm, budget=budget, limits=limits)
    questions = ("My dog is called Bello.", "What is my dog called?", "杭州天气怎么样？")
    for number, question in enumerate(questions, 1):
        pieces: list[str] = []
        run = agent.run(question, "s", pieces.append)
        assert run.stopped in ("done", "max_steps", "failed"), run.reason
        assert run.model_calls >= 1
        assert run.input_tokens > 50  # the system prompt and the question alone
        if run.stopped == "done":
            assert run.answer.strip()
            assert memory.session_messages("s")[-1].content == run.answer
        assert [m.role for m in memory.session_messages("s")].count("user") == number
        assert memory.current_task("s") is None
        assert run.window is not None
        assert run.window.report.tokens <= 1_500
