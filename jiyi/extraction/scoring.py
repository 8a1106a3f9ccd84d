"""Finds the spans of a clause that may be a value and scores them by a linear model over cheap features."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import accumulate, dropwhile
from typing import NamedTuple

from jiyi.extraction.clauses import VALUE, Clause
from jiyi.extraction.values import load_table
from jiyi.text.traits import Mode

_RUNS = re.compile(r"[0-9]+|[A-Za-z]+")
_SUBJECT_TAGS = frozenset({"pro", "own", "N", "nr", "M", "n", "kin"})
_NAME_TAGS = frozenset({"N", "nr", "ns", "M"})
_THING_TAGS = frozenset({"n", "N", "M", "nr", "ns", "adj", "num", "time", "point", "kin", "loc"})
_LEADING_TAGS = frozenset({"conj", "adv", "talk", "pro", "prep", "aux", "be", "neg"})
_TRAILING_TAGS = frozenset({"talk", "prep", "conj", "adv", "be", "aux", "own", "det"})
_VERB_TAGS = frozenset({"verb", "be", "aux"})
_FILLER_TAGS = frozenset({"talk", "det", "adv"})
_MAX_SPAN_WORDS = 9  # words
_past_forms = cache(lambda: frozenset(load_table("words")["past"].split()))  # without those in -ed
_MODE_NAMES = [(mode.value, str(mode.name).lower()) for mode in Mode]


class Span(NamedTuple):
    """Words ``first`` to ``last`` of a clause, without the last one."""

    first: int
    last: int
    kind: str


class SentenceContext(NamedTuple):
    """What the score of a clause's spans depends on besides the clause."""

    modes: Mode
    asked_kind: str  # the kind of value that the previous message asks for, "any" for any, "" for none
    message_chars: int  # of the message
    sentence_index: int  # in the message
    last_char: str  # of the sentence


def select_spans(clause: Clause, context: SentenceContext) -> list[tuple[Span, float]]:
    """Return the spans of a clause that are worth keeping, without overlaps, and the probability of each."""
    tables = _load_weights()["zh" if clause.chinese else "en"]
    features = ClauseFeatures(clause, context)
    shared = tables[""]
    columns = zip(*features.word_features, strict=True)
    before, inside, after = ([0.0, *accumulate(shared.get(name, 0.0) for name in part)] for part in columns)

    def weight(kind: str, names: Iterable[str]) -> float:
        of_kind = tables.get(kind) or {}
        return sum([shared.get(name, 0.0) + of_kind.get(name, 0.0) for name in names])

    # Spans of one kind share the weights of the clause and of their ends.
    clause_weight = cache(lambda kind: weight(kind, features.clause_features))
    start_weight = cache(lambda kind, place: weight(kind, features.start_features[place]))
    end_weight = cache(lambda kind, place: weight(kind, features.end_features[place]))
    scored: list[tuple[float, Span]] = []
    for span in candidate_spans(clause):
        score = before[span.first] + inside[span.last] - inside[span.first] + after[-1] - after[span.last]
        kind = span.kind
        score += clause_weight(kind) + start_weight(kind, span.first) + end_weight(kind, span.last)
        scored.append((score + weight(kind, features.span_features(span)), span))
    threshold = shared["threshold"]
    selected: list[tuple[Span, float]] = []
    for score, span in sorted(scored, reverse=True):
        if score < threshold:
            break
        if all(span.last <= other.first or other.last <= span.first for other, _ in selected):
            selected.append((span, 1 / (1 + math.exp(-score))))
    return sorted(selected)


class ClauseFeatures:
    """The features of a clause's spans; what several spans share is computed once."""

    def __init__(self, clause: Clause, context: SentenceContext) -> None:
        self._clause = clause
        self._tags = [word.tag for word in clause.words]
        low = [VALUE if word.tag[0] == VALUE else word.text.lower() for word in clause.words]
        self.word_features = [(f"b={word}", f"i={word}", f"a={word}") for word in low]
        self.clause_features = _clause_features(clause, context)
        self.start_features = list(self._start_features(low))
        self.end_features = [*((f">{tag}", f">{low[at]}") for at, tag in enumerate(self._tags)), (">$",)]

    def span_features(self, span: Span) -> Iterator[str]:
        """Yield the features of one span besides those of the clause and of its ends."""
        words, tags = self._clause.words, self._tags
        count = span.last - span.first
        last = words[span.last - 1]
        yield f"..{last.tag} {min(count, 5)}"
        yield f"{tags[span.first]}.. {min(count, 5)}"
        yield f"..{last.text[-1] if self._clause.chinese else last.text[-3:].lower()}"
        yield f"{self.start_features[span.first][0]}{self.end_features[span.last][0]}"
        yield f"more={min(len(words) - count, 4)}"
        chars = last.end - words[span.first].start
        yield f"long={min(chars // (2 if self._clause.chinese else 4), 9)}"
        yield f"typed={min(sum(name[0] == VALUE for name in tags[span.first : span.last]), 2)}"
        if count == 1:
            yield _word_shape(last.text)
        if len(words) <= 5:
            yield "-".join([*tags[: span.first], "*", *tags[span.last :]])

    def _start_features(self, low: list[str]) -> Iterator[tuple[str, ...]]:
        """Yield for each word the features of what precedes it."""
        subject = verb = ""
        before = before2 = "^"
        for place, word in enumerate(self._clause.words):
            previous_word = (f"<{low[place - 1]}",) if place else ()
            context = f"<{before}", f"<<{before2} {before}", f"who={subject}", f"verb={verb}"
            yield *context, f"{word.text[0]}..", *previous_word
            before, before2 = word.tag, before
            if before in ("verb", "be"):
                verb = low[place]
            elif not subject and before in _SUBJECT_TAGS:
                subject = low[place] if before in ("pro", "own") else before


def _clause_features(clause: Clause, context: SentenceContext) -> list[str]:
    words = clause.words
    verb = next((word.text.lower() for word in words if word.tag in _VERB_TAGS), "")
    past = verb.endswith("ed") or verb in _past_forms()
    form = "past" if past else "ing" if verb.endswith("ing") else "" if verb else "-"
    features = [
        *("", f"words={min(len(words), 8)}", f"at={min(clause.place, 3)}"),
        *(f"of={min(clause.clause_count, 4)}", f"chars={min(context.message_chars // 30, 5)}"),
        f"sentence={min(context.sentence_index, 3)}",
        *(f"values={min(sum(word.tag[0] == VALUE for word in words), 3)}", f"form={form}"),
    ]
    if context.asked_kind:
        first = clause.place == 0 == context.sentence_index
        asked = f"asked={context.asked_kind} {first}"
        features += [asked, f"{asked} {min(len(words), 3)}"]
    if clause.place == clause.clause_count - 1 and not context.last_char.isalnum():
        features.append(f"mark={context.last_char}")
    modes = context.modes.value
    return [*features, *(f"mode={name}" for mode, name in _MODE_NAMES if modes & mode)] if modes else features


def _word_shape(text: str) -> str:
    """Return the shape of a value (8443 is 9999, v1.2 is a9.9), or the length of a word."""
    if any(character.isdigit() for character in text):
        return _RUNS.sub(lambda run: "9" * min(len(run[0]), 5) if run[0].isdigit() else "a", text)[:8]
    return str(min(len(text), 5))


def candidate_spans(clause: Clause) -> list[Span]:
    """Return the spans of a clause that may be a value, each once and as the plainest kind."""
    spans = [span for span in _all_spans(clause) if 0 < span.last - span.first <= _MAX_SPAN_WORDS]
    return list({(span.first, span.last): span for span in reversed(spans)}.values())


def _all_spans(clause: Clause) -> Iterator[Span]:
    words, count = clause.words, len(clause.words)
    tags = [word.tag for word in words]
    for place, name in enumerate(tags):
        if name[0] == VALUE:
            yield Span(place, place + 1, name[1:])
        elif name == "kin" and place and tags[place - 1] in ("pro", "own"):
            yield Span(place - 1, place + 1, "name")
    yield from _tag_runs(tags, _NAME_TAGS, "name")
    yield from _tag_runs(tags, _THING_TAGS, "thing", values=True)
    leading = _LEADING_TAGS - {"neg", "prep"} if clause.chinese else _LEADING_TAGS
    first = next((place for place, tag in enumerate(tags) if tag not in leading), count)
    last = next((place for place in range(first + 1, count) if _starts_time_limit(clause, place)), count)
    while last > first and tags[last - 1] in _TRAILING_TAGS:
        last -= 1
    verbs_seen = 0
    for place in range(count):
        if tags[place] in ("verb", "be") and verbs_seen < 4:
            verbs_seen += 1
            after = place + 1
            while after < last and (
                tags[after] in _FILLER_TAGS or (tags[after] == "prep" and _is_value(tags[after + 1 : last]))
            ):
                after += 1
            yield Span(after, last, "rest")
            if tags[place] == "verb" and not (after + 1 == last and tags[after][0] == VALUE):
                with_particle = last == place + 1 and last < count and words[last].text == "了"
                yield Span(place - (place > 0 and tags[place - 1] == "neg"), last + with_particle, "does")
        elif tags[place] == "prep" and place + 1 < last and "be" not in tags[place + 1 : last]:
            yield Span(place + 1 + (tags[place + 1] == "det"), last, "at")
            if not _is_value(tags[place + 1 : last]):
                yield Span(place, last, "place")
    if "be" not in tags[first + 1 : last]:  # what "is" says comes after it
        yield Span(first, last, "all")


def _is_value(tags: list[str]) -> bool:
    """Return whether words begin with a value or are all names: a preposition before them is left out."""
    tags = list(dropwhile("prep".__eq__, tags))
    return bool(tags) and (tags[0][0] == VALUE or set(tags) <= _NAME_TAGS)


def _starts_time_limit(clause: Clause, place: int) -> bool:
    """Return whether a time limit begins at a word: "until Friday", "from 1 May"."""
    words = clause.words
    dated = any(word.tag in (VALUE + "date", VALUE + "weekday") for word in words[place + 1 : place + 3])
    return dated and words[place].text.lower() in ("until", "till", "since", "starting", "from")


def is_time_limit(clause: Clause, span: Span) -> bool:
    """Return whether a span is a date that only says from or until when something holds."""
    into = clause.words[span.first].text in ("从", "自", "到") and span.last > span.first + 1
    word = clause.words[span.first + into]
    before = clause.words[span.first - 1].text.lower() if span.first else ""
    after = clause.words[span.last].text if span.last < len(clause.words) else ""
    dated = word.tag in (VALUE + "date", VALUE + "weekday")
    return dated and (
        clause.words[span.last - 1].text in ("起", "开始")
        or after in ("起", "开始", "以后")
        or before in ("until", "till", "from", "since", "starting", "从", "自")
    )


def _tag_runs(tags: list[str], wanted: frozenset[str], kind: str, values: bool = False) -> Iterator[Span]:
    start = None
    for place, tag in enumerate([*tags, ""]):
        inside = tag in wanted or (values and (tag[:1] == VALUE or (tag == "own" and start is not None)))
        splits = inside and tags[place - 1] == "point" and tag[0] == VALUE
        if start is not None and (splits or not inside):
            yield Span(start, place, kind)
            start = None
        if inside and start is None:
            start = place


@cache
def _load_weights() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """Return the weights of features by language and kind of span, "" for all kinds."""
    text = files(__package__).joinpath("weights.json").read_text("utf-8")
    weights: dict[str, dict[str, dict[str, float]]] = json.loads(text)
    return weights
