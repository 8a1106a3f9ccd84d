"""The protocol server: tools, resources and a prompt, put together for one house and one language."""

import inspect
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib.metadata import version
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp.server.mcpserver.tools.base import Tool
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, TextContent, ToolAnnotations

from jiyi.errors import JiyiError, NotFound
from jiyi.mcp.answers import plain
from jiyi.mcp.caller import REQUEST, House, Right, calling
from jiyi.mcp.graph import GRAPH_TOOLS, GraphTools
from jiyi.mcp.resources import Resources
from jiyi.mcp.tools import TOOLS, Tools
from jiyi.mcp.words import Words, words_of

__all__ = ["make_server"]

_REPEATED = frozenset({"save_conversation"})  # once more adds once more


def make_server(house: House, language: str, *, compat: str = "") -> MCPServer[Any]:
    """Return a server of the protocol over a memory.

    Args:
        house: where the memory is, and who calls.
        language: of descriptions, "zh" or "en".
        compat: "server-memory": the tools of the official memory server in place of jiyi's own.
    """
    words = words_of(language)
    if compat:
        graph = GraphTools(house, words)
        served = _server("memory-server", _tools(graph, GRAPH_TOOLS, house, words))
        name, uri, mime = "knowledge_graph", "memory://knowledge-graph", "application/json"
        _add(served, name, uri, _reading(graph.resource, house), words, mime=mime)
        return served
    said = words.instructions.strip()
    served = _server("jiyi", _tools(Tools(house, words), TOOLS, house, words), instructions=said)
    resources = Resources(house, words)
    _add(served, "sessions", "memory://sessions", _reading(resources.sessions, house), words)
    _add(served, "session", "memory://sessions/{id}", _reading(resources.session, house), words)
    _add(served, "facts_of", "memory://facts/{subject}", _reading(resources.facts_of, house), words)

    @served.prompt(title=words.title("with_memory"), description=words.about("with_memory"))
    def with_memory() -> str:
        return said

    return served


def _server(name: str, tools: list[Tool], **more: Any) -> MCPServer[Any]:
    with _quiet_logging():
        return MCPServer(
            name,
            title="jiyi 记忆",
            version=version("jiyi"),
            tools=tools,
            subscriptions=False,
            middleware=[_noting],
            **more,
        )


async def _noting(ctx: Any, call_next: Any) -> Any:
    REQUEST.set(ctx.request)  # every message is handled in a context of its own
    try:
        return await call_next(ctx)
    except ValueError as error:  # what the SDK makes of a prompt that is not there
        if ctx.method != "prompts/get":
            raise
        raise MCPError(code=INVALID_PARAMS, message=str(error)) from error


def _tools(tools: object, rights: dict[str, Right], house: House, words: Words) -> list[Tool]:
    return [_tool(getattr(tools, name), name, right, house, words) for name, right in rights.items()]


def _tool(method: Callable[..., Any], name: str, right: Right, house: House, words: Words) -> Tool:
    tool = Tool.from_function(
        _answering(method, house),
        name=name,
        title=words.title(name),
        description=words.about(name),
        annotations=ToolAnnotations(
            title=words.title(name),
            read_only_hint=right == "read",
            destructive_hint=right == "forget",
            idempotent_hint=name not in _REPEATED,
            open_world_hint=False,
        ),
    )
    for argument, schema in tool.parameters["properties"].items():
        schema.pop("title", None)
        if about := words.argument(name, argument):
            schema["description"] = about
    return tool


def _answering(method: Callable[..., Any], house: House) -> Callable[..., CallToolResult]:
    """Return a tool that answers with a method's value, and with what jiyi says where it fails."""
    signature = inspect.signature(method, eval_str=True)
    answer = Annotated[CallToolResult, signature.return_annotation]

    @wraps(method)
    def tool(**given: Any) -> CallToolResult:
        with _told(house, ToolError):
            value = plain(method(**given))
        text = json.dumps(value, ensure_ascii=False)
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=value)

    described: Any = tool
    described.__signature__ = signature.replace(return_annotation=answer)
    described.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()}
    described.__annotations__["return"] = answer
    return tool


def _add(
    served: MCPServer[Any],
    name: str,
    uri: str,
    read: Callable[..., str],
    words: Words,
    *,
    mime: str = "text/markdown",
) -> None:
    described = served.resource(
        uri, name=name, title=words.title(name), description=words.about(name), mime_type=mime
    )
    described(read)


def _reading(read: Callable[..., str], house: House) -> Callable[..., str]:
    @wraps(read)
    def resource(**given: str) -> str:
        with _told(house, ResourceError):
            return read(**given)

    return resource


@contextmanager
def _told(house: House, kind: type[ToolError] | type[ResourceError]) -> Iterator[None]:
    """Turn jiyi's errors into the protocol's, in the words that this caller may read."""
    try:
        yield
    except JiyiError as error:
        if kind is ResourceError and isinstance(error, NotFound):
            kind = ResourceNotFoundError
        try:
            told = calling(house).shown(str(error))
        except JiyiError:  # whoever calls cannot even be told
            told = str(error)
        raise kind(told) from error


@contextmanager
def _quiet_logging() -> Iterator[None]:
    """Keep the SDK from setting up the program's logging: it does so where there is none."""
    root, stand_in = logging.getLogger(), logging.NullHandler()
    root.addHandler(stand_in)
    try:
        yield
    finally:
        root.removeHandler(stand_in)
