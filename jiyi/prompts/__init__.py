"""What is said to language models, in Chinese and in English.

A prompt is a Markdown file: `load_prompt` gives it as a template, `check_prompt` makes one of a text of
one's own, `quote` makes text that is only data recognisable as such. Headings, labels and short
sentences are in `wording.toml`: `wording` gives a section of it.
"""

from jiyi.prompts.load import *
