"""Files of this machine: an export streamed down into one, an import streamed up from one."""

from collections.abc import Mapping
from typing import IO, Any, cast

from jiyi.client.asking import Ask, Steps, answered, read_as
from jiyi.client.jobs import job_done
from jiyi.client.verbs import PREFIX, Whose, given_to, in_query
from jiyi.endpoint import Endpoint
from jiyi.errors import InputError
from jiyi.importers.run import is_no_file
from jiyi.records import Kind
from jiyi.storage import ExportReceipt, ImportReceipt
from jiyi.storage.transfer.files import path_to_read, unreadable, whole_file
from jiyi.verbs.base import path_of

__all__ = ["exported", "imported"]

_COUNTS = "x-jiyi-counts"


def exported(there: Endpoint, whose: Whose, *args: Any, **kwargs: Any) -> Steps[ExportReceipt]:
    """Return the steps of `MemoryManager.export`; the file takes its name when it is whole."""
    given = given_to("export", whose, args, kwargs)
    path, progress = path_of(given.pop("path")), given.pop("progress", None)
    with whole_file(path) as file:
        ask = Ask(method="GET", path=f"{PREFIX}/export", query=in_query(given), into=_File(file))
        answer = yield from answered(ask, there)
        size = file.tell()
    counts = read_as(Mapping[Kind, int], answer.headers.get(_COUNTS, "").encode(), there)
    if progress is not None:
        progress(sum(counts.values()))
    return ExportReceipt(path=path, counts=counts, bytes=size)


def imported(there: Endpoint, whose: Whose, *args: Any, **kwargs: Any) -> Steps[ImportReceipt]:
    """Return the steps of `MemoryManager.import_`; the file is read here and taken in there, as a job."""
    given = given_to("import_", whose, args, kwargs)
    if is_no_file(place := given.pop("path")):
        raise InputError("a memory on a server imports files only: run this where the memory is")
    path, progress = path_to_read(path_of(place)), given.pop("progress", None)
    # The server keeps the file under another name, by which messages without a session must not go.
    query = {"session_id": path.stem, **in_query(given), "name": path.name}
    headers = {"content-type": "application/octet-stream"}
    ask = Ask(method="POST", path=f"{PREFIX}/import", query=query, body=path, headers=headers)
    try:
        done = yield from job_done(ask, there, progress)
    except OSError as error:
        raise unreadable(path, error) from error
    return cast("ImportReceipt", read_as(ImportReceipt, done, there))


class _File:
    """A file that an answer is written into, from its beginning at each try."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def begin(self) -> None:
        self._file.seek(0)
        self._file.truncate()

    def take(self, piece: bytes) -> None:
        self._file.write(piece)
