"""Several sessions for one piece of work: the handover to the next one, and stages of a task."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from typing import Any, NamedTuple, cast

from jiyi.context.health import find_goal
from jiyi.errors import BudgetTooSmall, InputError
from jiyi.extraction.clauses import split_sentences
from jiyi.prompts import Language, quote, wording
from jiyi.records import Message, Step, Task
from jiyi.records.atoms import turns
from jiyi.records.checks import check_id
from jiyi.short_term.policy import as_messages
from jiyi.text import TokenCounter, Trait, counter_for, query_terms, traits
from jiyi.text import language as language_of
from jiyi.text.lexicon import lexicon

__all__ = ["Stage", "handover", "split_task"]

_SECTION_WEIGHTS = {"goal": 6.0, "todo": 5.0, "task": 4.0, "decided": 3.0, "last": 2.0, "summary": 1.0}
_LINE_FRACTION = 8  # a line may take 1/8 of the text, the goal 2/8

_signs = cache(partial(lexicon, __package__, "handover", flags=re.IGNORECASE))
_DONE_OVERLAP = 0.5  # share of a to-do's terms that a sentence saying "done" must have to close it


class _Line(NamedTuple):
    section: str
    text: str
    priority: float


def handover(
    messages: Sequence[Message | Mapping[str, Any]],
    *,
    summary: str = "",
    task: Task | None = None,
    goal: str = "",
    max_tokens: int = 800,
    last_turns: int = 2,
    counter: TokenCounter | None = None,
    language: str = "auto",
) -> str:
    """Return a text to begin the next session with: goal, decisions, task, to-dos, last turns; "" for none.

    It quotes the session and asks no model; system messages are left out, and each quote is one
    line, so that it cannot pass for a heading. What exceeds ``max_tokens`` is dropped in this
    order, the oldest first: the summary's lines, last turns, decisions, steps of the task, to-dos.
    A to-do that a later sentence calls done is left out.

    Args:
        messages: the session, oldest first, as values or OpenAI dicts.
        summary: its running summary, if there is one.
        task: the current task, for the goal, the steps and what is open.
        goal: what the session is for; the task's request, else the first request, by default.
        max_tokens: the size limit of the text.
        last_turns: how many turns at the end are shown.
        counter: counts tokens.
        language: "zh", "en", or "auto" for the goal's.

    Raises `BudgetTooSmall` if not even the beginning of the goal fits, `InputError` for an unknown language
    or an impossible dict.
    """
    counter, talk = counter or counter_for(), as_messages(messages)
    purpose = goal or (task.request if task else "") or find_goal(talk)
    words = wording("handover", _choose_language(language, purpose))
    line_limit = max(max_tokens // _LINE_FRACTION, 1)
    texts = {  # in the order of the text
        "goal": [purpose],
        "summary": [line for line in summary.splitlines() if line.strip()],
        "decided": _find_decisions(talk),
        "task": [_format_step(step, words) for step in (task.steps if task else ())],
        "todo": _find_open_todos(talk),
        "last": _format_last_turns(talk, last_turns),
    }
    lines = [
        _Line(
            section=section,
            text=_one_line(text, line_limit * (2 if section == "goal" else 1), counter),
            priority=_SECTION_WEIGHTS[section] + place / (len(section_texts) + 1),  # later lines rank higher
        )
        for section, section_texts in texts.items()
        for place, text in enumerate(section_texts)
    ]
    filled = [line for line in lines if line.text]
    return _render_best(filled, words, max_tokens, counter) if filled else ""


def _render_best(
    lines: Sequence[_Line], words: Mapping[str, str], max_tokens: int, counter: TokenCounter
) -> str:
    """Render the lines of highest priority that fit; the sum of their counts is only an estimate."""
    costs = {line: counter.count_text(line.text) + 4 for line in lines}
    kept = sorted(lines, key=lambda line: -line.priority)
    total = sum(costs.values())
    while len(kept) > 1 and total > max_tokens:
        total -= costs[kept.pop()]
    while True:
        chosen = set(kept)
        text = _render([line for line in lines if line in chosen], words)
        needed = counter.count_text(text)
        if needed <= max_tokens:
            return text
        if len(kept) <= 1:
            problem = f"a handover takes at least {needed} tokens, max_tokens={max_tokens}; raise it"
            raise BudgetTooSmall(problem, needed=needed, available=max_tokens)
        kept.pop()


def _render(lines: Sequence[_Line], words: Mapping[str, str]) -> str:
    parts = [words["preface"]]
    for section, section_lines in groupby(lines, key=lambda line: line.section):
        parts.append(f"## {words[section]}\n" + "\n".join(f"> - {line.text}" for line in section_lines))
    return "\n\n".join(parts)


def _one_line(text: str, max_tokens: int, counter: TokenCounter) -> str:
    """Return a text as one line of about ``max_tokens`` or fewer."""
    line = " ".join(text.removeprefix("- ").split())
    if counter.count_text(line) <= max_tokens:
        return line
    return f"{counter.truncate(line, max_tokens).rstrip()}…"


def _find_sentences(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if message.role in ("user", "assistant"):
            yield from split_sentences(message.text)


def _find_decisions(messages: Sequence[Message]) -> list[str]:
    """Return the sentences that decide something, without repeats, oldest first."""
    decisions: dict[str, None] = {}
    for sentence in _find_sentences(messages):
        signs = traits(sentence)
        if Trait.DECISION in signs and Trait.QUESTION not in signs and not _signs().todo.search(sentence):
            decisions.pop(sentence, None)
            decisions[sentence] = None
    return list(decisions)


def _format_step(step: Step, words: Mapping[str, str]) -> str:
    return f"[{words[step.status]}] {step.description}" + (f" -> {step.result}" if step.result else "")


def _find_open_todos(messages: Sequence[Message]) -> list[str]:
    """Return the sentences about open to-dos, oldest first."""
    open_: dict[str, set[str]] = {}
    for sentence in _find_sentences(messages):
        terms = set(query_terms(_signs().todo.sub(" ", sentence)))
        if _signs().done.search(sentence):
            closed = [s for s, todo in open_.items() if len(terms & todo) >= _DONE_OVERLAP * len(todo)]
            for done in closed:
                del open_[done]
        elif _signs().todo.search(sentence) and Trait.QUESTION not in traits(sentence):
            open_.setdefault(sentence, terms)
    return list(open_)


def _format_last_turns(messages: Sequence[Message], count: int) -> list[str]:
    """Return the last turns, a line for each message with words."""
    places = [i for turn in turns(messages)[-count:] for i in turn] if count > 0 else []
    texts = [(messages[i], messages[i].search_text) for i in places]
    return [f"**{m.name or m.role}**: {text}" for m, text in texts if text.strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One session of a split task."""

    name: str  # such as "research"
    session_id: str  # the session it is to be done in
    instruction: str  # what this stage is for
    plan: str  # of the whole task
    after: tuple[str, ...]  # names of the stages before it, in order
    language: Language  # of the headings

    def opening(
        self,
        results: Mapping[str, str] | None = None,
        *,
        max_tokens: int = 4_000,
        counter: TokenCounter | None = None,
    ) -> str:
        """Return the first message of this stage's session: instruction, plan, and results so far.

        It holds nothing else of the earlier sessions. Results are quoted; if they are too long
        together each keeps its beginning, and the longest lose most.

        ``results`` are what the stages before wrote at their end, by name; missing ones are left out. Raises
        `InputError` for a result of a stage that does not come before this one, `BudgetTooSmall` if
        instruction and plan alone are larger than ``max_tokens``.
        """
        given = results or {}
        if others := [name for name in given if name not in self.after]:
            before = ", ".join(self.after) or "none"
            problem = f"{others[0]!r} does not come before the stage {self.name!r}"
            raise InputError(f"{problem}; before it: {before}")
        counter = counter or counter_for()
        shown = {name: given[name] for name in self.after if given.get(name, "").strip()}
        limit = max((counter.count_text(text) for text in shown.values()), default=0)
        while True:
            text = self._render({name: _shorten_result(text, limit, counter) for name, text in shown.items()})
            needed = counter.count_text(text)
            if needed <= max_tokens:
                return text
            if limit == 0:
                problem = f"instruction and plan of the stage {self.name!r} take {needed} tokens, "
                problem += f"max_tokens={max_tokens}; raise it or shorten the plan"
                raise BudgetTooSmall(problem, needed=needed, available=max_tokens)
            limit = limit * 9 // 10

    def _render(self, results: Mapping[str, str]) -> str:
        words = wording("stages", self.language)
        parts = [f"## {words['stage']}: {self.name}\n{self.instruction}", f"## {words['plan']}\n{self.plan}"]
        found = {name: text for name, text in results.items() if text}
        if found:
            parts.append(words["data"])
        parts += [f"## {words['result'].format(name)}\n{quote(text)}" for name, text in found.items()]
        return "\n\n".join(parts)


def split_task(
    plan: str | Sequence[str],
    *,
    session_id: str = "task",
    stages: Mapping[str, str] | None = None,
    language: str = "auto",
) -> tuple[Stage, ...]:
    """Split a task into a chain of sessions: research, implement, verify.

    Each stage runs in its own session, which begins with ``stage.opening(results)``; the agent's
    last message is its result. So no session carries what an earlier one read and tried.

    Args:
        plan: the task's plan, as text or as its points.
        session_id: sessions are called ``{session_id}-{name}``.
        stages: your own, name -> instruction, in order; research, implement and verify by default.
        language: "zh", "en", or "auto" for the plan's.

    Raises `InputError` if the plan is empty, there is no stage, or a session id cannot be used.
    """
    points = [plan] if isinstance(plan, str) else [f"{n}. {point}" for n, point in enumerate(plan, 1)]
    text = "\n".join(points).strip()
    if not text:
        raise InputError("a task is split by its plan; give at least one point")
    heading_language = _choose_language(language, text)
    chosen = wording("stage", heading_language) if stages is None else stages
    if not chosen:
        raise InputError("a task has at least one stage; leave stages out for research, implement, verify")
    names = tuple(chosen)
    for name in names:
        check_id("session_id", f"{session_id}-{name}", InputError)
    return tuple(
        Stage(
            name=name,
            session_id=f"{session_id}-{name}",
            instruction=chosen[name],
            plan=text,
            after=names[:place],
            language=heading_language,
        )
        for place, name in enumerate(names)
    )


def _shorten_result(text: str, limit: int, counter: TokenCounter) -> str:
    if counter.count_text(text) <= limit:
        return text
    kept = counter.truncate(text, limit)
    return f"{kept.rstrip()} …" if kept.strip() else ""


def _choose_language(language: str, text: str) -> Language:
    if language not in ("auto", "zh", "en"):
        raise InputError(f'language={language!r} must be "zh", "en" or "auto"')
    return language_of(text) if language == "auto" else cast("Language", language)
