"""Find secrets in a text: passwords, keys, card and document numbers; Chinese and English.

The patterns are data (``secrets.toml``). Each is bounded, so that the time is linear in the length of any
text: 10 to 40 microseconds for a usual message.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from jiyi.text.analyse import query_terms
from jiyi.text.lexicon import Hints, fill_parts, read_toml

__all__ = ["Secrecy", "Secret", "SecretKind", "secrets"]

SecretKind = Literal["password", "key", "pin", "card", "document", "account"]
"""The kind of a secret: of an account or door, a service, a one-time or card code, a card, papers, a bank."""

_PLAIN = re.compile(r"[A-Za-z]+(?:[-'’][A-Za-z]+)*")
_END = re.compile(
    r"[\"'`”’」』]?\s{0,2}(?:[.,;:!?，。；！？、()（）·|/-]|\Z|\n|(?:and|but|so|or|now|since|too|please)\b)"
)
_TAIL = ".,;:!?"
_LOOKAHEAD_CHARS = 20  # characters after a value, to see whether it ends there
_MAX_CACHED_CHARS = 500  # characters up to which what a text holds is kept: what is shown once is shown again
_NUMBER = "#"  # the hint that stands for four digits in a row
_FOUR_DIGITS = re.compile(r"\d{4}")
_DATE = re.compile(r"(?:19|20)\d\d[-/. ]?\d{1,2}[-/. ]?\d{1,2}")
# Weights of GB 11643, over the first 17 digits.
_CHECKSUM = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """The place of a secret in a text."""

    kind: SecretKind  # see `SecretKind`
    start: int  # of its first character
    end: int  # after its last one


def secrets(text: str, *wordings: str) -> tuple[Secret, ...]:
    """Return the secrets in a text in order, without overlaps.

    ``wordings`` are other forms of the same text: their secrets are also secrets of the text that has them.
    """
    found = [*(own := _cached_secrets(text))]
    for wording in wordings:
        for other in own if wording == text else _cached_secrets(wording):
            value = wording[other.start : other.end]
            start = text.rfind(value)
            end = start + len(value)
            if start >= 0 and all(end <= secret.start or secret.end <= start for secret in found):
                found.append(Secret(kind=other.kind, start=start, end=end))
    return tuple(sorted(found, key=lambda secret: secret.start))


def _cached_secrets(text: str) -> tuple[Secret, ...]:
    return (_find_secrets if len(text) <= _MAX_CACHED_CHARS else _find_secrets.__wrapped__)(text)


@lru_cache(maxsize=2048)
def _find_secrets(text: str) -> tuple[Secret, ...]:
    found: list[Secret] = []
    rules, lower, taken = _load_rules(), text.lower(), bytearray(len(text))
    for place in rules.hints.places(lower + _NUMBER if _FOUR_DIGITS.search(text) else lower):
        rule = rules.rules[place]
        for match in rule.pattern.finditer(text):
            start, end = match.span("value")
            end = start + len(text[start:end].rstrip(_TAIL))
            if not any(taken[start:end]) and rule.check(text[start:end], text[end : end + _LOOKAHEAD_CHARS]):
                taken[start:end] = b"\1" * (end - start)
                found.append(Secret(kind=rule.kind, start=start, end=end))
    return tuple(found)


class Secrecy:
    """Hides the secrets in texts found for a question, unless the question asks for their kind.

    If any of ``texts``, all that may be shown, is about its subject ("the password of the router"), only
    such texts show theirs. ``language`` is that of the words that replace secrets, "zh" or "en".
    """

    def __init__(self, question: str, texts: Iterable[str], language: str) -> None:
        rules = _load_rules()
        self._stands_for = rules.stands_for[language]
        self._requested = {kind for kind, asks in rules.asks.items() if asks.search(question)}
        self._subjects: set[str] = set()
        if self._requested:
            rest = " ".join(rules.asks[kind].sub(" ", question) for kind in self._requested)
            wanted = set(query_terms(rest))
            holders = [t for t in texts if any(secret.kind in self._requested for secret in secrets(t))]
            self._subjects = {term for text in holders for term in wanted & set(query_terms(text))}

    def __call__(self, text: str, *wordings: str) -> str:
        """Return a text with hidden secrets; ``wordings`` as for `secrets`."""
        found, parts, position = secrets(text, *wordings), list[str](), 0
        if not found:
            return text
        terms = query_terms("\n".join([text, *wordings])) if self._subjects else ()
        may_show = not self._subjects or not self._subjects.isdisjoint(terms)
        for secret in found:
            if secret.kind not in self._requested or not may_show:
                parts += text[position : secret.start], self._stands_for[secret.kind]
                position = secret.end
        return "".join([*parts, text[position:]])


_Check = Callable[[str, str], bool]  # decides by a value and the text after it whether it is a secret


class _Rule(NamedTuple):
    kind: SecretKind
    pattern: re.Pattern[str]  # its group "value" is the secret
    check: _Check


class _SecretRules(NamedTuple):
    rules: list[_Rule]  # the first match of a place counts
    hints: Hints  # a text with the secret of a rule contains one of the rule's
    asks: Mapping[SecretKind, re.Pattern[str]]  # matches a question for the secret
    stands_for: Mapping[str, Mapping[SecretKind, str]]  # replacements by language and kind
    harmless: Mapping[str, frozenset[str]]  # words that are no value, by language


@cache
def _load_rules() -> _SecretRules:
    data = read_toml(__package__, "secrets")
    patterns = [re.compile(fill_parts(rule["pattern"], data["parts"])) for rule in data["rule"]]
    rules = zip(data["rule"], patterns, strict=True)
    return _SecretRules(
        [_Rule(rule["kind"], pattern, _CHECKS[rule.get("check", "any")]) for rule, pattern in rules],
        hints=Hints(rule["hints"] for rule in data["rule"]),
        asks={kind: re.compile(words) for kind, words in data["asks"].items()},
        stands_for={
            language: {kind: words.format(name=names[language]) for kind, names in data["names"].items()}
            for language, words in data["hidden"].items()
        },
        harmless={language: frozenset(words.split()) for language, words in data["harmless"].items()},
    )


def _digits(value: str) -> int:
    return sum(letter.isdigit() for letter in value)


def _letters(value: str) -> int:
    return sum(letter.isalpha() for letter in value)


def _is_word(value: str, after: str) -> bool:
    """Accept a value after "is"; letters alone only at the end of a clause."""
    harmless = value.casefold() in _load_rules().harmless["en"]
    return not harmless and (not _PLAIN.fullmatch(value) or _END.match(after) is not None)


def _is_mixed(value: str, _: str = "") -> bool:
    """Accept a value without an introduction: letters with digits or signs, or digits alone."""
    year = len(value) == 4 and value.startswith(("19", "20"))
    return len(value) >= 4 and _digits(value) > 0 and (_digits(value) < len(value) or not year)


def _is_luhn(value: str, _: str) -> bool:
    """Check the last digit of a card number by Luhn (ISO/IEC 7812-1, annex B)."""
    numbers = [int(letter) for letter in reversed(value) if letter.isdigit()]
    doubled = [2 * number - 9 * (number > 4) for number in numbers[1::2]]
    return len(set(numbers)) > 1 and (sum(numbers[::2]) + sum(doubled)) % 10 == 0


def _is_resident(value: str, _: str) -> bool:
    """Check the last character of a Chinese resident number (GB 11643-1999)."""
    total = sum(int(digit) * weight for digit, weight in zip(value, _CHECKSUM, strict=False))
    return "10X98765432"[total % 11] == value[-1].upper()


def _is_iban(value: str, _: str) -> bool:
    """Check the digits of an IBAN (ISO 13616)."""
    plain = value.replace(" ", "")
    return 15 <= len(plain) <= 34 and int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


_CHECKS: Mapping[str, _Check] = {
    "any": lambda value, _: bool(value),
    "word": _is_word,
    "mixed": _is_mixed,
    # Some words away: letters and digits together, unlike words of a language.
    "both": lambda value, _: _letters(value) >= 2 and _is_mixed(value),
    "token": lambda value, _: (
        _digits(value) >= 2 and _letters(value) >= 2 and not value.startswith(("/", "./", "~"))
    ),
    "phrase": lambda value, _: not any(word in value for word in _load_rules().harmless["zh"]),
    "number": lambda value, _: not _DATE.fullmatch(value) and _digits(value) >= (2 if value.isupper() else 5),
    "digits": lambda value, _: _digits(value) >= 6 and not _DATE.fullmatch(value),
    "luhn": _is_luhn,
    "resident": _is_resident,
    "iban": _is_iban,
}
