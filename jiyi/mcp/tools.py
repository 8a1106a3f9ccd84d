"""The seven tools: verbs of a memory for a model."""

from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, get_args

from pydantic import Field
from typing_extensions import TypedDict

from jiyi.errors import BadQuery
from jiyi.mcp import answers
from jiyi.mcp.caller import Caller, MemoryHost, Right, current_caller
from jiyi.mcp.views import fact_answer, hit_answer
from jiyi.mcp.words import Words

if TYPE_CHECKING:  # loaded when the memory is opened, after the handshake
    from jiyi.long_term import ForgetReceipt

__all__ = ["TOOLS", "ConversationMessage", "Kind", "Limit", "Tools"]

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


class Tools:
    """The tools: each method is one, with its arguments."""

    def __init__(self, host: MemoryHost, words: Words) -> None:
        self._host = host
        self._words = words

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
        scope, memory = current_caller(self._host).scope("read"), self._host.memory
        start = _parse_cursor(cursor)
        dates = {"since": self._with_zone(since), "until": self._with_zone(until)}
        results = memory.search(
            query,
            limit=start + limit + 1,
            session_id=session,
            filters={name: date for name, date in dates.items() if date},
            kinds=kinds or _KINDS,
            **scope,
        )
        page = (hit_answer(hit, query, memory) for hit in results[start:])
        hits, next_cursor = answers.paginate(page, memory.counter.count_text, start=start, limit=limit)
        notes = [*([self._words.note("nothing")] if results.doubtful or not hits else []), *results.notes]
        return answers.Recalled(
            hits=hits, nothing_relevant=results.nothing_relevant, notes=notes, next=next_cursor
        )

    def context(
        self,
        query: str,
        session: str = "mcp",
        budget: Annotated[int, Field(ge=100, le=_MAX_BUDGET)] = _DEFAULT_BUDGET,
    ) -> answers.View:
        """Build what the model should see."""
        scope = current_caller(self._host).scope("read")
        window = self._host.memory.build_context(session, query, budget, **scope)
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
        scope = current_caller(self._host).scope("read")
        facts = self._host.memory.facts(subject, as_of=self._with_zone(as_of), limit=_MAX_ENTRIES, **scope)
        return self._facts_page(facts, limit, cursor)

    def history(
        self, subject: str, predicate: str | None = None, limit: Limit = 50, cursor: str | None = None
    ) -> answers.Facts:
        """List all that was ever known."""
        scope = current_caller(self._host).scope("read")
        return self._facts_page(self._host.memory.history(subject, predicate, **scope), limit, cursor)

    def remember(self, text: str, always: bool = False, speaker: str | None = None) -> answers.Remembered:
        """Keep a text."""
        scope, memory = current_caller(self._host).scope("write"), self._host.memory
        learned = memory.remember(text, pinned=always, speaker=speaker, **scope)
        changed = [fact_answer(fact, memory.counter) for fact in learned.facts if fact.status == "active"]
        facts, _ = answers.paginate(changed, memory.counter.count_text)
        return answers.Remembered(
            id=learned.kept, facts=facts, replaced=list(learned.superseded), notes=list(learned.notes)
        )

    def save_conversation(
        self, session: str, messages: Annotated[list[ConversationMessage], Field(max_length=1_000)]
    ) -> answers.Saved:
        """Save messages, all or none."""
        scope = current_caller(self._host).scope("write")
        saved = self._host.memory.save_messages(session, messages, **scope)
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
        caller, memory = current_caller(self._host), self._host.memory
        selection = {"query": query, "ids": ids, "session_id": session, **caller.scope("forget")}
        plan = memory.forget(**selection, dry_run=True)
        code = _confirmation_code(plan, caller)
        if confirm is None:
            return self._forgetting_answer(
                plan, confirm=code, done=False, notes=[self._words.note("plan" if plan.total else "none")]
            )
        if confirm != code:
            raise BadQuery(self._words.note("changed"))
        with self._host.forget_context():
            receipt = memory.forget(**selection)
        return self._forgetting_answer(receipt, done=True, restore=self._host.restore_hint(receipt.at))

    def _forgetting_answer(self, receipt: "ForgetReceipt", **fields: Any) -> answers.Forgetting:
        listed = receipt.items[:_MAX_ITEMS]
        items = [answers.Gone(id=one.id, kind=one.kind, why=one.why, text=one.text) for one in listed]
        counts = {str(kind): count for kind, count in receipt.counts.items() if count}
        return answers.Forgetting(total=receipt.total, counts=counts, items=items, **fields)

    def _facts_page(self, facts: list[Any], limit: int, cursor: str | None) -> answers.Facts:
        start, counter = _parse_cursor(cursor), self._host.memory.counter
        answered = (fact_answer(fact, counter) for fact in facts[start:])
        page, next_cursor = answers.paginate(answered, counter.count_text, start=start, limit=limit)
        return answers.Facts(facts=page, next=next_cursor)

    def _with_zone(self, moment: datetime | None) -> datetime | None:
        """Return a moment with a zone, by default that of the memory."""
        if moment is None or moment.tzinfo is not None:
            return moment
        return moment.replace(tzinfo=self._host.memory.zone)


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


def _confirmation_code(plan: "ForgetReceipt", caller: Caller) -> str:
    """Return a code for exactly these records of this user."""
    ids = sorted(item.id for item in plan.items)
    return sha256("\n".join([caller.user_id, str(plan.total), *ids]).encode()).hexdigest()[:10]
