"""What endpoints counted, and nothing that is no count."""

from types import SimpleNamespace

import pytest
from tables import literals, read_tables

from jiyi.errors import InputError
from jiyi.monitor import ContextMonitor, Usage, prometheus_text

FULL = Usage(prompt_tokens=100, completion_tokens=9, cached_tokens=64)
CHAT = {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 64}}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (FULL, FULL),
        (CHAT, FULL),
        (SimpleNamespace(**CHAT | {"prompt_tokens_details": SimpleNamespace(cached_tokens=64)}), FULL),
        ({"completion_tokens": 9, "prompt_tokens_details": None}, Usage(completion_tokens=9)),
    ],
)
def test_an_object_and_a_dict_are_understood(given, meant):
    assert Usage.of(given) == meant


def test_the_object_of_the_package_openai_is_understood():
    assert Usage.of(pytest.importorskip("openai.types").CompletionUsage(**CHAT, total_tokens=109)) == FULL


@pytest.mark.parametrize("given", literals(read_tables(__file__)["what is no usage"]))
def test_what_is_no_usage_is_refused_and_nothing_is_noted(given):
    monitor = ContextMonitor()
    with pytest.raises(InputError):
        monitor.reply("s", "x", usage=given)
    assert monitor.gauges().replies == 0


def test_what_was_counted_is_in_the_figures_and_the_export():
    monitor = ContextMonitor()
    monitor.reply("s", "one", usage=CHAT)
    monitor.reply("s", "two", usage={"prompt_tokens": 50, "completion_tokens": 1})
    found = monitor.gauges()
    assert (found.prompt_tokens.total, found.cached_tokens, found.cached_share.mean) == (150, 64, 0.64)
    assert found.output_tokens.total == 10
    assert 'jiyi_cached_tokens_total{task_type=""} 64' in prometheus_text(monitor)
    assert 'jiyi_prompt_tokens_sum{task_type=""} 150' in prometheus_text(monitor)


def test_a_reply_that_is_handed_over_and_saved_counts_once():
    monitor = ContextMonitor()
    for one in (CHAT, None):
        monitor.reply("s", "the port is 9443, and the host is app-03 in rack 12 of the hall", usage=one)
    monitor.reply("s", "", usage={"completion_tokens": 5})
    monitor.reply("s", "", usage={"completion_tokens": 5})
    found = monitor.gauges()
    assert (found.replies, found.output_tokens.total, found.prompt_tokens.count) == (3, 19, 1)
    assert found.output_tokens.largest == 9


def test_users_with_the_same_session_id_are_apart():
    monitor = ContextMonitor(user_id="ana")
    for _ in range(3):
        monitor.step("s", "deploy", ok=False)
    monitor.step("s", "deploy", user_id="bo")
    (alert,) = monitor.alerts()
    assert (alert.user_id, alert.session_id) == ("ana", "s")
    mine, theirs = monitor.drift("s"), monitor.drift("s", user_id="bo")
    assert mine is not None
    assert theirs is not None
    assert (mine.drifting, theirs.drifting) == (True, False)
