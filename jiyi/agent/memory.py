"""What an agent does with its memory: the task that keeps its steps, and the tools a model is offered."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jiyi.agent.actions import Action
from jiyi.compression.tool_output import page
from jiyi.errors import InputError, NotFound
from jiyi.manager import MemoryManager
from jiyi.prompts import Language, quote, wording
from jiyi.records import Hit, Message, Outcome, Step, Task
from jiyi.text import Secrecy, excerpt, query_terms

__all__ = ["MEMORY_TOOLS", "MemoryTools", "Work", "unfinished"]

MEMORY_TOOLS = ("remember", "recall", "forget", "plan", "open_skill", "open_output")
"""The names, in the order they are offered."""

_HITS = 5
_HIT_TOKENS = 70  # of one record found
_PART_TOKENS = 450  # of one part of an output
_MARK = {"_made_by": "jiyi.agent"}
_LONGEST = 1_000  # characters of an answer that the episode keeps; it is whole in the conversation
_DONE = "[x]"


@dataclass
class Work:
    """Keeps what a run does in a task of the memory.

    There is no task until something is done: talk alone leaves no episode.
    """

    memory: MemoryManager
    session_id: str
    request: str
    task_id: str | None = None  # None: nothing was done yet

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the task as stored."""
        if self.task_id is None:
            return ()
        found = self.memory.get(self.task_id)
        assert isinstance(found, Task)
        return found.steps

    def begin(self) -> str:
        """Begin the task, where that was not done yet, and return its id."""
        if self.task_id is None:
            self.task_id = self.memory.start_task(self.session_id, self.request, context=_MARK).id
        return self.task_id

    def step(self, description: str, tool_name: str, args: Mapping[str, Any]) -> Step:
        """Write down what is about to be done."""
        return self.memory.add_step(self.begin(), description, tool_name=tool_name, args=args)

    def seen(self, step: Step, text: str, *, ok: bool) -> Step:
        """Write down what came of a step, and return it."""
        return self.memory.update_step(step.id, status="completed" if ok else "failed", result=text)

    def plan(self, lines: Sequence[str], gone: str) -> list[Step]:
        """Make these the steps of the plan and return those that stand in it.

        A line that begins with ``[x]`` is done. Lines already in the plan stay; those no
        longer named count as failed where they were not done, with ``gone`` as their result.
        """
        known = {step.description: step for step in self.steps if step.tool_name is None}
        wanted: dict[str, bool] = {}
        for line in lines:
            done = line.strip().lower().startswith(_DONE)
            words = line.strip()[len(_DONE) :] if done else line.strip().removeprefix("[ ]")
            if words.strip():
                wanted[words.strip()] = done
        for words, done in wanted.items():
            step = known.get(words) or self.memory.add_step(self.begin(), words, status="pending")
            if done and step.status != "completed":
                self.memory.update_step(step.id, status="completed")
            elif not done and step.status == "failed":  # it was taken out once, and is back
                self.memory.update_step(step.id, status="pending", result="")
        for words, step in known.items():
            if words not in wanted and step.status == "pending":
                self.memory.update_step(step.id, status="failed", result=gone)
        return [step for step in self.steps if step.tool_name is None and step.description in wanted]

    def complete(self, summary: str, outcome: Outcome = "success") -> None:
        """End the task, if there is one; it becomes an episode."""
        if self.task_id is not None:
            short = summary if len(summary) <= _LONGEST else summary[: _LONGEST - 1] + "…"
            self.memory.complete_task(self.task_id, outcome=outcome, summary=short)

    def fail(self, reason: str) -> None:
        """End the task, if there is one, as failed; it becomes an episode."""
        if self.task_id is not None:
            self.memory.fail_task(self.task_id, reason=reason[:_LONGEST])


def unfinished(memory: MemoryManager, session_id: str) -> Task | None:
    """Return the newest task of an agent in this session that has not ended."""
    some = [task for task in memory.tasks(status="in_progress") if task.scope.session_id == session_id]
    return next((task for task in some if dict(task.context).items() >= _MARK.items()), None)


@dataclass
class MemoryTools:
    """The memory's verbs as actions, bound to one session and one run.

    - Names, texts and order are always the same, so that prompt caches hold.
    - What is recalled is quoted, whatever it says; secrets are hidden unless the query asks for them.
    - `forget` takes only ids that `recall` returned in this run: neither words nor what a
      text claims to be an id can cost a memory.
    """

    work: Work  # of the run
    language: Language
    hidden: Collection[str]  # ids that are not found, such as the question's own

    def __post_init__(self) -> None:
        self._memory = self.work.memory
        self._words = wording("agent", self.language)
        self._recalled: set[str] = set()

    def actions(self) -> list[Action]:
        """Return the actions; ``open_skill`` only where the memory has skills."""
        text, texts = {"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}
        offset = {"type": "integer", "minimum": 0}
        given: dict[str, tuple[Callable[..., str], dict[str, Any], int]] = {
            "remember": (self._remember, {"text": text, "always": {"type": "boolean"}}, 1),
            "recall": (self._recall, {"query": text}, 1),
            "forget": (self._forget, {"ids": texts}, 1),
            "plan": (self._plan, {"steps": texts}, 1),
            "open_skill": (self._open_skill, {"name": text, "resource": text}, 1),
            "open_output": (self._open_output, {"id": text, "offset": offset}, 1),
        }
        if not self._memory.skills():
            del given["open_skill"]
        return [self._action(name, *given[name]) for name in MEMORY_TOOLS if name in given]

    def _action(
        self, name: str, function: Callable[..., str], parameters: dict[str, Any], required: int
    ) -> Action:
        described = {
            key: schema | {"description": self._words[f"{name}.{key}"]} for key, schema in parameters.items()
        }
        schema = {
            "type": "object",
            "properties": described,
            "required": list(parameters)[:required],
            "additionalProperties": False,
        }
        return Action(name=name, description=self._words[name], parameters=schema, function=function)

    def _remember(self, text: str, always: bool = False) -> str:
        learned = self._memory.remember(text, pinned=always, session_id=self.work.session_id)
        if not learned.facts:
            return self._words["known"]
        return "\n".join([self._words["kept"], *(quote(fact.search_text) for fact in learned.facts)])

    def _recall(self, query: str) -> str:
        hits = self._memory.search(query, limit=_HITS + len(self.hidden))
        shown = [hit for hit in hits if hit.id not in self.hidden][:_HITS]
        self._recalled.update(hit.id for hit in shown)
        secrecy = Secrecy(query, ("\n".join(hit.wordings) for hit in shown), self.language)
        told = [f"({note})" for note in hits.notes]
        if shown and hits.doubtful:
            told.append(self._words["doubtful"].format(percent=round(100 * (hits.nothing_relevant or 0))))
        found = "\n\n".join([*(self._quoted(hit, query, secrecy) for hit in shown), *told])
        return found or self._words["nothing"]

    def _quoted(self, hit: Hit, query: str, secrecy: Secrecy) -> str:
        who = self._words[hit.record.role if isinstance(hit.record, Message) else hit.kind]
        when = hit.created_at.astimezone(self._memory.zone) if hit.created_at else None
        facts = [f"[{hit.id}] {who}", *([f"{when:%Y-%m-%d %H:%M}"] if when else [])]
        if hit.outdated_by:
            facts.append(self._words["outdated"].format(id=hit.outdated_by))
        elif hit.maybe_outdated_by:
            facts.append(self._words["maybe_outdated"].format(id=hit.maybe_outdated_by))
        count = self._memory.counter.count_text
        words = excerpt(secrecy(*hit.wordings), query_terms(query), _HIT_TOKENS, count)
        return f"{', '.join(facts)}\n{quote(words)}"

    def _forget(self, ids: list[str]) -> str:
        unknown = [id for id in ids if id not in self._recalled]
        if unknown:
            raise InputError(self._words["not_recalled"].format(ids=", ".join(unknown)))
        receipt = self._memory.forget(ids=list(dict.fromkeys(ids)), reason="asked for through the agent")
        self._recalled.difference_update(ids)
        return self._words["forgotten"].format(count=receipt.total)

    def _plan(self, steps: list[str]) -> str:
        planned = self.work.plan(steps, self._words["gone"])
        if not planned:
            raise InputError(self._words["no_plan"])
        done = sum(step.status == "completed" for step in planned)
        return self._words["planned"].format(done=done, count=len(planned))

    def _open_skill(self, name: str, resource: str | None = None) -> str:
        opened = self._memory.open_skill(self.work.session_id, name, resource)
        # The skill itself stands in the window from now on: no need to say it twice.
        return opened if resource else self._words["opened"].format(name=name)

    def _open_output(self, id: str, offset: int = 0) -> str:
        part = page(self._whole(id), offset, _PART_TOKENS, self._memory.counter)
        end = part.offset + len(part.text)
        told = self._words["part"].format(start=part.offset, end=end, length=part.total)
        more = [] if part.next_offset is None else [self._words["go_on"].format(end=part.next_offset)]
        return "\n".join([told, part.text, *more])

    def _whole(self, id: str) -> str:
        """Return the whole result of a step of this run, or the whole message of this id."""
        for step in self.work.steps:
            if step.id == id and step.result is not None:
                return step.result
        try:
            found = self._memory.get(id)
        except NotFound:
            found = None
        if not isinstance(found, Message):
            raise NotFound(self._words["no_output"].format(id=id))
        return found.text
