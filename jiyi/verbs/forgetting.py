"""Verbs about keeping and forgetting: figures, vectors, maintain, forget, restore, update, pin."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from jiyi.errors import BadQuery, InputError
from jiyi.long_term import Change, ConsolidationReceipt, ForgetReceipt, Maintained, RestoreReceipt, maintain
from jiyi.long_term.forget_gate.gate import GateReceipt
from jiyi.long_term.reading import ReadingState, reading_state
from jiyi.records import FORGETTABLE, SEARCHABLE, Item, Kind, Query, Scope, Searchable
from jiyi.storage import ExportReceipt, export_lines, export_markdown
from jiyi.verbs.base import Verbs
from jiyi.verbs.checks import Filters, Id, Names, as_ids, as_labels, as_path, as_utc, check_flags, check_text

_MAX_MATCHES = 1_000  # records that a query may forget at once


class ForgettingVerbs(Verbs):
    """Maintain the memory, forget, restore, pin, export."""

    def stats(self, *, user_id: Id = None, agent_id: Id = None) -> Mapping[str, int]:
        """Return how many records of each kind there are, and ``vectors_pending``.

        For all agents together also ``vectors_apart``, if the embedder refuses some texts: these wait for
        `reembed`; and ``messages_unread``, if a language model reads in the background.
        """
        kinds: tuple[Kind, ...] = (*SEARCHABLE, "session", "task", "summary")
        scope = self._scope(user_id, agent_id)
        counts = dict(self._store.count(Query(scope=scope, kinds=kinds)))
        if apart := self._long_term.indexer.apart(scope.user_id):
            counts["vectors_apart"] = apart
        if self._long_term.reader is not None:
            counts["messages_unread"] = self._long_term.reader.unread(scope.user_id)
        return counts

    def reading(self) -> ReadingState | None:
        """Return what waits for the background reader, its costs and errors; None if no model reads."""
        return reading_state(self._parts.ledger, self._clock()) if self._long_term.reader else None

    def flush(self, progress: Callable[[int], None] | None = None) -> int:
        """Make the vectors that are pending now, for every user; return the number of records embedded.

        First waits for summaries that a language model is writing in this process; one that fails raises
        nothing here, but is in the notes of its session's next window. Without the bundled model's data file
        nothing is embedded, and the log says so once. After an `EmbeddingError` what was done stays done.
        """
        self._summaries.flush()
        return self._long_term.indexer.flush(progress)

    def reembed(self, progress: Callable[[int], None] | None = None) -> int:
        """Bind the data to the embedder in use and embed everything again; return the number of records.

        If some vectors are pending, only those are made; what the embedder refused is tried again. Otherwise
        searches use the old ones until the new ones are complete; called again after an interruption, it
        continues. Raises `EmbeddingError`, and `ModelMissing` without the bundled model's data file.
        """
        return self._long_term.indexer.reembed(progress)

    def run_forget_gate(
        self,
        *,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> GateReceipt:
        """Remove what no longer matters; it can be restored during the grace time. See `ForgetGate`."""
        scope = self._scope(user_id, agent_id)
        check_flags(dry_run=dry_run)
        return self._long_term.gate.run(scope, dry_run=dry_run, progress=progress)

    def run_consolidation(
        self, *, progress: Callable[[int, int], None] | None = None, user_id: Id = None, agent_id: Id = None
    ) -> ConsolidationReceipt:
        """Turn episodes about the same thing into knowledge; see `Consolidation`."""
        scope = self._scope(user_id, agent_id)
        return self._indexed(self._long_term.consolidation.run(scope, progress=progress))

    def maintain(
        self,
        *,
        dry_run: bool = False,
        progress: Callable[[str, int, int | None], None] | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Maintained:
        """Do the daily upkeep: end facts whose time is over, consolidate, run the forget gate.

        ``progress`` is called with the part's name, how far it is, and the total if it is known.
        """
        scope = self._scope(user_id, agent_id)
        check_flags(dry_run=dry_run)
        return self._indexed(maintain(self._long_term, scope, dry_run=dry_run, progress=progress))

    def forget(
        self,
        query: str | None = None,
        *,
        ids: Names | None = None,
        session_id: Id = None,
        namespace: Names | None = None,
        everything: bool = False,
        kinds: Sequence[Kind] | Kind | None = None,
        filters: Filters = None,
        reason: str = "asked for",
        purge: bool = False,
        dry_run: bool = False,
        limit: int = _MAX_MATCHES,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> ForgetReceipt:
        """Forget records with everything derived from them, in one transaction. See `Forgetting`.

        Select in exactly one way: ``query`` (records that have all its words), ``ids``, ``filters`` alone,
        ``namespace`` alone (all items below it), ``session_id`` alone (a whole conversation), or
        ``everything=True`` (all of the user, or of their agent). A session and a namespace narrow the other
        ways; so do kinds, except with ids. Kinds alone select nothing: combine them with ``everything`` or a
        session.

        What is forgotten can be brought back with `restore`; with ``purge`` it cannot: no byte of it is left
        in a file; for servers see `jiyi.storage.trash.Trash.scrub`. With ``dry_run`` the receipt says what
        would go.

        Args:
            query: words, Chinese or English.
            ids: of messages, episodes, knowledge, facts, items or tasks.
            kinds: any of these; what is derived from them is forgotten whatever its kind.
            filters: as in `search`. A record without a field is ``ne`` to every value: name ``kind``, too.
            reason: kept with it until it is purged.
            limit: how many records the words may match; more is an error.

        Raises:
            BadQuery: nothing selected, or in two ways at once; nothing was changed.
            NotFound: an unknown id; nothing was changed.
        """
        scope = self._scope(user_id, agent_id, session_id)
        check_text(query=query, reason="" if reason is None else reason)
        check_flags(everything=everything, purge=purge, dry_run=dry_run)
        names = None if ids is None else as_ids(ids)
        labels = None if namespace is None else as_labels(namespace)
        by_content, by_place = query is not None or bool(filters), bool(session_id is not None or labels)
        _check_selection(by_content, names is not None, everything, by_place)
        selection = _selection(scope, query, filters, ids=names, kinds=kinds, namespace=labels, limit=limit)
        remove = self._long_term.forgetting.purge if purge else self._long_term.forgetting.forget
        receipt = remove(scope, ids=names, query=selection, reason=reason, at=self._clock(), dry_run=dry_run)
        return self._indexed(receipt)

    def restore(
        self,
        ids: Names | None = None,
        *,
        forgotten_at: datetime | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> RestoreReceipt:
        """Bring back what was forgotten and derived, by ids or the time in a receipt, or raise `NotFound`."""
        scope, names = self._scope(user_id, agent_id), None if ids is None else as_ids(ids)
        moment, now = as_utc(forgotten_at, "forgotten_at"), self._clock()
        restore = self._long_term.forgetting.restore
        return self._indexed(restore(scope, ids=names, forgotten_at=moment, at=now))

    def update(
        self,
        record_id: str,
        *,
        text: str | None = None,
        object: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        importance: float | None = None,
        pinned: bool | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> Searchable:
        """Change a message, fact, knowledge or episode, and return it as stored; its id stays.

        Search and what was derived from the record are updated too: a changed message is read again, and
        facts that only its old text stated go. A fact's new text is read as in `remember`, and its old value
        is in `history`, superseded. See `Updating`. Tasks are changed by `update_task`.

        Args:
            text: the text of a message or fact, the content of knowledge, how an episode ended.
            object: the value of a fact, for the same point of the same subject.
            metadata: replaces all it has; {} leaves none. Episodes have none.
            importance: 0 to 1, of messages and episodes.
            pinned: as `pin` and `unpin`.

        Raises:
            NotFound: the user has no such record.
            BadQuery: nothing to change, or a field that its kind does not have; an empty text.
            InputError: metadata that cannot be kept.
            WrongState: a new value for a fact that no longer holds.
        """
        scope = self._scope(user_id, agent_id)
        check_text(record_id="" if record_id is None else record_id, text=text, object=object)
        if pinned is not None:
            check_flags(pinned=pinned)
        if text is not None and object is not None:
            raise BadQuery("text and object both say what a fact is; give one of them")
        change = Change(text=text, object=object, metadata=metadata, importance=importance, pinned=pinned)
        updated = self._indexed(self._long_term.updating.update(scope, record_id, change, self._clock()))
        return updated.without_history() if isinstance(updated, Item) else updated

    def pin(self, ids: Names, *, user_id: Id = None, agent_id: Id = None) -> int:
        """Keep records whatever happens, until they are unpinned; return how many, or raise `NotFound`."""
        return self._long_term.forgetting.pin(self._scope(user_id, agent_id), as_ids(ids))

    def unpin(self, ids: Names, *, user_id: Id = None, agent_id: Id = None) -> int:
        """Undo `pin`; raises as it does."""
        return self._long_term.forgetting.pin(self._scope(user_id, agent_id), as_ids(ids), pinned=False)

    def export(
        self,
        path: str | Path,
        *,
        format: Literal["jsonl", "markdown"] = "jsonl",
        progress: Callable[[int], None] | None = None,
        user_id: Id = None,
        agent_id: Id = None,
    ) -> ExportReceipt:
        """Write everything of a user into a file: JSONL, which `import_` reads back, or Markdown to read.

        An existing file is replaced. The trash is not included. See `export_lines` and `export_markdown`.
        Raises `InputError` if the path names no file or a database, `StorageError` if it cannot be written;
        then nothing is left of it.
        """
        scope, file = self._scope(user_id, agent_id), as_path(path)
        if format not in ("jsonl", "markdown"):
            raise InputError(f"format={format!r} is neither jsonl nor markdown")
        export = export_lines
        if format == "markdown":
            export = partial(export_markdown, language=self._settings.language, zone=self._settings.zone)
        receipt = export(self._store, scope, file, progress=progress)
        return replace(receipt, damaged=len(self._store.damaged(scope)))


def _selection(
    scope: Scope,
    query: str | None,
    filters: Filters,
    *,
    ids: Sequence[str] | None,
    kinds: Sequence[Kind] | Kind | None,
    namespace: tuple[str, ...] | None,
    limit: int,
) -> Query | None:
    """Return the query for what to forget; None for ids, or for everything in the scope."""
    if ids is not None and (kinds, namespace) != (None, None):
        raise BadQuery("ids are of any kind; leave kinds and namespace out")
    if query is None and not filters and kinds is None and namespace is None:
        return None
    names: tuple[Kind, ...] = FORGETTABLE if namespace is None else ("item",)
    if kinds is not None:
        names = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    selection = Query(scope=scope, text=query or "", kinds=names, namespace=namespace, limit=limit)
    selection = selection.with_filters(filters)
    narrows = query or filters or namespace is not None or not set(names) >= set(FORGETTABLE)
    return selection if narrows else None


def _check_selection(by_content: bool, by_ids: bool, everything: bool, by_place: bool) -> None:
    """Raise `BadQuery` unless exactly one way is chosen, so that no slip deletes a memory."""
    if by_content + by_ids + everything > 1:
        raise BadQuery("say what to forget in one way: words or filters, ids, or everything")
    if not (by_content or by_ids or everything or by_place):
        ways = "words, ids=, filters=, session_id=, namespace=, or everything=True"
        raise BadQuery(f"say what to forget: {ways}")
