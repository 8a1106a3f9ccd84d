"""Queries to the memory, and their results."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args, overload

from jiyi.errors import BadQuery
from jiyi.records.checks import check_choice, explain_type_errors, set_utc
from jiyi.records.experience import Episode, Knowledge, Step, Task, TaskStatus
from jiyi.records.fact import Fact, FactStatus
from jiyi.records.filters import Condition, Filter, Junction, read_filter
from jiyi.records.item import Item, check_labels
from jiyi.records.message import Message, Role
from jiyi.records.session import Scope, Session, Summary

__all__ = [
    "DOUBT", "FORGETTABLE", "MAX_LIMIT", "SEARCHABLE", "Hit", "Hits", "Kind", "Listing", "Match", "Query",
    "Record", "Searchable", "check_limit",
]  # fmt: skip

_T = TypeVar("_T")


class Listing(list[_T]):
    """A page of records; ``next`` is the ``after`` of the next page of the same verb, None on the last."""

    __slots__ = ("next",)

    def __init__(self, records: Iterable[_T] = (), next: str | None = None) -> None:
        super().__init__(records)
        self.next = next

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Tell pydantic its JSON form: ``{"items": [...], "next": ...}``."""
        from pydantic_core import core_schema

        (entry,) = get_args(source) or (Any,)
        fields = {
            "items": core_schema.typed_dict_field(core_schema.list_schema(handler.generate_schema(entry))),
            "next": core_schema.typed_dict_field(
                core_schema.nullable_schema(core_schema.str_schema()), required=False
            ),
        }
        form = core_schema.typed_dict_schema(fields)
        return core_schema.no_info_after_validator_function(
            lambda parsed: cls(parsed["items"], parsed.get("next")),
            form,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda listing: {"items": list(listing), "next": listing.next}, return_schema=form
            ),
        )


Kind = Literal["message", "episode", "knowledge", "fact", "item", "task", "step", "session", "summary"]
"""The kinds of records; `SEARCHABLE` are those that text and vectors find."""

Searchable = Message | Episode | Knowledge | Fact | Item
Record = Searchable | Task | Step | Session | Summary
SEARCHABLE: tuple[Kind, ...] = ("message", "episode", "knowledge", "fact", "item")
FORGETTABLE: tuple[Kind, ...] = (*SEARCHABLE, "task")
"""The kinds that can be forgotten one by one; steps go with their task, sessions with their messages."""

DOUBT = 0.5
"""The probability that nothing is relevant above which the reader of the hits is told so."""

MAX_LIMIT = 10_000
"""The most records that a query may return."""

_KINDS, _ROLES, _STATUSES = get_args(Kind), get_args(Role), get_args(FactStatus)
_FIELD_FILTERS = ("role", "since", "until", "pinned")  # filters that are fields of a query, too
_DATETIME_FIELDS = ("since", "until", "asked_at", "as_of", "there_at")


@explain_type_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to find, and in whose memory; `BadQuery` or `NaiveDatetime` for impossible values.

    Every field narrows the result unless left at its default. Lists are in order of age, oldest first unless
    ``newest_first``; searches are best first.
    """

    scope: Scope  # whose memory, never optional
    kinds: tuple[Kind, ...] = SEARCHABLE  # which records
    text: str = ""  # words to search for
    ids: tuple[str, ...] | None = None  # only these ids
    without: tuple[str, ...] = ()  # not these ids, such as that of the message with the question
    roles: tuple[Role, ...] | None = None  # only messages of these roles
    since: datetime | None = None  # created at or after
    until: datetime | None = None  # created before
    pinned: bool | None = None  # only pinned, or only unpinned
    where: Filter | None = None  # only records that match; see `read_filter`
    task_id: str | None = None  # steps of this task, the episode of this task
    status: TaskStatus | None = None  # tasks in this state
    target: str | None = None  # episodes about this, under any form of its name; "": without a target
    consolidated: bool | None = None  # only episodes that are part of a Knowledge, or only others
    entity: str | None = None  # facts with this subject or object, under any form of its name
    subject: str | None = None  # facts about this
    predicate: str | tuple[str, ...] | None = None  # facts with this predicate, or one of these
    as_of: datetime | None = None  # facts that held at this moment
    fact_status: tuple[FactStatus, ...] | None = None  # facts in one of these states
    namespace: tuple[str, ...] | None = None  # items below these labels; () for all items
    there_at: datetime | None = None  # items that had not expired then
    sources: tuple[str, ...] | None = None  # facts, knowledge or summaries made from any of these
    after_seq: int | None = None  # messages of a session after this place
    before_seq: int | None = None  # messages of a session before this place
    stretches: tuple[tuple[str, int, int], ...] | None = None  # messages of sessions between two places
    after: tuple[int, str] | None = None  # in a list by age, what follows these µs since 1970 and id
    limit: int = 10  # how many at most
    newest_first: bool = False  # order of lists
    asked_at: datetime | None = None  # when the question is asked: what "yesterday" in it means

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", _read_kinds(self.kinds))
        check_limit(self.limit)
        if not isinstance(self.text, str):
            raise BadQuery(f"the query must be text, not {type(self.text).__name__}")
        set_utc(self, *_DATETIME_FIELDS, error=BadQuery)
        for name in ("pinned", "consolidated"):
            if not isinstance(flag := getattr(self, name), bool | None):
                raise BadQuery(f"{name} must be True or False, not {flag!r}")
        predicates = self.predicate if isinstance(self.predicate, tuple) else (self.predicate,)
        texts = {"entity": (self.entity,), "subject": (self.subject,), "target": (self.target,)}
        for name, values in (texts | {"predicate": predicates}).items():
            for value in values:
                if not isinstance(value, str | None):
                    raise BadQuery(f"{name} must be text, not {type(value).__name__}")
        if self.namespace is not None:
            check_labels(self.namespace)
        if self.since and self.until and self.since > self.until:
            raise BadQuery(f"since={self.since} lies after until={self.until}; swap them")
        if not isinstance(self.where, Condition | Junction | None):
            raise BadQuery(f"where is what read_filter returns, not {type(self.where).__name__}")
        for role in self.roles or ():
            check_choice("role", role, _ROLES, BadQuery)
        for status in self.fact_status or ():
            check_choice("fact_status", status, _STATUSES, BadQuery)

    def with_limit(self, limit: int) -> "Query":
        """Return this query with another limit; `dataclasses.replace` would check everything again."""
        check_limit(limit)
        query = object.__new__(Query)
        for name in Query.__slots__:
            object.__setattr__(query, name, limit if name == "limit" else getattr(self, name))
        return query

    def with_filters(self, filters: Mapping[str, Any] | None) -> "Query":
        """Return this query narrowed by filters as a caller writes them; see `read_filter`.

        Here ``role``, ``since``, ``until`` and ``pinned`` may be None: then they are ignored. Raises as
        `read_filter`, and `BadQuery` if since lies after until.
        """
        if not isinstance(filters, Mapping | None):
            raise BadQuery(f"filters is a dict by name, not {type(filters).__name__}")
        given = {} if filters is None else filters
        rest = {n: v for n, v in given.items() if v is not None or n not in _FIELD_FILTERS}
        fields: dict[str, Any] = {}
        for name in _FIELD_FILTERS:  # faster as fields: rows in memory answer them
            parts = _query_fields(name, read_filter({name: rest[name]})) if name in rest else None
            if parts:
                fields |= parts
                del rest[name]
        if rest:
            condition = read_filter(rest)
            fields["where"] = condition if self.where is None else Junction("and", (self.where, condition))
        return replace(self, **fields) if fields else self


def check_limit(limit: object) -> None:
    """Raise `BadQuery` unless it is a whole number from 1 to 10,000."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_LIMIT:
        raise BadQuery(f"limit={limit!r} must be a whole number from 1 to {MAX_LIMIT:,}")


def _query_fields(name: str, condition: Filter) -> dict[str, Any] | None:
    """Return a filter of one name as fields of `Query`, None if they cannot express it."""
    match condition:
        case Condition("role", "in", roles):
            return {"roles": roles}
        case Condition("pinned", "in", (pinned,)):
            return {"pinned": pinned}
        case Condition("created_at", "gte" | "lt", (moment,)) if name in ("since", "until"):
            return {name: moment}
    return None


def _read_kinds(kinds: object) -> tuple[Kind, ...]:
    if not isinstance(kinds, str | Sequence | Set):
        raise BadQuery(f"kinds must be a kind or a list of kinds, not {type(kinds).__name__}")
    names = (kinds,) if isinstance(kinds, str) else tuple(dict.fromkeys(cast("Sequence[str]", kinds)))
    for name in names:
        if name not in _KINDS:
            raise BadQuery(f"no kind named {name!r}; there are {', '.join(_KINDS)}")
    if not names:
        raise BadQuery("kinds is empty; name at least one kind to look for")
    return cast("tuple[Kind, ...]", names)


class Match(NamedTuple):
    """One record found by an index, before ranking."""

    kind: Kind
    id: str
    score: float  # the index's own score, higher is better; comparable within one answer only


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One record that search found."""

    record: Searchable  # the record itself
    kind: Kind
    score: float  # higher is better; comparable within one result only
    relevance: float | None = None  # 0 to 1, comparable between results: see `MemoryManager.search`
    similarity: float = 0.0  # cosine of its vector and the question's; 0 where none were compared
    why: Mapping[str, float] = field(default_factory=dict)  # contribution to the score, by feature
    around: tuple[Message, ...] = ()  # messages just before and after it, if requested
    secrets: tuple[str, ...] = ()  # kinds of secrets in its text, such as "password"; see jiyi.text.secrets
    outdated_by: str | None = None  # id of the newer record that replaced it
    maybe_outdated_by: str | None = None  # id of a newer record that may have replaced it

    @property
    def id(self) -> str:
        """The record's id."""
        return self.record.id

    @property
    def text(self) -> str:
        """The record's whole text."""
        return self.record.search_text

    @property
    def wordings(self) -> tuple[str, ...]:
        """The record's text as shown, followed by other wordings of a fact."""
        if not isinstance(fact := self.record, Fact):
            return (fact.search_text,)
        return fact.line, f"{fact.subject}: {fact.object}", fact.text

    @property
    def created_at(self) -> datetime | None:
        """When it was said or done."""
        return self.record.created_at


@dataclass(frozen=True, slots=True)
class Hits(Sequence[Hit]):
    """The result of a search: a sequence of hits, best first, with notes about it."""

    hits: tuple[Hit, ...] = ()
    notes: tuple[str, ...] = ()  # problems, such as "vector search unavailable"
    nothing_relevant: float | None = None  # probability, 0 to 1, that the memory holds no answer

    @property
    def doubtful(self) -> bool:
        """Whether probably none of the hits answers the question."""
        return (self.nothing_relevant or 0.0) > DOUBT

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | Sequence[Hit]:
        return self.hits[index]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)
