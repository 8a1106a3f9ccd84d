"""Conversations that a framework keeps itself: saved as they grow, and given back as they were."""

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from json import loads

from jiyi.errors import DatabaseLocked
from jiyi.integrations.keeping import RAW
from jiyi.integrations.recalling import Owner, digest, whole
from jiyi.records import Message

__all__ = ["Entry", "Saver"]

_OURS = re.compile("([0-9a-f]{24})[.]([0-9a-f]{24})")
_TRIES = 3  # a process that ends after this would take the messages along
_SESSIONS = 100  # conversations of which it is known without reading what is saved


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a framework."""

    key: str  # what the framework knows it by; stays when its content changes
    raw: str  # the whole of it as JSON
    message: Message  # what it says


class Saver:
    """Saves conversations; each time it is given one whole, what is new goes in.

    - A message is saved once, even if several processes do so at the same time.
    - A message whose content changed takes the place of the one before, and one that was put between
      others stands there; see `replace_messages`.
    - What was forgotten is not saved again: what it was given once is no longer new, and in a new
      process neither is what stands before the newest message that is saved.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str | None, str], dict[str, str]] = OrderedDict()
        self._guard = threading.Lock()

    def save(self, owner: Owner, entries: Sequence[Entry]) -> None:
        """Save what is new or changed, all or nothing; a database in use is waited for three times as long.

        Raises:
            JiyiError: the memory cannot take it.
        """
        for left in reversed(range(_TRIES)):
            try:
                self._save(owner, entries)
                return
            except DatabaseLocked:
                if not left:
                    raise

    def _save(self, owner: Owner, entries: Sequence[Entry]) -> None:
        place = (owner.user_id, owner.session_id)
        given = {digest(f"{owner.session_id}\n{entry.key}"): entry for entry in entries}
        marks = {name: digest(entry.raw) for name, entry in given.items()}
        with self._guard:
            seen = self._seen.get(place)
        if seen is None:
            seen = dict(_marks(message.id) for message in whole(owner))
            newest = max((i for i, name in enumerate(marks) if name in seen), default=-1)
            seen = {name: mark for i, (name, mark) in enumerate(marks.items()) if i <= newest} | seen
        fresh = [name for name, mark in marks.items() if seen.get(name) != mark]
        made = {name: _stored_as(f"{name}.{marks[name]}", given[name]) for name in fresh}
        if any(name in seen for name in fresh) or fresh != list(marks)[len(marks) - len(fresh) :]:
            self._replace(owner, list(given), made)
        elif fresh:
            owner.memory.save_messages(owner.session_id, list(made.values()), user_id=owner.user_id)
        with self._guard:
            self._seen[place] = seen | marks
            self._seen.move_to_end(place)
            if len(self._seen) > _SESSIONS:
                self._seen.popitem(last=False)

    def _replace(self, owner: Owner, names: Sequence[str], made: Mapping[str, Message]) -> None:
        """Write changed messages where they were, and new ones after those that they came after."""

        def replaced() -> None:
            talk = {_marks(message.id)[0]: message for message in whole(owner)}
            order = list(talk)
            before: str | None = None
            for name in names:
                if name in made and name not in talk:
                    order.insert(0 if before is None else order.index(before) + 1, name)
                if name in made or name in talk:
                    before = name
            messages = [made.get(name) or talk[name] for name in order]
            owner.memory.replace_messages(owner.session_id, messages, user_id=owner.user_id)

        # One transaction: what another process saves meanwhile stays.
        owner.memory.parts.store.together(replaced, repeatable=True)


def _marks(record_id: str) -> tuple[str, str]:
    """Return what stands in a record's id for the message's key and for its content."""
    found = _OURS.fullmatch(record_id)
    return (found[1], found[2]) if found else (record_id, "")


def _stored_as(record_id: str, entry: Entry) -> Message:
    message = entry.message
    return replace(message, id=record_id, extra={**message.extra, RAW: loads(entry.raw, parse_constant=str)})
