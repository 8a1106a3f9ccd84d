"""Builds a memory from a URL and settings: the only place that picks concrete parts."""

import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

from pydantic import SecretStr

from jiyi.async_manager import AsyncMemoryManager
from jiyi.client import connect_for_open
from jiyi.clock import Clock, utc_now
from jiyi.compression.summarize import Summarize
from jiyi.embeddings import CachedEmbedder, E5Embedder, Embedder, Endpoint, OpenAIEmbedder
from jiyi.errors import JiyiError, SettingsError, WrongState
from jiyi.llm import LLM, OpenAILLM
from jiyi.long_term import FactMemory, Forgetting, Reader, Recall, Rule, Second, Succession, Updating, gate_of
from jiyi.long_term.consolidation.consolidation import Consolidation
from jiyi.long_term.indexing import Indexer
from jiyi.long_term.memory import LongTermMemory, Maintenance
from jiyi.long_term.recall.accesses import Accesses
from jiyi.manager import MemoryManager
from jiyi.monitor import ContextMonitor, Thresholds
from jiyi.rerank import CrossEncoderReranker, EndpointReranker, LLMReranker, Reranker
from jiyi.settings import Settings, load_settings
from jiyi.short_term import Background, RunningSummary, ShortTermMemory, Summaries, SummaryUpdater
from jiyi.skills import Router, SkillRegistry, SkillShelf
from jiyi.storage import Store
from jiyi.storage.backend import Backend, open_backend
from jiyi.storage.place import Place, locate
from jiyi.text import TokenCounter, counter_for
from jiyi.verbs.base import Parts
from jiyi.verbs.checks import guard_arguments


@guard_arguments
def open(
    url: str | Path | Place | None = None,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    embedder: Embedder | str | None = None,
    reranker: Reranker | str | None = None,
    llm: LLM | str | None = None,
    forget_rule: Rule | None = None,
    monitor_thresholds: Thresholds | None = None,
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
        embedder, reranker, llm: your own, or names as in the settings: ``reranker="llm"``, ``llm="gpt-4o"``.
        forget_rule: how the forget gate rates episodes; it replaces the settings
            ``forget_threshold``, ``forget_min_age_days``, ``forget_max_episodes`` and ``forget_weights``.
        monitor_thresholds: when ``memory.monitor.alerts()`` reports something.
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
        parts = (embedder, reranker, llm, forget_rule, monitor_thresholds)
        return connect_for_open(url, settings | {"user_id": user_id, "agent_id": agent_id}, parts)
    named = {"embedder": embedder, "reranker": reranker, "llm_model": llm}
    settings |= {name: part for name, part in named.items() if isinstance(part, str)}
    resolved = load_settings(user_id=user_id, agent_id=agent_id, **settings)
    place = _resolve_place(url, resolved)
    opening = _Opening(
        settings=resolved,
        models=(embedder, reranker, None if isinstance(llm, str) else llm),
        rule=forget_rule,
        thresholds=monitor_thresholds or Thresholds(),
        clock=clock,
        background=background,
        check=check_embedder,
    )
    reopen = _refuse_fork if resolved.vector_index == "chroma" else partial(opening.parts, place.absolute())
    return MemoryManager(opening.parts(place), reopen=reopen)


def _refuse_fork() -> Parts:
    raise WrongState("vectors in Chroma do not outlive a fork; open the memory in the forked process")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opening:
    settings: Settings
    models: tuple[Embedder | str | None, Reranker | str | None, LLM | None]  # None: as set
    rule: Rule | None
    thresholds: Thresholds  # of the monitor
    clock: Clock
    background: bool
    check: bool  # whether the data must be of this embedder

    def parts(self, place: Place) -> Parts:
        (embedder, reranker, llm), settings = self.models, self.settings
        own_embedder = embedder_for(settings) if embedder is None or isinstance(embedder, str) else None
        own_llm = None if llm else llm_for(settings)
        llm = llm or own_llm
        if reranker is None or isinstance(reranker, str):
            reranker = reranker_for(settings, llm)
        cached = CachedEmbedder(own_embedder or cast("Embedder", embedder))
        backend = open_backend(place, settings)
        try:
            if self.check:
                backend.vectors.claim(cached.name)
            parts = self._build(backend, cached, reranker, llm)
        except BaseException:
            backend.store.close()
            raise
        parts = replace(parts, on_close=partial(_close, own_embedder, own_llm))
        if self.background and self.check:
            if isinstance(cached.inner, E5Embedder):
                cached.inner.load_in_background()
            for worker in parts.workers:
                worker.start()
        return parts

    def _build(
        self, backend: Backend, embedder: CachedEmbedder, reranker: Reranker | None, llm: LLM | None
    ) -> Parts:
        settings, clock, store = self.settings, self.clock, backend.store
        counter, upkeep, monitor = counter_for(settings.model), None, None
        long_term = self._long_term(backend, embedder, reranker, llm)
        if settings.maintain_hours:
            upkeep = Maintenance(long_term, backend.ledger, hours=settings.maintain_hours, clock=clock)
        if settings.monitor:
            user = settings.user_id or ""
            monitor = ContextMonitor(thresholds=self.thresholds, clock=clock, counter=counter, user_id=user)
        turns, ttl = settings.max_turns, timedelta(minutes=settings.session_ttl_minutes)
        return Parts(
            store=store,
            long_term=long_term,
            workers=tuple(filter(None, (upkeep, long_term.reader, long_term.indexer))),
            short_term=ShortTermMemory(store, changes=store.changes, max_turns=turns, ttl=ttl, clock=clock),
            summaries=self._summaries(store, llm, counter),
            ledger=backend.ledger,
            skills=self._skills(embedder),
            monitor=monitor,
            counter=counter,
            settings=settings,
            clock=clock,
        )

    def _summaries(self, store: Store, llm: LLM | None, counter: TokenCounter) -> SummaryUpdater:
        settings = self.settings
        policy = RunningSummary(
            settings.limits[0],
            at=settings.summary_at,
            max_messages=settings.summary_after,
            # Messages that leave the session's window must be in the summary.
            keep_turns=min(settings.summary_keep_turns, settings.max_turns),
            counter=counter,
        )
        most, language = settings.summary_tokens, settings.language
        extractive = Summarize(max_tokens=most, language=language, counter=counter, zone=settings.zone)
        written = extractive
        if llm is not None:  # one that fails must change nothing: the next window tries again
            written = replace(extractive, llm=llm, fallback=False, prompt=settings.summary_prompt)
        waits = llm is None or settings.summary_wait or not self.background
        summaries, background = Summaries(store, clock=self.clock), None if waits else Background()
        return SummaryUpdater(summaries, policy, written, backlog=extractive, background=background)

    def _skills(self, embedder: CachedEmbedder) -> SkillShelf | None:
        if not self.settings.skills:
            return None
        registry = SkillRegistry(*self.settings.skills)
        router = Router(registry, embedder)
        if self.background:
            threading.Thread(target=_prepare_router, args=(router,), name="jiyi-skills", daemon=True).start()
        return SkillShelf(registry, router)

    def _long_term(
        self, backend: Backend, embedder: CachedEmbedder, reranker: Reranker | None, llm: LLM | None
    ) -> LongTermMemory:
        settings, clock, zone = self.settings, self.clock, self.settings.zone
        store, vectors, trash = backend.store, backend.vectors, backend.trash
        succession = Succession(store, vectors)
        facts = FactMemory(store, succession=succession, llm=llm, clock=clock, zone=zone)
        least, language = settings.consolidation_min_episodes, settings.language
        consolidation = Consolidation(
            store, vectors, llm=llm, clock=clock, min_episodes=least, language=language
        )
        second = Second(reranker=reranker, seconds=settings.reranker_seconds) if reranker else None
        accesses = Accesses(store, clock=clock)
        recall = Recall(store, vectors, embedder, second=second, accesses=accesses, zone=zone, clock=clock)
        indexer = Indexer(vectors, embedder, after_embedding=succession.settle)
        reader = None
        if llm is not None and settings.learn_facts and settings.reader == "auto":
            new = indexer.notify
            reader = Reader(store, backend.ledger, facts, llm, settings=settings, clock=clock, on_new=new)
        rewrite, counter = consolidation.rewritten, counter_for(settings.model)
        learn = facts.learn if settings.learn_facts else lambda _: None
        return LongTermMemory(
            recall=recall,
            indexer=indexer,
            facts=facts,
            reader=reader,
            consolidation=consolidation,
            gate=gate_of(store, trash, settings=settings, rule=self.rule, clock=clock),
            forgetting=Forgetting(store, trash, rewrite=rewrite, learn=facts.learn),
            updating=Updating(store, trash, facts, learn=learn, rewrite=rewrite, counter=counter),
        )


def _close(*models: object) -> None:
    for model in models:
        if isinstance(model, OpenAIEmbedder | OpenAILLM):
            model.close()


def _prepare_router(router: Router) -> None:
    with suppress(JiyiError):  # words choose until the embedder answers
        router.prepare()


def open_async(url: str | Path | Place | None = None, **options: Any) -> AsyncMemoryManager:
    """Open a memory whose verbs are coroutines; ``options`` as for `open`."""
    memory = open(url, **options)
    if type(memory) is MemoryManager:
        return AsyncMemoryManager(memory)
    from jiyi.client.memory import AsyncRemoteMemory

    return AsyncRemoteMemory(cast("Any", memory))


def _resolve_place(url: str | Path | Place | None, settings: Settings) -> Place:
    url = _read_secret(settings.database_url) if url is None else url
    if url is None:
        advice = 'Give a path or URL, as in jiyi.open("agent.db"), or set JIYI_DATABASE_URL'
        raise SettingsError(f"where is the memory? {advice}")
    return locate(url)


def embedder_for(settings: Settings) -> Embedder:
    """Return the embedder the settings name; SettingsError: an endpoint without a model."""
    if settings.embedder == "e5":
        return E5Embedder(
            threads=settings.threads, engine=settings.embedding_engine, file=settings.model_file
        )
    if not settings.embedding_model:
        raise SettingsError("embedder=openai needs embedding_model, such as text-embedding-3-small")
    url, key = settings.embedding_base_url, _read_secret(settings.embedding_api_key)
    return OpenAIEmbedder(
        settings.embedding_model,
        endpoint=Endpoint(base_url=url, api_key=key, query_seconds=settings.embedding_seconds),
        query_model=settings.embedding_query_model,
        query_prefix=settings.embedding_query_prefix,
        passage_prefix=settings.embedding_passage_prefix,
        dimensions=settings.embedding_dimensions,
        batch_size=settings.embedding_batch_size,
        max_chars=settings.embedding_max_chars,
    )


def llm_for(settings: Settings) -> OpenAILLM | None:
    """Return the language model the settings name, or None where they name none; close it in the end.

    Raises `SettingsError` if address or key cannot be used, `MissingExtra` without the package `openai`.
    """
    if not settings.llm_model:
        return None
    url, key, seconds = settings.llm_base_url, _read_secret(settings.llm_api_key), settings.llm_seconds
    endpoint = Endpoint(base_url=url, api_key=key, timeout=seconds)
    return OpenAILLM(settings.llm_model, endpoint=endpoint, time_limit=seconds)


def reranker_for(settings: Settings, llm: LLM | None = None) -> Reranker | None:
    """Return the reranker the settings name, or None for "none"; it holds nothing to close.

    `llm` is the model that "llm" asks. Raises `SettingsError` for an endpoint without address or model, a
    cross-encoder without model, "llm" without a language model; `MissingExtra` without the package of a
    cross-encoder.
    """
    kind, model = settings.reranker, settings.reranker_model
    if kind == "none":
        return None
    if kind == "llm":
        if llm is None:
            raise SettingsError("reranker=llm needs a language model: set llm_model, such as gpt-4o-mini")
        return LLMReranker(llm, language=settings.language)
    if not model:
        raise SettingsError(f"reranker={kind} needs reranker_model, such as BAAI/bge-reranker-v2-m3")
    if kind == "cross-encoder":
        return CrossEncoderReranker(model)
    url, seconds = settings.reranker_base_url, settings.reranker_seconds
    if not url:
        example = "https://api.siliconflow.cn/v1"
        raise SettingsError(f"reranker=endpoint needs reranker_base_url, such as {example}")
    # Without a key of its own it gets none: OPENAI_API_KEY is never sent to another provider.
    key = _read_secret(settings.reranker_api_key) or ""
    endpoint = Endpoint(base_url=url, api_key=key, timeout=seconds, retries=1)
    return EndpointReranker(model, endpoint=endpoint, time_limit=seconds)


def _read_secret(key: SecretStr | None) -> str | None:
    return key.get_secret_value() if key else None
