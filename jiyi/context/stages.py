"""Stages: one large task in several sessions that hand over only the plan and the results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from jiyi.errors import BudgetTooSmall, InputError
from jiyi.prompts import quote, wording
from jiyi.records.checks import check_id
from jiyi.text import TokenCounter, counter_for
from jiyi.text import language as language_of

__all__ = ["Stage", "split_task"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One session of a task that is split."""

    name: str  # such as "research"
    session_id: str  # the session it is to be done in
    instruction: str  # what this stage is for
    plan: str  # of the whole task
    after: tuple[str, ...]  # names of the stages before it, in order
    language: Literal["zh", "en"]  # of the headings

    def opening(
        self,
        results: Mapping[str, str] | None = None,
        *,
        max_tokens: int = 4_000,
        counter: TokenCounter | None = None,
    ) -> str:
        """Return the first message of this stage's session: instruction, plan, and results so far.

        Nothing else of the earlier sessions is in it. Results are quoted; where they are too long
        together each keeps its beginning, the longest losing most.

        Args:
            results: what the stages before wrote at their end, by name; missing ones are left out.
            max_tokens: most tokens of the message.
            counter: counts tokens.

        Raises:
            InputError: a result of a stage that does not come before this one.
            BudgetTooSmall: instruction and plan alone are larger than ``max_tokens``.
        """
        given = results or {}
        for name in given:
            if name not in self.after:
                before = ", ".join(self.after) or "none"
                raise InputError(
                    f"{name!r} does not come before the stage {self.name!r}; before it: {before}"
                )
        counter = counter or counter_for()
        shown = {name: given[name] for name in self.after if given.get(name, "").strip()}
        limit = max((counter.count_text(text) for text in shown.values()), default=0)
        while True:
            text = self._render({name: _cut(said, limit, counter) for name, said in shown.items()})
            needed = counter.count_text(text)
            if needed <= max_tokens:
                return text
            if limit == 0:
                raise BudgetTooSmall(
                    f"instruction and plan of the stage {self.name!r} take {needed} tokens, "
                    f"max_tokens={max_tokens}; raise it or shorten the plan",
                    needed=needed,
                    available=max_tokens,
                )
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

    Each stage runs in a session of its own, which begins with ``stage.opening(results)``; at its
    end the agent's last message is the stage's result. A session so never carries what an
    earlier one read and tried.

    Args:
        plan: the task's plan, as text or as its points.
        session_id: sessions are called ``{session_id}-{name}``.
        stages: own stages, name -> instruction, in order; research, implement and verify by default.
        language: "zh", "en", or "auto" for that of the plan.

    Raises:
        InputError: the plan is empty, there is no stage, or a session id cannot be used.
    """
    points = [plan] if isinstance(plan, str) else [f"{n}. {point}" for n, point in enumerate(plan, 1)]
    text = "\n".join(points).strip()
    if not text:
        raise InputError("a task is split by its plan; give at least one point")
    if language not in ("auto", "zh", "en"):
        raise InputError(f'language={language!r} must be "zh", "en" or "auto"')
    tongue: Literal["zh", "en"] = (
        language_of(text) if language == "auto" else "zh" if language == "zh" else "en"
    )
    chosen = wording("stage", tongue) if stages is None else stages
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
            language=tongue,
        )
        for place, name in enumerate(names)
    )


def _cut(text: str, limit: int, counter: TokenCounter) -> str:
    if counter.count_text(text) <= limit:
        return text
    kept = counter.truncate(text, limit)
    return f"{kept.rstrip()} …" if kept.strip() else ""
