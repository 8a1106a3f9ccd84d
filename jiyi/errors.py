"""Every error jiyi raises.

The tree; each class says what it means::

    JiyiError
    ├── InputError (ValueError): BadMessage, BadScope, ScopeMissing, BadQuery, NaiveDatetime, DuplicateId,
    │       BadBudget
    ├── BudgetTooSmall, NotFound (LookupError), WrongState, SettingsError, ImportFailed, MissingExtra
    ├── StorageError: DatabaseLocked, DatabaseBusy, DatabaseUnreachable, IndexUnreachable, DatabaseReadOnly,
    │       DatabaseMoved, DiskFull, DatabaseDamaged, ForeignDatabase, NewerDatabase, CopyMismatch, Closed
    ├── EmbeddingError: EmbedderMismatch, ModelMissing, EndpointUnreachable
    │   └── EndpointRefused: TextRefused
    ├── LLMError: LLMUnreachable, LLMRefused, BadReply
    ├── RerankError
    └── ServerError: ServerUnreachable, Unauthorized, Forbidden, RateLimited, RequestTooLarge,
            RequestTimedOut, KeyReused, Changed

Each message says what happened and what to do next. Errors of other libraries are translated once, in the
adapter that calls them, and kept as ``__cause__``. No message shows a password or a key, nor more than a part
of an argument.
"""

from jiyi.telling import redact

__all__ = [
    "BadBudget", "BadMessage", "BadQuery", "BadReply", "BadScope", "BudgetTooSmall", "Changed", "Closed",
    "CopyMismatch", "DatabaseBusy", "DatabaseDamaged", "DatabaseLocked", "DatabaseMoved", "DatabaseReadOnly",
    "DatabaseUnreachable", "DiskFull", "DuplicateId", "EmbedderMismatch", "EmbeddingError", "EndpointRefused",
    "EndpointUnreachable", "Forbidden", "ForeignDatabase", "ImportFailed", "IndexUnreachable", "InputError",
    "JiyiError", "KeyReused", "LLMError", "LLMRefused", "LLMUnreachable", "MissingExtra", "ModelMissing",
    "NaiveDatetime", "NewerDatabase", "NotFound", "RateLimited", "RequestTimedOut", "RequestTooLarge",
    "RerankError", "ScopeMissing", "ServerError", "ServerUnreachable", "SettingsError", "StorageError",
    "TextRefused", "Unauthorized", "WrongState",
]  # fmt: skip


class JiyiError(Exception):
    """The root: catch this to catch everything jiyi raises on purpose."""

    _max_chars = 2_000  # characters of a message

    def __init__(self, *words: object, **attributes: object) -> None:
        super().__init__(*(redact(w, self._max_chars) if isinstance(w, str) else w for w in words))
        vars(self).update(attributes)  # the attributes that some classes have


class InputError(JiyiError, ValueError):
    """An argument cannot be used; nothing was changed."""

    _max_chars = 500


class BadMessage(InputError):
    """A message dict breaks the OpenAI Chat Completions form."""


class BadScope(InputError):
    """A user, agent or session id is empty, too long or not text."""


class ScopeMissing(InputError):
    """No ``user_id`` was given, neither to ``open()`` nor to the call."""


class BadQuery(InputError):
    """A search or listing asks for something impossible."""


class NaiveDatetime(InputError):
    """A datetime without a time zone."""


class DuplicateId(InputError):
    """This id is taken by different content; the stored record is unchanged."""


class BadBudget(InputError):
    """A token budget that cannot be a budget: negative, zero, or shares over one."""


class BudgetTooSmall(JiyiError):
    """What must be in the window is larger than the window."""

    needed: int  # tokens that what must be there takes
    available: int  # tokens the budget gives


class NotFound(JiyiError, LookupError):
    """No such record in this scope."""


class WrongState(JiyiError):
    """The record is not in a state that allows this."""


class SettingsError(JiyiError):
    """A setting has an unusable value."""


class ImportFailed(JiyiError):
    """A file cannot be imported at all (single bad lines are reported, not raised)."""


class StorageError(JiyiError):
    """The database could not do what was asked; nothing half-written remains."""


class DatabaseLocked(StorageError):
    """Another process held the write lock longer than the lock time-out."""


class DatabaseBusy(StorageError):
    """A server had no time: no connection of the pool was free, a statement took too long, or writers met."""


class DatabaseUnreachable(StorageError):
    """The server refused, is gone, or cut the connection and did not come back in time.

    Nothing was written, unless the message says that this is not known.
    """


class IndexUnreachable(StorageError):
    """The server that holds the vectors does not answer; rows are saved and words searched all the same."""


class DatabaseReadOnly(StorageError):
    """The file or its folder cannot be written; or the server is one that only reads."""


class DatabaseMoved(StorageError):
    """The file was moved, deleted or replaced while it was open; nothing was written."""


class DiskFull(StorageError):
    """No space is left for the database."""


class DatabaseDamaged(StorageError):
    """The file is not a sound database any more; it was left untouched."""


class ForeignDatabase(StorageError):
    """The file or database belongs to another program; it was left untouched."""


class NewerDatabase(StorageError):
    """The file or database was written by a newer jiyi; it was left untouched."""


class CopyMismatch(StorageError):
    """The target of a copy holds something that the source does not, or not all of it."""


class Closed(StorageError):
    """Used after ``close()``."""


class MissingExtra(JiyiError):
    """An optional package is not installed."""


class EmbeddingError(JiyiError):
    """Texts could not be turned into vectors."""


class EmbedderMismatch(EmbeddingError):
    """The data was embedded by another embedder than the one given."""


class ModelMissing(EmbeddingError):
    """The data file of the bundled model is not on this machine; memories are found by words."""


class EndpointUnreachable(EmbeddingError):
    """The endpoint refused connections, timed out, or kept failing."""


class EndpointRefused(EmbeddingError):
    """The endpoint answered with an error that a retry would not solve."""


class TextRefused(EndpointRefused):
    """The endpoint embeds other texts, but not this one, however short it is cut."""

    status: int  # the HTTP status it answered with


class LLMError(JiyiError):
    """The language model gave no usable answer."""


class LLMUnreachable(LLMError):
    """The model's endpoint refused connections, timed out, or kept failing."""


class LLMRefused(LLMError):
    """The model's endpoint answered with an error that a retry would not solve."""


class BadReply(LLMError):
    """The model answered, but not in the form it was asked for."""


class RerankError(JiyiError):
    """Texts could not be scored; the order they came in still holds."""


class ServerError(JiyiError):
    """A server refused a request, or could not be asked."""


class ServerUnreachable(ServerError):
    """The server refused connections, timed out, or kept failing."""


class Unauthorized(ServerError):
    """The key is missing, unknown, expired or revoked."""


class Forbidden(ServerError):
    """The key does not allow this: it lacks a scope, or is of another user."""


class RateLimited(ServerError):
    """Too many requests with this key; ask again later."""

    retry_after: int = 1  # in how many seconds


class RequestTooLarge(ServerError):
    """The body is larger than the server takes."""


class RequestTimedOut(ServerError):
    """The server gave up waiting; what was asked for may still be done."""


class KeyReused(ServerError):
    """This idempotency key was used for another request; nothing was done."""


class Changed(ServerError):
    """The record is not as it was when it was read; read it again."""
