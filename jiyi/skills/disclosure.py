"""What each session sees of the skills: all cards, and the few bodies it has opened."""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from functools import partial

from jiyi.errors import InputError, NotFound
from jiyi.prompts import wording
from jiyi.records import Block, Scope
from jiyi.records.skill import Skill
from jiyi.skills.cards import Cards, cards
from jiyi.skills.registry import SkillRegistry
from jiyi.skills.route import Routed, Router, Swapped, choose
from jiyi.text import TokenCounter, counter_for, language

__all__ = ["Disclosure", "SkillShelf"]

_MOST_NEWS = 20  # changes that are kept for a window to tell of
_MOST_SESSIONS = 10_000  # whose opened skills are remembered
_MOST_WITH_EXAMPLES = 5000  # tokens of an opened skill that the Agent Skills format recommends at most
_block = partial(Block, section="skills", kind="skill")


class Disclosure:
    """Skills shown step by step in one session: cards, then a body, then a single file.

    - The window starts with the cards alone; their text and order stay the same until a reload of
      the registry finds other skills, so they can be part of a cached prefix. Their sentences are
      in the language of the first call of `blocks`.
    - At most ``max_open`` skills are open; opening one more closes the one opened first.
    - What `begin` and `follow` open, they close again; what `open` and `swap` open stays until
      it is closed, swapped, or a task begins.
    - A call that fails changes nothing.
    - Safe to share between threads. Nothing is stored: to go on after a restart, give what
      `opened` was.

    Args:
        registry: the skills there are.
        max_open: bodies open at a time.
        max_card_tokens: of all cards together, above which only names are shown.
        router: chooses skills for `route`; one without an embedder where it is left out.
        opened: names to begin with, such as those of before a restart; unknown ones are passed over.

    Raises:
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
        self.registry = registry  # the skills there are
        self._max_open = max_open
        self._max_card_tokens = max_card_tokens
        self._router = router or Router(registry)
        self._lock = threading.RLock()
        known = dict.fromkeys(name for name in opened if name in registry)
        self._opened = list(known)[-max_open:]
        self._routed: frozenset[str] = frozenset()
        self._task_id = ""
        self._news: deque[Swapped] = deque(maxlen=_MOST_NEWS)
        self._language = ""
        self._cards: tuple[tuple[int, str], Cards] | None = None

    def __repr__(self) -> str:
        return f"Disclosure({len(self.registry)} skills, opened: {', '.join(self.opened) or 'none'})"

    @property
    def opened(self) -> tuple[str, ...]:
        """The names of open skills, the one opened first first."""
        with self._lock:
            return tuple(name for name in self._opened if name in self.registry)

    def open(self, name: str, resource: str | None = None) -> str:
        """Open a skill and return its text: body, examples, and the names of its other files.

        It stays in the window until it is closed. Examples that would bring it over 5,000
        tokens are named as files instead. With ``resource`` the text of that file is
        returned, and nothing is opened or closed.

        Raises:
            NotFound: there is no such skill or file; names those there are.
            InputError: the file cannot be read, or its name leads out of the skill's folder.
        """
        if resource is not None:
            return self.registry.resource(name, resource)
        text = _whole(self.registry.open(name))
        with self._lock:
            if name not in self._opened:
                self._opened = [*self.opened, name][-self._max_open :]
            self._routed -= {name}
        return text

    def close(self, name: str) -> bool:
        """Take a skill's body out of the window; say whether it was open."""
        with self._lock:
            was_open = name in self._opened
            self._opened = [one for one in self._opened if one != name]
            return was_open

    def swap(self, names: Sequence[str]) -> tuple[str, ...]:
        """Have exactly these open, as for a new task; return the names of those closed.

        What is open already keeps its place; an empty list closes all.

        Raises:
            NotFound: one is unknown.
            InputError: one cannot be read, or they are more than ``max_open``.
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
            staying = [name for name in before if name in wanted]
            self._opened = [*staying, *(name for name in wanted if name not in staying)]
            self._routed = frozenset()
            return tuple(name for name in before if name not in wanted)

    def begin(self, task_id: str, request: str = "") -> Swapped:
        """Close all for a new task and open the skill its request is for, none without a request.

        A skill that cannot be read is not opened.
        """
        found = self._router.route(request)
        names = [one.skill.name for one in found if self._readable(one.skill.name)]
        with self._lock:
            before = self.opened
            by_hand = set(before) - self._routed
            closed = self.swap(names)
            self._routed, self._task_id = frozenset(names) - by_hand, task_id
            opened = tuple(name for name in names if name not in before)
            why = f"a task began, {found[0].why}" if opened else "a task began"
            return self._told(Swapped(opened=opened, closed=closed, why=why))

    def follow(self, question: str) -> Swapped:
        """Open the skill a question is for, and close what routing opened where that fits clearly less.

        See `jiyi.skills.route.choose`. A skill opened by `open` or `swap` stays; where these fill
        ``max_open``, or the skill cannot be read, nothing changes.
        """
        found = self._router.scores(question)
        with self._lock:
            swapped = choose(found, self.opened, self._routed)
            staying = [name for name in self.opened if name not in swapped.closed]
            if swapped.opened and (len(staying) >= self._max_open or not self._readable(swapped.opened[0])):
                return Swapped()
            self._opened = [*staying, *swapped.opened]
            self._routed = (self._routed - set(swapped.closed)) | set(swapped.opened)
            return self._told(swapped)

    def end(self, task_id: str) -> Swapped:
        """Close what routing opened for a task that ended; nothing where another began meanwhile."""
        with self._lock:
            if task_id != self._task_id:
                return Swapped()
            closed = tuple(name for name in self.opened if name in self._routed)
            self._opened = [name for name in self.opened if name not in closed]
            self._routed, self._task_id = frozenset(), ""
            return self._told(Swapped(closed=closed, why="the task ended"))

    def news(self) -> list[Swapped]:
        """Return what `begin`, `follow` and `end` changed since the last call, at most the last 20."""
        with self._lock:
            told = list(self._news)
            self._news.clear()
            return told

    def route(self, query: str, limit: int = 1) -> list[Routed]:
        """Return the skills that fit a query, the best first; opens none of them.

        Raises:
            InputError: ``limit`` is below 1.
        """
        return self._router.route(query, limit)

    def blocks(self, counter: TokenCounter, language: str) -> list[Block]:
        """Return what the window shows: the cards, required, then each open body.

        Bodies stand in the order they were opened, and of those the newest scores highest.
        One that cannot be read any more is left out and named in the note of the cards.
        Without skills the list is empty.

        Args:
            counter: counts tokens.
            language: "zh" or "en", for the sentences around; the first call decides.

        Raises:
            InputError: the language is unknown.
        """
        shown = self._shown(counter, language)
        if not shown.text:
            return []
        opened, bodies = self.opened, list[Block]()
        notes = [shown.note] if shown.note else []
        for place, name in enumerate(opened, 1):
            try:
                text = _whole(self.registry.open(name))
            except InputError as error:
                notes.append(str(error))
            else:
                tokens, score = counter.count_text(text), place / len(opened)
                bodies.append(_block(source_id=name, title=name, text=text, tokens=tokens, score=score))
        first = _block(
            source_id="cards",
            title=f"cards of {len(self.registry)} skills",
            text=shown.text,
            tokens=shown.tokens,
            score=1.0,
            required=True,
            note="; ".join(notes),
        )
        return [first, *bodies]

    def saved(self, counter: TokenCounter) -> int:
        """Return the tokens of bodies and examples that are not in the window.

        The first call reads each body once to count it; the texts are not kept.
        """
        opened = set(self.opened)
        return self.tokens([name for name in self.registry.names if name not in opened], counter)

    def tokens(self, names: Iterable[str], counter: TokenCounter) -> int:
        """Return the tokens of bodies and examples; of skills that are gone none."""
        return sum(self.registry.body_tokens(name, counter) for name in names if name in self.registry)

    def _told(self, swapped: Swapped) -> Swapped:
        if swapped:
            self._news.append(swapped)
        return swapped

    def _readable(self, name: str) -> bool:
        try:
            self.registry.open(name)
        except (InputError, NotFound):
            return False
        return True

    def _shown(self, counter: TokenCounter, language: str) -> Cards:
        with self._lock:
            spoken = self._language or language
            key = (self.registry.version, counter.name)
            if self._cards is None or self._cards[0] != key:
                skills = self.registry.skills
                self._cards = (key, cards(skills, counter, spoken, self._max_card_tokens))
                self._language = spoken
            return self._cards[1]


class SkillShelf:
    """Hands out the `Disclosure` of each session.

    What is open lives in this process: of more than 10,000 sessions those not used for the
    longest time begin with cards again, and so do all of them after a restart.
    """

    def __init__(self, registry: SkillRegistry, router: Router | None = None) -> None:
        self.registry = registry  # the skills there are
        self._router = router or Router(registry)
        self._sessions: OrderedDict[tuple[str, str | None], Disclosure] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, scope: Scope) -> Disclosure:
        """Return what a session sees; a new one sees cards."""
        key = scope.user_id, scope.session_id
        with self._lock:
            found = self._sessions.get(key)
            if found is None:
                found = self._sessions[key] = Disclosure(self.registry, router=self._router)
                if len(self._sessions) > _MOST_SESSIONS:
                    self._sessions.popitem(last=False)
            self._sessions.move_to_end(key)
            return found


def _whole(skill: Skill) -> str:
    """Return the text of an opened skill; it depends on nothing but the skill's files."""
    body = skill.body or ""
    words = wording("skills", language(body))
    parts = [body]
    with_examples = [body, f"## {words['examples']}", *skill.examples.values()]
    files = list(skill.resources)
    if skill.examples:
        if counter_for().count_text("\n\n".join(with_examples)) <= _MOST_WITH_EXAMPLES:
            parts = with_examples
        else:
            files = sorted([*files, *skill.examples])
    if files:
        parts.append(words["files"] + ", ".join(files))
    inside = "\n\n".join(part for part in parts if part)
    return f'<skill name="{skill.name}">\n{inside}\n</skill>'
