"""Long-term memory: what outlives the session, how it changes, and how it is found again."""

from jiyi.long_term.blocks import *
from jiyi.long_term.consolidation.consolidation import *
from jiyi.long_term.facts.lookup import *
from jiyi.long_term.facts.memory import *
from jiyi.long_term.facts.merge import *
from jiyi.long_term.facts.succession import *
from jiyi.long_term.forget_gate.gate import *
from jiyi.long_term.forget_gate.rules import *
from jiyi.long_term.forgetting.forgetting import *
from jiyi.long_term.forgetting.plan import *
from jiyi.long_term.indexing import *
from jiyi.long_term.memory import *
from jiyi.long_term.reading import *
from jiyi.long_term.recall.accesses import *
from jiyi.long_term.recall.recall import *
from jiyi.long_term.recall.weights import *
from jiyi.long_term.relevance import *
from jiyi.long_term.updating import *
from jiyi.long_term.worker import *
