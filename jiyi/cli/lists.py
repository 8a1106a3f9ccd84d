"""What the commands show of tasks, episodes, knowledge and facts: a line of facts, then the words."""

from collections.abc import Iterable, Sequence
from datetime import tzinfo

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from jiyi.cli.views import safe, short, when
from jiyi.records import Episode, Fact, Knowledge, Task

__all__ = ["episodes_list", "facts_list", "knowledge_list", "tasks_list"]

_WORDS = 300  # characters of one text
_STYLES = {
    "success": "green",
    "partial": "yellow",
    "failed": "red",
    "in_progress": "cyan",
    "completed": "green",
    "active": "green",
    "unsure": "yellow",
    "superseded": "yellow",
    "retracted": "red",
    "expired": "red",
}


def tasks_list(tasks: Sequence[Task], zone: tzinfo) -> RenderableType:
    """Return tasks, each with its state, its target and, while it lasts, the step in work."""
    return Group(*(_task(task, zone) for task in tasks))


def episodes_list(episodes: Sequence[Episode], zone: tzinfo) -> RenderableType:
    """Return episodes, each with its outcome, how much it matters and how often it was recalled."""
    return Group(*(_episode(episode, zone) for episode in episodes))


def knowledge_list(knowledge: Sequence[Knowledge], zone: tzinfo) -> RenderableType:
    """Return knowledge, each with its confidence, how many episodes it rests on, and its points."""
    return Group(*(_lesson(one, zone) for one in knowledge))


def facts_list(facts: Sequence[Fact], zone: tzinfo) -> RenderableType:
    """Return facts, each with its state, since when and until when it holds, and who said it."""
    return Group(*(_fact(fact, zone) for fact in facts))


def _task(task: Task, zone: tzinfo) -> RenderableType:
    step = task.current_step if task.status == "in_progress" else None
    facts = [_target(task.target), _counted(len(task.steps), "step")]
    more = [f"now: {short(step.description, _WORDS)}"] if step else []
    return _entry((when(task.started_at, zone, "%Z"), task.status), facts, task.request, task.id, more)


def _episode(episode: Episode, zone: tzinfo) -> RenderableType:
    facts = [
        _target(episode.target),
        f"importance {episode.importance:.2f}",
        _recalled(episode.access_count),
        "pinned" * episode.pinned,
        "consolidated" * episode.consolidated,
    ]
    words = f"{episode.trigger_summary} -> {episode.outcome_summary}"
    return _entry((when(episode.created_at, zone, "%Z"), episode.outcome), facts, words, episode.id)


def _lesson(one: Knowledge, zone: tzinfo) -> RenderableType:
    facts = [
        "from " + _counted(len(one.source_episodes), "episode"),
        _recalled(one.access_count),
        "pinned" * one.pinned,
    ]
    points = [f"- {short(point, _WORDS)}" for point in one.key_points]
    words = f"{one.topic}: {one.content}"
    moment = when(one.updated_at, zone, "%Z")
    return _entry((moment, f"confidence {one.confidence:.2f}"), facts, words, one.id, points)


def _fact(fact: Fact, zone: tzinfo) -> RenderableType:
    ends = f"until {when(fact.valid_to, zone)}" if fact.valid_to else ""
    facts = [ends, f"said by {fact.speaker}" if fact.speaker else "", "pinned" * fact.pinned]
    words = fact.line
    begins = when(fact.valid_from or fact.created_at, zone, "%Z")
    return _entry((begins, fact.status), facts, words, fact.id)


def _entry(
    begin: tuple[str, str], facts: Iterable[str], words: str, record_id: str, more: Sequence[str] = ()
) -> RenderableType:
    moment, state = begin
    head = Text.assemble((moment, "dim"), " · ", (state, _STYLES.get(state, "")), overflow="fold")
    for fact in filter(None, facts):
        head.append(f" · {safe(fact)}", "dim")
    body = Text.assemble(short(words, _WORDS), (f"  {safe(record_id)}", "dim"), overflow="fold")
    return Group(head, *(Padding(part, (0, 0, 0, 2)) for part in (body, *map(Text, more))))


def _target(target: str | None) -> str:
    return f"about {short(target, _WORDS)}" if target else ""


def _recalled(times: int) -> str:
    return "recalled " + _counted(times, "time") if times else ""


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + "s" * (number != 1)
