"""Arbitrary conversations, and judges of what came of them that share no code with jiyi."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from jiyi.context import arrange
from jiyi.records import Message, ToolCall

TEXTS = (
    "nginx 又 502 了，重启之后还是不行",
    "restart it please",
    "好",
    "The upstream timed out after 60 s; raising proxy_read_timeout helped last time.",
    "",
)
PARTS = (
    {"type": "text", "text": "看这张图"},
    {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
)
CALL_IDS = ("call_1", "call_2", "call_3")


def user(text="hi", **fields):
    return Message(role="user", content=text, **fields)


def assistant(text="yes", **fields):
    return Message(role="assistant", content=text, **fields)


def system(text="be brief", **fields):
    return Message(role="system", content=text, **fields)


def calls(*ids, **fields):
    made = tuple(ToolCall(id=i, name="shell", arguments='{"cmd": "docker ps"}') for i in ids)
    return Message(role="assistant", tool_calls=made, **fields)


def result(call_id, text="ok", **fields):
    return Message(role="tool", tool_call_id=call_id, content=text, **fields)


def materials_of(talk, question=None, **parts):
    """What a window is built from: a conversation arranged around its question, and more."""
    return replace(arrange(talk, question), **parts)


@st.composite
def conversations(draw, max_size=30, pins=True, late=True):
    """Turns, calls, results, orphans, reused ids, system messages and pins in any order.

    Without ``late`` no result comes after the user message that follows its call.
    """
    kinds = ("user", "assistant", "system", "call", "call", "answer", "answer", "answer", "stray")
    weighted = draw(st.lists(st.sampled_from(kinds), max_size=max_size))
    messages: list[Message] = []
    waiting: list[str] = []
    for number, kind in enumerate(weighted):
        fields = {"id": f"m{number}", "pinned": pins and draw(st.integers(0, 9)) == 0}
        content = draw(st.sampled_from((*TEXTS, PARTS)))
        if kind == "call":
            ids = draw(st.lists(st.sampled_from(CALL_IDS), min_size=1, max_size=3))
            waiting += ids
            messages.append(calls(*ids, **fields))
        elif kind == "answer" and waiting:
            messages.append(result(waiting.pop(draw(st.integers(0, len(waiting) - 1))), content, **fields))
        elif kind in ("answer", "stray"):
            stray = draw(st.sampled_from((*CALL_IDS, "call_9"))) if late else "call_9"
            messages.append(result(stray, content, **fields))
        else:
            if kind == "user" and not late:
                waiting.clear()
            messages.append(Message(role=kind, content=content, **fields))
    return messages


def unanswerable(messages: Sequence[Message]) -> str | None:
    """Say what a Chat Completions server would refuse: a result no call asked for, a call left open."""
    asked: Counter[str] = Counter()
    for message in messages:
        if message.role == "tool":
            if asked[message.tool_call_id] < 1:
                return f"{message.id}: result without call"
            asked[message.tool_call_id] -= 1
        asked.update(call.id for call in message.tool_calls)
    return f"left open: {+asked}" if +asked else None


def partners(messages: Sequence[Message]) -> dict[int, set[int] | None]:
    """By place: the places that stay or leave with it, None where it is broken. Slow and plain."""
    answers: dict[tuple[int, int], int] = {}
    for place, message in enumerate(messages):
        if message.role != "tool":
            continue
        for back in range(place - 1, -1, -1):
            slots = [
                n
                for n, call in enumerate(messages[back].tool_calls)
                if call.id == message.tool_call_id and (back, n) not in answers
            ]
            if slots:
                answers[back, slots[0]] = place
                break
    groups: dict[int, set[int] | None] = {}
    for place, message in enumerate(messages):
        if message.role == "tool":
            groups.setdefault(place, None)
            continue
        got = {answers[place, n] for n in range(len(message.tool_calls)) if (place, n) in answers}
        group = {place, *got} if len(got) == len(message.tool_calls) else None
        for member in {place, *got}:
            groups[member] = group
    return groups


def must_stay(messages: Sequence[Message]) -> list[Message]:
    """System and pinned messages with all that belongs to them; broken ones have no claim."""
    groups = partners(messages)
    stay: set[int] = set()
    for place, message in enumerate(messages):
        if message.role == "system" or message.pinned:
            stay |= groups[place] or set()
    return [messages[i] for i in sorted(stay)]


def check(messages: Sequence[Message], decision) -> None:
    """What every policy promises, for any conversation."""
    kept_ids, dropped_ids = [m.id for m in decision.kept], [d.message.id for d in decision.dropped]
    order = {m.id: i for i, m in enumerate(messages)}
    assert unanswerable(decision.kept) is None
    assert sorted(kept_ids + dropped_ids) == sorted(order)
    for ids in (kept_ids, dropped_ids):
        assert ids == sorted(ids, key=order.__getitem__)
    by_id = {m.id: m for m in messages}
    assert all(by_id[m.id] is m for m in (*decision.kept, *(d.message for d in decision.dropped)))
    assert {m.id for m in must_stay(messages)} <= set(kept_ids)
    assert all(d.reason for d in decision.dropped)
    for place, group in partners(messages).items():
        kept = messages[place].id in kept_ids
        assert not (kept and group is None)
        assert group is None or all((messages[i].id in kept_ids) == kept for i in group)
