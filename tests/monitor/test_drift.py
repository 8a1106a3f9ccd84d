"""Goal drift: labelled runs in both languages, and failures that repeat."""

import json
from pathlib import Path
from typing import Any

import pytest

from jiyi.monitor import Step, find_drift

RUNS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("runs.json").read_text("utf-8"))


def runs(part: str, language: str) -> list[dict[str, Any]]:
    return [run for run in RUNS if (run["part"], run["language"]) == (part, language)]


def steps(run: dict[str, Any]) -> list[Step]:
    return [Step(**step) for step in run["steps"]]


def all_ok(*texts: str) -> list[Step]:
    return [Step(text=text) for text in texts]


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("part", ["tuned on", "held out"])
def test_runs_that_drift_are_told_from_those_that_do_not(part, language):
    labelled = runs(part, language)
    assert {run["drifting"] for run in labelled} == {True, False}
    assert len(labelled) >= 6
    found = [find_drift(run["goal"], steps(run)).drifting for run in labelled]
    assert found == [run["drifting"] for run in labelled]


def test_a_step_in_another_language_and_too_little_to_tell_are_no_drift():
    for run in runs("by meaning", "mixed"):
        assert find_drift(run["goal"], steps(run)).drifting is False
    for goal in ("", "  ", "go", "502?"):
        found = find_drift(goal, all_ok("one thing", "other stuff", "more things", "elsewhere", "further"))
        assert not found.drifting
        assert "too few words" in found.why
    assert not find_drift("fix the login page", all_ok("paint", "dance", "sing")).drifting
    assert find_drift("fix the login page", []).failures == 0


def test_the_score_rises_with_each_step_away_and_falls_on_the_way_back():
    goal = "write a unit test for parse_date"
    near = all_ok("open parse_date", "write the unit test for parse_date")
    away = all_ok("water the plants", "feed the goldfish", "paint the fence", "call grandma", "fly a kite")
    back = all_ok("run the unit test for parse_date", "fix parse_date", "run the unit test for parse_date")
    scores = [find_drift(goal, near + away[:n]).score for n in range(len(away) + 1)]
    assert scores == sorted(scores)
    lost, found = find_drift(goal, near + away), find_drift(goal, near + away + back)
    assert lost.drifting
    assert not found.drifting
    assert "fly a kite" in lost.why


def test_a_step_that_follows_from_a_near_one_is_near_and_one_run_has_one_answer():
    goal = "find out why nginx is slow"
    chain = ["read the nginx log", "the log of nginx names upstream billing", "profile upstream billing"]
    linked = find_drift(goal, all_ok(*chain, "upstream billing waits for a lock"))
    assert linked.score < find_drift(goal, all_ok("read the nginx log", *["profile a queue"] * 3)).score
    run = runs("tuned on", "zh")[1]
    assert find_drift(run["goal"], steps(run)) == find_drift(run["goal"], steps(run))


@pytest.mark.parametrize(("failed", "drifting"), [(2, False), (3, True), (5, True)])
def test_the_same_failure_again_and_again(failed, drifting):
    found = find_drift("deploy the shop to staging", [Step(text="deploy shop staging", ok=False)] * failed)
    assert (found.failures, found.drifting) == (failed, drifting)
    if drifting:
        assert f"failed {failed} times: deploy shop staging" in found.why


def test_a_success_clears_the_failures_of_its_action_alone():
    bad, good = Step(text="run pytest tests", ok=False), Step(text="run pytest tests")
    other = Step(text="git push origin main", ok=False)
    goal = "make pytest tests pass and git push"
    assert find_drift(goal, [bad, bad, good, bad]).failures == 1
    assert find_drift(goal, [bad, other, bad, other, good]).failures == 2
    looked = all_ok(*(f"look at pytest tests {n}" for n in range(12)))
    assert find_drift(goal, [bad] * 3 + looked).failures == 0
