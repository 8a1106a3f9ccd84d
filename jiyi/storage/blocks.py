"""Several verbs as one: the protocol of blocks, which every store follows."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

__all__ = ["Blocks"]

_T = TypeVar("_T")


class Blocks(Protocol):
    """Puts what one thread does with a store together. Other threads do not notice."""

    def transaction(self) -> AbstractContextManager[None]:
        """Make what this thread reads and writes inside the block one atomic change.

        Readers inside see the newest state and no other writer comes between. An
        exception undoes all of it. Blocks may be nested; the outermost commits.
        """
        ...

    def together(self, verb: Callable[[], _T], *, repeatable: bool = False) -> _T:
        """Do several things in a `transaction` and return what the last gave.

        Where the connection to a server broke, or writers met, all of it is done again in a new
        one; inside another `transaction` it is done once.

        Args:
            verb: what to do; it changes nothing but the store.
            repeatable: doing it twice is the same as doing it once. Else it is not done again
                where it is not known whether it was.
        """
        ...

    def snapshot(self, user_id: str) -> AbstractContextManager[None]:
        """Make what this thread searches of a user inside the block be as of its beginning.

        `Store.match`, and the verbs of a vector index on the same database, then need not ask
        anew who the user is and what is new, which costs round trips to a server. Nothing is
        written inside. Inside a `transaction` it does nothing, inside another of its kind neither.
        """
        ...
