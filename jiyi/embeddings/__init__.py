"""Text to vectors, so that memories are found by meaning.

`E5Embedder` is bundled and works offline, `OpenAIEmbedder` asks a compatible endpoint,
`CachedEmbedder` wraps either; all follow the protocol `Embedder`. `split_parts` cuts a
long record into pieces worth a vector each. Importing this loads no model and no client.
"""

from jiyi.embeddings.e5 import *
from jiyi.embeddings.embedder import *
from jiyi.embeddings.openai import *
from jiyi.embeddings.parts import *
from jiyi.endpoint import *
