"""Scopes, sessions, and the running summaries of sessions."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, get_args

from jiyi.errors import BadScope, InputError, ScopeMissing
from jiyi.records.checks import UNSTORABLE, check_choice, check_id, explain_type_errors, new_id, set_utc

__all__ = ["Scope", "Session", "Summary", "SummaryMethod"]

_MAX_ID_LENGTH = 512

SummaryMethod = Literal["extractive", "llm"]
"""Who wrote it: rules, or a language model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose memory it is; every record and every query has one.

    In a query ``agent_id=None`` means any agent of the user and ``session_id=None`` any session;
    no query spans users. Session ids belong to their user: two users may both have a session "main".
    Raises `ScopeMissing` if ``user_id`` is None, `BadScope` for an id that is no text, empty, or longer than
    512 characters.
    """

    user_id: str  # whose memory; the only part that is never optional
    agent_id: str | None = None  # which of the user's agents
    session_id: str | None = None  # which conversation

    def __post_init__(self) -> None:
        if self.user_id is None:
            raise ScopeMissing("no user_id: pass user_id= to jiyi.open() or to this call")
        for name in ("user_id", "agent_id", "session_id"):
            if (value := getattr(self, name)) is None:
                continue
            if not isinstance(value, str):
                raise BadScope(f"{name} must be text, not {type(value).__name__}; convert it with str()")
            if not value.strip():
                raise BadScope(f"{name} is empty; give the id your application uses")
            if len(value) > _MAX_ID_LENGTH:
                raise BadScope(f"{name} has {len(value)} characters; at most {_MAX_ID_LENGTH} are allowed")
            if UNSTORABLE.search(value):
                raise BadScope(f"{name}={value!r} holds characters that cannot be stored; use plain text")

    def in_session(self, session_id: str) -> "Scope":
        """Return this scope narrowed to one session."""
        return replace(self, session_id=session_id)

    def covers(self, user_id: str, agent_id: str | None, session_id: str | None) -> bool:
        """Return whether a record with these ids lies in this scope."""
        ids = (self.user_id, self.agent_id or agent_id, self.session_id or session_id)
        return ids == (user_id, agent_id, session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation of a user."""

    scope: Scope  # with session_id set
    started_at: datetime  # when its first message was said
    last_active_at: datetime  # when its newest message was said
    messages: int  # how many messages it has
    next_seq: int  # the place of its next message; places of forgotten messages stay empty

    @property
    def id(self) -> str:
        """The session id."""
        assert self.scope.session_id is not None
        return self.scope.session_id


@explain_type_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The summary of a session up to a message; `InputError` for impossible values.

    Each version contains the previous one and what was folded in since; the highest ``version`` is the
    current summary. Forgetting a message removes the first version that covers it and all later ones, so that
    the one before becomes current again.
    """

    scope: Scope  # user and session; agent where the summary is of one agent's messages
    text: str  # the summary
    version: int  # 1 for the first, one more each time
    covers: tuple[str, ...]  # ids of the messages folded in since the version before
    upto_seq: int  # every message of the session up to this place is in this version or one before
    method: SummaryMethod
    language: str = ""  # "zh" or "en"
    tokens: int = 0  # of the text
    previous: str | None = None  # id of the version it builds on, None for the first
    id: str = field(default_factory=new_id)  # unique within the user
    created_at: datetime | None = None  # when it was written, UTC; None until saved

    def __post_init__(self) -> None:
        check_id("id", self.id, InputError)
        if not isinstance(self.text, str) or not self.text.strip():
            raise InputError("a summary needs a text")
        if self.scope.session_id is None:
            raise InputError("a summary is of a session; give session_id in its scope")
        if self.version < 1 or self.upto_seq < 0 or self.tokens < 0:
            numbers = f"version={self.version}, upto_seq={self.upto_seq} and tokens={self.tokens}"
            raise InputError(f"{numbers} must be at least 1, 0 and 0")
        check_choice("method", self.method, get_args(SummaryMethod))
        if self.previous is not None:
            check_id("previous", self.previous, InputError)
        self._check_covers()
        set_utc(self, "created_at")

    def _check_covers(self) -> None:
        """Raise `InputError` for invalid ids; one check of all, because every window reads a summary."""
        if not isinstance(self.covers, tuple):
            raise InputError(f"covers is a tuple of message ids, not {type(self.covers).__name__}")
        try:
            joined = "".join(self.covers)
        except TypeError as error:
            raise InputError(f"covers holds message ids, which are text: {error}") from error
        if "" in self.covers:
            raise InputError("covers holds an empty id")
        if not joined.isascii() or "\0" in joined:
            check_id("covers", joined, InputError)
