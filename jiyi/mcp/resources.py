"""Resources of the protocol: conversations, and facts about a subject."""

from jiyi.errors import NotFound
from jiyi.mcp.answers import fact_answer, message_lines
from jiyi.mcp.caller import Hosted

__all__ = ["Resources"]

_MAX_SESSIONS = 100
_MAX_MESSAGES = 500  # read of a conversation
_MAX_FACTS = 200


class Resources(Hosted):
    """Resources in Markdown: each method is one, and its arguments are parts of the URI."""

    def sessions(self) -> str:
        """List the newest conversations."""
        scope, memory = self._open("read")
        lines = [
            f"- {session.id}: {session.messages} {self._words.notes['messages']}, "
            f"{session.last_active_at.astimezone(memory.zone):%Y-%m-%d %H:%M}"
            for session in memory.sessions(_MAX_SESSIONS, **scope)
        ]
        return "\n".join([f"# {self._words.titles['sessions']}", "", *lines])

    def session(self, id: str) -> str:
        """Show one conversation."""
        scope, memory = self._open("read")
        messages = memory.session_messages(id, limit=_MAX_MESSAGES, **scope)
        if not messages:
            raise NotFound(self._words.notes["no_session"])
        parts = [f"# {self._words.notes['session']} {id}"]
        if summary := memory.summary(id, **scope):
            parts.append(f"## {self._words.notes['summary']}\n\n{summary.text}")
        lines, older = message_lines(messages, memory)
        if older or len(messages) == _MAX_MESSAGES:
            totals = {session.id: session.messages for session in memory.sessions(**scope)}
            count = totals.get(id, len(messages)) - len(lines)
            lines.insert(0, self._words.notes["older"].format(count=count))
        return "\n\n".join([*parts, *lines])

    def facts_of(self, subject: str) -> str:
        """List the facts about a subject."""
        scope, memory = self._open("read")
        facts = [fact_answer(f, memory.counter) for f in memory.facts(subject, limit=_MAX_FACTS, **scope)]
        lines = [f"- {fact.subject} · {fact.predicate}: {fact.object}" for fact in facts]
        return memory.counter.truncate("\n".join([f"# {subject}", "", *lines]), 9_000)
