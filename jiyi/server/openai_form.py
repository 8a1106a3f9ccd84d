"""The proxy's path, and its errors in the form of OpenAI's API."""

from collections.abc import Mapping

from starlette.responses import JSONResponse, Response

__all__ = ["OPENAI", "openai_failure"]

OPENAI = "/openai/v1"
"""What the proxy's paths begin with."""


def openai_failure(
    status: int, message: str, kind: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error in the form of OpenAI's API."""
    error = {"message": message, "type": kind, "param": None, "code": kind}
    return JSONResponse({"error": error}, status, dict(headers or {}))
