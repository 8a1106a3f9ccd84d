"""Is the memory any good? Questions with known evidence, asked to fresh memories and measured.

`load_dataset` reads a file, `evaluate` fills a memory with each of its conversations and asks its questions;
an `Evaluation` holds the figures. Recall is measured, not what a model would answer: no LLM is called.
"""

from jiyi.evaluate.baselines import *
from jiyi.evaluate.dataset import *
from jiyi.evaluate.metrics import *
from jiyi.evaluate.run import *
from jiyi.evaluate.systems import *
