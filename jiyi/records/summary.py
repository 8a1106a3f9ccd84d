"""The running summary of a session, in versions that build on each other."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args

from jiyi.errors import InputError
from jiyi.records.checks import check_id, set_utc
from jiyi.records.ids import new_id
from jiyi.records.scope import Scope

__all__ = ["Summary", "SummaryMethod"]

SummaryMethod = Literal["extractive", "llm"]
"""Who wrote it: rules, or a language model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What was said in a session up to a message, in few words.

    Each version holds everything the one before it held and what was folded in since;
    the one with the highest ``version`` is the summary. Where a message is forgotten, the
    versions from the first that covers it on go, and the one before stands again.

    Raises:
        InputError: the text is empty, an id could not be stored, or a number is impossible.
        NaiveDatetime: ``created_at`` has no time zone.
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
        """Refuse what could not stand for messages."""
        check_id("id", self.id, InputError)
        if not isinstance(self.text, str) or not self.text.strip():
            raise InputError("a summary needs a text")
        if self.scope.session_id is None:
            raise InputError("a summary is of a session; give session_id in its scope")
        if self.version < 1 or self.upto_seq < 0 or self.tokens < 0:
            raise InputError(
                f"version={self.version}, upto_seq={self.upto_seq} and tokens={self.tokens} "
                "must be at least 1, 0 and 0"
            )
        if self.method not in get_args(SummaryMethod):
            raise InputError(f"method {self.method!r} is not one of {', '.join(get_args(SummaryMethod))}")
        if self.previous is not None:
            check_id("previous", self.previous, InputError)
        _check_ids(self.covers)
        set_utc(self, "created_at")


def _check_ids(ids: tuple[str, ...]) -> None:
    """Refuse ids no message has; all are looked at in one go, for a summary is read for every window."""
    if not isinstance(ids, tuple):
        raise InputError(f"covers is a tuple of message ids, not {type(ids).__name__}")
    try:
        together = "".join(ids)
    except TypeError as error:
        raise InputError(f"covers holds message ids, which are text: {error}") from error
    if "" in ids:
        raise InputError("covers holds an empty id")
    if not together.isascii() or "\0" in together:
        check_id("covers", together, InputError)
