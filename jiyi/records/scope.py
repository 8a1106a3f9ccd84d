"""Whose memory it is: the user, and optionally one agent and one session of theirs."""

from dataclasses import dataclass, replace

from jiyi.errors import BadScope, ScopeMissing

__all__ = ["Scope"]

_LONGEST_ID = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The wall around a memory: on every record, and on every query.

    On a record it says whose it is. On a query ``agent_id=None`` means any agent of
    the user and ``session_id=None`` any session; there is no query across users.
    Session ids belong to their user: two users may both have a session "main".

    Raises:
        ScopeMissing: ``user_id`` is None.
        BadScope: an id is not text, is empty, or is longer than 512 characters.
    """

    user_id: str  # whose memory; the only part that is never optional
    agent_id: str | None = None  # which of the user's agents
    session_id: str | None = None  # which conversation

    def __post_init__(self) -> None:
        """Refuse ids that could not be stored and found again."""
        if self.user_id is None:
            raise ScopeMissing("no user_id: pass user_id= to jiyi.open() or to this call")
        for field in ("user_id", "agent_id", "session_id"):
            value = getattr(self, field)
            if value is not None:
                _check_id(field, value)

    def in_session(self, session_id: str) -> "Scope":
        """Return this scope narrowed to one session."""
        return replace(self, session_id=session_id)


def _check_id(field: str, value: object) -> None:
    if not isinstance(value, str):
        raise BadScope(f"{field} must be text, not {type(value).__name__}; convert it with str()")
    if not value.strip():
        raise BadScope(f"{field} is empty; give the id your application uses")
    if len(value) > _LONGEST_ID:
        raise BadScope(f"{field} has {len(value)} characters; at most {_LONGEST_ID} are allowed")
    if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
        raise BadScope(f"{field}={value!r} holds characters that cannot be stored; use plain text")
