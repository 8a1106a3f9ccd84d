"""Learn which stretches of a clause are values worth keeping, and say how well messages are read.

    python bench/learn_reading.py [FILE...] [--talks TALKS...] [--write]

Learned from the talks under bench/data/talks and the plain statements beside them, for each language.
Printed for each hand, with that hand held out, are the share of the values that are in force from a
message on and stand in the object of a statement read from it (reach), the share of statements that
carry such a value (precision), the share of messages without one that gave a statement all the same,
and the length of the objects. FILE: a file of the neutral format with ``facts``, never learned from.
``--write`` puts the weights learned from everything into jiyi/extraction/weights.json.
"""

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from talks import Said, Talk, all_talks

from jiyi.extraction import extract, scoring
from jiyi.extraction.attribution import parse_question
from jiyi.extraction.clauses import Clause, is_chinese, split_clauses, split_sentences
from jiyi.extraction.forms import asserted_end
from jiyi.extraction.scoring import ClauseFeatures, SentenceContext, Span, candidate_spans
from jiyi.text.traits import modes

Floats = NDArray[np.float64]
Sign = tuple[str, str]  # with the kind of stretch that it counts for, "" for all

PLAIN = Path(__file__).parent / "data" / "statements.txt"
WEIGHTS = Path(scoring.__file__).parent / "weights.json"
THRESHOLD = {"en": 0.20, "zh": 0.20}
PENALTY = 4.0
FEWEST = 12  # times that a sign occurs, with two hands at least
SMALLEST = 0.08  # weight that is kept
LONGER = 0.8  # what a stretch counts that holds a value and more
BEFORE = 3  # messages of context


@dataclass(frozen=True, slots=True)
class Message:
    """A message, and the values that it says are in force."""

    hand: str
    role: str
    name: str
    text: str
    at: datetime
    before: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]  # accepted wordings of each


@dataclass(slots=True)
class Counts:
    """What was read in some messages."""

    values: int = 0
    reached: int = 0
    statements: int = 0
    right: int = 0
    without: int = 0
    spoken: int = 0
    lengths: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        middle = float(np.median(self.lengths or [0]))
        return (
            f"reach {self.reached / max(1, self.values):.3f}"
            f"  precision {self.right / max(1, self.statements):.3f}"
            f"  of messages without a value {self.spoken / max(1, self.without):.2f}"
            f"  object {middle:.0f} (mean {np.mean(self.lengths or [0]):.1f})  statements {self.statements}"
        )


def plain(text: str) -> str:
    return re.sub(r"[\s,，]", "", text).lower()


def of_talks(talks: Iterable[Talk]) -> Iterator[Message]:
    for talk in talks:
        values = defaultdict(list)
        for one in talk.chains:
            for value in one.values:
                if value.text:
                    values[value.number].append(tuple(map(plain, value.text)))
        before: list[str] = []
        for said in talk.said:
            yield _message(talk.hand, said, tuple(before[-BEFORE:]), tuple(values[said.number]))
            before.append(said.text)


def _message(hand: str, said: Said, before: tuple[str, ...], values: tuple[tuple[str, ...], ...]) -> Message:
    return Message(hand, said.role, said.name, said.text, said.at, before, values)


def of_statements(path: Path) -> Iterator[Message]:
    for line in path.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            text, _, values = line.partition("=>")
            wanted = tuple((plain(value),) for value in values.split("|") if value.strip())
            yield Message("plain", "user", "Ana", text.strip(), datetime(2026, 1, 5, tzinfo=UTC), (), wanted)


def of_file(path: Path) -> Iterator[Message]:
    for conversation in json.loads(path.read_text("utf-8"))["conversations"]:
        values = defaultdict(list)
        for fact in conversation["facts"]:
            for value in fact["values"]:
                values[value["message"]].append(tuple(map(plain, value["value"])))
        before: list[str] = []
        for said in chain.from_iterable(session["messages"] for session in conversation["sessions"]):
            at = datetime.fromisoformat(said["created_at"]).replace(tzinfo=UTC)
            about = (said["role"], said.get("name") or "user", said["content"], at)
            yield Message(path.stem, *about, tuple(before[-BEFORE:]), tuple(values[said["id"]]))
            before.append(said["content"])


def rows(message: Message) -> Iterator[tuple[list[Sign], float]]:
    """Give the signs of each stretch of a message that may be a value, and how far it is one."""
    asked = parse_question(message.before[-1]).kind if message.before else ""
    slack = 3 if is_chinese(message.text) else 8
    for place, sentence in enumerate(split_sentences(message.text)):
        mode = modes(sentence)
        until = asserted_end(sentence, mode)
        scene = SentenceContext(mode, asked, len(message.text), place, sentence[-1])
        for clause in split_clauses(sentence):
            if clause.words[-1].end > until:
                break
            for span in candidate_spans(clause):
                words = clause.words[span.first : span.last]
                said = plain(sentence[words[0].start : words[-1].end])
                held = [one for one in chain.from_iterable(message.values) if one in said]
                fitting = [one for one in held if len(said) <= 2 * len(one) + slack]
                exact = any(len(said) <= 1.3 * len(one) + 1 for one in fitting)
                yield list(signs(clause, span, scene)), 1.0 if exact else LONGER if fitting else 0.0


def signs(clause: Clause, span: Span, scene: SentenceContext) -> Iterator[Sign]:
    """Give the signs of a span, each by itself and most with its kind too: the weights sum to the logit."""
    features = ClauseFeatures(clause, scene)
    for place, (before, inside, after) in enumerate(features.word_features):
        yield "", before if place < span.first else after if place >= span.last else inside
    ends = chain(features.start_features[span.first], features.end_features[span.last])
    for sign in chain(features.clause_features, ends, features.span_features(span)):
        yield "", sign
        yield span.kind, sign


class Rows:
    """Signs of many stretches as a sparse matrix."""

    def __init__(self, stretches: Sequence[Sequence[Sign]], known: dict[Sign, int]) -> None:
        columns = [[0, *(known[sign] for sign in one if sign in known)] for one in stretches]
        self._lengths = np.array([len(one) for one in columns])
        self._columns = np.array(list(chain.from_iterable(columns)), np.int32)
        self._starts = np.concatenate([[0], np.cumsum(self._lengths)[:-1]])
        self.width = len(known) + 1

    def dot(self, weights: Floats) -> Floats:
        return np.add.reduceat(weights[self._columns], self._starts)

    def back(self, errors: Floats) -> Floats:
        return np.bincount(self._columns, np.repeat(errors, self._lengths), self.width)


def fit(matrix: Rows, targets: Floats, steps: int = 60) -> Floats:
    """Return weights of a logistic regression, by L-BFGS; the first is the constant."""
    penalty = np.full(matrix.width, PENALTY)
    penalty[0] = 0.01

    def loss(weights: Floats) -> tuple[float, Floats]:
        logits = matrix.dot(weights)
        chance = 1 / (1 + np.exp(-logits))
        value = float((np.logaddexp(0, logits) - targets * logits).sum() + 0.5 * (penalty * weights**2).sum())
        return value, matrix.back(chance - targets) + penalty * weights

    weights = np.zeros(matrix.width)
    value, slope = loss(weights)
    past: list[tuple[Floats, Floats]] = []
    for _ in range(steps):
        way, kept = slope.copy(), []
        for moved, bent in reversed(past):
            kept.append((moved @ way) / (bent @ moved))
            way -= kept[-1] * bent
        way *= (past[-1][0] @ past[-1][1]) / (past[-1][1] @ past[-1][1]) if past else 1 / np.abs(slope).max()
        for (moved, bent), part in zip(past, reversed(kept), strict=True):
            way += (part - (bent @ way) / (bent @ moved)) * moved
        size = 1.0
        while (found := loss(weights - size * way))[0] > value - 1e-4 * size * (slope @ way) and size > 1e-6:
            size /= 2
        past = [*past[-7:], (-size * way, found[1] - slope)]
        weights, done = weights - size * way, value - found[0] < 1e-3
        value, slope = found
        if done:
            break
    return weights


def learn(messages: Sequence[Message], language: str) -> dict[str, dict[str, float]]:
    """Return the weights of one language, by the kind of stretch that they count for."""
    told = [(message.hand, *row) for message in messages if message.role == "user" for row in rows(message)]
    times, hands = Counter(), defaultdict(set)
    for hand, found, _ in told:
        times.update(found)
        for sign in found:
            hands[sign].add(hand)
    known = sorted(sign for sign in times if times[sign] >= FEWEST and len(hands[sign]) > 1)
    matrix = Rows([found for _, found, _ in told], {sign: place for place, sign in enumerate(known, 1)})
    weights = fit(matrix, np.array([target for _, _, target in told]))
    kept: dict[str, dict[str, float]] = {"": {}}
    for (kind, sign), weight in zip(known, weights[1:], strict=True):
        if abs(weight) >= SMALLEST:
            kept.setdefault(kind, {})[sign] = round(float(weight), 2)
    constant = kept[""].get("", 0.0) + float(weights[0])
    least = float(np.log(THRESHOLD[language] / (1 - THRESHOLD[language])))
    kept[""] |= {"": round(constant, 2), "threshold": round(least, 2)}
    return kept


def count(messages: Iterable[Message]) -> Counts:
    """Return how `extract` reads messages."""
    counts = Counts()
    for one in messages:
        found = extract(
            one.text, speaker=one.name, role=one.role, said_at=one.at, zone=UTC, context=one.before
        )  # type: ignore[arg-type]
        objects = [plain(statement.object) for statement in found if statement.action == "state"]
        counts.values += len(one.values)
        counts.reached += sum(any(word in said for word in value for said in objects) for value in one.values)
        counts.statements += len(objects)
        counts.right += sum(any(word in said for value in one.values for word in value) for said in objects)
        counts.without += not one.values
        counts.spoken += bool(objects) and not one.values
        counts.lengths += [
            len(statement.object) if is_chinese(one.text) else len(statement.object.split())
            for statement in found
        ]
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--talks", nargs="+", type=Path, default=(), help="learn from these talks alone")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    stated = list(of_statements(PLAIN))
    told = list(of_talks(all_talks(options.talks)))
    mine = {
        language: [one for one in stated if is_chinese(one.text) == (language == "zh")]
        + [one for one in told if one.hand.startswith(language)]
        for language in THRESHOLD
    }
    learned = {language: learn(messages, language) for language, messages in mine.items()}
    scoring._load_weights = lambda: used  # what was learned here, not what lies in the file
    for language, messages in mine.items():
        total = Counts()
        for hand in sorted({one.hand for one in messages} - {"plain"}):
            used = learned | {language: learn([one for one in messages if one.hand != hand], language)}
            found = count(one for one in messages if one.hand == hand)
            print(f"{hand:16} {found}", flush=True)
            for name in Counts.__slots__:
                setattr(total, name, getattr(total, name) + getattr(found, name))
        print(f"{language:16} {total}", flush=True)
    used = learned
    for path in options.files:
        print(f"{path.stem:16} {count(of_file(path))}")
    if options.write:
        WEIGHTS.write_text(json.dumps(learned, ensure_ascii=False, indent=0, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
