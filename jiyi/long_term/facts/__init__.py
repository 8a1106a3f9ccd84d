"""Facts: statements about somebody or something, and how they change with time."""

from jiyi.long_term.facts.known import Neighbour
from jiyi.long_term.facts.memory import FactMemory
from jiyi.long_term.facts.merge import Learned
from jiyi.long_term.facts.profile import profile_block, profile_of
from jiyi.long_term.facts.succession import Succession

__all__ = ["FactMemory", "Learned", "Neighbour", "Succession", "profile_block", "profile_of"]
