"""The task that keeps the steps of an agent, and the memory tools for the model."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jiyi.agent.actions import Action
from jiyi.errors import InputError, NotFound
from jiyi.manager import MemoryManager
from jiyi.prompts import Language, quote, wording
from jiyi.records import Hit, Message, Outcome, Step, Task
from jiyi.text import Secrecy, excerpt, query_terms

_MAX_HITS = 5
_HIT_TOKENS = 70  # of one hit
_PART_TOKENS = 450  # of one part of an output
_CONTEXT_MARK = {"_made_by": "jiyi.agent"}
_MAX_SUMMARY_CHARS = 1_000  # of the answer in the episode; the conversation has all of it
_DONE_MARK = "[x]"


@dataclass
class Work:
    """Keeps the steps of a run in a task of the memory; without steps talk leaves no episode."""

    memory: MemoryManager
    session_id: str
    request: str
    task_id: str | None = None  # None before the first step

    @property
    def steps(self) -> tuple[Step, ...]:
        """The stored steps of the task."""
        if self.task_id is None:
            return ()
        task = self.memory.get(self.task_id)
        assert isinstance(task, Task)
        return task.steps

    def start_task(self) -> str:
        """Start the task if there is none yet, and return its id."""
        if self.task_id is None:
            self.task_id = self.memory.start_task(self.session_id, self.request, context=_CONTEXT_MARK).id
        return self.task_id

    def plan(self, lines: Sequence[str], removed_text: str) -> list[Step]:
        """Set the steps of the plan and return them.

        A line that starts with ``[x]`` is done. Lines already in the plan stay; open ones that are missing
        now become failed with the result ``removed_text``.
        """
        existing = {step.description: step for step in self.steps if step.tool_name is None}
        wanted: dict[str, bool] = {}
        for line in lines:
            done = line.strip().lower().startswith(_DONE_MARK)
            text = line.strip()[len(_DONE_MARK) :] if done else line.strip().removeprefix("[ ]")
            if text.strip():
                wanted[text.strip()] = done
        for text, done in wanted.items():
            step = existing.get(text) or self.memory.add_step(self.start_task(), text, status="pending")
            if done and step.status != "completed":
                self.memory.update_step(step.id, status="completed")
            elif not done and step.status == "failed":  # it was removed, and is back
                self.memory.update_step(step.id, status="pending", result="")
        for text, step in existing.items():
            if text not in wanted and step.status == "pending":
                self.memory.update_step(step.id, status="failed", result=removed_text)
        return [step for step in self.steps if step.tool_name is None and step.description in wanted]

    def complete(self, summary: str, outcome: Outcome = "success") -> None:
        """End the task, if there is one; it becomes an episode."""
        if self.task_id is not None:
            short = summary if len(summary) <= _MAX_SUMMARY_CHARS else summary[: _MAX_SUMMARY_CHARS - 1] + "…"
            self.memory.complete_task(self.task_id, outcome=outcome, summary=short)


def find_unfinished_task(memory: MemoryManager, session_id: str) -> Task | None:
    """Return the newest unfinished task of an agent in this session."""
    tasks = [task for task in memory.tasks(status="in_progress") if task.scope.session_id == session_id]
    return next((task for task in tasks if dict(task.context).items() >= _CONTEXT_MARK.items()), None)


@dataclass
class MemoryTools:
    """Verbs of the memory as actions, bound to one session and one run.

    - Names, texts and order are always the same, so that prompt caches stay valid.
    - Recalled text is always quoted; secrets are hidden unless the query asks for them.
    - `forget` accepts only ids that `recall` returned in this run: neither words nor ids in a text can
      remove a record.
    """

    work: Work  # of the run
    language: Language
    excluded_ids: Collection[str]  # ids that recall leaves out, such as that of the question

    def __post_init__(self) -> None:
        self._memory = self.work.memory
        self._words = wording("agent", self.language)
        self._recalled: set[str] = set()

    def actions(self) -> Iterator[Action]:
        """Yield the actions; ``open_skill`` only if the memory has skills. First arguments are required."""
        text, texts = {"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}
        offset = {"type": "integer", "minimum": 0}
        tools: dict[str, tuple[Callable[..., str], dict[str, Any]]] = {
            "remember": (self._remember, {"text": text, "always": {"type": "boolean"}}),
            "recall": (self._recall, {"query": text}),
            "forget": (self._forget, {"ids": texts}),
            "plan": (self._plan, {"steps": texts}),
            "open_skill": (self._open_skill, {"name": text, "resource": text}),
            "open_output": (self._open_output, {"id": text, "offset": offset}),
        }
        if not self._memory.skills():
            del tools["open_skill"]
        words = self._words
        for name, (function, parameters) in tools.items():
            described = {key: it | {"description": words[f"{name}.{key}"]} for key, it in parameters.items()}
            closed = {"required": [*parameters][:1], "additionalProperties": False}
            schema = {"type": "object", "properties": described, **closed}
            yield Action(name=name, description=words[name], parameters=schema, function=function)

    def _remember(self, text: str, always: bool = False) -> str:
        learned = self._memory.remember(text, pinned=always, session_id=self.work.session_id)
        if not learned.facts:
            return self._words["known"]
        return "\n".join([self._words["kept"], *(quote(fact.search_text) for fact in learned.facts)])

    def _recall(self, query: str) -> str:
        hits = self._memory.search(query, limit=_MAX_HITS + len(self.excluded_ids))
        hits_shown = [hit for hit in hits if hit.id not in self.excluded_ids][:_MAX_HITS]
        self._recalled.update(hit.id for hit in hits_shown)
        secrecy = Secrecy(query, ("\n".join(hit.wordings) for hit in hits_shown), self.language)
        notes = [f"({note})" for note in hits.notes]
        if hits_shown and hits.doubtful:
            notes.append(self._words["doubtful"].format(percent=round(100 * (hits.nothing_relevant or 0))))
        result = "\n\n".join([*(self._quoted(hit, query, secrecy) for hit in hits_shown), *notes])
        return result or self._words["nothing"]

    def _quoted(self, hit: Hit, query: str, secrecy: Secrecy) -> str:
        source = self._words[hit.record.role if isinstance(hit.record, Message) else hit.kind]
        time = hit.created_at.astimezone(self._memory.zone) if hit.created_at else None
        head = [f"[{hit.id}] {source}", *([f"{time:%Y-%m-%d %H:%M}"] if time else [])]
        if hit.outdated_by:
            head.append(self._words["outdated"].format(id=hit.outdated_by))
        elif hit.maybe_outdated_by:
            head.append(self._words["maybe_outdated"].format(id=hit.maybe_outdated_by))
        count = self._memory.counter.count_text
        text = excerpt(secrecy(*hit.wordings), query_terms(query), _HIT_TOKENS, count)
        return f"{', '.join(head)}\n{quote(text)}"

    def _forget(self, ids: list[str]) -> str:
        unknown = [id for id in ids if id not in self._recalled]
        if unknown:
            raise InputError(self._words["not_recalled"].format(ids=", ".join(unknown)))
        receipt = self._memory.forget(ids=list(dict.fromkeys(ids)), reason="asked for through the agent")
        self._recalled.difference_update(ids)
        return self._words["forgotten"].format(count=receipt.total)

    def _plan(self, steps: list[str]) -> str:
        steps_of_plan = self.work.plan(steps, self._words["gone"])
        if not steps_of_plan:
            raise InputError(self._words["no_plan"])
        done = sum(step.status == "completed" for step in steps_of_plan)
        return self._words["planned"].format(done=done, count=len(steps_of_plan))

    def _open_skill(self, name: str, resource: str | None = None) -> str:
        opened = self._memory.open_skill(self.work.session_id, name, resource)
        # The window contains the skill from now on.
        return opened if resource else self._words["opened"].format(name=name)

    def _open_output(self, id: str, offset: int = 0) -> str:
        try:
            part = self._memory.open_output(id, offset, max_tokens=_PART_TOKENS)
        except NotFound as error:
            raise NotFound(self._words["no_output"].format(id=id)) from error
        end = part.offset + len(part.text)
        head = self._words["part"].format(start=part.offset, end=end, length=part.total)
        more = [] if part.next_offset is None else [self._words["go_on"].format(end=part.next_offset)]
        return "\n".join([head, part.text, *more])
