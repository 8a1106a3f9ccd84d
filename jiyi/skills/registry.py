"""The available skills: folders with ``NAME/SKILL.md``, of which only the cards are read at first."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jiyi.errors import InputError, NotFound
from jiyi.records.skill import Skill
from jiyi.skills.reading import SKILL_FILE, SKIPPED_FOLDERS, read_body, read_card, read_resource
from jiyi.text import TokenCounter

__all__ = ["SkillProblem", "SkillRegistry"]


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
                self._bodies[name] = self._read(name)
            return self._bodies[name]

    def resource(self, name: str, resource: str) -> str:
        """Return the text of a file in the folder of a skill; raises as `open`, also for an unknown file."""
        return read_resource(self.get(name), resource)

    def body_tokens(self, name: str, counter: TokenCounter) -> int:
        """Return the tokens of body and examples, which are not kept; 0 if they cannot be read."""
        key = name, counter.name
        with self._lock:
            if key not in self._tokens:
                try:
                    skill = self._bodies.get(name) or self._read(name)
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
                card = read_card(folder)
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

    def _read(self, name: str) -> Skill:
        card = self.get(name)
        try:
            return read_body(card)
        except (InputError, NotFound) as error:  # a file was removed meanwhile
            raise InputError(f"the skill {name} cannot be opened: {error}") from error

    def _skill_folders(self, problems: list[SkillProblem]) -> Iterator[Path]:
        for folder in self._folders:
            try:
                if (folder / SKILL_FILE).is_file():
                    yield folder
                    continue
                nested = sorted(path for path in folder.iterdir() if path.is_dir())
            except OSError as error:
                reason = f"cannot be listed: {error.strerror or error}; make it, or name another"
                problems.append(SkillProblem(folder=folder, reason=reason))
                continue
            yield from (path for path in nested if path.name[0] != "." and path.name not in SKIPPED_FOLDERS)
