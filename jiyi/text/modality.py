"""The modes of a clause or message, such as asking, supposing, correcting, retracting; Chinese and English.

They are recognised by words and phrases, without understanding the text. A hundred characters take 10 to 40
microseconds; only the first 2,000 characters are read.
"""

import re
from enum import IntFlag
from functools import cache
from typing import Any

from jiyi.text.lexicon import fill_parts, read_toml

__all__ = ["Mode", "message_modes", "modes"]

_SAMPLE = 2_000


class Mode(IntFlag):
    """What a text does besides stating something; without any flag it is a plain statement."""

    ASKED = 1  # it contains a question
    HYPOTHETICAL = 2  # if, might, some day: 如果, 说不定, 到时候再说
    NEGATED = 4  # denied as a whole: 没这回事, "that's not the case"
    REPORTED = 8  # a document or hearsay says it: 文档上写着, "the slides describe"
    CHANGED = 16  # a new value replaces an old one: 改成, 从今天起, "moved to", "from now on"
    CORRECTED = 32  # an earlier statement was wrong: 写错了, "misread", "I had the wrong letter"
    RETRACTED = 64  # an earlier statement is withdrawn: 当我没说, 删了吧, "scratch that", "called off"
    REVERTED = 128  # back to what was before: 退回, 恢复原来, "back to", "once more"
    TEMPORARY = 256  # for a while only: 只有这周, 这三天, "until Friday"
    PLANNED = 512  # will be: 打算, 下周起, "plan to", "from May 10"


_HAN = re.compile(r"[\u4e00-\u9fff]")
_WORD = re.compile(r"[a-z]+(?:[-'][a-z]+)*")
_CLAUSE = re.compile(r"(?<![A-Za-z'])[A-Za-z']++ [A-Za-z']++ [A-Za-z']")  # English inside Chinese, not a name
_ASKS = re.compile(r"[?？](?![A-Za-z0-9_=&/])|[吗呢] *(?:[，。！、,.!~…\n]|$)")
_PART = re.compile(r"(?:[^。！？!?；;，.\n]|\.(?!\s))+[。！？!?；;，.\n]*")  # English commas separate nothing
_SUGGESTS = re.compile(r"不是[^，。！？]{1,16}吗|\b(?:isn't|aren't|wasn't) (?:it|that|he|she|the)\b[^.!?]*\?")
_ENDS_ASKING = re.compile(r"[?？]\W*$|[吗呢]\W*$")
_VALUE = re.compile(
    r"\d|[〇零一二两三四五六七八九十百千万半][个名位次点号月日天周年岁元块分秒斤]|[a-zA-Z\u4e00-\u9fff][A-Z]"
)

_ASKED, _REPORTED, _CORRECTED = Mode.ASKED.value, Mode.REPORTED.value, Mode.CORRECTED.value
_UNCERTAIN = (Mode.HYPOTHETICAL | Mode.PLANNED).value
_UPDATES = (Mode.CHANGED | Mode.CORRECTED | Mode.RETRACTED | Mode.REVERTED).value


def modes(text: str) -> Mode:
    """Return the modes of a text, ``Mode(0)`` for a plain statement."""
    return Mode(_modes(text[:_SAMPLE]))


def message_modes(text: str) -> Mode:
    """Return the modes of a message as a whole.

    ASKED stays only if questions are at least half of it or contain all its numbers and names. HYPOTHETICAL
    and PLANNED are dropped if the message also changes, corrects or retracts something, and REPORTED if it
    corrects: "the docs were wrong, it is 8444" is no report.
    """
    sample = text[:_SAMPLE]
    found = _modes(sample)
    if found & _ASKED and not _mostly_asks(sample):
        found &= ~_ASKED
    if found & _UPDATES and not found & _REPORTED:
        found &= ~_UNCERTAIN
    if found & _CORRECTED:
        found &= ~_REPORTED
    return Mode(found)


def _modes(sample: str) -> int:
    found = _ASKED if _ASKS.search(sample) else 0
    if sample.isascii():
        return found | _english(sample)
    if not _HAN.search(sample):
        return found | _english(sample.replace("’", "'"))
    for value, starts, pattern in _phrases("zh"):
        # Trying a pattern only at its possible first characters takes a fifth of the time.
        if any(pattern.match(sample, start.start()) for start in starts.finditer(sample)):
            found |= value
    return found | (_english(sample.replace("’", "'")) if _CLAUSE.search(sample) else 0)


def _english(sample: str) -> int:
    lower = sample.lower()
    words, found = _words(lower), 0
    for value, hints, pattern in _phrases("en"):
        if not words.isdisjoint(hints) and pattern.search(lower):
            found |= value
    return found


def _mostly_asks(text: str) -> bool:
    if _SUGGESTS.search(text):  # "isn't it at five?" suggests the belief of its speaker
        return True
    parts: dict[bool, list[str]] = {True: [], False: []}
    for part in _PART.findall(text):
        parts[_ENDS_ASKING.search(part) is not None].append(part)
    asking, stated = parts[True], parts[False]
    if sum(map(len, asking)) >= sum(map(len, stated)):
        return True
    return any(map(_VALUE.search, asking)) and not any(map(_VALUE.search, stated))


@cache
def _phrases(language: str) -> list[tuple[int, Any, re.Pattern[str]]]:
    """Return each mode with its hints (English words or a pattern of first characters) and its pattern."""
    table = read_toml(__package__, "modality")[language]
    parts = {name: f"(?:{part})" for name, part in table.pop("parts").items()}
    rows: list[tuple[int, Any, re.Pattern[str]]] = []
    for name, row in table.items():
        pattern = re.compile("|".join(fill_parts(row["phrases"], parts).split("\n")[:-1]))
        by_words = "hints" in row
        hints = _words(fill_parts(row["hints"], parts)) if by_words else re.compile(f"[{row['starts']}]")
        rows.append((Mode[name].value, hints, pattern))
    return rows


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))
