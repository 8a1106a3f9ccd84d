"""Split a text into the words that pruning keeps or drops, with their worth.

Worth is judged by what kind of word it is (the lists of `words.toml`; in Chinese also the parts of
speech and frequencies of jieba's dictionary) and by the sentence it stands in (`jiyi.text.traits`).
The numbers were set on the development files of the evaluation; only their order counts.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import pairwise

from jiyi.compression.sentences import protected_spans
from jiyi.text import Trait, language, traits
from jiyi.text.lexicon import jieba, lexicon

KEPT = 9.0
"""Worth from which a word is protected."""

_HAN = r"\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_TOKEN = re.compile(
    rf"(?P<bullet>(?:(?<=\n)|\A)[ \t]*(?:[-*+•·]|#{{1,6}}|>|\d{{1,3}}[.)、])(?=[ \t]+\S))"
    rf"|(?P<han>[{_HAN}]+)"
    rf"|(?P<word>[^\W\d_{_HAN}](?:[^\W_{_HAN}]|(?<=\w)[-'’](?=[^\W_{_HAN}]))*)"
    r"|(?P<line>[^\S\n]*\n\s*?(?=[ \t]*\S|\Z))|(?P<space>\s+)"
    r"|(?P<sign>[=≤≥≠≈→←⇒↔+*/|&%^~±×÷@_\\-]|[<>](?=\s*[\d=]))|(?P<mark>.)",
    re.DOTALL,
)
_SENTENCE_ENDS = frozenset("。！？!?…；;")
_FINAL_DOT = re.compile(r"\.(?=\s|$|[\u4e00-\u9fff\"')”])")
_PAIRS = dict(zip(")）]】}”’」』》>", "(（[【{“‘「『《<", strict=True))
_FOREIGN, _NAMED, _WEIGHTY, _PLAIN, _COMMON, _LIGHT = 2.0, 1.7, 1.5, 1.0, 0.8, 0.5
_SIGN, _PRAISE, _RELATION, _END, _MARK, _FUNCTION, _FILLER = 0.6, 0.3, 0.16, 0.35, 0.1, 0.07, 0.03
_LISTED_EN = {"relation_en": _RELATION, "filler_en": _FILLER, "function_en": _FUNCTION, "praise_en": _PRAISE}
_LISTED_EN |= {"light_en": _LIGHT, "common_en": _COMMON}  # the first list that has a word counts
_WEEKDAY_ZH = re.compile(r"((?:[上下这本]个?)?(?:周|星期|礼拜)[一二三四五六日天末])")
_GRAMMAR_ZH = "dpcruyeo"  # tags whose frequency says nothing
_RARITY = 0.15  # what a word gains for each power of ten by which it is rarer than 1,000 in 60 million
_MEASURES = frozenset("个位名台辆部套家间种条张件份块只")
_LOOSE_UNITS = frozenset("个些种下样")


@dataclass(slots=True)
class Word:
    """A word, mark or protected span of a text, with its worth."""

    text: str  # as it is written
    kind: str  # "kept" (a protected span), "word", "han", "mark", "end" (of a sentence), "bullet", "line"
    space: bool  # whether white space precedes it
    worth: float  # lower ones are dropped first
    factor: float = 1.0  # of its sentence
    sentence: int = 0  # number of the sentence
    source: int = 0  # number of its text
    opener: int = -1  # for a closing bracket: the place of the opening one

    @property
    def spaced(self) -> str:
        """The word with the space before it."""
        return f" {self.text}" if self.space else self.text


_tables = cache(partial(lexicon, __package__, "words", flags=re.IGNORECASE))


def split_words(text: str, forced: Sequence[str] = ()) -> list[Word]:
    """Return the words of ``text`` in order; together with their spaces they are the text.

    Numbers, denials, code, JSON, URLs, paths, ids, quotations and ``forced`` are worth `KEPT`,
    other words less than 3.
    """
    words = list(_scan_words(text, forced))
    _bind_negations(words)
    _raise_counted(words)
    _pair_brackets(words)
    _weigh_sentences(words)
    return words


def _scan_words(text: str, forced: Sequence[str]) -> Iterator[Word]:
    phrases = [match.span() for match in _tables().filler_phrases.finditer(text)]
    starts = [start for start, _ in phrases]
    chinese = language(text) == "zh"
    position, space, is_start = 0, False, True
    for start, end in [*protected_spans(text, forced), (len(text), len(text))]:
        for match in _TOKEN.finditer(text, position, start):
            kind, raw = match.lastgroup or "mark", match[0]
            if kind == "space":
                space = True
                continue
            phrase = bisect_right(starts, match.start()) - 1
            is_filler = phrase >= 0 and match.start() < phrases[phrase][1]
            for word in _read_token(match, chinese, is_start):
                if is_filler and word.worth < KEPT:
                    word.worth = min(word.worth, _FILLER)
                word.space = space and word.kind != "line"
                space = False
                yield word
            is_start = kind in ("line", "bullet") or (is_start and kind in ("mark", "sign"))
            is_start = is_start or (kind == "mark" and _ends_sentence(raw, text, match.start()))
        if end > start:
            yield Word(text[start:end], "kept", space, KEPT)
            space = is_start = False
        position = end


def _read_token(token: re.Match[str], chinese: bool, is_start: bool) -> list[Word]:
    raw = token[0]
    match token.lastgroup:
        case "line":
            return [Word("\n", "line", False, KEPT)]
        case "bullet":
            return [Word(raw.strip(), "bullet", False, KEPT)]
        case "han":
            return [Word(piece, "han", False, worth) for piece, worth in _split_chinese(raw)]
        case "word":
            worth = _rate_english(raw, is_start)
            if chinese and _FUNCTION <= worth < KEPT:
                worth = _FOREIGN  # a Latin word in Chinese text: a name or a term
            return [Word(raw, "word", False, worth)]
        case "sign":
            return [Word(raw, "word", False, _SIGN)]
    ends = _ends_sentence(raw, token.string, token.start())
    return [Word(raw, "end" if ends else "mark", False, _END if ends else _MARK)]


def _ends_sentence(raw: str, text: str, at: int) -> bool:
    return raw in _SENTENCE_ENDS or (raw == "." and bool(_FINAL_DOT.match(text, at)))


def _rate_english(raw: str, is_start: bool) -> float:
    words = _tables()
    lower = raw.lower().replace("’", "'")
    if words.negation.fullmatch(raw):
        return KEPT
    if raw[0].isupper() and not is_start and lower not in words.function_en:
        return _NAMED
    for listed, worth in _LISTED_EN.items():
        if lower in getattr(words, listed):
            return worth
    if words.number_words.fullmatch(raw):
        return _COMMON if lower == "one" else _NAMED
    if "-" in raw:
        return _NAMED
    return _COMMON if lower.endswith("ly") and len(lower) > 5 else _PLAIN


@lru_cache(maxsize=1 << 13)
def _split_chinese(run: str) -> tuple[tuple[str, float], ...]:
    weighted: list[tuple[str, float]] = []
    before = ""
    for word, tag in _join_words(_tag_words(run)):
        worth = _rate_chinese(word, tag)
        if before[:1] in ("m", "q") and tag[:1] in ("q", "n", "m") and word not in _LOOSE_UNITS:
            worth = _NAMED
        weighted.append((word, worth))
        before = "" if before == "q" else tag
    return tuple(weighted)


def _tag_words(run: str) -> Iterator[tuple[str, str]]:
    """Yield the words of a run with their parts of speech; days of the week stay whole."""
    for place, part in enumerate(_WEEKDAY_ZH.split(run)):
        if place % 2:
            yield part, "t"
        elif part:
            yield from jieba().tag(part)


def _join_words(tagged: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Join split words: names with 老, 小, 阿; a lone character to the noun before it."""
    pending, pending_tag = "", ""
    for word, tag in [*tagged, ("", "")]:
        if len(word) == 1 and pending in ("老", "小", "阿") and tag[:1] in "njxgv":
            pending, pending_tag = pending + word, "nr"
        elif len(word) == 1 and len(pending) > 1 and pending_tag == "n" and tag in ("n", "q", "k", "ng"):
            pending += word
        else:
            if pending:
                yield pending, pending_tag
            pending, pending_tag = word, tag


@lru_cache(maxsize=1 << 14)
def _rate_chinese(word: str, tag: str) -> float:
    words = _tables()
    denial = word[0] in "不没未勿别無沒莫" and word not in words.no_denial_zh
    if denial or words.negation.fullmatch(word):
        return KEPT
    if words.person_zh.fullmatch(word):
        return _FOREIGN
    if words.weighty_zh.search(word):
        return _WEIGHTY
    if word in words.praise_zh:
        return _PRAISE / 2
    if word in words.relation_zh:
        return _RELATION
    if word in words.function_zh:
        return _FUNCTION
    if tag[:2] in ("nr", "ns", "nz", "nt"):
        return _NAMED
    worth: float = words.speech_zh.get(tag[:1], _PLAIN)
    if tag[:1] not in _GRAMMAR_ZH:
        worth *= 1 + _RARITY * (3 - math.log10(1 + jieba().suggest_freq(word)))
    return min(worth, _LIGHT) if word in words.light_zh else worth


def _bind_negations(words: list[Word]) -> None:
    """Raise the word after a denial, and the new value after a change or a limit."""
    weighty = _tables().weighty_zh
    min_worth = 0.0
    for word in words:
        if word.kind in ("mark", "end", "line"):
            min_worth = 0.0
            continue
        if _FUNCTION < word.worth < KEPT and min_worth:
            word.worth, min_worth = max(word.worth, min_worth), 0.0
        if word.kind in ("han", "word") and word.worth >= KEPT:
            min_worth = _FOREIGN
        elif word.kind == "han" and weighty.search(word.text):
            min_worth = _WEIGHTY


def _raise_counted(words: list[Word]) -> None:
    """Raise the word after a number, which says what is counted, and lower the last mark of a line."""
    counts_en = _tables().counts_en
    for before, word in pairwise(words):
        is_number = before.text[-1:].isdigit() or counts_en.fullmatch(before.text)
        if is_number and word.kind == "word" and word.space and word.worth < KEPT:
            word.worth = max(word.worth, _WEIGHTY if word.worth > _RELATION else _SIGN)
        measured = before.kind == "kept" and before.text[-1] in _MEASURES
        if measured and word.kind == "han" and _RELATION < word.worth < KEPT:
            word.worth = max(word.worth, _NAMED)
        if word.kind == "line" and before.kind in ("mark", "end"):
            before.worth = _FILLER
    if words and words[-1].kind in ("mark", "end"):
        words[-1].worth = _FILLER


def _pair_brackets(words: list[Word]) -> None:
    opened: list[int] = []
    for place, word in enumerate(words):
        if word.kind == "mark" and word.text in _PAIRS.values():
            opened.append(place)
        elif word.kind == "mark" and opened and _PAIRS.get(word.text) == words[opened[-1]].text:
            word.opener = opened.pop()


def _weigh_sentences(words: list[Word]) -> None:
    start = number = 0
    for place in range(len(words) + 1):
        if place < len(words) and words[place].kind not in ("end", "line"):
            continue
        sentence = words[start : place + 1]
        if any(word.worth < KEPT for word in sentence):
            factor = _rate_sentence("".join(word.spaced for word in sentence))
            for word in sentence:
                word.factor = factor
        for word in sentence:
            word.sentence = number
        start, number = place + 1, number + 1


def _rate_sentence(sentence: str) -> float:
    """Return the factor of the words of a sentence: low for greetings and questions, high for decisions."""
    signs = traits(sentence)
    if signs & Trait.GREETING:
        return 0.1
    factor = 1.0
    if signs & (Trait.DECISION | Trait.CORRECTS | Trait.CHANGES | Trait.RETRACTS | Trait.REVERTS):
        factor = 1.2
    if signs & Trait.QUESTION:
        return factor * (0.45 if signs & Trait.SECOND_PERSON else 0.6)
    factual = Trait.NUMBER | Trait.NAME | Trait.DATE | Trait.FIRST_PERSON
    return factor * (0.75 if signs & Trait.SECOND_PERSON and not signs & factual else 1.0)
