from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from jiyi.clock import Moment
from jiyi.compression import Compressor
from jiyi.compression.tool_output import Page
from jiyi.context import Advice, Health
from jiyi.importers.mem0_client import Mem0Client
from jiyi.long_term import (
    ConsolidationReceipt,
    ForgetReceipt,
    GateReceipt,
    Learned,
    Maintained,
    Neighbour,
    ReadingState,
    RestoreReceipt,
)
from jiyi.manager import MemoryManager
from jiyi.monitor import ContextMonitor
from jiyi.records import (
    Budget,
    ContentPart,
    Episode,
    Fact,
    FactCategory,
    FactStatus,
    Given,
    Hits,
    Item,
    Kind,
    Knowledge,
    Listing,
    Message,
    Outcome,
    Role,
    Searchable,
    Session,
    Skill,
    Step,
    StepStatus,
    Summary,
    Task,
    TaskStatus,
    TriggerType,
    Window,
)
from jiyi.short_term import Policy
from jiyi.storage import ExportReceipt, ImportReceipt
from jiyi.text import TokenCounter
from jiyi.verbs.base import Parts

__all__ = ["AsyncMemoryManager"]

class AsyncMemoryManager:
    """The same verbs as coroutines: each runs its `MemoryManager` method in a worker thread.

    ``await memory.save_message(...)``; ``async with`` closes it. Properties, such as
    ``memory.monitor``, are properties here too and not awaited. A call cancelled while it waits for a
    thread does nothing; one that has started runs to its end, so a write is done completely or not at all.
    """

    def __init__(self, memory: MemoryManager) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    async def save_message(
        self,
        session_id: str,
        message: Given | Message | None = None,
        *,
        role: Role | None = None,
        content: str | Sequence[ContentPart] | None = None,
        id: str | None = None,
        created_at: Moment | None = None,
        importance: float | None = None,
        pinned: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Message:
        """Save one message and return it as stored.

        When this returns the message is on disk and can be found by its words; its vector
        follows in the background. Saving the same message under the same id again
        changes nothing.

        Args:
            session_id: the conversation.
            message: an OpenAI Chat Completions dict, an object with ``model_dump`` such as
                ``completion.choices[0].message``, or a `Message`. A dict may have ``id``,
                ``created_at`` (or ``timestamp``) and ``metadata``; the arguments below win.
                Other keys the API does not know are kept and never sent.
            role, content: instead of ``message``.
            id: unique within the user; generated if not given.
            created_at: an aware datetime, an ISO 8601 string with a zone, or seconds since 1970;
                now by default.
            importance: 0..1, if it was judged.
            pinned: never leaves the window.
            metadata: labels such as ``{"channel": "slack"}``, at most 16,384 bytes as JSON: kept
                with the message, found by ``filters={"metadata": {...}}``, never sent.
            user_id, agent_id: whose memory; by default as given to `jiyi.open`.

        Raises:
            BadMessage: not a Chat Completions message, or metadata that cannot be kept.
            NaiveDatetime: the date has no time zone.
            DuplicateId: the id is taken by a different message.
            StorageError: the database cannot take it; nothing was written.
        """

    async def save_messages(
        self,
        session_id: str,
        messages: Iterable[Given | Message],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> list[Message]:
        """Save several messages of one conversation in one transaction: all or none.

        Each is what `save_message` takes, with its own ``id``, ``created_at`` and ``metadata``.
        """

    async def pop_message(
        self, session_id: str, *, user_id: str | None = None, agent_id: str | None = None
    ) -> Message | None:
        """Remove the newest message of a conversation and return it; None if there is none."""

    async def pop_messages(
        self, session_id: str, limit: int = 1, *, user_id: str | None = None, agent_id: str | None = None
    ) -> list[Message]:
        """Remove the newest messages of a conversation and return them, oldest first.

        What was derived from them alone goes too, as in `forget`, and `restore` brings it back. A
        tool call that loses its result stays; windows leave it out.

        Raises:
            BadQuery: a limit outside 1..10,000.
        """

    async def replace_messages(
        self,
        session_id: str,
        messages: Iterable[Given | Message],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> list[Message]:
        """Make a conversation exactly these messages, in one transaction; return it as stored.

        Messages that match from the start stay as they are, with their ids and what was learned
        from them. From the first difference on, the old ones are forgotten as by `pop_messages` and
        the new ones saved as by `save_messages`. Without messages the conversation is removed.

        Args:
            session_id: the conversation.
            messages: what `save_message` takes. One matches if it says the same; an id or
                metadata given with it must be the same too.
            user_id, agent_id: whose memory; by default as given to `jiyi.open`. With an agent, only the
                agent's messages are compared.

        Raises:
            BadMessage, NaiveDatetime: one of them cannot be saved; nothing was changed.
            DuplicateId: an id is taken by a message that stays; nothing was changed.
        """

    async def recent_messages(
        self,
        session_id: str,
        limit: int | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> list[Message]:
        """Return what the session keeps in its window, oldest first; with ``limit`` the newest of these.

        An unknown session has no messages. Older ones are in the store: see `search`.
        """

    async def session_messages(
        self,
        session_id: str,
        limit: int = 10000,
        *,
        filters: Mapping[str, Any] | None = None,
        after: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Listing[Message]:
        """Return the newest ``limit`` messages of a conversation as stored, oldest first.

        ``filters`` narrow as in `search`. ``after`` is the `next` of a page and brings older ones,
        again oldest first.

        Raises:
            BadQuery: a limit outside 1..10,000, an impossible filter, a cursor of another list.
        """

    async def sessions(
        self,
        limit: int = 100,
        *,
        after: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Listing[Session]:
        """Return the user's conversations, the most recently started first.

        ``after`` is the `next` of the previous page. Each conversation that exists throughout
        comes once, whatever is said or forgotten meanwhile, unless its first message changes.

        Raises:
            BadQuery: a limit outside 1..10,000, a cursor of another list.
        """

    async def import_(
        self,
        path: str | Path | Mem0Client,
        *,
        session_id: str | None = None,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> ImportReceipt:
        """Import what `export` wrote, conversations, or what another program keeps; see `import_path`.

        Bad lines are reported in the receipt, the rest is imported; importing again adds no duplicates.
        ``progress`` gets the number of entries so far. With ``dry_run`` they are only counted. A file that
        cannot be read at all raises `ImportFailed`; a failure of mem0's API on the way `ServerError`.
        """

    async def start_task(
        self,
        session_id: str,
        request: str,
        *,
        target: str | None = None,
        trigger_type: TriggerType = "user_request",
        tags: Sequence[str] = (),
        context: Mapping[str, Any] | None = None,
        started_at: datetime | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Task:
        """Start a task in a session; see `WorkingMemory.start`.

        Skills opened for what came before are closed, and the one the request is for is opened.
        """

    async def update_task(
        self,
        task_id: str,
        *,
        goal: str | None = None,
        summary: str | None = None,
        context: Mapping[str, Any] | None = None,
        at: datetime | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Task:
        """Change a task in progress: goal, summary so far, context; see `WorkingMemory.update`."""

    async def add_step(
        self,
        task_id: str,
        description: str,
        *,
        tool_name: str | None = None,
        args: Mapping[str, Any] | None = None,
        result: str | None = None,
        status: StepStatus = "in_progress",
        at: datetime | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Step:
        """Add a step to a task; see `WorkingMemory.add_step`."""

    async def update_step(
        self,
        step_id: str,
        *,
        description: str | None = None,
        status: StepStatus | None = None,
        result: str | None = None,
        at: datetime | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Step:
        """Change a step's description, status or result; see `WorkingMemory.update_step`."""

    async def complete_task(
        self,
        task_id: str,
        *,
        outcome: Outcome = "success",
        summary: str = "",
        at: datetime | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Episode:
        """End a task and return the episode it became; see `WorkingMemory.complete`.

        Skills that were opened for it or for questions since it began are closed.
        """

    async def fail_task(
        self,
        task_id: str,
        *,
        reason: str = "",
        at: datetime | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Episode:
        """End a task that failed and return the episode it became; see `WorkingMemory.fail`.

        Skills are closed as by `complete_task`.
        """

    async def current_task(
        self, session_id: str, *, user_id: str | None = None, agent_id: str | None = None
    ) -> Task | None:
        """Return the session's newest task in progress, with its steps, or None."""

    async def tasks(
        self,
        limit: int = 100,
        *,
        status: TaskStatus | None = None,
        filters: Mapping[str, Any] | None = None,
        after: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Listing[Task]:
        """Return the user's tasks with their steps, newest first.

        ``status`` narrows, and ``filters`` do as in `search`.

        ``after`` is the `next` of the previous page.

        Raises:
            BadQuery: an unknown status, a limit outside 1..10,000, an impossible filter, a cursor of
                another list.
        """

    async def search(
        self,
        query: str,
        *,
        limit: int = 10,
        kinds: Sequence[Kind] | Kind = ("message", "episode", "knowledge", "fact", "item"),
        session_id: str | None = None,
        namespace: Sequence[str] | str | None = None,
        filters: Mapping[str, Any] | None = None,
        asked_at: datetime | None = None,
        around: int = 0,
        min_score: float = 0.0,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Hits:
        """Return what the memory holds about ``query``, best first.

        ``hit.why`` says what each feature added to a hit's score (with a reranker its score is
        ``why["reranker"]``, and the rest is why it was a candidate); ``hit.secrets`` names the
        kinds of secrets in its text, which is returned unchanged; ``hits.nothing_relevant`` is
        the probability that the memory holds no answer at all. ``hit.relevance`` of the best hit is
        the probability that there is an answer, 1 - ``nothing_relevant``; for others it falls to 1/e
        with each 3 points of score below the best. Unlike scores it can be compared between
        questions, and a reranker does not change it.

        Args:
            query: words or a question, Chinese or English.
            limit: how many hits at most.
            kinds: "message", "episode", "knowledge", "fact", "item"; all by default.
            session_id: only this conversation.
            namespace: only items below these labels, matched whole.
            filters: conditions on fields and metadata, such as ``{"role": "user", "metadata.channel":
                ["slack", "mail"], "created_at": {"gte": ...}}``, joined by ``and``, ``or``, ``not``;
                see `jiyi.records.read_filter`.
            asked_at: when the question is asked, now by default; decides what "yesterday" means.
                What was said more than a day later counts for little.
            around: how many messages before and after a message to return with it, as
                ``hit.around``, at most 1,000; none is shown with two hits.
            min_score: 0 to 1; hits with a lower ``relevance`` are left out.
            user_id, agent_id: whose memory; by default as given to `jiyi.open`.

        Raises:
            BadQuery: an empty query, an unknown kind, an impossible limit, filter or ``min_score``.
            UnknownFilter: a filter that does not exist.
        """

    async def search_episodes(
        self,
        query: str,
        limit: int = 5,
        *,
        session_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        min_score: float = 0.0,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Hits:
        """Search finished tasks only; see `search`."""

    async def search_knowledge(
        self,
        query: str,
        limit: int = 3,
        *,
        session_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        min_score: float = 0.0,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Hits:
        """Search knowledge only; see `search`."""

    async def episodes(
        self,
        limit: int = 100,
        *,
        filters: Mapping[str, Any] | None = None,
        after: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Listing[Episode]:
        """Return the user's finished tasks, newest first; ``filters`` narrow as in `search`.

        ``after`` is the `next` of the previous page.
        """

    async def knowledge(
        self,
        limit: int = 100,
        *,
        filters: Mapping[str, Any] | None = None,
        after: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Listing[Knowledge]:
        """Return the user's knowledge, newest first; ``filters``, ``after`` as in `episodes`."""

    async def get(
        self, record_id: str, *, user_id: str | None = None, agent_id: str | None = None
    ) -> Searchable | Task:
        """Return the message, episode, knowledge, fact, item or task with this id.

        Raises:
            NotFound: the user has no such record.
        """

    @property
    def monitor(self) -> ContextMonitor | None:
        """Figures about windows and replies; None if the setting ``monitor`` is off.

        Sessions are named by the ids given to the verbs; the user is that of `jiyi.open`.
        """

    async def build_context(
        self,
        session_id: str,
        query: str | None = None,
        budget: int | Budget | None = None,
        *,
        system: str | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        policy: Policy | None = None,
        compress: Compressor | None = None,
        scratch: Sequence[Mapping[str, Any] | Message] = (),
        recalled: Window | None = None,
        task_type: str = "",
        episodes: int | None = None,
        knowledge: int | None = None,
        asked_at: datetime | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Window:
        """Return what the model should see now, with a report.

        Skills, the user's `profile`, the conversation's summary and recent messages, the current
        task and what the memory recalls share the budget; the window ends with the question, or
        with what followed it. Older messages are folded into the summary when it is due.

        Args:
            session_id: the conversation; a new one is fine.
            query: the question; by default the session's newest user message.
            budget: input tokens, or a `Budget`; from the settings by default.
            system: a system prompt to put in front of the session's own.
            tools: tool definitions that will be sent along; their tokens count.
            policy: applied to the history first; then `TokenBudget` keeps what fits.
            compress: shortens each recalled text; without it long ones become excerpts.
            scratch: steps of the current run, not saved in the conversation; they come last.
            recalled: an earlier window for this question; its recalled blocks replace a search.
            task_type: divides a budget given as a number by `PRESETS` and the setting
                ``task_types``, an unknown type as "conversation"; groups the monitor's figures.
            episodes, knowledge: the most to show of each; by default as in the settings.
            asked_at: when the question is asked, now by default; decides what "yesterday" means.
            user_id, agent_id: whose memory; by default as given to `jiyi.open`.

        Raises:
            BudgetTooSmall: system, pinned and current messages and tools alone are larger.
            BadBudget: the budget is not a positive number of tokens.
            BadQuery: the question is not text, or a number of records is not from 0 to 100.
        """

    async def summarize_session(
        self, session_id: str, *, user_id: str | None = None, agent_id: str | None = None
    ) -> Summary | None:
        """Fold all but the last turns of a conversation into its summary now, and return that.

        `build_context` does this by itself when it is due. None if there is nothing to fold yet.

        Raises:
            LLMError: a language model is set and failed; the summary stays as it was.
        """

    async def summary(
        self, session_id: str, *, user_id: str | None = None, agent_id: str | None = None
    ) -> Summary | None:
        """Return the running summary of a conversation, None if nothing was folded yet."""

    async def open_output(
        self,
        output_id: str,
        offset: int = 0,
        *,
        max_tokens: int = 1000,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Page:
        """Return a page of a message's or a step's text: what a shortened tool output left out.

        Args:
            output_id: as the shortened text names it.
            offset: characters to skip; the page says where the next one begins.
            max_tokens: of the page.

        Raises:
            NotFound: the user has no such message and no such step.
            InputError: ``offset`` or ``max_tokens`` is impossible.
        """

    async def session_health(
        self,
        session_id: str,
        max_tokens: int | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Health:
        """Return how full, stale, repetitive and off its goal a session is; see `jiyi.context.health`.

        Looks at what a window shows of it: the messages after its summary. With the setting
        ``monitor`` it also counts the recalled texts that replies did not use.

        Args:
            session_id: the conversation.
            max_tokens: size of its windows; the settings' by default.
            user_id, agent_id: whose memory; by default as given to `jiyi.open`.
        """

    async def session_advice(
        self,
        session_id: str,
        max_tokens: int | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Advice:
        """Return what to do with a session: continue, summarise, restart or split; and why."""

    async def handover(
        self,
        session_id: str,
        max_tokens: int = 800,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> str:
        """Return a text to begin the next session with; see `jiyi.context.handover`.

        It holds the goal, decisions, the state of the task, open to-dos, the summary and the
        last turns, in at most ``max_tokens``.

        Raises:
            BudgetTooSmall: not even the beginning of the goal fits.
        """

    async def skills(self) -> list[Skill]:
        """Return the available skills, without their bodies; see the setting ``skills``."""

    async def opened_skills(
        self, session_id: str, *, user_id: str | None = None, agent_id: str | None = None
    ) -> tuple[str, ...]:
        """Return the names of the skills whose bodies are in the session's window."""

    async def open_skill(
        self,
        session_id: str,
        name: str,
        resource: str | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> str:
        """Open a skill for a session and return its text; it stays in the window until it is closed.

        With ``resource`` the text of that file of the skill is returned, and nothing is opened.
        A task that starts in the session closes what was opened for the one before.

        Raises:
            NotFound: there is no such skill or file; names those there are.
            InputError: it cannot be read.
        """

    async def close_skill(
        self, session_id: str, name: str, *, user_id: str | None = None, agent_id: str | None = None
    ) -> bool:
        """Take a skill's body out of the session's window; say whether it was open."""

    async def remember(
        self,
        text: str | None = None,
        *,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
        category: FactCategory | None = None,
        speaker: str | None = None,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        pinned: bool = False,
        metadata: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Learned:
        """Keep a text, ``remember("I prefer tea", speaker="Ana")``, or a subject, predicate and object.

        None of it is lost: the receipt says what was read from it, and in ``kept`` which fact
        has all of its words. A newer value replaces an older one, which stays in `history`. What is
        ``pinned`` is in every window, see `profile`, and never fades. ``metadata`` are labels of
        your own, as in `save_message`. See `FactMemory.remember`.

        Raises:
            BadQuery: neither a text nor all three parts; more than 1,000,000 characters; a range
                that ends before it begins; an unknown category.
            InputError: metadata that cannot be kept.
            NaiveDatetime: a time has no zone.
        """

    async def profile(self, *, user_id: str | None = None, agent_id: str | None = None) -> list[Fact]:
        """Return what every window of the user shows, whatever is asked, oldest first.

        Rules the user gave ("always answer in German"), their name and language, and pinned facts.
        `remember` adds to it, with ``category="rule"`` or ``pinned=True``; a newer value replaces an older
        one; `unpin` and `forget` remove. It takes at most ``Budget.profile_share`` of a window.
        """

    async def learn_facts(
        self, session_id: str, limit: int = 50, *, user_id: str | None = None, agent_id: str | None = None
    ) -> Learned:
        """Read the newest messages of a session for facts, with the language model if there is one.

        Messages are read without a model as they are saved; a model finds more. If it fails
        they are read without it again, which changes nothing, and the receipt says why.
        """

    async def facts(
        self,
        subject: str | None = None,
        *,
        as_of: datetime | None = None,
        status: FactStatus | Sequence[FactStatus] | None = None,
        filters: Mapping[str, Any] | None = None,
        limit: int = 100,
        after: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Listing[Fact]:
        """Return the newest ``limit`` active facts, oldest first; with ``as_of`` those that held then.

        ``subject`` narrows to one thing or person, by any of its names; ``status`` asks for
        unsure, superseded, retracted or expired ones, ``filters`` narrow as in `search`; ``after``
        is the `next` of a page and brings older ones, again oldest first. See `FactMemory.facts`.

        Raises:
            BadQuery: an empty subject, an unknown status, a limit outside 1..10,000, an impossible
                filter, a cursor of another list.
            NaiveDatetime: ``as_of`` has no time zone.
        """

    async def history(
        self,
        subject: str,
        predicate: str | None = None,
        *,
        limit: int = 10000,
        after: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Listing[Fact]:
        """Return everything ever known about something, oldest first, whatever its status.

        ``after`` is the `next` of the previous page.

        Raises:
            BadQuery: an empty subject or predicate, a limit outside 1..10,000, a cursor of another list.
        """

    async def neighbours(
        self, entity: str, depth: int = 1, *, user_id: str | None = None, agent_id: str | None = None
    ) -> list[Neighbour]:
        """Return what something is connected with by active facts, nearest first.

        Raises:
            BadQuery: an empty entity, a depth outside 1..5.
        """

    async def put_item(
        self,
        namespace: Sequence[str] | str,
        key: str,
        value: Mapping[str, Any],
        *,
        text: str | None = None,
        ttl: float | None = None,
        if_version: int | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Item:
        """Keep a JSON object under a key, replacing the present one, and return the item.

        The former value stays in `item_history`. Items are not read for facts.

        Args:
            namespace: labels from the outermost on, such as ``("users", "ana")``; a text is one label.
            key: its name there.
            value: a JSON object of at most 1,000,000 bytes.
            text: what search reads; all texts in the value by default; no search finds "".
            ttl: seconds after which it expires, unless it is put or refreshed before.
            if_version: only if it has this version; 0: only if it does not exist.
            session_id: the conversation it belongs to, and is forgotten with.
            user_id, agent_id: whose memory; by default as given to `jiyi.open`. Agents'
                items of the same name are different items.

        Raises:
            Changed: it has another version; nothing was changed.
            InputError: labels, a key or a value that cannot be kept, or an impossible ttl.
        """

    async def put_items(
        self, items: Sequence[Mapping[str, Any]], *, user_id: str | None = None, agent_id: str | None = None
    ) -> list[Item]:
        """Keep several items in one transaction, all or none, and return them in their order.

        Each is a dict of arguments of `put_item`, except user and agent. If one is named twice,
        the last counts. At most 10,000.

        Raises:
            Changed: one has another version than given; nothing was changed.
            InputError: as `put_item`, or an unknown argument; nothing was changed.
        """

    async def get_item(
        self,
        namespace: Sequence[str] | str,
        key: str,
        *,
        as_of: datetime | None = None,
        refresh: bool = False,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Item | None:
        """Return an item, None if there is none or it has expired.

        ``as_of`` gives the value it had then, as far as `item_history` goes back; ``refresh``
        restarts its ttl.

        Raises:
            InputError: labels or a key that no item can have.
            NaiveDatetime: ``as_of`` has no time zone.
        """

    async def get_items(
        self,
        namespace: Sequence[str] | str,
        keys: Sequence[str],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> list[Item]:
        """Return the existing items of a namespace under these keys, in the given order, in one read.

        Raises:
            InputError: labels or keys that no item can have.
        """

    async def items(
        self,
        namespace: Sequence[str] | str = (),
        *,
        filters: Mapping[str, Any] | None = None,
        limit: int = 100,
        after: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Listing[Item]:
        """Return the items in and below a namespace, most recently put first.

        A namespace is matched by whole labels: ``("acme",)`` does not match ``("acme-corp",)``.

        Args:
            namespace: labels they begin with; all items by default.
            filters: conditions on their values, such as ``{"theme": "dark", "size.width":
                {"gt": 100}}``; a dot leads into an object. Operators as in `search`.
            limit: how many at most.
            after: the `next` of the previous page.
            user_id, agent_id: whose memory; by default as given to `jiyi.open`.

        Raises:
            BadQuery: an impossible limit or filter, a cursor of another list.
            InputError: labels that no item can have.
        """

    async def namespaces(
        self,
        prefix: Sequence[str] | str = (),
        *,
        suffix: Sequence[str] | str = (),
        depth: int | None = None,
        limit: int = 100,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> list[tuple[str, ...]]:
        """Return the namespaces that hold items, sorted.

        Args:
            prefix, suffix: labels they begin and end with; "*" stands for any one label.
            depth: cut to so many labels, without duplicates.
            limit: how many at most.
            user_id, agent_id: whose memory; by default as given to `jiyi.open`.

        Raises:
            BadQuery: an impossible depth or limit.
            InputError: labels that no item can have.
        """

    async def item_history(
        self,
        namespace: Sequence[str] | str,
        key: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> list[Item]:
        """Return the newest 10 former versions of an item, newest first; none if it does not exist.

        Raises:
            InputError: labels or a key that no item can have.
        """

    async def run_forget_gate(
        self,
        *,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> GateReceipt:
        """Remove what no longer matters; it can be restored during the grace time. See `ForgetGate`.

        With ``dry_run`` nothing changes, and the receipt says what would go and why.
        """

    async def run_consolidation(
        self,
        *,
        progress: Callable[[int, int], None] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> ConsolidationReceipt:
        """Turn episodes about the same thing into knowledge; see `Consolidation`."""

    async def maintain(
        self,
        *,
        dry_run: bool = False,
        progress: Callable[[str, int, int | None], None] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Maintained:
        """Do the daily upkeep: end facts whose time is over, consolidate, run the forget gate.

        ``progress`` is called with the part's name, how far it is, and the total if it is known.
        """

    async def forget(
        self,
        query: str | None = None,
        *,
        ids: Sequence[str] | str | None = None,
        session_id: str | None = None,
        namespace: Sequence[str] | str | None = None,
        everything: bool = False,
        kinds: Sequence[Kind] | Kind | None = None,
        filters: Mapping[str, Any] | None = None,
        reason: str = "asked for",
        purge: bool = False,
        dry_run: bool = False,
        limit: int = 1000,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> ForgetReceipt:
        """Forget records with everything derived from them, in one transaction. See `Forgetting`.

        Select in exactly one way: ``query`` (records that have all its words), ``ids``,
        ``filters`` alone, ``namespace`` alone (all items below it), ``session_id`` alone (a whole
        conversation), or ``everything=True`` (all of the user, or of their agent). A session and a
        namespace narrow the other ways; so do kinds, except with ids. Kinds alone select nothing:
        combine them with ``everything`` or a session.

        What is forgotten can be brought back with `restore`; with ``purge`` it cannot: no byte
        of it is left in a file; for servers see `jiyi.storage.trash.Trash.scrub`.

        Args:
            query: words, Chinese or English; all of them must be in a record.
            ids: of messages, episodes, knowledge, facts, items or tasks.
            session_id: only in this session.
            namespace: only items below these labels, matched whole.
            everything: the whole memory.
            kinds: only messages, episodes, knowledge, facts, items or tasks; what is derived from them
                is forgotten whatever its kind.
            filters: as in `search`. A record without a field is ``ne`` to every value: name ``kind``, too.
            reason: kept with it until it is purged.
            purge: overwrite it on disk.
            dry_run: only say what would go.
            limit: how many records the words may match; more is an error.
            user_id, agent_id: whose memory; by default as given to `jiyi.open`.

        Raises:
            BadQuery: nothing selected, or in two ways at once; nothing was changed.
            NotFound: an unknown id; nothing was changed.
        """

    async def restore(
        self,
        ids: Sequence[str] | str | None = None,
        *,
        forgotten_at: datetime | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> RestoreReceipt:
        """Bring back what was forgotten, with what was derived: by ids, or by the time in a receipt.

        Raises:
            NotFound: nothing like it is in the trash.
        """

    async def update(
        self,
        record_id: str,
        *,
        text: str | None = None,
        object: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        importance: float | None = None,
        pinned: bool | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Searchable:
        """Change a message, fact, knowledge or episode, and return it as stored; its id stays.

        Search and what was derived from the record are updated too: a changed message is read
        again, and facts that only its old text stated go. A fact's new text is read as in
        `remember`, and its old value is in `history`, superseded. See `Updating`.

        Args:
            record_id: its id; tasks are changed by `update_task`.
            text: the text of a message or fact, the content of knowledge, how an episode ended.
            object: the value of a fact, for the same point of the same subject.
            metadata: replaces all it has; {} leaves none. Episodes have none.
            importance: 0 to 1, of messages and episodes.
            pinned: as `pin` and `unpin`.
            user_id, agent_id: whose memory; by default as given to `jiyi.open`.

        Raises:
            NotFound: the user has no such record.
            BadQuery: nothing to change, or a field that its kind does not have; an empty text.
            InputError: metadata that cannot be kept.
            WrongState: a new value for a fact that no longer holds.
        """

    async def pin(
        self, ids: Sequence[str] | str, *, user_id: str | None = None, agent_id: str | None = None
    ) -> int:
        """Keep records whatever happens, until they are unpinned; return how many.

        Raises:
            NotFound: an id that is not there; nothing was changed.
        """

    async def unpin(
        self, ids: Sequence[str] | str, *, user_id: str | None = None, agent_id: str | None = None
    ) -> int:
        """Undo `pin`; raises as it does."""

    async def export(
        self,
        path: str | Path,
        *,
        format: Literal["jsonl", "markdown"] = "jsonl",
        progress: Callable[[int], None] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> ExportReceipt:
        """Write everything of a user into a file: JSONL, which `import_` reads back, or Markdown to read.

        The trash is not included. See `export_lines` and `export_markdown`.

        Raises:
            InputError: the path names no file or a database, or the format is neither.
            StorageError: the file cannot be written; nothing is left of it.
        """

    async def stats(self, *, user_id: str | None = None, agent_id: str | None = None) -> Mapping[str, int]:
        """Return how many records of each kind there are, and ``vectors_pending``.

        For all agents together also ``vectors_apart``, if the embedder refuses some texts: these wait for
        `reembed`; and ``messages_unread``, if a language model reads in the background.
        """

    async def reading(self) -> ReadingState | None:
        """Return the state of the background reader, for all users: what waits, what it cost, why it failed.

        None if no language model reads.
        """

    async def flush(self, progress: Callable[[int], None] | None = None) -> int:
        """Make all pending vectors now, for every user; return the number of records embedded.

        First waits for summaries that a language model is writing in this process; one that fails
        raises nothing here, but is in the notes of its session's next window. Without the bundled
        model's data file nothing is embedded, and the log says so once.

        Raises:
            EmbeddingError: the embedder failed; what was done stays done.
        """

    async def reembed(self, progress: Callable[[int], None] | None = None) -> int:
        """Bind the data to the embedder in use and embed everything again; return the number of records.

        If some vectors are pending, only those are made; what the embedder refused is tried again.
        Otherwise searches use the old ones until the new ones are complete; called again after
        an interruption, it continues.

        Raises:
            EmbeddingError: the embedder failed; `ModelMissing` without the bundled model's data file.
        """

    async def close(self) -> None:
        """Stop the background work and release the database; what is pending waits for the next open.

        A summary being written has five seconds to be stored; otherwise a later window folds again.
        """

    @property
    def parts(self) -> Parts:
        """The components of the memory, for servers and adapters."""

    @property
    def zone(self) -> tzinfo:
        """The time zone of dates shown."""

    @property
    def counter(self) -> TokenCounter:
        """Counts tokens as windows are counted."""
