"""A conversation, as a row in a list of conversations."""

from dataclasses import dataclass
from datetime import datetime

from jiyi.records.scope import Scope

__all__ = ["Session"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation of a user."""

    scope: Scope  # with session_id set
    started_at: datetime  # when its first message was said
    last_active_at: datetime  # when its newest message was said
    messages: int  # how many messages it holds
    next_seq: int  # the place its next message gets; places of forgotten messages stay empty

    @property
    def id(self) -> str:
        """The session id."""
        assert self.scope.session_id is not None
        return self.scope.session_id
