"""Text to vectors, so that memories are found by meaning. Importing this loads no model and no client."""

from jiyi.embeddings.e5 import *
from jiyi.embeddings.embedder import *
from jiyi.embeddings.openai import *
from jiyi.embeddings.parts import *
from jiyi.endpoint import *
