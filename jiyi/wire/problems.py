"""Errors as RFC 9457 problems, written from the classes of `jiyi.errors` and read back.

``type`` is an anchor of the page ``/errors`` that the server itself shows, so that it names the class;
``detail`` is the error's message. Attributes of an error travel as members of their own.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from inspect import get_annotations
from typing import Any

from jiyi import errors
from jiyi.errors import JiyiError

__all__ = ["PAGE", "Problem", "error_of", "problem_of"]

PAGE = "/errors#"
"""What the ``type`` of each problem begins with; the name of its class follows."""

_MEMBER_NAMES = {  # what each is called in a problem
    "needed": "needed",
    "available": "available",
    "status": "endpoint_status",  # of an endpoint asked by the server
    "retry_after": "retry_after",
}
_DEFAULT_STATUS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What went wrong, as the body of an answer of the type ``application/problem+json``."""

    status: int  # of HTTP
    name: str  # of the class
    title: str  # what the class means
    detail: str  # what happened and what to do
    members: Mapping[str, Any] = field(default_factory=dict)  # attributes of the error

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        main = {"type": PAGE + self.name, "title": self.title, "status": self.status, "detail": self.detail}
        return {**self.members, **main}


@cache
def _load_statuses() -> Mapping[str, int]:
    return tomllib.loads((files(__package__) / "statuses.toml").read_text("utf-8"))


def problem_of(error: JiyiError, detail: str | None = None) -> Problem:
    """Return an error as a problem; ``detail`` replaces its message."""
    cls = type(error)
    statuses = _load_statuses()
    status = next((statuses[c.__name__] for c in cls.__mro__ if c.__name__ in statuses), _DEFAULT_STATUS)
    members = {member: getattr(error, name) for name, member in _MEMBER_NAMES.items() if hasattr(error, name)}
    title = (cls.__doc__ or cls.__name__).partition("\n")[0]
    return Problem(
        status=status,
        name=cls.__name__,
        title=title,
        detail=str(error) if detail is None else detail,
        members=members,
    )


def error_of(data: Mapping[str, Any]) -> JiyiError:
    """Return the error of a problem's JSON object; a `ServerError` if its class is unknown."""
    name = str(data.get("type", "")).rpartition("#")[2]
    cls: type[JiyiError] = getattr(errors, name) if name in errors.__all__ else errors.ServerError
    detail = str(data.get("detail") or data.get("title") or f"the server answered {data.get('status')}")
    return cls(detail, **{name: data[_MEMBER_NAMES[name]] for name in get_annotations(cls)})
