"""What the named groups of a match say, as values: the same slots for Chinese and English."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from jiyi.text.dates.calendar import Amount, Part, Unit

__all__ = ["Context", "Measure", "Slots", "Words"]

Measure = Unit | Literal["hour", "minute"]
"""What is counted."""

_LAST_WORD = re.compile(r"(?<![a-z])([a-z]+)[ -]$")
_DIGITS = {character: value for value, character in enumerate("〇一二三四五六七八九")}
_DIGITS |= {"零": 0, "○": 0, "两": 2, "元": 1}
_SECOND = {"half": "half_2", "more": "more_2", "part": "part_2", "quarter": "quarter_2"}
_SINGLE = frozenset(("天", "日", "年", "周", "分钟"))  # units that are counted without 个


@dataclass(frozen=True, slots=True)
class Context:
    """A text and the moment it speaks from."""

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
    """The named groups of a match.

    A slot is None if its group did not match. A pattern can have two groups for one slot (`_SECOND`).
    """

    def __init__(self, match: re.Match[str], scene: Context, words: Words, given: Mapping[str, str]) -> None:
        self.match = match
        self.scene = scene
        self.words = words
        self._said: dict[str, str | None] = {**given}
        for group, said in match.groupdict().items():
            if said is not None:
                self._said[group] = said

    def text(self, slot: str) -> str | None:
        """Return the words of a slot."""
        for group in (slot, _SECOND[slot]) if slot in _SECOND else (slot,):
            if group in self._said:
                return self._said[group]
        return None

    def value(self, slot: str) -> Any:
        """Return what the words of a slot mean by the table of that name; of some, the first character."""
        said = self.text(slot)
        if said is None:
            return None
        table = self.words.slots[slot]
        return table[said] if said in table else table[said[0]]

    def is_after(self, kind: str) -> bool:
        """Return whether one of the words ``before`` lists under ``kind`` comes right before the match."""
        return self.word_before() in self.words.before[kind]

    def word_before(self, at: int | None = None) -> str:
        """Return the Latin word that ends right before the match (or ``at``), "" if there is none."""
        head = self.head(14, at)
        found = _LAST_WORD.search(head)
        return found[1] if found else ""

    def head(self, size: int, at: int | None = None) -> str:
        """Return the ``size`` characters before the match, or before ``at``."""
        at = self.match.start() if at is None else at
        return self.scene.text[max(0, at - size) : at]

    def is_capital(self, slot: str) -> bool:
        """Return whether the slot's words begin with a capital letter."""
        return self.scene.raw[self.match.start(slot)].isupper()

    @property
    def year(self) -> int | None:
        """The number of the year."""
        said = self.text("year")
        if said is None:
            return None
        years = self.words.slots["year"]
        if said in years:
            return int(self.scene.now.year + years[said])
        found = _number(said.strip("' 年"))
        if found < 100:
            found += 2000 if found <= 50 else 1900
        return found

    @property
    def month(self) -> int:
        """The number of the month."""
        said = self.text("month") or ""
        named = self.words.slots.get("month", {}).get(said[:3])
        return _number(said) if named is None else int(named)

    @property
    def weekday(self) -> int | None:
        """0 for Monday."""
        said = self.text("weekday")
        return None if said is None else int(self.words.slots["weekday"][said[:3]])

    @property
    def step(self) -> int | None:
        """How many units from the present one: -2 for 上上, 0 for "this"."""
        said = self.text("which")
        if said is None:
            return None
        return int(self.value("which")) * max(1, sum(character in "上下" for character in said))

    @property
    def unit(self) -> Unit:
        """The unit that is named."""
        unit: Unit = self.value("unit")
        return unit

    @property
    def side(self) -> int:
        """-1 for before, 1 for after."""
        return int(self.value("side"))

    @property
    def part(self) -> Part | None:
        """Which part of it."""
        said = self.text("part")
        if said is None:
            return None
        part: Part = self.words.slots["part"][said.lstrip("的年月")]
        return part

    def number(self, slot: str) -> int | None:
        """Return the number in a slot, in digits or words."""
        said = self.text(slot)
        if said is None:
            return None
        ordinal = self.words.slots.get("ordinal", {}).get(said)
        return _number(said) if ordinal is None else int(ordinal)

    def amount(self) -> Amount:
        """Return how many: three, 几, 两三, 半, 1.5; one where nothing is said.

        Raises:
            ValueError: it is no number.
        """
        said = (self.text("n") or "1").removesuffix(" of")
        known = self.words.slots["number"].get(said)
        if isinstance(known, list):
            return Amount(known[0], known[1])
        if known is not None:
            return Amount(known, known)
        if said.endswith(".5"):
            return Amount(float(said), float(said))
        if len(said) == 2 and said[0] in _DIGITS and said[1] in _DIGITS:  # 两三, 三五
            low, high = _DIGITS[said[0]], _DIGITS[said[1]]
            if not low < high:
                raise ValueError(said)
            return Amount(low, high)
        if not said.isascii() and len(said) > 1 and not any(character in said for character in "十百"):
            raise ValueError(said)
        return Amount(_number(said), _number(said))

    def measured(self) -> tuple[Amount, Measure] | None:
        """Return how many of what; None where nothing is counted, as in 三月 (March) or 三个年.

        Raises:
            ValueError: it is no number.
        """
        unit, classified = self.text("unit"), self.text("classifier")
        if (unit == "月" and not classified) or (classified and unit in _SINGLE):
            return None
        amount, measure = self.amount(), self.value("unit")
        low, high = amount.low, amount.high
        if unit == "fortnight":
            low, high = 2 * low, 2 * high
        if self.text("half"):  # 一个半月, two weeks and a half
            low, high = low + 0.5, high + 0.5
        if self._said.get("more") and str(self.text("n")).endswith("十"):  # 十多天
            high += 9
        elif self.text("more") or self.text("more_3"):  # 三个多月, 一年多
            high += 1
        return Amount(low, high), measure


def _number(said: str) -> int:
    """Return the number written in digits or Chinese, up to 999, or digit by digit (二〇二三).

    Raises:
        ValueError: it is no number.
    """
    if said.isdigit() and said.isascii():
        return int(said)
    said = said.replace("廿", "二十")
    if not any(character in said for character in "十百"):
        return int("".join(str(_DIGITS[character]) for character in said))
    total, digit = 0, 0
    for character in said:
        if character in "十百":
            total += (digit or 1) * (10 if character == "十" else 100)
            digit = 0
        else:
            digit = _DIGITS[character]
    return total + digit
