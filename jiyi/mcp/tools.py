"""The seven tools over the verbs of a memory."""

from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, get_args

from pydantic import Field
from typing_extensions import TypedDict

from jiyi.errors import BadQuery
from jiyi.mcp import answers
from jiyi.mcp.caller import Caller, House, Right, calling
from jiyi.mcp.views import fact_of, hit_of
from jiyi.mcp.words import Words

if TYPE_CHECKING:  # loaded when the memory is opened, after the handshake
    from jiyi.long_term import ForgetReceipt

__all__ = ["TOOLS", "Kind", "Limit", "Said", "Tools"]

_MOST = 1_000  # entries that can be paged through
_GONE = 50  # records of a plan that are named
_BUDGET = 2_000  # tokens of a view
_MOST_BUDGET = 9_000

Kind = Literal["message", "episode", "knowledge", "fact", "item"]
_KINDS: tuple[Kind, ...] = get_args(Kind)

Limit = Annotated[int, Field(ge=1, le=100)]


class Said(TypedDict):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    name: NotRequired[str]
    id: NotRequired[str]
    created_at: NotRequired[str]


class Tools:
    """What a model can do with a memory; each method is a tool, and its arguments are the tool's."""

    def __init__(self, house: House, words: Words) -> None:
        self._house = house
        self._words = words

    def recall(  # noqa: PLR0917 - the tool's arguments, which go by name
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
        whose, memory = calling(self._house).scope("read"), self._house.memory
        start = _place(cursor)
        dates = {"since": self._dated(since), "until": self._dated(until)}
        found = memory.search(
            query,
            limit=start + limit + 1,
            session_id=session,
            filters={name: date for name, date in dates.items() if date},
            kinds=kinds or _KINDS,
            **whose,
        )
        page = (hit_of(hit, query, memory) for hit in found[start:])
        hits, following = answers.fitted(page, memory.counter.count_text, start=start, limit=limit)
        notes = [*([self._words.note("nothing")] if found.doubtful or not hits else []), *found.notes]
        return answers.Recalled(
            hits=hits, nothing_relevant=found.nothing_relevant, notes=notes, next=following
        )

    def context(
        self,
        query: str,
        session: str = "mcp",
        budget: Annotated[int, Field(ge=100, le=_MOST_BUDGET)] = _BUDGET,
    ) -> answers.View:
        """Build what the model should see."""
        whose = calling(self._house).scope("read")
        window = self._house.memory.build_context(session, query, budget, **whose)
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
        whose = calling(self._house).scope("read")
        found = self._house.memory.facts(subject, as_of=self._dated(as_of), limit=_MOST, **whose)
        return self._page(found, limit, cursor)

    def history(
        self,
        subject: str,
        predicate: str | None = None,
        limit: Limit = 50,
        cursor: str | None = None,
    ) -> answers.Facts:
        """List all that was ever known."""
        whose = calling(self._house).scope("read")
        return self._page(self._house.memory.history(subject, predicate, **whose), limit, cursor)

    def remember(self, text: str, always: bool = False, speaker: str | None = None) -> answers.Remembered:
        """Keep a text."""
        whose, memory = calling(self._house).scope("write"), self._house.memory
        learned = memory.remember(text, pinned=always, speaker=speaker, **whose)
        changed = [fact_of(fact, memory.counter) for fact in learned.facts if fact.status == "active"]
        facts, _ = answers.fitted(changed, memory.counter.count_text)
        return answers.Remembered(
            id=learned.kept, facts=facts, replaced=list(learned.superseded), notes=list(learned.notes)
        )

    def save_conversation(
        self, session: str, messages: Annotated[list[Said], Field(max_length=1_000)]
    ) -> answers.Saved:
        """Save messages, all or none."""
        whose = calling(self._house).scope("write")
        saved = self._house.memory.save_messages(session, messages, **whose)
        return answers.Saved(session=session, ids=[message.id for message in saved])

    def forget(
        self,
        query: str | None = None,
        ids: list[str] | None = None,
        session: str | None = None,
        confirm: str | None = None,
    ) -> answers.Forgetting:
        """Plan to forget, or with the plan's word do it."""
        caller, memory = calling(self._house), self._house.memory
        what = {"query": query, "ids": ids, "session_id": session, **caller.scope("forget")}
        plan = memory.forget(**what, dry_run=True)
        word = _word_of(plan, caller)
        if confirm is None:
            return self._told(
                plan, confirm=word, done=False, notes=[self._words.note("plan" if plan.total else "none")]
            )
        if confirm != word:
            raise BadQuery(self._words.note("changed"))
        with self._house.forgetting():
            receipt = memory.forget(**what)
        return self._told(receipt, done=True, restore=self._house.restoring(receipt.at))

    def _told(self, receipt: "ForgetReceipt", **more: Any) -> answers.Forgetting:
        items = [
            answers.Gone(id=item.id, kind=item.kind, why=item.why, text=item.text)
            for item in receipt.items[:_GONE]
        ]
        counts = {str(kind): count for kind, count in receipt.counts.items() if count}
        return answers.Forgetting(total=receipt.total, counts=counts, items=items, **more)

    def _page(self, found: list[Any], limit: int, cursor: str | None) -> answers.Facts:
        start, counter = _place(cursor), self._house.memory.counter
        page = (fact_of(fact, counter) for fact in found[start:])
        shown, following = answers.fitted(page, counter.count_text, start=start, limit=limit)
        return answers.Facts(facts=shown, next=following)

    def _dated(self, moment: datetime | None) -> datetime | None:
        """Return a moment with a zone: the memory's own where the model named none."""
        if moment is None or moment.tzinfo is not None:
            return moment
        return moment.replace(tzinfo=self._house.memory.zone)


TOOLS: dict[str, Right] = {  # in the order they are listed, with what each does
    "recall": "read",
    "remember": "write",
    "context": "read",
    "facts": "read",
    "history": "read",
    "save_conversation": "write",
    "forget": "forget",
}


def _place(cursor: str | None) -> int:
    """Return how many entries came before."""
    if cursor is None:
        return 0
    if not cursor.isdecimal() or not cursor.isascii() or len(cursor) > 4 or int(cursor) >= _MOST:
        raise BadQuery(f"{cursor[:40]!r} is no cursor; take the one in `next`, or leave it out")
    return int(cursor)


def _word_of(plan: "ForgetReceipt", caller: Caller) -> str:
    """Return the word that stands for just these records of this user."""
    ids = sorted(item.id for item in plan.items)
    return sha256("\n".join([caller.user_id, str(plan.total), *ids]).encode()).hexdigest()[:10]
