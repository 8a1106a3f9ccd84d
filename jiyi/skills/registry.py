"""The available skills: folders with ``NAME/SKILL.md``, of which only the cards are read at first.

A SKILL.md starts with its card: the front matter, YAML between two lines of three hyphens.
"""

import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from jiyi.errors import InputError, NotFound
from jiyi.records.skill import Skill
from jiyi.text import TokenCounter

__all__ = ["SkillProblem", "SkillRegistry", "parse_front_matter"]

_SKILL_FILE = "SKILL.md"  # makes a folder a skill
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})  # are not searched
_MAX_FRONT_MATTER = 16_000  # bytes; cards are read at every start
_MAX_TEXT = 1_000_000  # bytes of a body or a file
_MAX_RESOURCES = 200
_MAX_DEPTH = 4  # folders below that of the skill
_EXAMPLES = re.compile(r"examples?\.md|examples/[^/]*\.md", re.IGNORECASE)
_FENCE = re.compile(rb"^---\s*?$", re.MULTILINE)

_MAX_BRACKETS = 500  # the time of the YAML reader grows with the square of their depth
# A plain value with a colon is invalid YAML, and the most frequent mistake of authors.
_PLAIN_WITH_COLON = re.compile(r"""^([A-Za-z][\w-]*): +([^\s"'\[{>|&*!#].*: .*?)\s*$""", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillProblem:
    """A problem with a folder of skills."""

    folder: Path  # of the skill, or of several skills
    reason: str  # what is wrong and what to do
    usable: bool = False  # whether the skill is available nevertheless


class SkillRegistry:
    """The skills of some folders, in the Agent Skills format (agentskills.io/specification).

    - Each folder has skills as ``NAME/SKILL.md``; a folder with its own SKILL.md is one skill. Hidden folders
      are skipped, deeper ones are not searched.
    - At first only front matter is read; a body is read when it is opened, and kept until `reload`.
    - A folder that cannot be used is listed in ``problems``. Of skills with the same name the first is used,
      in the order of folders, then of names.
    - Skills are sorted by name. Safe to share between threads and sessions.

    The content of these folders is shown to the model as instructions: name only folders you trust.
    """

    def __init__(self, *folders: str | Path) -> None:
        self._folders = tuple(Path(folder).expanduser() for folder in folders)
        self._lock = threading.RLock()
        self._cards: dict[str, Skill] = {}
        self._bodies: dict[str, Skill] = {}
        self._tokens: dict[tuple[str, str], int] = {}  # of bodies, by skill and counter
        self.problems: tuple[SkillProblem, ...] = ()  # of the folders
        self.version = 0  # increases with each `reload`
        self.reload()

    def __len__(self) -> int:
        return len(self._cards)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self.skills)

    def __contains__(self, name: object) -> bool:
        return name in self._cards

    def __repr__(self) -> str:
        return f"SkillRegistry({', '.join(map(repr, map(str, self._folders)))}): {len(self)} skills"

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The cards, by name; their bodies are None."""
        return tuple(self._cards.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self._cards)

    def get(self, name: str) -> Skill:
        """Return the card of a skill; NotFound: there is no such skill; the message lists those there are."""
        cards = self._cards
        if name not in cards:
            known = ", ".join(list(cards)[:30]) or "none; give folders with NAME/SKILL.md"
            raise NotFound(f"there is no skill {name!r}; there are {known}")
        return cards[name]

    def open(self, name: str) -> Skill:
        """Return a skill with body, examples and other paths; raises as `get`, InputError if unreadable."""
        with self._lock:
            if name not in self._bodies:
                self._bodies[name] = _read_body(self.get(name))
            return self._bodies[name]

    def resource(self, name: str, resource: str) -> str:
        """Return the text of a file in the folder of a skill; raises as `open`, also for an unknown file."""
        return _read_resource(self.get(name), resource)

    def body_tokens(self, name: str, counter: TokenCounter) -> int:
        """Return the tokens of body and examples, which are not kept; 0 if they cannot be read."""
        key = name, counter.name
        with self._lock:
            if key not in self._tokens:
                try:
                    skill = self._bodies.get(name) or _read_body(self.get(name))
                except InputError:
                    return 0
                texts = (skill.body or "", *skill.examples.values())
                self._tokens[key] = sum(map(counter.count_text, texts))
            return self._tokens[key]

    def reload(self) -> None:
        """Read all folders again."""
        problems: list[SkillProblem] = []
        cards: dict[str, Skill] = {}
        for folder in dict.fromkeys(self._skill_folders(problems)):
            try:
                card = _read_card(folder)
            except InputError as error:
                problems.append(SkillProblem(folder=folder, reason=str(error)))
                continue
            if card.name not in (folder.name, folder.resolve().name):
                reason = f"the skill is named {card.name!r}; give its folder the same name"
                problems.append(SkillProblem(folder=folder, reason=reason, usable=True))
            if (first := cards.setdefault(card.name, card)) is not card:
                reason = f"the name {card.name!r} is taken by {first.folder}; rename one of them"
                problems.append(SkillProblem(folder=folder, reason=reason))
        with self._lock:
            self._cards, self._bodies, self._tokens = dict(sorted(cards.items())), {}, {}
            self.problems = tuple(problems)
            self.version += 1

    def _skill_folders(self, problems: list[SkillProblem]) -> Iterator[Path]:
        for folder in self._folders:
            try:
                if (folder / _SKILL_FILE).is_file():
                    yield folder
                    continue
                nested = sorted(path for path in folder.iterdir() if path.is_dir())
            except OSError as error:
                reason = f"cannot be listed: {error.strerror or error}; make it, or name another"
                problems.append(SkillProblem(folder=folder, reason=reason))
                continue
            yield from (path for path in nested if path.name[0] != "." and path.name not in _SKIPPED_FOLDERS)


def _read_card(folder: Path) -> Skill:
    """Return a skill without its body; only the front matter of the file is read.

    InputError: there is no SKILL.md, it is outside the folder, or its front matter is missing or invalid.
    """
    head, _ = _split_file(folder, card_only=True)
    fields = {name.lower().replace("_", "-"): value for name, value in parse_front_matter(head).items()}
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


def _read_body(card: Skill) -> Skill:
    """Return the skill with body, examples (``examples.md`` or ``examples/*.md``) and other file names."""
    try:
        _, body = _split_file(card.folder, card_only=False)
        names = list(islice(_files(card.folder), _MAX_RESOURCES))
        examples = {n: _read_resource(card, n).strip() for n in names if _EXAMPLES.fullmatch(n)}
    except (InputError, NotFound) as error:  # a file was removed meanwhile
        raise InputError(f"the skill {card.name} cannot be opened: {error}") from error
    others = tuple(name for name in names if name not in examples)
    return replace(card, body=body.strip(), examples=examples, resources=others)


def _read_resource(skill: Skill, name: str) -> str:
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
    data = _read_bytes(file, _MAX_TEXT)
    if len(data) > _MAX_TEXT:
        raise InputError(f"{file.name} is larger than {_MAX_TEXT:,} bytes; no window holds that")
    return _decode(data, f"{name!r} of {skill.name}")


def parse_front_matter(text: str) -> dict[str, Any]:
    """Parse the fields of a front matter; every scalar is a string as written, such as "1.0".

    A plain value with ": " inside, which YAML forbids and most readers of skills accept, is read as if
    quoted. InputError: it is no YAML, or has no fields; the message names the line.
    """
    import yaml  # type: ignore[import-untyped]

    if text.count("[") + text.count("{") > _MAX_BRACKETS:
        raise InputError(f"the front matter has more than {_MAX_BRACKETS} brackets; write fields and lists")
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
    file = folder / _SKILL_FILE
    if not file.is_file():
        raise InputError(f"there is no {_SKILL_FILE} in it; the name is written so, in capitals")
    if not file.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{_SKILL_FILE} is a link that leads out of the folder; copy the file into it")
    data = _read_bytes(file, _MAX_FRONT_MATTER + (0 if card_only else _MAX_TEXT))
    first, _, rest = data.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    if first.rstrip() != b"---":
        raise InputError(f'{_SKILL_FILE} has no front matter; its first line must be "---"')
    end = _FENCE.search(rest)
    if end is None or end.start() > _MAX_FRONT_MATTER:
        raise InputError(f'the front matter of {_SKILL_FILE} has no end; close it with "---"')
    head, body = rest[: end.start()], rest[end.end() :]
    if len(body) > _MAX_TEXT:
        raise InputError(f"the body of {_SKILL_FILE} is larger than {_MAX_TEXT:,} bytes; move parts to files")
    return _decode(head, _SKILL_FILE), "" if card_only else _decode(body, f"the body of {_SKILL_FILE}")


def _read_bytes(file: Path, limit: int) -> bytes:
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
        folders[:] = [] if deep else sorted(f for f in folders if f[0] != "." and f not in _SKIPPED_FOLDERS)
        for file in (here / name for name in sorted(files) if name[0] != "."):
            with suppress(OSError, RuntimeError):  # a link to nowhere, or to itself
                if file != root / _SKILL_FILE and file.is_file() and file.resolve().is_relative_to(root):
                    yield file.relative_to(root).as_posix()


def _text_field(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, not a list or fields of its own; put it in quotes")
    return " ".join(value.split())


def _words(value: object, separator: str | None) -> tuple[str, ...]:
    words = value.split(separator) if isinstance(value, str) else value
    if not isinstance(words, list):
        return ()
    return tuple(word.strip() for word in words if isinstance(word, str) and word.strip())
