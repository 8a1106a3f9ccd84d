"""A question to the memory, and what comes back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args, overload

from jiyi.errors import BadQuery
from jiyi.records.checks import set_utc
from jiyi.records.experience import Episode, Knowledge, Step, Task, TaskStatus
from jiyi.records.fact import Fact, FactStatus
from jiyi.records.filters import Condition, Filter, Junction, read_filter
from jiyi.records.fits import checked
from jiyi.records.item import Item, check_labels
from jiyi.records.message import Message, Role
from jiyi.records.session import Scope, Session, Summary

__all__ = [
    "DOUBT",
    "FORGETTABLE",
    "SEARCHABLE",
    "Hit",
    "Hits",
    "Kind",
    "Listing",
    "Match",
    "Query",
    "Record",
    "Searchable",
    "check_limit",
]

_T = TypeVar("_T")


class Listing(list[_T]):
    """Records, and where the list goes on.

    Attributes:
        next: given to the same verb with the same arguments as ``after``, it brings what follows;
            None after the last.
    """

    __slots__ = ("next",)

    def __init__(self, records: Iterable[_T] = (), next: str | None = None) -> None:
        super().__init__(records)
        self.next = next

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Tell pydantic its JSON form: ``{"items": [...], "next": ...}``."""
        from typing import get_args

        from pydantic_core import core_schema

        (of,) = get_args(source) or (Any,)
        fields = {
            "items": core_schema.typed_dict_field(core_schema.list_schema(handler.generate_schema(of))),
            "next": core_schema.typed_dict_field(
                core_schema.nullable_schema(core_schema.str_schema()), required=False
            ),
        }
        form = core_schema.typed_dict_schema(fields)
        return core_schema.no_info_after_validator_function(
            lambda read: cls(read["items"], read.get("next")),
            form,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda listing: {"items": list(listing), "next": listing.next}, return_schema=form
            ),
        )


Kind = Literal["message", "episode", "knowledge", "fact", "item", "task", "step", "session", "summary"]
"""What a record is; `SEARCHABLE` names the kinds that text and vectors find."""

Searchable = Message | Episode | Knowledge | Fact | Item
Record = Searchable | Task | Step | Session | Summary
SEARCHABLE: tuple[Kind, ...] = ("message", "episode", "knowledge", "fact", "item")
FORGETTABLE: tuple[Kind, ...] = (*SEARCHABLE, "task")
"""What can be taken out by itself; steps go with their task, sessions with their last message."""

DOUBT = 0.5
"""The probability that nothing is relevant from which on whoever reads the hits is told so."""

_MOST = 10_000
_KINDS, _ROLES, _STATUSES = get_args(Kind), get_args(Role), get_args(FactStatus)
_OWN = ("role", "since", "until", "pinned")  # filters for which a query has parts of its own
_MOMENTS = ("since", "until", "asked_at", "as_of", "there_at")


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is asked for, and in whose memory.

    Every field narrows; a field left at its default does not. Lists are in order of
    age, oldest first, unless ``newest_first``; searches are best first.

    Raises:
        BadQuery: an unknown kind, a limit outside 1..10,000, or since after until.
        NaiveDatetime: since, until, asked_at or as_of has no time zone.
    """

    scope: Scope  # whose memory, never optional
    kinds: tuple[Kind, ...] = SEARCHABLE  # which records
    text: str = ""  # words to search for
    ids: tuple[str, ...] | None = None  # only these ids
    without: tuple[str, ...] = ()  # not these ids, such as the id of the asking message
    roles: tuple[Role, ...] | None = None  # only messages of these roles
    since: datetime | None = None  # created at or after
    until: datetime | None = None  # created before
    pinned: bool | None = None  # only pinned, or only unpinned
    where: Filter | None = None  # only records that meet this; see `read_filter`
    task_id: str | None = None  # steps of this task, the episode of this task
    status: TaskStatus | None = None  # tasks in this state
    target: str | None = None  # episodes about this, whatever form its name has; "" for those about nothing
    consolidated: bool | None = None  # only episodes that are part of a Knowledge, or only others
    entity: str | None = None  # facts whose subject or object is this, whatever form its name has
    subject: str | None = None  # facts about this
    predicate: str | tuple[str, ...] | None = None  # facts about this point, or one of these
    as_of: datetime | None = None  # facts that held at this moment
    fact_status: tuple[FactStatus, ...] | None = None  # facts in one of these states
    namespace: tuple[str, ...] | None = None  # items below these labels; () for all items
    there_at: datetime | None = None  # no items whose time was over then
    sources: tuple[str, ...] | None = None  # facts, knowledge or summaries that rest on any of these
    after_seq: int | None = None  # messages of a session after this place
    before_seq: int | None = None  # messages of a session before this place
    stretches: tuple[tuple[str, int, int], ...] | None = None  # messages of sessions between two places
    after: tuple[int, str] | None = None  # in a list by age, what follows on these µs since 1970 and id
    limit: int = 10  # how many at most
    newest_first: bool = False  # order of lists
    asked_at: datetime | None = None  # when the question is asked: what "yesterday" in it means

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", _read_kinds(self.kinds))
        check_limit(self.limit)
        if not isinstance(self.text, str):
            raise BadQuery(f"the query must be text, not {type(self.text).__name__}")
        set_utc(self, *_MOMENTS, error=BadQuery)
        for name in ("pinned", "consolidated"):
            if not isinstance(flag := getattr(self, name), bool | None):
                raise BadQuery(f"{name} must be True or False, not {flag!r}")
        for name in ("entity", "subject", "predicate", "target"):
            given = getattr(self, name)
            if name == "predicate" and isinstance(given, tuple) and all(isinstance(p, str) for p in given):
                continue
            if not isinstance(given, str | None):
                raise BadQuery(f"{name} must be text, not {type(given).__name__}")
        if self.namespace is not None:
            check_labels(self.namespace)
        if self.since and self.until and self.since > self.until:
            raise BadQuery(f"since={self.since} lies after until={self.until}; swap them")
        if not isinstance(self.where, Condition | Junction | None):
            raise BadQuery(f"where is what read_filter returns, not {type(self.where).__name__}")
        for what, names, known in (
            ("role", self.roles, _ROLES),
            ("fact_status", self.fact_status, _STATUSES),
        ):
            for name in names or ():
                if name not in known:
                    raise BadQuery(f"{what} {name!r} is not one of {', '.join(known)}")

    def with_filters(self, filters: Mapping[str, Any] | None) -> "Query":
        """Return this query narrowed by filters as a caller writes them; see `read_filter`.

        Here ``role``, ``since``, ``until`` and ``pinned`` may be None: then they are ignored.

        Raises:
            BadQuery, NaiveDatetime: as `read_filter`; or since lies after until.
        """
        if not isinstance(filters, Mapping | None):
            raise BadQuery(f"filters is a dict by name, not {type(filters).__name__}")
        rest = {
            name: value for name, value in (filters or {}).items() if not (name in _OWN and value is None)
        }
        narrowed: dict[str, Any] = {}
        for name in _OWN:  # conditions that rows in memory answer
            parts = _parts(name, read_filter({name: rest[name]})) if name in rest else None
            if parts:
                narrowed |= parts
                del rest[name]
        if rest:
            asked = read_filter(rest)
            narrowed["where"] = asked if self.where is None else Junction("and", (self.where, asked))
        return replace(self, **narrowed) if narrowed else self


def check_limit(limit: object) -> None:
    """Refuse a number of records that is not a whole number from 1 to 10,000, with `BadQuery`."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _MOST:
        raise BadQuery(f"limit={limit!r} must be a whole number from 1 to {_MOST:,}")


def _parts(name: str, asked: Filter) -> dict[str, Any] | None:
    """Return a filter of one name as parts of a query of its own; None where there are none for it."""
    match asked:
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
    """One record that an index found, before ranking."""

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
    why: Mapping[str, float] = field(default_factory=dict)  # share by feature
    around: tuple[Message, ...] = ()  # what was said just before and after it, where asked for
    secrets: tuple[str, ...] = ()  # kinds of secrets in its words, such as "password"; see jiyi.text.secrets
    outdated_by: str | None = None  # id of the newer record that has taken its place
    maybe_outdated_by: str | None = None  # id of a newer record that may have taken its place

    @property
    def id(self) -> str:
        """The record's id."""
        return self.record.id

    @property
    def text(self) -> str:
        """The record's words, whole."""
        return self.record.search_text

    @property
    def wordings(self) -> tuple[str, ...]:
        """The record's words as they are shown, then a fact's in other ways."""
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
    notes: tuple[str, ...] = ()  # what was not as it should be, such as "vector search unavailable"
    nothing_relevant: float | None = None  # probability, 0 to 1, that the memory holds no answer

    @property
    def doubtful(self) -> bool:
        """Whether it is more likely than not that none of them is an answer."""
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
