"""Compression of texts and messages. Every compressor is a separate file and works alone.

Importing loads nothing heavy: models are loaded by the first call that needs them.
"""

from jiyi.compression.compressor import *
from jiyi.compression.extract import *
from jiyi.compression.llmlingua import *
from jiyi.compression.prune_tokens import *
from jiyi.compression.relevance import *
from jiyi.compression.summarize import *
from jiyi.compression.tool_output import *
