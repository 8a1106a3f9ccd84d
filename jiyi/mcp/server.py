"""The protocol server: tools, resources and a prompt in one language over one memory."""

import inspect
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from importlib.metadata import version
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp.server.mcpserver.tools.base import Tool
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel

from jiyi.errors import JiyiError, NotFound
from jiyi.mcp.caller import CURRENT_REQUEST, Hosted, MemoryHost, Right, Words, load_words
from jiyi.mcp.graph import GRAPH_TOOLS, GraphTools
from jiyi.mcp.tools import TOOLS, Resources, Tools

_NOT_IDEMPOTENT = frozenset({"save_conversation"})  # a second call adds the messages again


def make_server(host: MemoryHost, language: str, *, compat: str = "") -> MCPServer[Any]:
    """Return a server of the protocol over a memory.

    Args:
        host: provides the memory and the caller.
        language: of descriptions, "zh" or "en".
        compat: "server-memory": the tools of the official memory server in place of jiyi's own.
    """
    words = load_words(language)

    def add_resource(name: str, uri: str, read: Callable[..., str], mime: str = "text/markdown") -> None:
        title, description = words.titles[name], words.about[name]
        register = server.resource(uri, name=name, title=title, description=description, mime_type=mime)
        register(_protocol_errors(host, ResourceError)(read))

    def make_tools(of: type[Hosted], rights: dict[str, Right]) -> list[Tool]:
        return [_make_tool(of, name, right, host, words) for name, right in rights.items()]

    if compat:
        server = _new_server("memory-server", make_tools(GraphTools, GRAPH_TOOLS))
        graph = partial(GraphTools, host, words, "read")
        uri, mime = "memory://knowledge-graph", "application/json"
        add_resource("knowledge_graph", uri, lambda: graph().to_json(), mime)
        return server
    instructions = words.instructions.strip()
    server = _new_server("jiyi", make_tools(Tools, TOOLS), instructions=instructions)
    resources = partial(Resources, host, words, "read")
    add_resource("sessions", "memory://sessions", lambda: resources().sessions())
    add_resource("session", "memory://sessions/{id}", lambda id: resources().session(id))
    add_resource("facts_of", "memory://facts/{subject}", lambda subject: resources().facts_of(subject))

    @server.prompt(title=words.titles["with_memory"], description=words.about["with_memory"])
    def with_memory() -> str:
        return instructions

    return server


def _new_server(name: str, tools: list[Tool], **options: Any) -> MCPServer[Any]:
    # Without any log handler the SDK would set up logging for the whole program.
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        return MCPServer(
            name,
            title="jiyi 记忆",
            version=version("jiyi"),
            tools=tools,
            subscriptions=False,
            middleware=[_keep_request],
            **options,
        )
    finally:
        root.removeHandler(handler)


async def _keep_request(ctx: Any, call_next: Any) -> Any:
    CURRENT_REQUEST.set(ctx.request)  # each message is handled in its own context
    try:
        return await call_next(ctx)
    except ValueError as error:  # the SDK raises it for an unknown prompt
        if ctx.method != "prompts/get":
            raise
        raise MCPError(code=INVALID_PARAMS, message=str(error)) from error


def _make_tool(of: type[Hosted], name: str, right: Right, host: MemoryHost, words: Words) -> Tool:
    tool = Tool.from_function(
        _tool_function(getattr(of, name), partial(of, host, words, right), host),
        name=name,
        title=words.titles[name],
        description=words.about[name],
        annotations=ToolAnnotations(
            title=words.titles[name],
            read_only_hint=right == "read",
            destructive_hint=right == "forget",
            idempotent_hint=name not in _NOT_IDEMPOTENT,
            open_world_hint=False,
        ),
    )
    for argument, schema in tool.parameters["properties"].items():
        schema.pop("title", None)
        if description := words.arguments.get(f"{name}.{argument}", words.arguments.get(argument)):
            schema["description"] = description
    return tool


def _tool_function(
    method: Callable[..., Any], begin_call: Callable[[], Hosted], host: MemoryHost
) -> Callable[..., CallToolResult]:
    """Return a tool that answers with the result of a method, or with its error message."""

    @wraps(method)
    def tool(**arguments: Any) -> CallToolResult:
        with _protocol_errors(host, ToolError):
            answer = method(begin_call(), **arguments)
        is_model = isinstance(answer, BaseModel)  # without defaults, which would only cost tokens
        value = answer.model_dump(mode="json", exclude_defaults=True) if is_model else dict(answer)
        text = json.dumps(value, ensure_ascii=False)
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=value)

    signature = inspect.signature(method, eval_str=True)
    result_type = Annotated[CallToolResult, signature.return_annotation]
    _, *parameters = signature.parameters.values()  # without self
    typed: Any = tool
    typed.__signature__ = signature.replace(parameters=parameters, return_annotation=result_type)
    typed.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": result_type}
    return tool


@contextmanager
def _protocol_errors(host: MemoryHost, kind: type[ToolError] | type[ResourceError]) -> Iterator[None]:
    """Turn the errors of jiyi into errors of the protocol, with a message that this caller may read."""
    try:
        yield
    except JiyiError as error:
        if kind is ResourceError and isinstance(error, NotFound):
            kind = ResourceNotFoundError
        try:
            text = host.caller(CURRENT_REQUEST.get()).public_text(str(error))
        except JiyiError:  # the caller is unknown
            text = str(error)
        raise kind(text) from error
