"""The skills there are: folders of ``NAME/SKILL.md``, of which only the cards are read at first."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from jiyi.errors import InputError, NotFound
from jiyi.records.skill import Skill
from jiyi.skills.reading import SKILL_FILE, SKIPPED_FOLDERS, read_body, read_card, read_resource
from jiyi.text import TokenCounter

__all__ = ["SkillProblem", "SkillRegistry"]

_Stamp = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillProblem:
    """Something wrong with a folder of skills, and what follows from it."""

    folder: Path  # the skill's folder, or the folder of skills
    reason: str  # what is wrong and what to do
    usable: bool = False  # the skill is there all the same


@dataclass(slots=True)
class _Entry:
    card: Skill | None  # None where the card could not be read
    problem: SkillProblem | None
    stamp: _Stamp  # of SKILL.md and its folder
    whole: Skill | None = None
    whole_stamp: _Stamp = ()  # of every file that went into it
    sizes: dict[str, int] = field(default_factory=dict)  # tokens of the whole, by the counter's name


class SkillRegistry:
    """The skills of some folders, in the Agent Skills format (agentskills.io/specification).

    - Each folder holds skills as ``NAME/SKILL.md``; a folder that holds a SKILL.md itself is
      one skill. Hidden folders are passed over, deeper ones are not searched.
    - At first only front matter is read; a body when it is opened, and kept until it changes.
    - A folder that cannot be used is listed in ``problems`` and hides no other. Where two
      skills have one name, the first stays: of the earlier folder, then by folder name; so
      give the project's folder before the user's.
    - The order of skills is that of their names: the cards read the same each time.
    - Safe to share between threads and sessions.

    What is in these folders is shown to the model as instructions: name only folders you trust.

    Raises:
        InputError: with ``strict``, the first problem, of usable skills too.
    """

    def __init__(self, *folders: str | Path, strict: bool = False) -> None:
        self._folders = tuple(Path(folder).expanduser() for folder in folders)
        self._strict = strict
        self._lock = threading.RLock()
        self._entries: dict[Path, _Entry] = {}
        self._skills: dict[str, _Entry] = {}
        self.problems: tuple[SkillProblem, ...] = ()  # what is wrong with the folders
        self.version = 0  # grows whenever `reload` finds a change
        self.reload()

    def __len__(self) -> int:
        return len(self._skills)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self.skills)

    def __contains__(self, name: object) -> bool:
        return name in self._skills

    def __repr__(self) -> str:
        return f"SkillRegistry({', '.join(map(repr, map(str, self._folders)))}): {len(self)} skills"

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The cards, by name; their bodies are None."""
        return tuple(map(self.get, self._skills))

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self._skills)

    def get(self, name: str) -> Skill:
        """Return a skill's card.

        Raises:
            NotFound: there is no such skill; names those there are.
        """
        return cast(Skill, self._entry(name).card)  # what has a name has a card

    def open(self, name: str) -> Skill:
        """Return a skill with body, examples and the names of its other files.

        Raises:
            NotFound: there is no such skill.
            InputError: its files cannot be read.
        """
        with self._lock:
            entry = self._entry(name)
            if entry.whole is None:
                stamp = _stamp_of_all(self.get(name).folder)  # before reading: a change meanwhile is seen
                entry.whole = self._read(name)
                entry.whole_stamp = stamp
            return entry.whole

    def resource(self, name: str, resource: str) -> str:
        """Return the text of a file in a skill's folder; raises as `open`, also for an unknown file."""
        return read_resource(self.get(name), resource)

    def body_tokens(self, name: str, counter: TokenCounter) -> int:
        """Return the tokens of a skill's body and examples; read once, counted, and not kept.

        A body that cannot be read counts as 0.
        """
        with self._lock:
            entry = self._entry(name)
            if counter.name not in entry.sizes:
                try:
                    skill = entry.whole or self._read(name)
                except InputError:
                    return 0
                texts = (skill.body or "", *skill.examples.values())
                entry.sizes[counter.name] = sum(map(counter.count_text, texts))
            return entry.sizes[counter.name]

    def reload(self) -> tuple[str, ...]:
        """Look at the folders again; return the names of skills that came, changed or went.

        Files whose time and size are as before are not read again. With ``strict`` and a
        problem, what was known before stays.

        Raises:
            InputError: with ``strict``, the first problem.
        """
        with self._lock:
            entries: dict[Path, _Entry] = {}
            problems: list[SkillProblem] = []
            changed: set[str] = set()
            for folder in self._skill_folders(problems):
                entries.setdefault(folder, self._looked_at(folder, changed))
            skills = _by_name(entries, problems)
            if self._strict and problems:
                raise InputError(f"{problems[0].folder}: {problems[0].reason}")
            before = {name: entry.card for name, entry in self._skills.items()}
            after = {name: entry.card for name, entry in skills.items()}
            changed &= after.keys()
            changed |= {n for n in before.keys() | after.keys() if before.get(n) != after.get(n)}
            self._entries, self._skills, self.problems = entries, skills, tuple(problems)
            self.version += bool(changed)
            return tuple(sorted(changed))

    def _entry(self, name: str) -> _Entry:
        if name not in self._skills:
            known = ", ".join(list(self._skills)[:30]) or "none; give folders with NAME/SKILL.md"
            raise NotFound(f"there is no skill {name!r}; there are {known}")
        return self._skills[name]

    def _read(self, name: str) -> Skill:
        try:
            return read_body(self.get(name))
        except (InputError, NotFound) as error:  # not found: a file went while it was read
            raise InputError(f"the skill {name} cannot be opened: {error}") from error

    def _skill_folders(self, problems: list[SkillProblem]) -> Iterator[Path]:
        for folder in self._folders:
            try:
                if (folder / SKILL_FILE).is_file():
                    yield folder
                    continue
                inside = sorted(path for path in folder.iterdir() if path.is_dir())
            except OSError as error:
                reason = f"cannot be listed: {error.strerror or error}; make it, or name another"
                problems.append(SkillProblem(folder=folder, reason=reason))
                continue
            yield from (path for path in inside if path.name[0] != "." and path.name not in SKIPPED_FOLDERS)

    def _looked_at(self, folder: Path, changed: set[str]) -> _Entry:
        """Return the entry of a folder: the one known where nothing changed."""
        stamp = _stamp(folder / SKILL_FILE)
        known = self._entries.get(folder)
        if known is not None and known.stamp == stamp:
            if known.whole is not None and known.whole_stamp != _stamp_of_all(folder):
                changed.add(known.whole.name)
                return _Entry(known.card, known.problem, stamp)
            return known
        try:
            card = read_card(folder)
        except InputError as error:
            return _Entry(None, SkillProblem(folder=folder, reason=str(error)), stamp)
        changed.add(card.name)
        problem = None
        if card.name != folder.resolve().name and card.name != folder.name:
            reason = f"the skill is named {card.name!r}; give its folder the same name"
            problem = SkillProblem(folder=folder, reason=reason, usable=True)
        return _Entry(card, problem, stamp)


def _by_name(entries: dict[Path, _Entry], problems: list[SkillProblem]) -> dict[str, _Entry]:
    skills: dict[str, _Entry] = {}
    for folder, entry in entries.items():
        if entry.problem is not None:
            problems.append(entry.problem)
        if entry.card is None:
            continue
        first = skills.setdefault(entry.card.name, entry)
        if first is not entry and first.card is not None:
            reason = f"the name {entry.card.name!r} is taken by {first.card.folder}; rename one of them"
            problems.append(SkillProblem(folder=folder, reason=reason))
    return dict(sorted(skills.items()))


def _stamp(file: Path) -> _Stamp:
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _stamp_of_all(folder: Path) -> _Stamp:
    """Return the stamps of everything that `read_body` reads."""
    inside = sorted((folder / "examples").glob("*.md")) if (folder / "examples").is_dir() else []
    own = [file for file in sorted(folder.iterdir()) if file.is_file()] if folder.is_dir() else []
    return tuple(number for file in (folder, *own, *inside) for number in _stamp(file))
