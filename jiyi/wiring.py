"""From a URL and settings to a working memory: the only place that picks concrete parts."""

from pathlib import Path
from typing import Any, cast

from jiyi.async_manager import AsyncMemoryManager
from jiyi.clock import Clock, utc_now
from jiyi.embeddings import CachedEmbedder, E5Embedder, Embedder, Endpoint, OpenAIEmbedder
from jiyi.errors import SettingsError
from jiyi.long_term import Indexer, Recall
from jiyi.manager import MemoryManager
from jiyi.settings import Settings, load_settings
from jiyi.short_term import ShortTermMemory
from jiyi.storage import SqliteDatabase, SqliteStore, SqliteVectors
from jiyi.text import counter_for

__all__ = ["check_database", "embedder_for", "open_async_memory", "open_memory", "users_of"]


def open_memory(
    url: str | Path,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    embedder: Embedder | None = None,
    clock: Clock = utc_now,
    background: bool = True,
    check_embedder: bool = True,
    **settings: Any,
) -> MemoryManager:
    """Open a memory, making its file if there is none.

    Args:
        url: a path, or ``sqlite:///path``.
        user_id: whose memory, unless a call says otherwise.
        agent_id: which agent, unless a call says otherwise.
        embedder: an own embedder instead of the one the settings name.
        clock: where "now" comes from.
        background: embed in a worker thread; without it only `flush` does.
        check_embedder: refuse data of another embedder; `MemoryManager.reembed` needs it off.
        settings: any field of `Settings`.

    Raises:
        SettingsError: a setting is unknown or unusable, or the URL names an unknown backend.
        StorageError: the file is foreign, damaged, newer, or cannot be written.
        EmbedderMismatch: the data was embedded by another embedder.
    """
    chosen = load_settings(user_id=user_id, agent_id=agent_id, **settings)
    counter = counter_for(chosen.model)
    own = None if embedder else embedder_for(chosen)
    cached = CachedEmbedder(embedder or cast("Embedder", own))
    database = SqliteDatabase(_path(url), lock_timeout=chosen.lock_timeout)
    try:
        store, vectors = SqliteStore(database), SqliteVectors(database)
        indexer = Indexer(vectors, cached)
        if check_embedder:
            vectors.claim(cached.name)
        short_term = ShortTermMemory(store, max_turns=chosen.max_turns, ttl=chosen.session_ttl, clock=clock)
    except BaseException:
        database.close()
        raise
    if background and check_embedder:
        indexer.start()
    return MemoryManager(
        store=store,
        indexer=indexer,
        recall=Recall(store, vectors, cached),
        short_term=short_term,
        counter=counter,
        settings=chosen,
        clock=clock,
        on_close=own.close if isinstance(own, OpenAIEmbedder) else lambda: None,
    )


def open_async_memory(url: str | Path, **options: Any) -> AsyncMemoryManager:
    """Open a memory whose verbs are awaited; ``options`` as for `open_memory`."""
    return AsyncMemoryManager(open_memory(url, **options))


def embedder_for(settings: Settings) -> Embedder:
    """Return the embedder the settings name.

    Raises:
        SettingsError: an endpoint without a model.
    """
    if settings.embedder == "e5":
        return E5Embedder(threads=settings.embedding_threads)
    if not settings.embedding_model:
        raise SettingsError("embedder=openai needs embedding_model, such as text-embedding-3-small")
    key = settings.embedding_api_key
    return OpenAIEmbedder(
        settings.embedding_model,
        endpoint=Endpoint(
            base_url=settings.embedding_base_url, api_key=key.get_secret_value() if key else None
        ),
        query_model=settings.embedding_query_model,
        query_prefix=settings.embedding_query_prefix,
        passage_prefix=settings.embedding_passage_prefix,
    )


def check_database(url: str | Path) -> str:
    """Read a whole database, compare its parts, and return what it holds in a line.

    Raises:
        StorageError: it is foreign, newer, damaged, or its parts do not agree.
    """
    database = SqliteDatabase(_path(url))
    try:
        return database.check()
    finally:
        database.close()


def users_of(url: str | Path) -> list[str]:
    """Return the names of all users in a database: for whoever looks after the file, not for agents."""
    database = SqliteDatabase(_path(url))
    try:
        return database.users()
    finally:
        database.close()


def _path(url: str | Path) -> Path:
    if isinstance(url, Path):
        return url
    if not isinstance(url, str):
        raise SettingsError(f"a database is a path or a URL, not {type(url).__name__}")
    scheme, separator, rest = url.partition("://")
    if not separator:
        path = url
    elif scheme == "sqlite" and rest.startswith("/"):
        path = rest[1:]
    else:
        raise SettingsError(f"{url!r} names no backend of this jiyi; give a file path or sqlite:///path")
    if not path.strip() or path == ":memory:":
        raise SettingsError("jiyi keeps its data in a file; give a path, in a temporary folder if need be")
    return Path(path).expanduser()
