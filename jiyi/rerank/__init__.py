"""Hits to better hits: a second, slower look at them. Importing this loads no model and no client."""

from jiyi.rerank.by_llm import *
from jiyi.rerank.cross_encoder import *
from jiyi.rerank.endpoint import *
from jiyi.rerank.reranker import *
