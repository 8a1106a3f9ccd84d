"""Language without input or output: token counts, search terms, excerpts, dates, traits and secrets."""

from jiyi.text.analyse import *
from jiyi.text.cut import *
from jiyi.text.dates import *
from jiyi.text.excerpt import *
from jiyi.text.keys import *
from jiyi.text.secrets import *
from jiyi.text.surrogates import *
from jiyi.text.tokens import *
from jiyi.text.traits import *
