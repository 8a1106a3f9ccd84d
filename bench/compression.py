"""What compressors keep of the answers: ``python bench/compression.py FILE... [--rate 0.5] [--sessions]``.

Files are in the neutral format of ``docs/evaluate.md``. For each question with an answer, its
evidence messages are compressed to a share of their tokens, all in one call. Counted are

* tokens: what is left of the evidence, over all questions;
* terms: of the answer's content terms that stand in the evidence, the share still there
  (average over questions). Terms are the stems of Latin words and numbers without stop words,
  and the Chinese words of jieba without question and function words, the latter found anywhere
  in the text, white space aside;
* whole: questions of which every such term is still there;
* verbatim: of the answers that stand in the evidence letter by letter (case and white space
  aside), the share that still does;
* ms: milliseconds for 1,000 tokens of evidence, one thread.

With ``--sessions`` the whole sessions that hold the evidence are compressed instead: then it
counts what is found, not only what is kept. Random pruning drops words evenly at random (seed
0) until the share is met; "head" cuts the end off. Relevance is the only one that knows the
question.
"""

import argparse
import random
import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import rjieba
from rich.console import Console
from rich.table import Table

from jiyi.compression import PruneTokens, Relevance
from jiyi.evaluate import load_dataset
from jiyi.records import Message
from jiyi.text import analyse, counter_for
from jiyi.text.analyse import stopwords

__all__ = ["Case", "Score", "cases", "compressors", "main", "score"]

Compress = Callable[[Sequence[Message], str], str]

_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]+")
_WORD = re.compile(r"\s*(?:[A-Za-z0-9_'’]+|[^\sA-Za-z0-9_])|\s+$")
_COUNTER = counter_for()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question, its evidence, and what of its answer stands there."""

    question: str
    answer: str
    evidence: tuple[Message, ...]
    text: str  # of the evidence, one message below the other
    wanted: frozenset[str]  # content terms of the answer that stand in the text; never empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What one compressor left of one file."""

    tokens: float  # share of the tokens left
    terms: float  # share of the answers' terms left
    whole: float  # share of the questions with all terms left
    verbatim: float | None  # share of the answers left letter by letter; None where none was there
    ms: float  # milliseconds for 1,000 tokens


def cases(path: str, *, sessions: bool = False) -> Iterator[Case]:
    """Give the questions of a file of which some answer term stands in the evidence.

    With ``sessions``, what is to be compressed are the sessions the evidence is in.
    """
    for conversation in load_dataset(path).conversations:
        by_id = {message.id: message for message in conversation.messages}
        for question in conversation.questions:
            if not question.answerable or not question.answer.strip():
                continue
            evidence = tuple(by_id[one] for one in question.evidence)
            text = _joined(evidence)
            if wanted := _there(_terms(question.answer), text):
                if sessions:
                    held = [
                        one
                        for one in conversation.sessions
                        if {m.id for m in one.messages} & {m.id for m in evidence}
                    ]
                    evidence = tuple(message for one in held for message in one.messages)
                    text = _joined(evidence)
                yield Case(
                    question=question.text,
                    answer=question.answer,
                    evidence=evidence,
                    text=text,
                    wanted=wanted,
                )


def score(found: Sequence[Case], compress: Compress) -> Score:
    """Compress the evidence of every case and count what is left."""
    before = after = whole = 0
    terms = 0.0
    verbatim: list[bool] = []
    spent = 0.0
    for case in found:
        start = time.process_time()
        text = compress(case.evidence, case.question)
        spent += time.process_time() - start
        before += _COUNTER.count_text(case.text)
        after += _COUNTER.count_text(text)
        left = _there(case.wanted, text)
        terms += len(left) / len(case.wanted)
        whole += left == case.wanted
        answer = _flat(case.answer).strip(".。")
        if answer and answer in _flat(case.text):
            verbatim.append(answer in _flat(text))
    return Score(
        tokens=after / before,
        terms=terms / len(found),
        whole=whole / len(found),
        verbatim=sum(verbatim) / len(verbatim) if verbatim else None,
        ms=1e6 * spent / before,
    )


def compressors(rate: float) -> dict[str, Compress]:
    """Return the ways that are compared, by name."""
    prune, relevance = PruneTokens(rate), Relevance()
    return {
        "prune_tokens": lambda evidence, _: prune(evidence).text,
        "random": lambda evidence, _: _random(_joined(evidence), rate),
        "relevance": lambda evidence, question: (
            relevance(evidence, max_tokens=_target(_joined(evidence), rate), query=question).text
        ),
        "head": lambda evidence, _: _COUNTER.truncate(_joined(evidence), _target(_joined(evidence), rate)),
    }


def _joined(evidence: Sequence[Message]) -> str:
    return "\n".join(message.search_text for message in evidence)


def _target(text: str, rate: float) -> int:
    return max(1, round(rate * _COUNTER.count_text(text)))


def _random(text: str, rate: float) -> str:
    """Drop words at random until the share is met."""
    words = [
        word
        for place, part in enumerate(re.split(f"({_HAN.pattern})", text))
        for word in (rjieba.cut(part) if place % 2 else _WORD.findall(part))
    ]
    order = list(range(len(words)))
    random.Random(0).shuffle(order)
    target = _target(text, rate)
    low, high = 0, len(words)
    while low < high:
        middle = (low + high) // 2
        if _COUNTER.count_text(_without(words, order[:middle])) <= target:
            high = middle
        else:
            low = middle + 1
    return _without(words, order[:low])


def _without(words: Sequence[str], places: Sequence[int]) -> str:
    gone = set(places)
    return "".join(word for place, word in enumerate(words) if place not in gone)


def _flat(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


def _terms(text: str) -> frozenset[str]:
    """Return the content terms of an answer."""
    text = unicodedata.normalize("NFKC", text)
    unsaid = stopwords()
    words = {word for run in _HAN.findall(text) for word in rjieba.cut(run)} - unsaid.chinese_question
    latin = _HAN.sub(" ", text)
    return frozenset(words | (set(analyse(latin)) - unsaid.english if latin.strip() else set()))


def _there(wanted: frozenset[str], text: str) -> frozenset[str]:
    flat = _flat(text)
    latin = set(analyse(_HAN.sub(" ", unicodedata.normalize("NFKC", text))))
    return frozenset(one for one in wanted if (one in flat if _HAN.match(one) else one in latin))


def main() -> None:
    """Read the command line and print one table a file."""
    parser = argparse.ArgumentParser(description="What compressors keep of the answers.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="evaluation files")
    parser.add_argument("--rate", type=float, default=0.5, help="share of the tokens to leave (0.5)")
    parser.add_argument("--sessions", action="store_true", help="compress the whole sessions of the evidence")
    options = parser.parse_args()
    console = Console(width=80)
    for file in options.files:
        found = list(cases(file, sessions=options.sessions))
        if not found:
            console.print(f"{file}: no answer stands in its evidence; nothing to measure")
            continue
        name = file.replace("\\", "/").rpartition("/")[2].removesuffix(".json")
        what = "sessions" if options.sessions else "evidence"
        table = Table(title=f"{name}: {len(found)} questions, {what}, rate {options.rate:g}")
        table.add_column("compressor")
        for column in ("tokens", "terms", "whole", "verbatim", "ms/1k"):
            table.add_column(column, justify="right")
        for label, compress in compressors(options.rate).items():
            compress(found[0].evidence, found[0].question)  # the first call loads dictionaries
            got = score(found, compress)
            exact = "-" if got.verbatim is None else f"{got.verbatim:.3f}"
            table.add_row(
                label, f"{got.tokens:.3f}", f"{got.terms:.3f}", f"{got.whole:.3f}", exact, f"{got.ms:.0f}"
            )
        console.print(table)


if __name__ == "__main__":
    main()
