"""What can be read of the memory without a tool: conversations, and facts about something."""

from jiyi.errors import NotFound
from jiyi.mcp.caller import House, calling
from jiyi.mcp.views import fact_of, lines_of
from jiyi.mcp.words import Words

__all__ = ["Resources"]

_SESSIONS = 100
_MESSAGES = 500  # of a conversation that are looked at
_FACTS = 200


class Resources:
    """Texts in Markdown; each method is a resource, and its arguments are parts of the URI."""

    def __init__(self, house: House, words: Words) -> None:
        self._house = house
        self._words = words

    def sessions(self) -> str:
        """List the newest conversations."""
        whose, memory = calling(self._house).scope("read"), self._house.memory
        lines = [
            f"- {session.id}: {session.messages} {self._words.note('messages')}, "
            f"{session.last_active_at.astimezone(memory.zone):%Y-%m-%d %H:%M}"
            for session in memory.sessions(_SESSIONS, **whose)
        ]
        return "\n".join([f"# {self._words.title('sessions')}", "", *lines])

    def session(self, id: str) -> str:
        """Show one conversation."""
        whose, memory = calling(self._house).scope("read"), self._house.memory
        messages = memory.session_messages(id, limit=_MESSAGES, **whose)
        if not messages:
            raise NotFound(self._words.note("no_session"))
        parts = [f"# {self._words.note('session')} {id}"]
        if summary := memory.summary(id, **whose):
            parts.append(f"## {self._words.note('summary')}\n\n{summary.text}")
        lines, older = lines_of(messages, memory)
        if older or len(messages) == _MESSAGES:
            total = next((one.messages for one in memory.sessions(**whose) if one.id == id), len(messages))
            lines.insert(0, self._words.note("older", count=total - len(lines)))
        return "\n\n".join([*parts, *lines])

    def facts_of(self, subject: str) -> str:
        """List what is known of something."""
        whose, memory = calling(self._house).scope("read"), self._house.memory
        facts = [fact_of(fact, memory.counter) for fact in memory.facts(subject, limit=_FACTS, **whose)]
        lines = [f"- {fact.subject} · {fact.predicate}: {fact.object}" for fact in facts]
        return memory.counter.truncate("\n".join([f"# {subject}", "", *lines]), 9_000)
