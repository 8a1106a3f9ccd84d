"""Errors as RFC 9457 problems, made from the one error tree and read back into it.

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

_ATTRIBUTES = {  # what each is called in a problem
    "needed": "needed",
    "available": "available",
    "status": "endpoint_status",  # of an endpoint asked by the server
    "retry_after": "retry_after",
}
_OTHERS = 500


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
        own = {"type": PAGE + self.name, "title": self.title, "status": self.status, "detail": self.detail}
        return {**self.members, **own}


@cache
def _statuses() -> Mapping[str, int]:
    return tomllib.loads((files(__package__) / "statuses.toml").read_text("utf-8"))


def problem_of(error: JiyiError, detail: str | None = None) -> Problem:
    """Return the problem that an error is; ``detail`` stands in for its message."""
    of = type(error)
    statuses = _statuses()
    status = next((statuses[one.__name__] for one in of.__mro__ if one.__name__ in statuses), _OTHERS)
    members = {there: getattr(error, name) for name, there in _ATTRIBUTES.items() if hasattr(error, name)}
    title = (of.__doc__ or of.__name__).partition("\n")[0]
    return Problem(
        status=status,
        name=of.__name__,
        title=title,
        detail=str(error) if detail is None else detail,
        members=members,
    )


def error_of(data: Mapping[str, Any]) -> JiyiError:
    """Return the error of a problem's JSON object; of an unknown class a `ServerError`."""
    name = str(data.get("type", "")).rpartition("#")[2]
    of: type[JiyiError] = getattr(errors, name) if name in errors.__all__ else errors.ServerError
    detail = str(data.get("detail") or data.get("title") or f"the server answered {data.get('status')}")
    return of(detail, **{own: data[_ATTRIBUTES[own]] for own in get_annotations(of)})
