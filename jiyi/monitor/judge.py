"""A language model that tells which recalled passages a reply used."""

from collections.abc import Sequence

from jiyi.errors import LLMError
from jiyi.llm import LLM, ask_json
from jiyi.monitor.hits import RETRIEVED, Hit, Hits, find_hits
from jiyi.prompts import load_prompt, quote
from jiyi.records import Block
from jiyi.text import language

__all__ = ["LLMHits"]

_MOST_CHARS = 1_000  # of a passage and of the question that are shown
_MOST_REPLY = 6_000  # characters of the reply
_BATCH = 20  # passages in one prompt


class LLMHits:
    """A `Judge` that asks a language model; it sees what is said in other words or languages.

    - Question, passages and reply are quoted as data.
    - One call of the model for every 20 passages.
    - Where the model cannot be asked or gives no usable answer, words are compared as in
      `find_hits`, and `Hits.notes` says why.

    Args:
        llm: the model.
    """

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def __call__(self, question: str, blocks: Sequence[Block], reply: str) -> Hits:
        """Return which of the retrieved blocks the reply used; the share of a block is 0 or 1."""
        shown = [block for block in blocks if block.section in RETRIEVED]
        if not shown or not reply.strip():
            return find_hits(question, shown, reply)
        try:
            said = [
                verdict
                for start in range(0, len(shown), _BATCH)
                for verdict in self._ask(question, shown[start : start + _BATCH], reply)
            ]
        except LLMError as error:
            found = find_hits(question, shown, reply)
            return Hits(blocks=found.blocks, notes=(f"told by words, the model failed: {error}",))
        hits = (
            Hit(section=block.section, source_id=block.source_id, share=float(used), used=used)
            for block, used in zip(shown, said, strict=True)
        )
        return Hits(blocks=tuple(hits), method="llm")

    def _ask(self, question: str, blocks: Sequence[Block], reply: str) -> list[bool]:
        tongue = language(question or reply)
        numbers = [str(number) for number in range(1, len(blocks) + 1)]
        passages = (f"[{n}]\n{quote(b.text[:_MOST_CHARS])}" for n, b in zip(numbers, blocks, strict=True))
        prompt = load_prompt("judge_hits", tongue).substitute(
            question=quote(question[:_MOST_CHARS]),
            reply=quote(reply[:_MOST_REPLY]),
            passages="\n\n".join(passages),
            count=len(blocks),
        )
        schema = {
            "type": "object",
            "properties": {number: {"type": "boolean"} for number in numbers},
            "required": numbers,
            "additionalProperties": False,
        }
        answer = ask_json(self._llm, [{"role": "user", "content": prompt}], schema, language=tongue)
        return [answer[number] for number in numbers]
