"""The models that settings name: for vectors, for words, and for the order of hits."""

from pydantic import SecretStr

from jiyi.embeddings import E5Embedder, Embedder, Endpoint, OpenAIEmbedder
from jiyi.errors import SettingsError
from jiyi.llm import LLM, OpenAILLM
from jiyi.rerank import CrossEncoderReranker, EndpointReranker, LLMReranker, Reranker
from jiyi.settings import Settings

__all__ = ["embedder_for", "llm_for", "reranker_for"]


def embedder_for(settings: Settings) -> Embedder:
    """Return the embedder the settings name.

    Raises:
        SettingsError: an endpoint without a model.
    """
    if settings.embedder == "e5":
        return E5Embedder(
            threads=settings.threads, engine=settings.embedding_engine, file=settings.model_file
        )
    if not settings.embedding_model:
        raise SettingsError("embedder=openai needs embedding_model, such as text-embedding-3-small")
    url, key = settings.embedding_base_url, _secret(settings.embedding_api_key)
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

    Raises:
        SettingsError: the endpoint's address or key cannot be used.
        MissingExtra: the package `openai` is not installed.
    """
    if not settings.llm_model:
        return None
    return OpenAILLM(
        settings.llm_model,
        endpoint=Endpoint(
            base_url=settings.llm_base_url,
            api_key=_secret(settings.llm_api_key),
            timeout=settings.llm_seconds,
        ),
        time_limit=settings.llm_seconds,
    )


def reranker_for(settings: Settings, llm: LLM | None = None) -> Reranker | None:
    """Return the reranker the settings name, or None for "none"; it holds nothing to close.

    `llm` is the model that "llm" asks.

    Raises:
        SettingsError: an endpoint without address or model, a cross-encoder without model,
            "llm" without a language model.
        MissingExtra: the package a cross-encoder needs is not installed.
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
    if not settings.reranker_base_url:
        raise SettingsError(
            "reranker=endpoint needs reranker_base_url, such as https://api.siliconflow.cn/v1"
        )
    # Without a key of its own it gets none: OPENAI_API_KEY is not for other houses.
    endpoint = Endpoint(
        base_url=settings.reranker_base_url,
        api_key=_secret(settings.reranker_api_key) or "",
        timeout=settings.reranker_seconds,
        retries=1,
    )
    return EndpointReranker(model, endpoint=endpoint, time_limit=settings.reranker_seconds)


def _secret(key: SecretStr | None) -> str | None:
    return key.get_secret_value() if key else None
