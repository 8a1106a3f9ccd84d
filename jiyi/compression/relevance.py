"""The sentences that serve a question: chosen by a scorer, or by a language model where one is set.

The scorer is BM25 over the given sentences (Robertson and Zaragoza 2009; without the length), with
something for the kind that is asked for: dates for "when", numbers for "how many", names for "who".
Sentences next to good ones get a part of their score, most those after a question.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from jiyi.compression.compressor import Compressed, Compressible, Given, Limit
from jiyi.compression.prune_tokens import PruneTokens
from jiyi.compression.sentences import Sentence, signs, split_messages
from jiyi.errors import InputError, LLMError
from jiyi.llm import LLM, ask_json
from jiyi.prompts import load_prompt, quote
from jiyi.records import Message
from jiyi.records.atoms import atoms
from jiyi.text import TokenCounter, Trait, analyse, counter_for, language, query_terms, traits

__all__ = ["Relevance"]

_SATURATION = 1.2  # BM25's k1
_SAME_TURN_SHARE, _NEXT_TURN_SHARE, _ANSWER_SHARE = 0.35, 0.2, 0.6  # of a sentence's score, for neighbours
_KIND_BONUS = 0.25  # what the asked kind adds, as a share of the best term's weight
_MIN_ROOM, _MIN_ROOM_SHARE = 8, 0.35  # tokens, and share of a sentence, for which it is pruned to fit
_MAX_CHARS = 300  # of a sentence that a model is shown
_MIN_PRUNED_SHARE = 0.3  # share of the best sentence's score from which one is pruned to fit
_MAX_LISTED = 400  # sentences a model is shown; the best of more


@dataclass(frozen=True, slots=True)
class Relevance:
    """A `Compressor` that keeps the sentences that serve a query.

    - Sentences stay in their order and whole, but for one that fits only pruned; a sentence keeps its speaker
      where the text names one. A tool's result brings the call it answers, and speakers are written before
      turns where the limit leaves room.
    - Half of the tokens are the limit where none is given. Notes say where the best sentence is pruned to
      fit, and where no sentence shares anything with the query, so that the newest are kept.
    - With a model, it names the numbers of the sentences; what it names goes first, the scorer fills what is
      left. A model that fails costs a note, nothing else.
    - Deterministic without a model; 1,000 tokens take 15 to 35 ms.
    """

    llm: LLM | None = None  # chooses the sentences; None: the scorer alone
    counter: TokenCounter = field(default_factory=counter_for, kw_only=True, repr=False)

    def __call__(self, given: Given, *, max_tokens: Limit = None, query: str | None = None) -> Compressed:
        """Return the sentences that serve ``query``, as `Compressor`; without a query it is an InputError."""
        if query is not None and not isinstance(query, str):
            raise InputError(f"query must be text, not {type(query).__name__}")
        if query is None or not query.strip():
            raise InputError('Relevance needs query="what the text is read for"; PruneTokens needs none')
        texts = Compressible(given, self.counter, "relevance", max_tokens)
        messages = texts.messages
        limit = max(1, texts.tokens // 2) if max_tokens is None else max_tokens
        if texts.tokens <= limit:
            return texts.unchanged()
        sentences = split_messages(messages)
        scores = _score_sentences(sentences, query)
        chosen, method, notes = self._choose_by_llm(sentences, scores, query)
        if not chosen and not any(scores):
            notes += ("nothing in the text shares a word with the query; the newest sentences are kept",)
            scores = [float(place) for place in range(len(sentences))]
        ranked = sorted(range(len(sentences)), key=lambda n: (n not in chosen, -scores[n], -n))
        wanted = [n for n in ranked if n in chosen or scores[n] > 0]
        keep, short = self._fit_sentences(sentences, wanted, scores, messages, limit)
        if not keep:
            best = sentences[ranked[0]]
            text = self._prune(best.text, limit)
            ids = [messages[best.source].id] if text else []
            note = f"no sentence fits into {limit} tokens; the best one is given pruned"
            return texts.result(text, ids, *notes, note, method=method)
        # Speakers are written only where they make it neither too long nor longer than the input.
        text = _render(sentences, keep, short, labels=len(messages) > 1)
        if self.counter.count_text(text) > min(limit, texts.tokens):
            text = _render(sentences, keep, short, labels=False)
        ids = [messages[source].id for source in sorted({sentences[n].source for n in keep})]
        return texts.result(text, ids, *notes, method=method)

    def _fit_sentences(
        self,
        sentences: list[Sentence],
        ranked: Sequence[int],
        scores: Sequence[float],
        messages: Sequence[Message],
        limit: int,
    ) -> tuple[set[int], dict[int, str]]:
        """Return the sentences that fit, best first, with the calls they answer; and a pruned one."""
        call_of = {  # of each result of a tool
            place: atom.first
            for atom in atoms(messages)
            for place in atom.indices
            if messages[place].role == "tool" and atom.first != place
        }
        first_of = {sentences[place].source: place for place in reversed(range(len(sentences)))}
        costs = [self.counter.count_text(sentence.text) + 1 for sentence in sentences]
        keep: set[int] = set()
        short: dict[int, str] = {}
        used = 0
        for place in ranked:
            needed = {place}
            call = call_of.get(sentences[place].source)
            if call is not None and call in first_of:
                needed.add(first_of[call])
            cost = sum(costs[n] for n in needed - keep)
            if used + cost <= limit:
                keep |= needed
                used += cost
            elif (
                not short
                and needed == {place}
                and limit - used >= max(_MIN_ROOM, _MIN_ROOM_SHARE * cost)
                and scores[place] >= _MIN_PRUNED_SHARE * scores[ranked[0]]
                and (text := self._prune(sentences[place].text, limit - used - 1))
            ):
                # Leaving it out for lesser ones that are shorter would be worse than pruning it.
                short[place] = text
                keep.add(place)
                used += self.counter.count_text(text) + 1
        order = [place for place in ranked if place in keep]
        while keep and self.counter.count_text(_render(sentences, keep, short, labels=False)) > limit:
            keep.discard(order.pop() if order else max(keep))  # the parts together take more than alone
        return keep, short

    def _prune(self, text: str, max_tokens: int) -> str:
        return PruneTokens(counter=self.counter)(text.strip(), max_tokens=max_tokens).text

    def _choose_by_llm(
        self, sentences: list[Sentence], scores: list[float], query: str
    ) -> tuple[set[int], str, tuple[str, ...]]:
        """Return the sentences that a model chose, the method, and the reason if it failed."""
        if self.llm is None:
            return set(), "relevance", ()
        best = sorted(range(len(sentences)), key=lambda n: (-scores[n], n))[:_MAX_LISTED]
        shown = sorted(best)
        spoken = language(query)
        lines = "\n".join(
            f"[{number}]\n{quote(f'{sentences[n].speaker}: {sentences[n].text.strip()[:_MAX_CHARS]}')}"
            for number, n in enumerate(shown, 1)
        )
        prompt = load_prompt("choose_sentences", spoken).substitute(query=quote(query), sentences=lines)
        number = {"type": "integer", "minimum": 1, "maximum": len(shown)}
        numbers = {"type": "array", "items": number, "maxItems": len(shown)}
        closed = {"required": ["numbers"], "additionalProperties": False}
        schema = {"type": "object", "properties": {"numbers": numbers}, **closed}
        try:
            answer = ask_json(self.llm, [{"role": "user", "content": prompt}], schema, language=spoken)
        except LLMError as error:
            return set(), "relevance", (f"the language model chose nothing: {error}",)
        return {shown[number - 1] for number in answer["numbers"]}, "llm", ()


def _score_sentences(sentences: list[Sentence], query: str) -> list[float]:
    """Return a score for each sentence; all are 0 where none shares a term with the query."""
    wanted = set(query_terms(query))
    terms = [Counter(term for term in analyse(sentence.text) if term in wanted) for sentence in sentences]
    found_in = Counter(term for counts in terms for term in counts)
    weight = {term: math.log(1 + (len(sentences) - n + 0.5) / (n + 0.5)) for term, n in found_in.items()}
    scores = [
        sum(weight[term] * n * (1 + _SATURATION) / (n + _SATURATION) for term, n in counts.items())
        for counts in terms
    ]
    speakers = {term for sentence in sentences for term in analyse(sentence.speaker)} & wanted
    best = max(weight.values(), default=0.0)
    words = signs()
    patterns = {Trait.DATE: words.asks_date, Trait.NUMBER: words.asks_number, Trait.NAME: words.asks_name}
    asks = [kind for kind, pattern in patterns.items() if pattern.search(query.lower())]
    wanted_traits = reduce(or_, asks, Trait(0))
    found_traits = [traits(sentence.text) for sentence in sentences]
    total = _add_neighbours(sentences, scores, found_traits)
    for place, sentence in enumerate(sentences):
        if total[place] > 0:
            fits = bool(found_traits[place] & wanted_traits), bool(speakers & set(analyse(sentence.speaker)))
            total[place] += _KIND_BONUS * best * sum(fits)
            total[place] *= 0.5 if found_traits[place] & Trait.GREETING else 1.0
    return total


def _add_neighbours(sentences: list[Sentence], scores: list[float], found: Sequence[Trait]) -> list[float]:
    """Return the scores plus those lent by the same turn and the turns next to it; ``found`` are traits."""
    turn_best: dict[int, float] = {}
    asks: dict[int, float] = {}  # of each turn: the best of its questions
    for place, sentence in enumerate(sentences):
        turn_best[sentence.turn] = max(turn_best.get(sentence.turn, 0.0), scores[place])
        if found[place] & Trait.QUESTION:
            asks[sentence.turn] = max(asks.get(sentence.turn, 0.0), scores[place])
    total = []
    for place, turn in enumerate(sentence.turn for sentence in sentences):
        bonus = max(
            _SAME_TURN_SHARE * turn_best[turn],
            _NEXT_TURN_SHARE * max(turn_best.get(turn - 1, 0.0), turn_best.get(turn + 1, 0.0)),
            _ANSWER_SHARE * asks.get(turn - 1, 0.0),
        )
        total.append(scores[place] + bonus)
    return total


def _render(sentences: list[Sentence], keep: set[int], short: dict[int, str], *, labels: bool) -> str:
    """Return the sentences kept: turns on lines of their own, with the speaker where the text has one."""
    lines: list[str] = []
    previous: Sentence | None = None
    for place, sentence in enumerate(sentences):
        if place not in keep:
            continue
        text = short.get(place, sentence.text)
        if previous is not None and sentence.turn == previous.turn and not sentence.labelled:
            lines[-1] += text
        else:
            lines.append(f"{sentence.speaker}: {text}" if labels and not sentence.labelled else text)
        previous = sentence
    return "\n".join(line.strip() for line in lines)
