"""Writing a memory as Markdown for people to read: messages by session, then the other kinds."""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from itertools import islice
from pathlib import Path
from typing import Any, Literal, cast

from jiyi.prompts import Language, wording
from jiyi.records import Episode, Fact, Item, Kind, Knowledge, Message, Query, Scope, Step, Summary, Task
from jiyi.storage.store import Store, all_messages, all_records, all_sessions
from jiyi.storage.transfer.export import ExportReceipt, write_export
from jiyi.text import first_words
from jiyi.text import language as language_of

__all__ = ["export_markdown"]

_BATCH_SIZE = 1_000  # records read at once
_LANGUAGE_SAMPLE = 50  # messages that determine the language
_MAX_LINE_CHARS = 120  # of a heading


def export_markdown(
    store: Store,
    scope: Scope,
    path: Path,
    *,
    language: Literal["auto", "zh", "en"] = "auto",
    zone: tzinfo = UTC,
    progress: Callable[[int], None] | None = None,
) -> ExportReceipt:
    """Write the records of a scope as Markdown, which cannot be imported again; otherwise as `export_lines`.

    Conversations come by their start, then current summaries, tasks, episodes, knowledge, facts and
    items. Messages are quoted, so that nothing in them becomes a heading or a list. ``language`` is that
    of the headings, "auto" that of the oldest messages; dates are in ``zone``.
    """
    writer = _Writer(store, scope, zone, _language(store, scope, language))
    pieces = ((kind, _encode(text)) for kind, text in writer.pieces())
    title = _encode(f"# {_line(writer.words['title'].format(scope.user_id))}\n")
    return write_export(path, pieces, header=lambda _: title, progress=progress)


def _language(store: Store, scope: Scope, wanted: str) -> Language:
    if wanted == "auto":
        query = Query(scope=scope, kinds=("message",), limit=_LANGUAGE_SAMPLE)
        oldest = islice(all_records(store, query), _LANGUAGE_SAMPLE)
        wanted = language_of("\n".join(cast("Message", message).text for message in oldest))
    return "zh" if wanted == "zh" else "en"


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


class _Writer:
    def __init__(self, store: Store, scope: Scope, zone: tzinfo, language: Language) -> None:
        self._store, self._scope, self._zone = store, scope, zone
        self._states = wording("state", language)
        self.words = wording("export", language)

    def pieces(self) -> Iterator[tuple[Kind | None, str]]:
        """Yield the text in pieces, each with the kind of its record."""
        yield from self._conversations()
        formats: Mapping[Kind, Callable[[Any], str]] = {
            "summary": self._summary,
            "task": self._task,
            "episode": self._episode,
            "knowledge": self._knowledge,
            "fact": self._fact,
            "item": self._item,
        }
        for kind, format_ in formats.items():
            for place, record in enumerate(self._records(kind)):
                if place == 0:
                    yield None, f"\n## {self.words[kind]}\n" + ("\n" if kind == "fact" else "")
                yield kind, format_(record)

    def _records(self, kind: Kind) -> Iterator[Any]:
        query = Query(scope=self._scope, kinds=(kind,), limit=_BATCH_SIZE)
        records: Iterator[Any] = all_records(self._store, query)
        return filter(self._is_current, records) if kind == "summary" else records

    def _is_current(self, summary: Summary) -> bool:
        """Return whether a summary is the newest of its session and agent."""
        query = Query(scope=summary.scope, kinds=("summary",), newest_first=True, limit=1)
        return self._store.find(query) == [summary]

    def _conversations(self) -> Iterator[tuple[Kind | None, str]]:
        sessions = all_sessions(self._store, self._scope)
        if sessions:
            yield None, f"\n## {self.words['message']}\n"
        for session_id, started in sorted(sessions.items(), key=lambda item: (item[1], item[0])):
            yield None, f"\n### {_line(session_id)} ({self._date(started)})\n"
            for message in all_messages(self._store, self._scope.in_session(session_id), _BATCH_SIZE):
                yield "message", self._message(message)

    def _message(self, message: Message) -> str:
        who = f"{message.role} ({_line(message.name)})" if message.name else message.role
        notes = [self._date(message.created_at)] if message.created_at else []
        notes += [self.words["pinned"]] if message.pinned else []
        notes += [f"{self.words['answers']} {_code(message.tool_call_id)}"] if message.tool_call_id else []
        said = [message.text] if message.text else []
        calls = self.words["calls"]
        said += [f"{calls} {_code(c.name)} {_code(c.arguments)} ({_code(c.id)})" for c in message.tool_calls]
        if message.content is not None and not isinstance(message.content, str):
            other = [str(part["type"]) for part in message.content if part["type"] not in ("text", "refusal")]
            said += [self.words["more"].format(", ".join(map(_line, other)))] if other else []
        return f"\n**{who}** · {' · '.join(notes)}\n\n{_quote(said)}"

    def _summary(self, summary: Summary) -> str:
        agent = summary.scope.agent_id
        notes = [self._date(summary.created_at)] if summary.created_at else []
        notes += [self.words["agent"].format(_line(agent))] if agent else []
        title = f"{_line(summary.scope.session_id or '')} ({', '.join(notes)})"
        return f"\n### {title}\n\n{_quote([summary.text])}"

    def _task(self, task: Task) -> str:
        notes = [self._states[task.outcome or task.status], self._date(task.started_at)]
        return self._task_section(task, task.request, notes, task.summary)

    def _episode(self, episode: Episode) -> str:
        notes = [self._states[episode.outcome], self._date(episode.created_at)]
        notes += [self.words["pinned"]] if episode.pinned else []
        return self._task_section(episode, episode.trigger_summary, notes, episode.outcome_summary)

    def _task_section(self, record: Task | Episode, title: str, notes: list[str], outcome: str | None) -> str:
        text = f"\n### {_line(title)} ({', '.join(notes)})\n\n"
        text += f"- {self.words['target']}: {_line(record.target)}\n" if record.target else ""
        text += f"- {self.words['tags']}: {_line(', '.join(record.tags))}\n" if record.tags else ""
        text += f"- {self.words['outcome']}:\n\n{_indent(_quote([outcome]))}" if outcome else ""
        return text + self._steps(record.steps)

    def _knowledge(self, known: Knowledge) -> str:
        notes = [*([self.words["pinned"]] if known.pinned else []), *_metadata_notes(known)]
        noted = f" ({', '.join(notes)})" if notes else ""
        told = self.words["sources"].format(len(known.source_episodes), known.confidence)
        points = "".join(f"- {_line(point)}\n" for point in known.key_points)
        return f"\n### {_line(known.topic)}{noted}\n\n{_quote([known.content])}\n{points}\n{told}\n"

    def _fact(self, fact: Fact) -> str:
        notes = [self._states[fact.status], self._date(fact.created_at)]
        notes += [self.words["said"].format(_line(fact.speaker))] if fact.speaker else []
        notes += [self.words["from"].format(self._date(fact.valid_from))] if fact.valid_from else []
        notes += [self.words["until"].format(self._date(fact.valid_to))] if fact.valid_to else []
        notes += [self.words["pinned"]] if fact.pinned else []
        notes += _metadata_notes(fact)
        said = " · ".join(_line(part) for part in (fact.subject, fact.predicate, fact.object))
        return f"- {said} ({', '.join(notes)})\n"

    def _item(self, item: Item) -> str:
        notes = [self._date(item.updated_at), *([self.words["pinned"]] if item.pinned else [])]
        notes += [self.words["until"].format(self._date(item.expires_at))] if item.expires_at else []
        value = json.dumps(dict(item.value), ensure_ascii=False, indent=2)
        return f"\n### {_line(item.path)} ({', '.join(notes)})\n\n{_quote([value])}"

    def _steps(self, steps: tuple[Step, ...]) -> str:
        if not steps:
            return ""
        lines = [f"- {self.words['steps']}:\n\n"]
        for number, step in enumerate(steps, 1):
            tool = f" {_code(step.tool_name)}" if step.tool_name else ""
            lines.append(f"  {number}. {_line(step.description)}{tool} ({self._states[step.status]})\n")
            if step.result:
                lines.append("\n" + _indent(_quote([step.result]), "     ") + "\n")
        return "".join(lines)

    def _date(self, moment: datetime) -> str:
        try:
            return moment.astimezone(self._zone).isoformat(" ", "minutes")[:16]
        except OverflowError:  # the first and last hours of the calendar
            return moment.isoformat(" ", "minutes")[:16]


def _line(text: str) -> str:
    """Return a text in one line with Markdown escaped."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>#|" else c for c in first_words(text, _MAX_LINE_CHARS))


def _metadata_notes(record: Fact | Knowledge) -> list[str]:
    return [_code(json.dumps(record.metadata, ensure_ascii=False))] if record.metadata else []


def _code(text: str) -> str:
    words = " ".join(text.split()).replace("`", "'")
    return f"`{words}`" if words else ""


def _quote(said: list[str]) -> str:
    return "".join(f"> {line}\n" if line else ">\n" for text in said for line in text.splitlines() or [""])


def _indent(text: str, by: str = "  ") -> str:
    return "".join(f"{by}{line}\n" for line in text.splitlines())
