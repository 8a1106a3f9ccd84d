"""Reading one skill's folder: first the card, later the body, at last a single file of it.

A SKILL.md begins with its card: YAML between two lines of three hyphens, the front matter.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from jiyi.errors import InputError, NotFound
from jiyi.records.skill import Skill

__all__ = ["SKILL_FILE", "SKIPPED_FOLDERS", "parse", "read_body", "read_card", "read_resource"]

SKILL_FILE = "SKILL.md"
"""The file that makes a folder a skill."""

SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})
"""Folders that are not searched for skills."""

_MOST_FRONT_MATTER = 16_000  # bytes; a card is read at every start
_MOST_TEXT = 1_000_000  # bytes of a body or a resource; no window holds more
_MOST_RESOURCES = 200
_DEEPEST = 4  # folders below the skill's own
_EXAMPLES = frozenset({"examples.md", "example.md"})
_FENCE = re.compile(rb"^---\s*?$", re.MULTILINE)

_MOST_BRACKETS = 500  # the reader's time grows with the square of how deep they are
# A plain value with a colon in it is no YAML, and is what authors write most often by mistake.
_PLAIN = re.compile(r"""^([A-Za-z][\w-]*): +([^\s"'\[{>|&*!#].*: .*?)\s*$""", re.MULTILINE)


def read_card(folder: Path) -> Skill:
    """Return a skill without its body; only the front matter of the file is read.

    Raises:
        InputError: there is no SKILL.md, it lies outside the folder, or its front matter is
            missing, unreadable or against the format; says which.
    """
    head, _ = _split(folder, card_only=True)
    fields = {name.lower().replace("_", "-"): value for name, value in parse(head).items()}
    metadata = fields.get("metadata")
    more = (
        {str(k): v for k, v in metadata.items() if isinstance(v, str)} if isinstance(metadata, dict) else {}
    )
    return Skill(
        name=_text(fields, "name"),
        description=_text(fields, "description"),
        folder=folder,
        when_to_use=_text(fields, "when-to-use") or more.get("when-to-use", more.get("when_to_use", "")),
        tags=_words(fields.get("tags", more.get("tags", "")), ","),
        allowed_tools=_words(fields.get("allowed-tools", ""), None),
        license=_text(fields, "license"),
        compatibility=_text(fields, "compatibility"),
        metadata=more,
    )


def read_body(card: Skill) -> Skill:
    """Return the skill whole: body, examples (``examples.md``, or those in a folder), names of other files.

    Raises:
        InputError: a file is no UTF-8 text, or too large.
    """
    _, body = _split(card.folder, card_only=False)
    names = list(_files(card.folder))
    shown = [name for name in names if _is_example(name)]
    return replace(
        card,
        body=body.strip(),
        examples={name: read_resource(card, name).strip() for name in shown},
        resources=tuple(name for name in names if name not in shown),
    )


def read_resource(skill: Skill, name: str) -> str:
    """Return the text of a file of the skill's folder, given by its name from there, with "/".

    Raises:
        InputError: the name leads out of the folder, or the file is no UTF-8 text or too large.
        NotFound: the folder has no such file; names those it has.
    """
    root = skill.folder.resolve()
    if not name or "\0" in name or "\\" in name or name.startswith(("/", "~")) or ".." in name.split("/"):
        raise InputError(f"{name!r} must be the name of a file inside the folder of {skill.name}")
    try:
        file = (root / name).resolve(strict=True)
    except (OSError, RuntimeError):
        file = None
    if file is not None and not file.is_relative_to(root):
        raise InputError(f"{name!r} leads out of the folder of {skill.name}; copy the file into it")
    if file is None or not file.is_file():
        known = ", ".join(list(_files(skill.folder))[:20]) or "no other files"
        raise NotFound(f"the skill {skill.name} has no file {name!r}; it has {known}")
    data = _read(file, _MOST_TEXT)
    if len(data) > _MOST_TEXT:
        raise InputError(f"{file.name} is larger than {_MOST_TEXT:,} bytes; no window holds that")
    return _decoded(data, f"{name!r} of {skill.name}")


def parse(text: str) -> dict[str, Any]:
    """Return the fields of a front matter; every scalar is text as it is written, "1.0" as "1.0".

    A plain value with ": " inside, which YAML forbids and most readers of skills accept, is
    taken as if it stood in quotes.

    Raises:
        InputError: it is no YAML, or no list of fields; says the line.
    """
    import yaml  # type: ignore[import-untyped]

    if text.count("[") + text.count("{") > _MOST_BRACKETS:
        raise InputError(
            f"the front matter has more than {_MOST_BRACKETS} brackets; keep it to fields and lists"
        )
    fault: yaml.YAMLError | None = None
    for reading in (
        text,
        _PLAIN.sub(lambda line: f"{line[1]}: {json.dumps(line[2], ensure_ascii=False)}", text),
    ):
        try:
            fields = yaml.load(reading, yaml.BaseLoader)
            break
        except yaml.YAMLError as error:
            fault = fault or error
        except RecursionError as error:
            raise InputError("the front matter is nested too deeply; keep it to fields and lists") from error
    else:
        raise InputError(f"the front matter is no YAML: {_where(fault)}") from fault
    if not isinstance(fields, dict):
        raise InputError('the front matter holds no fields; write lines such as "name: my-skill"')
    return {str(name): value for name, value in fields.items()}


def _where(error: Exception | None) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    # The mark counts from 0, and the line of hyphens stands before.
    return f"line {mark.line + 2}: {problem}; put the value in quotes" if mark else problem


def _split(folder: Path, *, card_only: bool) -> tuple[str, str]:
    """Return front matter and body of a SKILL.md; the body is "" where only the card is wanted."""
    file = folder / SKILL_FILE
    if not file.is_file():
        raise InputError(f"there is no {SKILL_FILE} in it; the name is written so, in capitals")
    if not file.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{SKILL_FILE} is a link that leads out of the folder; copy the file into it")
    data = _read(file, _MOST_FRONT_MATTER + (0 if card_only else _MOST_TEXT))
    first, _, rest = data.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    if first.rstrip() != b"---":
        raise InputError(f'{SKILL_FILE} has no front matter; its first line must be "---"')
    end = _FENCE.search(rest)
    if end is None or end.start() > _MOST_FRONT_MATTER:
        raise InputError(f'the front matter of {SKILL_FILE} has no end; close it with "---"')
    head, body = rest[: end.start()], rest[end.end() :]
    if len(body) > _MOST_TEXT:
        raise InputError(f"the body of {SKILL_FILE} is larger than {_MOST_TEXT:,} bytes; move parts to files")
    return _decoded(head, SKILL_FILE), "" if card_only else _decoded(body, f"the body of {SKILL_FILE}")


def _read(file: Path, most: int) -> bytes:
    """Return a file, of a longer one the beginning and a byte more than ``most``."""
    try:
        with file.open("rb") as source:
            return source.read(most + 1)
    except OSError as error:
        raise InputError(f"{file.name} cannot be read: {error.strerror or error}") from error


def _decoded(data: bytes, what: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{what} is no UTF-8 text; save it as UTF-8") from error
    if "\0" in text:
        raise InputError(f"{what} is no text; only text can be shown to a model")
    return text.replace("\r\n", "\n")


def _files(folder: Path) -> Iterator[str]:
    """Yield the names of the other files of a skill, without hidden ones and links out of its folder."""
    root, found = folder.resolve(), 0
    for where, folders, files in os.walk(root):
        here = Path(where)
        deep = len(here.relative_to(root).parts) >= _DEEPEST
        folders[:] = [] if deep else sorted(f for f in folders if f[0] != "." and f not in SKIPPED_FOLDERS)
        for name in sorted(files):
            file = here / name
            if name[0] == "." or (here == root and name == SKILL_FILE):
                continue
            if not _is_inside(file, root):
                continue
            if found == _MOST_RESOURCES:
                return
            found += 1
            yield file.relative_to(root).as_posix()


def _is_inside(file: Path, root: Path) -> bool:
    """Say whether this is a file, not a pipe or a dead link, that lies in the folder."""
    try:
        return file.is_file() and file.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):
        return False


def _is_example(name: str) -> bool:
    *folders, last = name.lower().split("/")
    return last in _EXAMPLES if not folders else folders == ["examples"] and last.endswith(".md")


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, not a list or fields of its own; put it in quotes")
    return " ".join(value.split())


def _words(value: object, separator: str | None) -> tuple[str, ...]:
    """Return a list of words, given as a list or as one text."""
    some = value.split(separator) if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(word.strip() for word in some if isinstance(word, str) and word.strip())
