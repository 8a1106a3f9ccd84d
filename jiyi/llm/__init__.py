"""Messages to a reply: the language model, for the steps that are better with one.

Importing this loads no client.
"""

from jiyi.llm.answers import *
from jiyi.llm.llm import *
from jiyi.llm.openai import *
from jiyi.llm.streams import *
from jiyi.llm.structured import *
