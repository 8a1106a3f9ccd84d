"""What the memory does for a conversation that passes by: recalls for it, and keeps it."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from jiyi.integrations.recalling import Owner, Recaller, key, stored
from jiyi.records import Message, new_id

__all__ = ["Talk"]

_KNOWN = 200  # messages of a request that are looked for among those stored
_LOCKS = 64


class Talk(Recaller):
    """Recalls for conversations, and keeps each of their messages once.

    Args:
        tokens: most that is recalled for a question.
    """

    def __init__(self, *, tokens: int) -> None:
        super().__init__(tokens=tokens)
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def keep(self, owner: Owner, talk: Sequence[Message], reply: Sequence[Message], *, whole: bool) -> int:
        """Save what is new in a conversation, then the reply; return how many messages that were.

        With ``whole`` the talk is all that the client shows of the conversation, else it is new.
        """
        with self._locks[hash((owner.user_id, owner.session_id)) % _LOCKS]:
            there = stored(owner)
            fresh = _unsaved(there, talk, whole=whole)
            again = [key(m) for m in reply] == [key(m) for m in there[-len(reply) or len(there) :]]
            if not fresh and again:
                return 0
            saved = [replace(message, id=new_id()) for message in (*fresh, *reply)]
            owner.memory.save_messages(owner.session_id, saved, user_id=owner.user_id)
            return len(saved)


def _unsaved(there: Sequence[Message], talk: Sequence[Message], *, whole: bool) -> Sequence[Message]:
    """Return the end of a talk that is not stored yet.

    Clients send what came before again, or the newest of it, and people edit it and ask again. So
    what is new begins after the last message that is known, and with the model's last one at the
    earliest: what was forgotten of earlier turns does not come back.
    """
    known, given = [key(m) for m in there], [key(m) for m in talk[-2 * _KNOWN :]]
    if not whole:  # of a request that is sent once more nothing is new
        return [] if known[-len(given) :] == given else talk
    spoken = max((i for i, m in enumerate(talk) if m.role == "assistant"), default=-1)
    blocks = SequenceMatcher(None, known, given, autojunk=False).get_matching_blocks()
    matched = max((block.b + block.size for block in blocks if block.size), default=0)
    if matched:
        return talk[max(matched + len(talk) - len(given), spoken) :]
    return talk[spoken:] if spoken >= 0 and talk[spoken].tool_calls else talk[spoken + 1 :]
