"""Values of the named groups of a match ("slots"), the same for Chinese and English."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from jiyi.text.dates.calendar import Amount, Part, Unit

Measure = Unit | Literal["hour", "minute"]  # what is counted

_LAST_WORD = re.compile(r"(?<![a-z])([a-z]+)[ -]$")
_DIGITS = {character: value for value, character in enumerate("〇一二三四五六七八九")}
_DIGITS |= {"零": 0, "○": 0, "两": 2, "元": 1}
_SINGLE = frozenset(("天", "日", "年", "周", "分钟"))  # units that are counted without 个


@dataclass(frozen=True, slots=True)
class Context:
    """A text and the moment when it was written."""

    text: str  # lower case, half-width digits, the same length as raw
    raw: str  # as written
    now: datetime  # in the zone of the spans

    @property
    def today(self) -> int:
        """The ordinal of the day of ``now``."""
        return self.now.toordinal()


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words of a language, as its data file has them."""

    slots: Mapping[str, Mapping[str, Any]]  # of each slot: word -> what it means
    holidays: Sequence[tuple[str, re.Pattern[str]]]  # name in `holidays` and how it is written
    before: Mapping[str, frozenset[str]]  # words right before an expression that decide what it is
    after: Mapping[str, tuple[str, ...]]  # the same for what comes right after it


class Slots:
    """The named groups of a match; ``given`` are slots that the rule fills, unless a group does.

    A slot is None if its group did not match. A pattern can have a second group SLOT_2 for one slot.
    """

    def __init__(
        self, match: re.Match[str], context: Context, words: Words, given: Mapping[str, str]
    ) -> None:
        self.match, self.context, self.words = match, context, words
        matched = {group: text for group, text in match.groupdict().items() if text is not None}
        self._texts = {**given, **matched}

    def text(self, slot: str) -> str | None:
        """Return the words of a slot."""
        return self._texts.get(slot, self._texts.get(f"{slot}_2"))

    def value(self, slot: str) -> Any:
        """Return the meaning of a slot's words, or of their first character, in the table of that name."""
        text, table = self.text(slot), self.words.slots[slot]
        if text is None:
            return None
        return table[text] if text in table else table[text[0]]

    def is_after(self, kind: str) -> bool:
        """Return whether one of the words ``before`` lists under ``kind`` comes right before the match."""
        return self.word_before() in self.words.before[kind]

    def word_before(self, at: int | None = None) -> str:
        """Return the Latin word that ends right before the match (or ``at``), "" if there is none."""
        found = _LAST_WORD.search(self.head(14, at))
        return found[1] if found else ""

    def head(self, size: int, at: int | None = None) -> str:
        """Return the ``size`` characters before the match, or before ``at``."""
        at = self.match.start() if at is None else at
        return self.context.text[max(0, at - size) : at]

    def is_capital(self, slot: str) -> bool:
        """Return whether the slot's words begin with a capital letter."""
        return self.context.raw[self.match.start(slot)].isupper()

    @property
    def year(self) -> int | None:
        """The number of the year."""
        text, years = self.text("year"), self.words.slots["year"]
        if text is None:
            return None
        if text in years:
            return int(self.context.now.year + years[text])
        found = _number(text.strip("' 年"))
        return found if found >= 100 else found + (2000 if found <= 50 else 1900)

    @property
    def month(self) -> int:
        """The number of the month."""
        text = self.text("month") or ""
        named = self.words.slots.get("month", {}).get(text[:3])
        return _number(text) if named is None else int(named)

    @property
    def weekday(self) -> int | None:
        """0 for Monday."""
        text = self.text("weekday")
        return None if text is None else int(self.words.slots["weekday"][text[:3]])

    @property
    def step(self) -> int | None:
        """How many units from the present one: -2 for 上上, 0 for "this"."""
        text = self.text("which")
        if text is None:
            return None
        return int(self.value("which")) * max(1, sum(character in "上下" for character in text))

    @property
    def unit(self) -> Unit:
        """The unit that is named."""
        return cast(Unit, self.value("unit"))

    @property
    def side(self) -> int:
        """-1 for before, 1 for after."""
        return int(self.value("side"))

    @property
    def part(self) -> Part | None:
        """The part of the stretch that is named."""
        text = self.text("part")
        return cast(Part, self.words.slots["part"][text.lstrip("的年月")]) if text else None

    def number(self, slot: str) -> int | None:
        """Return the number in a slot, in digits or words."""
        if (text := self.text(slot)) is None:
            return None
        ordinal = self.words.slots.get("ordinal", {}).get(text)
        return _number(text) if ordinal is None else int(ordinal)

    def amount(self) -> Amount:
        """Return how many: three, 几, 两三, 半, 1.5; one in an empty slot; ValueError: it is no number."""
        text = (self.text("n") or "1").removesuffix(" of")
        known = float(text) if text.endswith(".5") else self.words.slots["number"].get(text)
        if known is not None:
            return Amount(*known) if isinstance(known, list) else Amount(known, known)
        if len(text) == 2 and text[0] in _DIGITS and text[1] in _DIGITS:  # 两三, 三五
            low, high = _DIGITS[text[0]], _DIGITS[text[1]]
            if not low < high:
                raise ValueError(text)
            return Amount(low, high)
        if not text.isascii() and len(text) > 1 and not any(character in text for character in "十百"):
            raise ValueError(text)
        return Amount(_number(text), _number(text))

    def measured(self) -> tuple[Amount, Measure] | None:
        """Return how many of what; None where nothing is counted, as in 三月 (March) or 三个年."""
        unit, classified = self.text("unit"), self.text("classifier")
        if (unit == "月" and not classified) or (classified and unit in _SINGLE):
            return None
        amount, measure = self.amount(), self.value("unit")
        low, high = amount.low, amount.high
        if unit == "fortnight":
            low, high = 2 * low, 2 * high
        if self.text("half"):  # 一个半月, two weeks and a half
            low, high = low + 0.5, high + 0.5
        if self._texts.get("more") and str(self.text("n")).endswith("十"):  # 十多天
            high += 9
        elif self.text("more") or self.text("more_3"):  # 三个多月, 一年多
            high += 1
        return Amount(low, high), measure


def _number(text: str) -> int:
    """Return the number in digits or Chinese, up to 999, or digit by digit (二〇二三); ValueError: none."""
    if text.isdigit() and text.isascii():
        return int(text)
    text = text.replace("廿", "二十")
    if not any(character in text for character in "十百"):
        return int("".join(str(_DIGITS[character]) for character in text))
    total = digit = 0
    for character in text:
        if power := {"十": 10, "百": 100}.get(character):
            total, digit = total + (digit or 1) * power, 0
        else:
            digit = _DIGITS[character]
    return total + digit
