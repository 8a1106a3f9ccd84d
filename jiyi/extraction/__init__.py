"""Reading messages: what is stated in them, by a small learned model or by a language model."""

from jiyi.extraction.by_llm import *
from jiyi.extraction.forms import *
from jiyi.extraction.reading import *
from jiyi.extraction.rules import *
from jiyi.extraction.statement import *
from jiyi.extraction.values import *
