"""Anthropic's memory tool: its files under /memories are items of a memory."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from jiyi.errors import JiyiError, NotFound
from jiyi.integrations.common import make_async, read_all, require_framework
from jiyi.long_term import ForgetReceipt
from jiyi.manager import MemoryManager
from jiyi.records import Item

with require_framework("the Anthropic SDK", "anthropic"):
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError

_ROOT = "/memories"
_NAMESPACE = "memories"  # the first label of all files
_CONTENT = "content"  # the field of an item's value with a file's text
_UNSAFE_NAME = re.compile(r"[\x00-\x1f\x7f\\]|%(?:2e|2f|5c|00)", re.IGNORECASE)
_PAGE_SIZE = 1_000

_Path = tuple[str, ...]


@contextmanager
def _report_errors() -> Iterator[None]:
    """Raise the memory's errors as `ToolError`, whose text the model gets."""
    try:
        yield
    except JiyiError as error:
        raise ToolError(str(error)) from error


class _Files:
    """The six commands and `clear_all_memory`."""

    last_receipt: ForgetReceipt | None = None

    def __init__(self, memory: MemoryManager, *, user_id: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        _ = memory.parts  # raises for a memory on a server
        self._memory = memory
        self._user_id = user_id

    @_report_errors()
    def view(self, command: Any) -> str:
        """Return a file's lines with their numbers, or the contents of a folder."""
        path, file = self._find(command.path)
        if file is None:
            return self._format_folder(path, command.path)
        if _read_text(file).count("\n") >= _MAX_LINES:
            raise ToolError(f"File {command.path} exceeds maximum line limit of 999,999 lines.")
        return _format_file(command.path, _read_text(file), command.view_range)

    @_report_errors()
    def create(self, command: Any) -> str:
        """Create a file."""
        path = _parse_path(command.path)

        def write() -> None:  # nobody else may write between the check of what exists and the change
            self._check_free(path, f"File {command.path} already exists")
            self._put(path, command.file_text, 0)

        self._memory.parts.run_in_transaction(write, self._user_id)
        return f"File created successfully at: {command.path}"

    @_report_errors()
    def str_replace(self, command: Any) -> str:
        """Replace a text that a file has once."""
        file = self._require_file(command.path)
        content, old = _read_text(file), command.old_str
        places = list(_find_lines(content, old))
        undone = "No replacement was performed"
        if not places:
            raise ToolError(f"{undone}, old_str `{old}` did not appear verbatim in {command.path}.")
        if content.count(old) > 1:
            several = f"Multiple occurrences of old_str `{old}` in lines: {', '.join(map(str, places))}"
            raise ToolError(f"{undone}. {several}. Please ensure it is unique")
        changed = content.replace(old, command.new_str)
        self._put(_parse_path(command.path), changed, file.version)
        return _format_edit(changed, places[0])

    @_report_errors()
    def insert(self, command: Any) -> str:
        """Insert a text between two lines of a file."""
        file = self._require_file(command.path)
        lines = _read_text(file).split("\n")
        lines = lines[:-1] if lines[-1] == "" else lines
        if not 0 <= command.insert_line <= len(lines):
            limits = f"It should be within the range [0, {len(lines)}]."
            raise ToolError(f"Invalid `insert_line` parameter: {command.insert_line}. {limits}")
        lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
        changed = "\n".join(lines).removesuffix("\n") + "\n"
        self._put(_parse_path(command.path), changed, file.version)
        return f"The file {command.path} has been edited."

    @_report_errors()
    def delete(self, command: Any) -> str:
        """Forget a file, or a folder with all its files; `last_receipt` says what was forgotten."""
        path = _parse_path(command.path)
        if not path:
            raise ToolError("Cannot delete the /memories directory itself")
        self.last_receipt = self._forget(self._files_at(path), command.path)
        return f"Successfully deleted {command.path}"

    @_report_errors()
    def rename(self, command: Any) -> str:
        """Move a file, or a folder with all its files, in one transaction."""
        old, new = _parse_path(command.old_path), _parse_path(command.new_path)
        if not old:
            raise ToolError("Cannot rename the /memories directory itself")

        def move() -> None:
            self._check_free(new, f"The destination {command.new_path} already exists")
            files = self._files_at(old)
            if files and new[: len(old)] == old:
                raise ToolError(f"Cannot rename {command.old_path} to a path in it")
            for file in files:
                self._put(new + _path_of(file)[len(old) :], _read_text(file), 0)
            self._forget(files, command.old_path)

        self._memory.parts.run_in_transaction(move, self._user_id)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    @_report_errors()
    def clear_all_memory(self) -> str:
        """Forget all files; `last_receipt` says what was forgotten."""
        if files := [file.id for file in self._files_below(())]:
            self.last_receipt = self._memory.forget(ids=files, user_id=self._user_id)
        return "All memory cleared"

    def _put(self, path: _Path, content: str, version: int) -> None:
        namespace, value = (_NAMESPACE, *path[:-1]), {_CONTENT: content}
        self._memory.put_item(namespace, path[-1], value, if_version=version, user_id=self._user_id)

    def _forget(self, files: Sequence[Item], path_text: str) -> ForgetReceipt:
        missing = ToolError(f"The path {path_text} does not exist")
        if not files:
            raise missing
        try:
            return self._memory.forget(ids=[file.id for file in files], user_id=self._user_id)
        except NotFound as error:  # somebody else was faster
            raise missing from error

    def _file(self, path: _Path) -> Item | None:
        namespace = (_NAMESPACE, *path[:-1])
        return self._memory.get_item(namespace, path[-1], user_id=self._user_id) if path else None

    def _find(self, path_text: str) -> tuple[_Path, Item | None]:
        """Return the file at a path, None for a folder."""
        path = _parse_path(path_text)
        file = self._file(path)
        if file is None and path and not self._is_folder(path):
            raise ToolError(f"The path {path_text} does not exist. Please provide a valid path.")
        return path, file

    def _require_file(self, path_text: str) -> Item:
        if (file := self._find(path_text)[1]) is None:
            raise ToolError(f"The path {path_text} is not a file.")
        return file

    def _files_at(self, path: _Path) -> list[Item]:
        """Return the file of this name, or all files of the folder."""
        file = self._file(path)
        return [file] if file is not None else list(self._files_below(path))

    def _is_folder(self, path: _Path) -> bool:
        return next(self._files_below(path), None) is not None

    def _check_free(self, path: _Path, taken: str) -> None:
        """Refuse a path that exists or leads through a file; ``taken`` is the error's text."""
        if not path or self._file(path) is not None or self._is_folder(path):
            raise ToolError(taken)
        for folder in list(accumulate((label,) for label in path))[:-1]:
            if self._file(folder) is not None:
                raise ToolError(f"The path {_ROOT}/{'/'.join(folder)} is not a directory.")

    def _files_below(self, path: _Path) -> Iterator[Item]:
        # A memory without an agent lists the items of all agents; leave out those that are not its own.
        agent, namespace = self._memory.parts.settings.agent_id, (_NAMESPACE, *path)
        files = read_all(self._memory.items, namespace, limit=_PAGE_SIZE, user_id=self._user_id)
        return (file for file in files if file.scope.agent_id == agent)

    def _format_folder(self, path: _Path, path_text: str) -> str:
        """Return what is in a folder, two levels deep, each with its size."""
        lines: dict[_Path, str] = {}
        for file in self._files_below(path):
            relative = _path_of(file)[len(path) :]
            if len(relative) <= 2:
                size = _format_size(len(_read_text(file).encode()))
                lines[relative] = f"{size}\t{path_text}/{'/'.join(relative)}"
            for folder in list(accumulate((label,) for label in relative[:-1]))[:2]:
                lines[folder] = f"{_FOLDER_SIZE}\t{path_text}/{'/'.join(folder)}/"
        shown = sorted(name for name in lines if not any(part.startswith(".") for part in name))
        header = (
            f"Here're the files and directories up to 2 levels deep in {path_text}, excluding hidden items:"
        )
        return "\n".join([header, f"{_FOLDER_SIZE}\t{path_text}", *(lines[name] for name in shown)])


class JiyiMemoryTool(_Files, BetaAbstractMemoryTool):
    """The memory tool on a memory: `Anthropic().beta.messages.tool_runner(tools=[JiyiMemoryTool(memory)])`.

    A file is an item below the namespace "memories". A change of a file that somebody else has changed
    meanwhile is refused. `restore` brings deleted files back; ``last_receipt`` is that of the last deletion.

    The memory stays open; ``user_id`` is by default whom it was opened for. ``options`` are those of the
    SDK's class, such as ``cache_control``.
    """


class JiyiAsyncMemoryTool(_Files, BetaAsyncAbstractMemoryTool):
    """`JiyiMemoryTool` for ``AsyncAnthropic``."""

    view = make_async(_Files.view)  # type: ignore[assignment]
    create = make_async(_Files.create)  # type: ignore[assignment]
    str_replace = make_async(_Files.str_replace)  # type: ignore[assignment]
    insert = make_async(_Files.insert)  # type: ignore[assignment]
    delete = make_async(_Files.delete)  # type: ignore[assignment]
    rename = make_async(_Files.rename)  # type: ignore[assignment]
    clear_all_memory = make_async(_Files.clear_all_memory)  # type: ignore[assignment]


def _parse_path(text: object) -> _Path:
    """Return the names in a path below /memories; refuse one that leads elsewhere, or could be read so."""
    if not isinstance(text, str) or not (text == _ROOT or text.startswith(f"{_ROOT}/")):
        raise ToolError(f"Path must start with /memories, got: {text}")
    names: list[str] = []
    for name in text.removeprefix(_ROOT).split("/"):
        if _UNSAFE_NAME.search(name) or (name == ".." and not names):
            raise ToolError(f"Path {text} would escape /memories directory")
        if name == "..":
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return tuple(names)


def _path_of(file: Item) -> _Path:
    return (*file.namespace[1:], file.key)


def _read_text(file: Item) -> str:
    return str(file.value.get(_CONTENT, ""))


_MAX_LINES = 999_999  # lines of a file that is shown
_NUMBER_WIDTH = len(str(_MAX_LINES))
_FOLDER_SIZE = "4K"  # as file systems show for a small folder
_CONTEXT_LINES = 2  # lines on either side of a change


def _format_file(path: str, content: str, view_range: Sequence[int] | None) -> str:
    """Return a file's lines with their numbers; a range is [first, last], where -1 is the end."""
    lines, first = content.split("\n"), 0
    if view_range and len(view_range) == 2:
        first, last = max(1, view_range[0]) - 1, view_range[1]
        lines = lines[first : len(lines) if last == -1 else last]
    return f"Here's the content of {path} with line numbers:\n" + _number_lines(lines, first)


def _format_edit(content: str, line: int) -> str:
    """Return the lines around a changed line."""
    first = max(0, line - 1 - _CONTEXT_LINES)
    header = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
    return f"{header}\n" + _number_lines(content.split("\n")[first : line + _CONTEXT_LINES], first)


def _find_lines(content: str, text: str) -> Iterator[int]:
    """Yield the number of the line that each occurrence begins in."""
    line, previous, position = 1, 0, content.find(text)
    while position >= 0:
        line += content.count("\n", previous, position)
        yield line
        previous, position = position, content.find(text, position + 1)


def _number_lines(lines: Sequence[str], lines_before: int) -> str:
    return "\n".join(f"{n:>{_NUMBER_WIDTH}}\t{line}" for n, line in enumerate(lines, lines_before + 1))


def _format_size(size: int) -> str:
    if size == 0:
        return "0B"
    power = min((size.bit_length() - 1) // 10, 3)
    scaled = size / 1024**power
    return f"{int(scaled) if scaled == int(scaled) else f'{scaled:.1f}'}{'BKMG'[power]}"
