"""Read the folder of a skill: first the card, later the body, then single files.

A SKILL.md starts with its card: the front matter, YAML between two lines of three hyphens.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from jiyi.errors import InputError, NotFound
from jiyi.records.skill import Skill

__all__ = ["SKILL_FILE", "SKIPPED_FOLDERS", "parse", "read_body", "read_card", "read_resource"]

SKILL_FILE = "SKILL.md"
"""The file that makes a folder a skill."""

SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})
"""Folders that are not searched."""

_MAX_FRONT_MATTER = 16_000  # bytes; cards are read at every start
_MAX_TEXT = 1_000_000  # bytes of a body or a file
_MAX_RESOURCES = 200
_MAX_DEPTH = 4  # folders below that of the skill
_EXAMPLES = re.compile(r"examples?\.md|examples/[^/]*\.md", re.IGNORECASE)
_FENCE = re.compile(rb"^---\s*?$", re.MULTILINE)

_MAX_BRACKETS = 500  # the time of the YAML reader grows with the square of their depth
# A plain value with a colon is invalid YAML, and the most frequent mistake of authors.
_PLAIN_WITH_COLON = re.compile(r"""^([A-Za-z][\w-]*): +([^\s"'\[{>|&*!#].*: .*?)\s*$""", re.MULTILINE)


def read_card(folder: Path) -> Skill:
    """Return a skill without its body; only the front matter of the file is read.

    InputError: there is no SKILL.md, it is outside the folder, or its front matter is missing or invalid.
    """
    head, _ = _split_file(folder, card_only=True)
    fields = {name.lower().replace("_", "-"): value for name, value in parse(head).items()}
    metadata = fields.get("metadata")
    pairs = metadata.items() if isinstance(metadata, dict) else ()
    extra = {str(name): value for name, value in pairs if isinstance(value, str)}
    when_to_use = _text_field(fields, "when-to-use")
    return Skill(
        name=_text_field(fields, "name"),
        description=_text_field(fields, "description"),
        folder=folder,
        when_to_use=when_to_use or extra.get("when-to-use", extra.get("when_to_use", "")),
        tags=_words(fields.get("tags", extra.get("tags", "")), ","),
        allowed_tools=_words(fields.get("allowed-tools", ""), None),
        license=_text_field(fields, "license"),
        compatibility=_text_field(fields, "compatibility"),
        metadata=extra,
    )


def read_body(card: Skill) -> Skill:
    """Return the skill with body, examples (``examples.md`` or ``examples/*.md``) and other file names."""
    _, body = _split_file(card.folder, card_only=False)
    names = list(islice(_files(card.folder), _MAX_RESOURCES))
    examples = [name for name in names if _EXAMPLES.fullmatch(name)]
    return replace(
        card,
        body=body.strip(),
        examples={name: read_resource(card, name).strip() for name in examples},
        resources=tuple(name for name in names if name not in examples),
    )


def read_resource(skill: Skill, name: str) -> str:
    """Return the text of a file in the folder of a skill, named by its relative path with "/".

    InputError: the path leads out of the folder, or the file is not UTF-8 or too large. NotFound: the folder
    has no such file; the message lists those it has.
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
        known = ", ".join(islice(_files(skill.folder), 20)) or "no other files"
        raise NotFound(f"the skill {skill.name} has no file {name!r}; it has {known}")
    data = _read(file, _MAX_TEXT)
    if len(data) > _MAX_TEXT:
        raise InputError(f"{file.name} is larger than {_MAX_TEXT:,} bytes; no window holds that")
    return _decode(data, f"{name!r} of {skill.name}")


def parse(text: str) -> dict[str, Any]:
    """Parse the fields of a front matter; every scalar is a string as written, such as "1.0".

    A plain value with ": " inside, which YAML forbids and most readers of skills accept, is read as if
    quoted. InputError: it is no YAML, or has no fields; the message names the line.
    """
    import yaml  # type: ignore[import-untyped]

    if text.count("[") + text.count("{") > _MAX_BRACKETS:
        raise InputError(
            f"the front matter has more than {_MAX_BRACKETS} brackets; keep it to fields and lists"
        )
    fault: yaml.YAMLError | None = None
    quoted = _PLAIN_WITH_COLON.sub(lambda line: f"{line[1]}: {json.dumps(line[2], ensure_ascii=False)}", text)
    for candidate in (text, quoted):
        try:
            fields = yaml.load(candidate, yaml.BaseLoader)
            break
        except yaml.YAMLError as error:
            fault = fault or error
        except RecursionError as error:
            raise InputError("the front matter is nested too deeply; keep it to fields and lists") from error
    else:
        raise InputError(f"the front matter is no YAML: {_error_text(fault)}") from fault
    if not isinstance(fields, dict):
        raise InputError('the front matter holds no fields; write lines such as "name: my-skill"')
    return {str(name): value for name, value in fields.items()}


def _error_text(error: Exception | None) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    # The mark counts from 0 after the line of hyphens.
    return f"line {mark.line + 2}: {problem}; put the value in quotes" if mark else problem


def _split_file(folder: Path, *, card_only: bool) -> tuple[str, str]:
    """Return front matter and body of a SKILL.md; with ``card_only`` the body is ""."""
    file = folder / SKILL_FILE
    if not file.is_file():
        raise InputError(f"there is no {SKILL_FILE} in it; the name is written so, in capitals")
    if not file.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{SKILL_FILE} is a link that leads out of the folder; copy the file into it")
    data = _read(file, _MAX_FRONT_MATTER + (0 if card_only else _MAX_TEXT))
    first, _, rest = data.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    if first.rstrip() != b"---":
        raise InputError(f'{SKILL_FILE} has no front matter; its first line must be "---"')
    end = _FENCE.search(rest)
    if end is None or end.start() > _MAX_FRONT_MATTER:
        raise InputError(f'the front matter of {SKILL_FILE} has no end; close it with "---"')
    head, body = rest[: end.start()], rest[end.end() :]
    if len(body) > _MAX_TEXT:
        raise InputError(f"the body of {SKILL_FILE} is larger than {_MAX_TEXT:,} bytes; move parts to files")
    return _decode(head, SKILL_FILE), "" if card_only else _decode(body, f"the body of {SKILL_FILE}")


def _read(file: Path, limit: int) -> bytes:
    """Return the content of a file, at most a byte more than ``limit``."""
    try:
        with file.open("rb") as source:
            return source.read(limit + 1)
    except OSError as error:
        raise InputError(f"{file.name} cannot be read: {error.strerror or error}") from error


def _decode(data: bytes, what: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{what} is no UTF-8 text; save it as UTF-8") from error
    if "\0" in text:
        raise InputError(f"{what} is no text; only text can be shown to a model")
    return text.replace("\r\n", "\n")


def _files(folder: Path) -> Iterator[str]:
    """Yield the paths of the other files of a skill, without hidden ones and links out of its folder."""
    root = folder.resolve()
    for path, folders, files in os.walk(root):
        here = Path(path)
        deep = len(here.relative_to(root).parts) >= _MAX_DEPTH
        folders[:] = [] if deep else sorted(f for f in folders if f[0] != "." and f not in SKIPPED_FOLDERS)
        for name in sorted(files):
            file = here / name
            if name[0] != "." and file != root / SKILL_FILE and _is_inside(file, root):
                yield file.relative_to(root).as_posix()


def _is_inside(file: Path, root: Path) -> bool:
    """Return whether a path is a regular file inside the folder, also after following links."""
    try:
        return file.is_file() and file.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):
        return False


def _text_field(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, not a list or fields of its own; put it in quotes")
    return " ".join(value.split())


def _words(value: object, separator: str | None) -> tuple[str, ...]:
    """Return words given as a list or as one text."""
    words = value.split(separator) if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(word.strip() for word in words if isinstance(word, str) and word.strip())
