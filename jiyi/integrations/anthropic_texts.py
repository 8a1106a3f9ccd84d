"""What the memory tool shows of files: the very words of Anthropic's own, which models are trained on."""

from collections.abc import Iterable, Iterator, Sequence

__all__ = ["MOST_LINES", "content_of", "edited", "lines_with", "listing_of"]

MOST_LINES = 999_999
"""Lines of a file that is shown."""

_WIDTH = len(str(MOST_LINES))
_FOLDER = "4K"  # what a file system says of a small folder
_NEAR = 2  # lines on either side of a change


def content_of(path: str, content: str, view_range: Sequence[int] | None) -> str:
    """Return a file's lines with their numbers; a range has the first and the last line, -1 for the end."""
    lines, first = content.split("\n"), 0
    if view_range and len(view_range) == 2:
        first, last = max(1, view_range[0]) - 1, view_range[1]
        lines = lines[first : len(lines) if last == -1 else last]
    return f"Here's the content of {path} with line numbers:\n" + _numbered(lines, first)


def listing_of(path: str, found: Iterable[tuple[str, int | None]]) -> str:
    """Return what is in a folder: names in it and their bytes, None for a folder."""
    head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    lines = (
        f"{_FOLDER}\t{path}/{name}/" if size is None else f"{_size(size)}\t{path}/{name}"
        for name, size in found
    )
    return "\n".join([head, f"{_FOLDER}\t{path}", *lines])


def edited(content: str, line: int) -> str:
    """Return the lines around one that was changed."""
    first = max(0, line - 1 - _NEAR)
    head = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
    return f"{head}\n" + _numbered(content.split("\n")[first : line + _NEAR], first)


def lines_with(content: str, text: str) -> Iterator[int]:
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
