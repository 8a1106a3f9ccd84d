"""The seven tools: verbs of a memory for a model. The resources: conversations, and facts about a subject."""

from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, get_args

from pydantic import Field
from typing_extensions import TypedDict

from jiyi.errors import BadQuery, NotFound
from jiyi.mcp import answers
from jiyi.mcp.caller import Hosted, Right

if TYPE_CHECKING:  # loaded when the memory is opened, after the handshake
    from jiyi.long_term import ForgetReceipt

_MAX_ENTRIES = 1_000  # reachable by cursor
_MAX_ITEMS = 50  # listed of a plan
_DEFAULT_BUDGET = 2_000  # tokens
_MAX_BUDGET = 9_000

Kind = Literal["message", "episode", "knowledge", "fact", "item"]
_KINDS: tuple[Kind, ...] = get_args(Kind)

Limit = Annotated[int, Field(ge=1, le=100)]


class ConversationMessage(TypedDict):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    name: NotRequired[str]
    id: NotRequired[str]
    created_at: NotRequired[str]


class Tools(Hosted):
    """The tools, with their arguments."""

    def recall(  # noqa: PLR0917 - arguments of tools are named
        self,
        query: str,
        limit: Limit = 10,
        kinds: list[Kind] | None = None,
        session: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        cursor: str | None = None,
    ) -> answers.Recalled:
        """Search."""
        start = _parse_cursor(cursor)
        dates = {"since": self._with_zone(since), "until": self._with_zone(until)}
        results = self._memory.search(
            query,
            limit=start + limit + 1,
            session_id=session,
            filters={name: date for name, date in dates.items() if date},
            kinds=kinds or _KINDS,
            **self._scope,
        )
        page = (answers.hit_answer(hit, query, self._memory) for hit in results[start:])
        hits, next_cursor = answers.paginate(page, self._memory.counter.count_text, start=start, limit=limit)
        notes = [*([self._words.notes["nothing"]] if results.doubtful or not hits else []), *results.notes]
        doubt = results.nothing_relevant
        return answers.Recalled(hits=hits, nothing_relevant=doubt, notes=notes, next=next_cursor)

    def context(
        self,
        query: str,
        session: str = "mcp",
        budget: Annotated[int, Field(ge=100, le=_MAX_BUDGET)] = _DEFAULT_BUDGET,
    ) -> answers.View:
        """Build what the model should see."""
        window = self._memory.build_context(session, query, budget, **self._scope)
        report = window.report
        return answers.View(
            text=window.markdown,
            tokens=report.tokens,
            left_out=len(report.left_out),
            nothing_relevant=report.nothing_relevant,
            notes=list(report.notes),
        )

    def facts(
        self,
        subject: str | None = None,
        as_of: datetime | None = None,
        limit: Limit = 50,
        cursor: str | None = None,
    ) -> answers.Facts:
        """List what holds, or held."""
        facts = self._memory.facts(subject, as_of=self._with_zone(as_of), limit=_MAX_ENTRIES, **self._scope)
        return self._facts_page(facts, limit, cursor)

    def history(
        self, subject: str, predicate: str | None = None, limit: Limit = 50, cursor: str | None = None
    ) -> answers.Facts:
        """List all that was ever known."""
        return self._facts_page(self._memory.history(subject, predicate, **self._scope), limit, cursor)

    def remember(self, text: str, always: bool = False, speaker: str | None = None) -> answers.Remembered:
        """Keep a text."""
        learned = self._memory.remember(text, pinned=always, speaker=speaker, **self._scope)
        active = (fact for fact in learned.facts if fact.status == "active")
        changed = (answers.fact_answer(fact, self._memory.counter) for fact in active)
        facts, _ = answers.paginate(changed, self._memory.counter.count_text)
        replaced, notes = list(learned.superseded), list(learned.notes)
        return answers.Remembered(id=learned.kept, facts=facts, replaced=replaced, notes=notes)

    def save_conversation(
        self, session: str, messages: Annotated[list[ConversationMessage], Field(max_length=1_000)]
    ) -> answers.Saved:
        """Save messages, all or none."""
        saved = self._memory.save_messages(session, messages, **self._scope)
        return answers.Saved(session=session, ids=[message.id for message in saved])

    def forget(
        self,
        query: str | None = None,
        ids: list[str] | None = None,
        session: str | None = None,
        confirm: str | None = None,
    ) -> answers.Forgetting:
        """Plan to forget, or with the plan's word do it."""
        if query is None and ids is None and session is None:
            raise BadQuery("say what to forget: query, ids or session")
        selection = {"query": query, "ids": ids, "session_id": session, **self._scope}
        plan = self._memory.forget(**selection, dry_run=True)
        code = _confirmation_code(plan, self._scope["user_id"])
        if confirm is None:
            notes = [self._words.notes["plan" if plan.total else "none"]]
            return _forgetting_answer(plan, confirm=code, done=False, notes=notes)
        if confirm != code:
            raise BadQuery(self._words.notes["changed"])
        with self._host.forget_context():
            receipt = self._memory.forget(**selection)
        return _forgetting_answer(receipt, done=True, restore=self._host.restore_hint(receipt.at))

    def _facts_page(self, facts: list[Any], limit: int, cursor: str | None) -> answers.Facts:
        start, counter = _parse_cursor(cursor), self._memory.counter
        answered = (answers.fact_answer(fact, counter) for fact in facts[start:])
        page, next_cursor = answers.paginate(answered, counter.count_text, start=start, limit=limit)
        return answers.Facts(facts=page, next=next_cursor)

    def _with_zone(self, moment: datetime | None) -> datetime | None:
        """Return a moment with a zone, by default that of the memory."""
        return moment and moment.replace(tzinfo=moment.tzinfo or self._memory.zone)


TOOLS: dict[str, Right] = {  # in the order of listing
    "recall": "read",
    "remember": "write",
    "context": "read",
    "facts": "read",
    "history": "read",
    "save_conversation": "write",
    "forget": "forget",
}


def _parse_cursor(cursor: str | None) -> int:
    """Return the number of entries before a cursor."""
    if cursor is None:
        return 0
    if not cursor.isdecimal() or not cursor.isascii() or len(cursor) > 4 or int(cursor) >= _MAX_ENTRIES:
        raise BadQuery(f"{cursor[:40]!r} is no cursor; take the one in `next`, or leave it out")
    return int(cursor)


def _forgetting_answer(receipt: "ForgetReceipt", **fields: Any) -> answers.Forgetting:
    items: Any = receipt.items[:_MAX_ITEMS]
    counts = {str(kind): count for kind, count in receipt.counts.items() if count}
    return answers.Forgetting(total=receipt.total, counts=counts, items=items, **fields)


def _confirmation_code(plan: "ForgetReceipt", user_id: str) -> str:
    """Return a code for exactly these records of this user."""
    ids = sorted(item.id for item in plan.items)
    return sha256("\n".join([user_id, str(plan.total), *ids]).encode()).hexdigest()[:10]


_MAX_SESSIONS = 100
_MAX_MESSAGES = 500  # read of a conversation
_MAX_FACTS = 200


class Resources(Hosted):
    """The resources, in Markdown; the arguments are parts of the URI."""

    def sessions(self) -> str:
        """List the newest conversations."""
        lines = [
            f"- {session.id}: {session.messages} {self._words.notes['messages']}, "
            f"{session.last_active_at.astimezone(self._memory.zone):%Y-%m-%d %H:%M}"
            for session in self._memory.sessions(_MAX_SESSIONS, **self._scope)
        ]
        return "\n".join([f"# {self._words.titles['sessions']}", "", *lines])

    def session(self, id: str) -> str:
        """Show one conversation."""
        messages = self._memory.session_messages(id, limit=_MAX_MESSAGES, **self._scope)
        if not messages:
            raise NotFound(self._words.notes["no_session"])
        parts = [f"# {self._words.notes['session']} {id}"]
        if summary := self._memory.summary(id, **self._scope):
            parts.append(f"## {self._words.notes['summary']}\n\n{summary.text}")
        lines, older = answers.message_lines(messages, self._memory)
        if older or len(messages) == _MAX_MESSAGES:
            totals = {session.id: session.messages for session in self._memory.sessions(**self._scope)}
            count = totals.get(id, len(messages)) - len(lines)
            lines.insert(0, self._words.notes["older"].format(count=count))
        return "\n\n".join([*parts, *lines])

    def facts_of(self, subject: str) -> str:
        """List the facts about a subject."""
        counter = self._memory.counter
        facts = self._memory.facts(subject, limit=_MAX_FACTS, **self._scope)
        shown = [answers.fact_answer(fact, counter) for fact in facts]
        lines = [f"- {fact.subject} · {fact.predicate}: {fact.object}" for fact in shown]
        return counter.truncate("\n".join([f"# {subject}", "", *lines]), 9_000)
