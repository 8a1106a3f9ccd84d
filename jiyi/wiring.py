"""From a URL and settings to a working memory: the only place that picks concrete parts."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, cast

from jiyi.async_manager import AsyncMemoryManager
from jiyi.client import AsyncRemoteMemory, RemoteMemory, connect
from jiyi.clock import Clock, utc_now
from jiyi.compression.summarize import Summarize
from jiyi.embeddings import CachedEmbedder, E5Embedder, Embedder, OpenAIEmbedder
from jiyi.errors import JiyiError, SettingsError, WrongState
from jiyi.llm import LLM, OpenAILLM
from jiyi.long_term import (
    Accesses,
    Consolidation,
    FactMemory,
    Forgetting,
    Indexer,
    LongTermMemory,
    Reader,
    Recall,
    Rule,
    Second,
    Succession,
    Updating,
    gate_of,
)
from jiyi.manager import MemoryManager
from jiyi.models import embedder_for, llm_for, reranker_for
from jiyi.monitor import ContextMonitor, Judge, Thresholds, find_hits
from jiyi.rerank import Reranker
from jiyi.settings import Settings, load_settings
from jiyi.short_term import Background, RunningSummary, ShortTermMemory, Summaries, SummaryUpdater
from jiyi.skills import Router, SkillRegistry, SkillShelf
from jiyi.storage.backend import Backend, open_backend
from jiyi.storage.place import Place, locate
from jiyi.text import TokenCounter, counter_for
from jiyi.verbs.base import Parts
from jiyi.verbs.door import guard

__all__ = ["embedder_for", "llm_for", "open_async_memory", "open_memory", "reranker_for"]


@guard
def open_memory(
    url: str | Path | Place | None = None,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    embedder: Embedder | str | None = None,
    reranker: Reranker | str | None = None,
    llm: LLM | None = None,
    forget_rule: Rule | None = None,
    monitor_thresholds: Thresholds | None = None,
    monitor_judge: Judge | None = None,
    clock: Clock = utc_now,
    background: bool = True,
    check_embedder: bool = True,
    **settings: Any,
) -> MemoryManager:
    """Open a memory, creating its file or its tables if there are none.

    Args:
        url: a path, ``sqlite:///path`` or ``postgresql://…``; by default the setting
            ``database_url``. With ``https://…`` this is `jiyi.connect`, with its arguments.
        user_id, agent_id: whose memory by default.
        embedder, reranker, llm: your own, or names as in the settings: ``reranker="llm"``.
        forget_rule: how the forget gate rates episodes; it replaces the settings
            ``forget_threshold``, ``forget_min_age_days``, ``forget_max_episodes`` and ``forget_weights``.
        monitor_thresholds: when ``memory.monitor.alerts()`` reports something.
        monitor_judge: decides which recalled texts a reply used, such as `LLMHits`; by default
            by shared words.
        clock: says what "now" is.
        background: load the bundled model, embed, and have a language model read and summarise,
            in threads; without it only `flush` embeds, and windows wait for summaries.
        check_embedder: refuse data written with another embedder; `reembed` needs it off.
        settings: any field of `Settings`.

    Raises:
        SettingsError: a setting is unknown or unusable, or nothing says where the memory is.
        StorageError: it is foreign, damaged, newer, cannot be written or reached.
        EmbedderMismatch: its vectors were made by another embedder.
        MissingExtra: the package for this place or these settings is not installed.
    """
    if isinstance(url, str) and url.startswith(("https://", "http://")):
        own = (embedder, reranker, llm, forget_rule, monitor_thresholds, monitor_judge)
        return _connected(url, settings | {"user_id": user_id, "agent_id": agent_id}, own)
    settings |= {n: p for n, p in (("embedder", embedder), ("reranker", reranker)) if isinstance(p, str)}
    chosen = load_settings(user_id=user_id, agent_id=agent_id, **settings)
    place = _place(url, chosen)

    parts = partial(
        _opened,
        models=partial(_models, chosen, embedder, reranker, llm),
        settings=chosen,
        clock=clock,
        background=background,
        rule=forget_rule,
        watch=(monitor_thresholds, monitor_judge),
        check=check_embedder,
    )
    again = _no_chroma if chosen.vector_index == "chroma" else partial(parts, place.absolute())
    return MemoryManager(parts(place), again=again)


def _opened(
    place: Place,
    *,
    models: Callable[[], "_Models"],
    settings: Settings,
    clock: Clock,
    background: bool,
    rule: Rule | None,
    watch: tuple[Thresholds | None, Judge | None],
    check: bool,
) -> Parts:
    own = models()
    wiring = _Wiring(open_backend(place, settings), own, settings, clock, background)
    try:
        if check:
            wiring.backend.vectors.claim(own.embedder.name)
        parts = wiring.parts(rule, wiring.monitor(*watch))
    except BaseException:
        wiring.backend.store.close()
        raise
    if background and check:
        if isinstance(own.embedder.inner, E5Embedder):
            own.embedder.inner.load_in_background()
        parts.long_term.indexer.start()
        if parts.long_term.reader is not None:
            parts.long_term.reader.start()
    return parts


def _no_chroma() -> Parts:
    raise WrongState("vectors in Chroma do not outlive a fork; open the memory in the forked process")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Models:
    embedder: CachedEmbedder
    second: Second | None
    llm: LLM | None
    own: tuple[object, ...]  # made here, and to be closed here

    def close(self) -> None:
        for part in self.own:
            if isinstance(part, OpenAIEmbedder | OpenAILLM):
                part.close()


def _models(
    settings: Settings, embedder: Embedder | str | None, reranker: Reranker | str | None, llm: LLM | None
) -> _Models:
    own = embedder_for(settings) if embedder is None or isinstance(embedder, str) else None
    own_llm = None if llm else llm_for(settings)
    if reranker is None or isinstance(reranker, str):
        reranker = reranker_for(settings, llm or own_llm)
    return _Models(
        embedder=CachedEmbedder(own or cast("Embedder", embedder)),
        second=Second(reranker=reranker, seconds=settings.reranker_seconds) if reranker else None,
        llm=llm or own_llm,
        own=(own, own_llm),
    )


@dataclass(frozen=True, slots=True)
class _Wiring:
    backend: Backend
    models: _Models
    settings: Settings
    clock: Clock
    background: bool

    def parts(self, rule: Rule | None, monitor: ContextMonitor | None) -> Parts:
        return Parts(
            store=self.backend.store,
            upkeep=self.backend.upkeep,
            long_term=self.long_term(rule),
            short_term=self.short_term(),
            summaries=self.summaries(),
            ledger=self.backend.ledger,
            skills=self.skills(),
            monitor=monitor,
            counter=self.counter,
            settings=self.settings,
            clock=self.clock,
            on_close=self.models.close,
        )

    @property
    def counter(self) -> TokenCounter:
        return counter_for(self.settings.model)

    def monitor(self, thresholds: Thresholds | None, judge: Judge | None) -> ContextMonitor | None:
        if not self.settings.monitor:
            return None
        return ContextMonitor(
            thresholds=thresholds or Thresholds(),
            clock=self.clock,
            judge=judge or find_hits,
            counter=self.counter,
            user_id=self.settings.user_id or "",
        )

    def short_term(self) -> ShortTermMemory:
        return ShortTermMemory(
            self.backend.store,
            changes=self.backend.upkeep.changes,
            max_turns=self.settings.max_turns,
            ttl=self.settings.session_ttl,
            clock=self.clock,
        )

    def summaries(self) -> SummaryUpdater:
        settings, llm = self.settings, self.models.llm
        policy = RunningSummary(
            settings.limits[0],
            at=settings.summary_at,
            max_messages=settings.summary_after,
            # What the session's window lets go of must be in the summary.
            keep_turns=min(settings.summary_keep_turns, settings.max_turns),
            counter=self.counter,
        )
        extractive = Summarize(
            max_tokens=settings.summary_tokens, language=settings.language, counter=self.counter
        )
        written = extractive
        if llm is not None:  # one that fails must change nothing: the next window tries again
            written = replace(extractive, llm=llm, fallback=False, prompt=settings.summary_prompt)
        in_background = llm is not None and self.background and not settings.summary_wait
        return SummaryUpdater(
            Summaries(self.backend.store, clock=self.clock),
            policy,
            written,
            backlog=extractive,
            background=Background("summaries") if in_background else None,
        )

    def skills(self) -> SkillShelf | None:
        if not self.settings.skills:
            return None
        registry = SkillRegistry(*self.settings.skills)
        router = Router(registry, self.models.embedder)
        if self.background:
            threading.Thread(target=_prepare, args=(router,), name="jiyi-skills", daemon=True).start()
        return SkillShelf(registry, router)

    def long_term(self, rule: Rule | None) -> LongTermMemory:
        settings, clock, llm = self.settings, self.clock, self.models.llm
        store, vectors = self.backend.store, self.backend.vectors
        upkeep, trash = self.backend.upkeep, self.backend.trash
        succession = Succession(store, vectors)
        facts = FactMemory(store, succession=succession, llm=llm, clock=clock, zone=settings.zone)
        consolidation = Consolidation(
            store,
            upkeep,
            vectors,
            llm=llm,
            clock=clock,
            min_episodes=settings.consolidation_min_episodes,
            language=settings.language,
        )
        recall = Recall(
            store,
            vectors,
            self.models.embedder,
            second=self.models.second,
            accesses=Accesses(store, clock=clock),
            zone=settings.zone,
            clock=clock,
        )
        indexer = Indexer(vectors, self.models.embedder, afterwards=succession.settle)
        reader = None
        if llm is not None and settings.learn_facts and settings.reader == "auto":
            reader = Reader(
                store,
                self.backend.readings,
                facts,
                llm,
                settings=settings,
                clock=clock,
                on_new=indexer.notify,
            )
        rewrite, learn = consolidation.rewritten, facts.learn if settings.learn_facts else lambda _: None
        return LongTermMemory(
            recall=recall,
            indexer=indexer,
            facts=facts,
            reader=reader,
            consolidation=consolidation,
            gate=gate_of(store, upkeep, trash, settings=settings, rule=rule, clock=clock),
            forgetting=Forgetting(store, upkeep, trash, rewrite=rewrite, learn=facts.learn),
            updating=Updating(
                store, upkeep, trash, facts, learn=learn, rewrite=rewrite, counter=self.counter
            ),
        )


def _prepare(router: Router) -> None:
    with suppress(JiyiError):  # words choose until the embedder answers
        router.prepare()


def open_async_memory(url: str | Path | Place | None = None, **options: Any) -> AsyncMemoryManager:
    """Open a memory whose verbs are coroutines; ``options`` as for `open_memory`."""
    memory = open_memory(url, **options)
    return AsyncRemoteMemory(memory) if isinstance(memory, RemoteMemory) else AsyncMemoryManager(memory)


def _connected(url: str, options: Mapping[str, Any], parts: Sequence[object]) -> RemoteMemory:
    odd = sorted(set(options) - set(signature(connect).parameters))
    if odd or any(part is not None for part in parts):
        told = ", ".join(odd) or "embedder, llm and other parts"
        raise SettingsError(f"{told}: this is for the server's settings, see `jiyi serve`; leave it out here")
    return connect(url, **options)


def _place(url: str | Path | Place | None, settings: Settings) -> Place:
    if url is None and settings.database_url is not None:
        url = settings.database_url.get_secret_value()
    if url is None:
        raise SettingsError(
            'where is the memory? Give a path or URL, as in jiyi.open("agent.db"), or set JIYI_DATABASE_URL'
        )
    return locate(url)
