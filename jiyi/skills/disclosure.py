"""The skills that each session sees: all cards, the few bodies it has opened, and the tool that opens one."""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from jiyi.errors import InputError, NotFound
from jiyi.prompts import wording
from jiyi.records import Block, Scope
from jiyi.records.skill import Skill
from jiyi.skills.registry import SkillRegistry
from jiyi.skills.route import Routed, Router, Swapped, choose_swap
from jiyi.text import TokenCounter, counter_for, language

__all__ = ["OPEN_SKILL", "Disclosure", "SkillShelf", "cards", "open_skill_tool"]

_MAX_CHANGES = 20  # kept for the report of the next window
_MAX_SESSIONS = 10_000  # with opened skills
_MAX_EXAMPLE_TOKENS = 5000  # of an opened skill, as the Agent Skills format recommends
_block = partial(Block, section="skills", kind="skill")

OPEN_SKILL = "open_skill"
"""The name of the tool, which the sentence above the cards repeats."""


def cards(skills: Sequence[Skill], counter: TokenCounter, language: str, max_tokens: int) -> Block:
    """Return the required block with a line for each skill, in order; its text is "" without skills.

    If they have more than ``max_tokens``, only the names are shown, and ``note`` says so.

    InputError: the language is unknown.
    """
    intro = wording("skills", language)["intro"]
    lines = (f"- {skill.name}: {skill.description} {skill.when_to_use}" for skill in skills)
    text = "\n".join([intro, *(" ".join(line.split()) for line in lines)]) if skills else ""
    tokens = counter.count_text(text)
    title, note = f"cards of {len(skills)} skills", ""
    if tokens > max_tokens:
        note = f"{len(skills)} cards over {max_tokens:,} tokens: names only"
        text = "\n".join([intro, ", ".join(skill.name for skill in skills)])
        tokens = counter.count_text(text)
    return _block(
        source_id="cards", title=title, text=text, tokens=tokens, score=1.0, required=True, note=note
    )


def open_skill_tool(registry: SkillRegistry, language: str = "en") -> dict[str, Any]:
    """Return the tool as an OpenAI definition, whose arguments are those of `Disclosure.open`.

    InputError: there are no skills, or the language is unknown.
    """
    if not registry.names:
        raise InputError("there are no skills to open; offer this tool only where the registry has some")
    words = wording("skill_tool", language)
    properties = {
        "name": {"type": "string", "enum": list(registry.names), "description": words["name"]},
        "resource": {"type": "string", "description": words["resource"]},
    }
    closed = {"required": ["name"], "additionalProperties": False}
    parameters = {"type": "object", "properties": properties, **closed}
    function = {"name": OPEN_SKILL, "description": words["tool"], "parameters": parameters}
    return {"type": "function", "function": function}


class Disclosure:
    """Skills shown step by step in one session: cards, then a body, then a single file.

    - The window starts with cards only, by names alone above ``max_card_tokens`` together; their text and
      order stay the same until a reload of the registry finds other skills, so that they can be part of a
      cached prefix. Their sentences are in the language of the first call of `blocks`.
    - At most ``max_open`` skills are open; opening another closes the one opened first.
    - `begin` and `follow` close what they opened; skills opened by `open` and `swap` stay until they are
      closed or swapped, or a task begins.
    - A call that fails changes nothing.
    - Safe to share between threads. Nothing is stored: after a restart, pass the value of `opened`, of which
      unknown names are skipped.

    InputError: ``max_open`` or ``max_card_tokens`` is below 1.
    """

    def __init__(
        self,
        registry: SkillRegistry,
        *,
        max_open: int = 3,
        max_card_tokens: int = 1500,
        router: Router | None = None,
        opened: Iterable[str] = (),
    ) -> None:
        if max_open < 1 or max_card_tokens < 1:
            raise InputError(f"max_open={max_open} and max_card_tokens={max_card_tokens} must be at least 1")
        self.registry = registry  # the available skills
        self._max_open = max_open
        self._max_card_tokens = max_card_tokens
        self._router = router or Router(registry)
        self._lock = threading.RLock()
        self._opened = list(dict.fromkeys(name for name in opened if name in registry))[-max_open:]
        self._routed: frozenset[str] = frozenset()
        self._task_id = ""
        self._changes: deque[Swapped] = deque(maxlen=_MAX_CHANGES)
        self._language = ""
        self._cards: tuple[tuple[int, str], Block] | None = None

    def __repr__(self) -> str:
        return f"Disclosure({len(self.registry)} skills, opened: {', '.join(self.opened) or 'none'})"

    @property
    def opened(self) -> tuple[str, ...]:
        """The names of open skills, oldest first."""
        with self._lock:
            return tuple(name for name in self._opened if name in self.registry)

    def open(self, name: str, resource: str | None = None) -> str:
        """Open a skill and return its text: body, examples, and the paths of its other files.

        It stays in the window until it is closed. Examples that would bring it over 5,000 tokens are listed
        as files instead. With ``resource`` only the text of that file is returned; raises as `SkillRegistry`.
        """
        if resource is not None:
            return self.registry.resource(name, resource)
        text = _skill_text(self.registry.open(name))
        with self._lock:
            if name not in self._opened:
                self._opened = [*self.opened, name][-self._max_open :]
            self._routed -= {name}
        return text

    def close(self, name: str) -> bool:
        """Close a skill, and return whether it was open."""
        with self._lock:
            before, self._opened = self._opened, [other for other in self._opened if other != name]
            return name in before

    def swap(self, names: Sequence[str]) -> tuple[str, ...]:
        """Open exactly these skills, as for a new task, and return the names of those closed.

        Raises as `SkillRegistry.open`, and InputError where there are more than ``max_open``.
        """
        if isinstance(names, str):
            raise InputError(f"swap() takes a list of names; write swap([{names!r}])")
        wanted = list(dict.fromkeys(names))
        if len(wanted) > self._max_open:
            raise InputError(f"{len(wanted)} skills are more than max_open={self._max_open}; choose fewer")
        for name in wanted:
            self.registry.open(name)
        with self._lock:
            before = self.opened
            kept = [name for name in before if name in wanted]
            self._opened = [*kept, *(name for name in wanted if name not in kept)]
            self._routed = frozenset()
            return tuple(name for name in before if name not in wanted)

    def begin(self, task_id: str, request: str = "") -> Swapped:
        """Close all skills for a new task and open the one that fits its request, if it can be read."""
        matches = self._router.route(request)
        names = [match.skill.name for match in matches if self._readable(match.skill.name)]
        with self._lock:
            before = self.opened
            opened_by_call = set(before) - self._routed
            closed = self.swap(names)
            self._routed, self._task_id = frozenset(names) - opened_by_call, task_id
            opened = tuple(name for name in names if name not in before)
            why = f"a task began, {matches[0].why}" if opened else "a task began"
            return self._record_change(Swapped(opened=opened, closed=closed, why=why))

    def follow(self, question: str) -> Swapped:
        """Open and close skills for a question, as `choose_swap` says.

        Skills opened by `open` or `swap` stay; if these fill ``max_open``, or the skill cannot be read,
        nothing changes.
        """
        matches = self._router.scores(question)
        with self._lock:
            swapped = choose_swap(matches, self.opened, self._routed)
            kept = [name for name in self.opened if name not in swapped.closed]
            if swapped.opened and (len(kept) >= self._max_open or not self._readable(swapped.opened[0])):
                return Swapped()
            self._opened = [*kept, *swapped.opened]
            self._routed = (self._routed - set(swapped.closed)) | set(swapped.opened)
            return self._record_change(swapped)

    def end(self, task_id: str) -> Swapped:
        """Close what routing opened for a task, unless another task began meanwhile."""
        with self._lock:
            if task_id != self._task_id:
                return Swapped()
            closed = tuple(name for name in self.opened if name in self._routed)
            self._opened = [name for name in self.opened if name not in closed]
            self._routed, self._task_id = frozenset(), ""
            return self._record_change(Swapped(closed=closed, why="the task ended"))

    def news(self) -> list[Swapped]:
        """Return the changes of `begin`, `follow` and `end` since the last call, at most 20."""
        with self._lock:
            return [self._changes.popleft() for _ in range(len(self._changes))]

    def route(self, query: str, limit: int = 1) -> list[Routed]:
        """Return the skills that fit a query, as `Router.route`, without opening them."""
        return self._router.route(query, limit)

    def blocks(self, counter: TokenCounter, language: str) -> list[Block]:
        """Return the blocks of the window: the required cards, then each open body.

        Bodies are in the order they were opened, and the newest has the highest score. One that cannot be
        read any more is left out and named in the note of the cards. Without skills the list is empty.
        The first call decides the language of the sentences, "zh" or "en"; InputError: it is another one.
        """
        shown = self._current_cards(counter, language)
        if not shown.text:
            return []
        opened, bodies = self.opened, list[Block]()
        notes = [shown.note] if shown.note else []
        for position, name in enumerate(opened, 1):
            try:
                text = _skill_text(self.registry.open(name))
            except InputError as error:
                notes.append(str(error))
            else:
                tokens, score = counter.count_text(text), position / len(opened)
                bodies.append(_block(source_id=name, title=name, text=text, tokens=tokens, score=score))
        return [replace(shown, note="; ".join(notes)), *bodies]

    def saved(self, counter: TokenCounter) -> int:
        """Return the tokens of bodies and examples that are not in the window; the first call reads them."""
        opened = set(self.opened)
        return self.tokens([name for name in self.registry.names if name not in opened], counter)

    def tokens(self, names: Iterable[str], counter: TokenCounter) -> int:
        """Return the tokens of bodies and examples; removed skills have none."""
        return sum(self.registry.body_tokens(name, counter) for name in names if name in self.registry)

    def _record_change(self, swapped: Swapped) -> Swapped:
        if swapped:
            self._changes.append(swapped)
        return swapped

    def _readable(self, name: str) -> bool:
        try:
            self.registry.open(name)
        except (InputError, NotFound):
            return False
        return True

    def _current_cards(self, counter: TokenCounter, language: str) -> Block:
        with self._lock:
            cards_language = self._language or language
            key = (self.registry.version, counter.name)
            if self._cards is None or self._cards[0] != key:
                skills = self.registry.skills
                self._cards = (key, cards(skills, counter, cards_language, self._max_card_tokens))
                self._language = cards_language
            return self._cards[1]


class SkillShelf:
    """Keeps the `Disclosure` of each session in this process, of the 10,000 used last."""

    def __init__(self, registry: SkillRegistry, router: Router) -> None:
        self.registry = registry  # the skills there are
        self._sessions = lru_cache(maxsize=_MAX_SESSIONS)(lambda *_: Disclosure(registry, router=router))
        self._lock = threading.Lock()

    def of(self, scope: Scope) -> Disclosure:
        """Return the disclosure of a session; a new one has only cards."""
        with self._lock:  # or two threads could make one each
            return self._sessions(scope.user_id, scope.session_id)


def _skill_text(skill: Skill) -> str:
    """Return the text of an opened skill, which depends only on its files."""
    body = skill.body or ""
    words = wording("skills", language(body))
    parts, files = [body], list(skill.resources)
    with_examples = [body, f"## {words['examples']}", *skill.examples.values()]
    if skill.examples and counter_for().count_text("\n\n".join(with_examples)) <= _MAX_EXAMPLE_TOKENS:
        parts = with_examples
    elif skill.examples:
        files = sorted([*files, *skill.examples])
    if files:
        parts.append(words["files"] + ", ".join(files))
    inside = "\n\n".join(filter(None, parts))
    return f'<skill name="{skill.name}">\n{inside}\n</skill>'
