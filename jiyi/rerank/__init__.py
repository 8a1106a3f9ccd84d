"""Hits to better hits: a second, slower look at what recall found.

`Reranker` is the protocol; `EndpointReranker` asks a /rerank API, `CrossEncoderReranker` runs a model on this
machine, `LLMReranker` asks a language model. `rerank` runs any of them within a time limit and never fails:
without scores the order from before holds. Importing this loads no model and no client.
"""

from jiyi.rerank.by_llm import *
from jiyi.rerank.cross_encoder import *
from jiyi.rerank.endpoint import *
from jiyi.rerank.reranker import *
