"""How verbs and records travel: one table of routes and one JSON form, shared by server and client."""

from jiyi.wire.codec import adapter, message_of, to_json
from jiyi.wire.problems import Problem, error_of, problem_of
from jiyi.wire.routes import ROUTES, Access, Call, Route, call_of
from jiyi.wire.tenants import check_tenant, shown_text, shown_user, stored_user

__all__ = [
    "ROUTES",
    "Access",
    "Call",
    "Problem",
    "Route",
    "adapter",
    "call_of",
    "check_tenant",
    "error_of",
    "message_of",
    "problem_of",
    "shown_text",
    "shown_user",
    "stored_user",
    "to_json",
]
