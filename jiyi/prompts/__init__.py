"""What language models are asked, in Chinese and in English: one Markdown file for each prompt.

`load_prompt` gives a template by name and language, `check_prompt` makes one of an own text, `quote`
makes text that is only data recognisable as such.
"""

from jiyi.prompts.load import Language, check_prompt, load_prompt, quote

__all__ = ["Language", "check_prompt", "load_prompt", "quote"]
