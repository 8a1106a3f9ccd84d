"""Anthropic's memory tool on a memory: files under /memories that are items."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial, wraps
from itertools import accumulate
from typing import Any

from jiyi.errors import JiyiError, NotFound
from jiyi.integrations.common import read_all, require_framework
from jiyi.long_term import ForgetReceipt
from jiyi.manager import MemoryManager
from jiyi.records import Item

__all__ = ["JiyiAsyncMemoryTool", "JiyiMemoryTool"]

with require_framework("the Anthropic SDK", "anthropic"):
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError


_ROOT = "/memories"
_NAMESPACE = "memories"  # the first label of all files
_CONTENT = "content"  # the field of an item's value with a file's text
_AWAY = re.compile(r"[\x00-\x1f\x7f\\]|%(?:2e|2f|5c|00)", re.IGNORECASE)
_PIECE = 1_000

_Path = tuple[str, ...]


def _told(command: Callable[..., str]) -> Callable[..., str]:
    """Let a model be told what the memory refuses."""

    @wraps(command)
    def run(*args: Any) -> str:
        try:
            return command(*args)
        except JiyiError as error:
            raise ToolError(str(error)) from error

    return run


class _Files:
    """The six commands."""

    last_receipt: ForgetReceipt | None = None

    def __init__(self, memory: MemoryManager, *, user_id: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._memory = memory
        self._user_id = user_id

    @_told
    def view(self, command: Any) -> str:
        """Return a file's lines with their numbers, or what is in a folder."""
        path = _path(command.path)
        file = self._file(path)
        if file is not None:
            if _text(file).count("\n") >= _MOST_LINES:
                raise ToolError(f"File {command.path} exceeds maximum line limit of 999,999 lines.")
            return _content_of(command.path, _text(file), command.view_range)
        if path and not self._is_folder(path):
            raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
        return _listing_of(command.path, self._listed(path))

    @_told
    def create(self, command: Any) -> str:
        """Make a file."""
        taken = f"File {command.path} already exists"
        self._together(partial(self._make, _path(command.path), command.file_text, taken))
        return f"File created successfully at: {command.path}"

    @_told
    def str_replace(self, command: Any) -> str:
        """Replace a text that a file has once."""
        file = self._opened(command.path)
        content, old = _text(file), command.old_str
        places = list(_lines_with(content, old))
        if not places:
            raise ToolError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in {command.path}."
            )
        if content.count(old) > 1:
            lines = ", ".join(str(line) for line in places)
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
                "Please ensure it is unique"
            )
        changed = content.replace(old, command.new_str)
        self._put(_path(command.path), changed, file.version)
        return _edited(changed, places[0])

    @_told
    def insert(self, command: Any) -> str:
        """Put a text between two lines of a file."""
        file = self._opened(command.path)
        lines = _text(file).split("\n")
        lines = lines[:-1] if lines[-1] == "" else lines
        if not 0 <= command.insert_line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {command.insert_line}. "
                f"It should be within the range [0, {len(lines)}]."
            )
        lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
        changed = "\n".join(lines)
        self._put(_path(command.path), changed if changed.endswith("\n") else changed + "\n", file.version)
        return f"The file {command.path} has been edited."

    @_told
    def delete(self, command: Any) -> str:
        """Forget a file, or a folder with all in it; `last_receipt` says what went."""
        path = _path(command.path)
        if not path:
            raise ToolError("Cannot delete the /memories directory itself")
        self.last_receipt = self._forget(path, command.path)
        return f"Successfully deleted {command.path}"

    @_told
    def rename(self, command: Any) -> str:
        """Move a file, or a folder with all in it, in one transaction."""
        old, new = _path(command.old_path), _path(command.new_path)
        if not old:
            raise ToolError("Cannot rename the /memories directory itself")
        taken = f"The destination {command.new_path} already exists"
        self._together(partial(self._move, old, new, command.old_path, taken))
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    @_told
    def clear_all_memory(self) -> str:
        """Forget all files; `last_receipt` says what went."""
        if files := [file.id for file in self._below(())]:
            self.last_receipt = self._memory.forget(ids=files, user_id=self._user_id)
        return "All memory cleared"

    def _together(self, change: Callable[[], None]) -> None:
        # Nobody else may come between a look at what is there and the change.
        parts = self._memory.parts
        parts.store.together(change)
        parts.long_term.indexer.notify()

    def _make(self, path: _Path, content: str, taken: str) -> None:
        self._check_free(path, taken)
        self._put(path, content, 0)

    def _move(self, old: _Path, new: _Path, named: str, taken: str) -> None:
        self._check_free(new, taken)
        file = self._file(old)
        moved = [file] if file else list(self._below(old))
        if moved and new[: len(old)] == old:
            raise ToolError(f"Cannot rename {named} to a path in it")
        for one in moved:
            self._put(new + _within(one)[len(old) :], _text(one), 0)
        self._forget(old, named)

    def _put(self, path: _Path, content: str, version: int) -> None:
        value = {_CONTENT: content}
        self._memory.put_item(_namespace(path), path[-1], value, if_version=version, user_id=self._user_id)

    def _forget(self, path: _Path, named: str) -> ForgetReceipt:
        file = self._file(path)
        if file is None and not self._is_folder(path):
            raise ToolError(f"The path {named} does not exist")
        try:
            if file is not None:
                return self._memory.forget(ids=file.id, user_id=self._user_id)
            return self._memory.forget(ids=[one.id for one in self._below(path)], user_id=self._user_id)
        except NotFound as error:
            raise ToolError(f"The path {named} does not exist") from error

    def _file(self, path: _Path) -> Item | None:
        return self._memory.get_item(_namespace(path), path[-1], user_id=self._user_id) if path else None

    def _opened(self, named: str) -> Item:
        path = _path(named)
        file = self._file(path)
        if file is None and path and not self._is_folder(path):
            raise ToolError(f"The path {named} does not exist. Please provide a valid path.")
        if file is None:
            raise ToolError(f"The path {named} is not a file.")
        return file

    def _is_folder(self, path: _Path) -> bool:
        return next(self._below(path), None) is not None

    def _check_free(self, path: _Path, taken: str) -> None:
        """Refuse a path where something is, or that leads through a file."""
        if not path or self._file(path) is not None or self._is_folder(path):
            raise ToolError(taken)
        for above in list(accumulate((label,) for label in path))[:-1]:
            if self._file(above) is not None:
                raise ToolError(f"The path {_ROOT}/{'/'.join(above)} is not a directory.")

    def _below(self, path: _Path) -> Iterator[Item]:
        # Lists of a memory without an agent have the files of all agents; these are not its own.
        agent, space, user = self._memory.parts.settings.agent_id, (_NAMESPACE, *path), self._user_id
        found = read_all(lambda after: self._memory.items(space, limit=_PIECE, after=after, user_id=user))
        return (file for file in found if file.scope.agent_id == agent)

    def _listed(self, path: _Path) -> list[tuple[str, int | None]]:
        """Return what a folder shows: names to two levels, each with its bytes; None for a folder."""
        shown: dict[_Path, int | None] = {}
        for file in self._below(path):
            within = _within(file)[len(path) :]
            for depth in range(1, min(len(within), 2) + 1):
                shown[within[:depth]] = len(_text(file).encode()) if depth == len(within) else None
        names = sorted(name for name in shown if not any(part.startswith(".") for part in name))
        return [("/".join(name), shown[name]) for name in names]


class JiyiMemoryTool(_Files, BetaAbstractMemoryTool):
    """The memory tool on a memory: `Anthropic().beta.messages.tool_runner(tools=[JiyiMemoryTool(memory)])`.

    - A file is an item below the namespace "memories": found by `search`, with its ten versions before,
      and by every process and machine on the same database.
    - A path names nothing outside /memories: it is no path of a file system.
    - What is deleted can be brought back with `restore`. A change of a file that somebody else has
      changed meanwhile is refused.

    Args:
        memory: where the files are kept; it stays open.
        user_id: whose; by default whom the memory was opened for.
        options: of the SDK's class, such as ``cache_control``.

    Attributes:
        last_receipt: of the newest deletion.
    """


def _awaited(command: Callable[..., str]) -> Callable[..., Coroutine[Any, Any, str]]:
    @wraps(command)
    async def run(*args: Any) -> str:
        return await asyncio.to_thread(command, *args)

    return run


class JiyiAsyncMemoryTool(_Files, BetaAsyncAbstractMemoryTool):
    """`JiyiMemoryTool` for ``AsyncAnthropic``."""

    view = _awaited(_Files.view)  # type: ignore[assignment]
    create = _awaited(_Files.create)  # type: ignore[assignment]
    str_replace = _awaited(_Files.str_replace)  # type: ignore[assignment]
    insert = _awaited(_Files.insert)  # type: ignore[assignment]
    delete = _awaited(_Files.delete)  # type: ignore[assignment]
    rename = _awaited(_Files.rename)  # type: ignore[assignment]
    clear_all_memory = _awaited(_Files.clear_all_memory)  # type: ignore[assignment]


def _path(named: object) -> _Path:
    """Return the names a path leads through, from /memories on.

    Raises:
        ToolError: it leads elsewhere, or could be read as if it did.
    """
    if not isinstance(named, str) or not (named == _ROOT or named.startswith(f"{_ROOT}/")):
        raise ToolError(f"Path must start with /memories, got: {named}")
    names: list[str] = []
    for name in named.removeprefix(_ROOT).split("/"):
        if _AWAY.search(name) or (name == ".." and not names):
            raise ToolError(f"Path {named} would escape /memories directory")
        if name == "..":
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return tuple(names)


def _namespace(path: _Path) -> _Path:
    return (_NAMESPACE, *path[:-1])


def _within(file: Item) -> _Path:
    return (*file.namespace[1:], file.key)


def _text(file: Item) -> str:
    return str(file.value.get(_CONTENT, ""))


_MOST_LINES = 999_999  # lines of a file that is shown

_WIDTH = len(str(_MOST_LINES))
_FOLDER = "4K"  # what a file system says of a small folder
_NEAR = 2  # lines on either side of a change


def _content_of(path: str, content: str, view_range: Sequence[int] | None) -> str:
    """Return a file's lines with their numbers; a range has the first and the last line, -1 for the end."""
    lines, first = content.split("\n"), 0
    if view_range and len(view_range) == 2:
        first, last = max(1, view_range[0]) - 1, view_range[1]
        lines = lines[first : len(lines) if last == -1 else last]
    return f"Here's the content of {path} with line numbers:\n" + _numbered(lines, first)


def _listing_of(path: str, found: Iterable[tuple[str, int | None]]) -> str:
    """Return what is in a folder: names in it and their bytes, None for a folder."""
    head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    lines = (
        f"{_FOLDER}\t{path}/{name}/" if size is None else f"{_size(size)}\t{path}/{name}"
        for name, size in found
    )
    return "\n".join([head, f"{_FOLDER}\t{path}", *lines])


def _edited(content: str, line: int) -> str:
    """Return the lines around one that was changed."""
    first = max(0, line - 1 - _NEAR)
    head = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
    return f"{head}\n" + _numbered(content.split("\n")[first : line + _NEAR], first)


def _lines_with(content: str, text: str) -> Iterator[int]:
    """Give the number of the line that each occurrence begins in."""
    line, before, place = 1, 0, content.find(text)
    while place >= 0:
        line += content.count("\n", before, place)
        yield line
        before, place = place, content.find(text, place + 1)


def _numbered(lines: Sequence[str], before: int) -> str:
    return "\n".join(f"{number:>{_WIDTH}}\t{line}" for number, line in enumerate(lines, before + 1))


def _size(size: int) -> str:
    if size == 0:
        return "0B"
    power = min((size.bit_length() - 1) // 10, 3)
    scaled = size / 1024**power
    return f"{int(scaled) if scaled == int(scaled) else f'{scaled:.1f}'}{'BKMG'[power]}"
