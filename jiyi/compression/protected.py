"""Spans of a text that stay whole or leave whole: code, JSON, URLs, paths, ids, numbers, quotations."""

import json
import re
from collections.abc import Iterator, Sequence

__all__ = ["protected_spans"]

_FENCE = re.compile(r"^[ \t]*(`{3,}+|~{3,}+)[^\n]*\n.*?(?:^[ \t]*\1`*~*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_INDENTED_LINE = re.compile(r"^(?:\t| {4,})\S.*$", re.MULTILINE)
_BRACE = re.compile(r"[{\[](?=\s*[\"{\[\]}\d-]|\s*(?:true|false|null)\b)")
_DECODER = json.JSONDecoder()
_MOST_FAILURES = 100  # braces that open no JSON, after which none is tried again
_NUMBERED = re.compile(r"^[ \t]*(\d{1,3})[.)、](?=[ \t]+\S)", re.MULTILINE)  # the number of a list's point
_UNIT_ZH = (
    "年|个月|月|日|号|天|周|点半?|时|分钟|小时|秒|分|个|位|名|人|次|回|遍|岁|楼|层|栋|块|元|角|万|亿|千|百|米|公里|公斤|斤|克|升|倍|成|折|条|张|件|份"
    "|台|辆|部|套|双|家|间|种|口|杯|瓶|页|章|节|期|级|版|度|片|粒|本"
)
_SPAN = re.compile(
    r"`[^`\n]+`"  # inline code
    r"|(?P<or_not>[\u4e00-\u9fff])[不没](?P=or_not)"  # 会不会: half of it would say the contrary
    r"|\b[a-z][a-z0-9+.-]{1,15}://[^\s<>\"'`，。；！？、）】》”]+"  # URLs
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"  # mail addresses
    r"|\$\{?\w+\}?|--?[A-Za-z][\w-]{0,80}=\S+|(?<!\S)--[a-z][\w-]+"  # variables and options
    r"|(?<![\w./])(?:[A-Za-z]:\\|~?/|\.{1,2}/)[\w.@+~-]{1,80}(?:[/\\][\w.@+~-]{1,80}){0,30}/?"  # paths
    r"|(?<![\w./-])[\w-]{1,80}(?:/[\w.-]{1,80}){1,30}\.[A-Za-z]\w{0,5}\b"  # relative paths of files
    r"|(?<![\w.-])[A-Za-z_][\w.-]{0,60}=[^\s,;，。；]+"  # settings: key=value
    r"|《[^》\n]{1,80}》|“[^”\n]{1,120}”|「[^」\n]{1,120}」|『[^』\n]{1,120}』"
    r"|(?<!\w)\"[^\"\n]{1,120}\"(?!\w)|(?<!\w)'[^'\n]{2,60}'(?!\w)"  # quotations
    r"|(?<![\w.])[A-Za-z_][\w.]{0,80}\([^()\n，。]{0,60}\)"  # calls
    r"|(?<![\w./:-])[#@]?(?=[\w.:/-]{0,60}\d)(?=[\w.:/-]{0,60}[A-Za-z_])"
    r"[A-Za-z0-9_]+(?:[.:/_-][A-Za-z0-9_]+)*"  # ids
    r"|(?<!\w)[A-Za-z][A-Za-z0-9]{0,60}(?:_[A-Za-z0-9]+)+\b"  # snake_case
    r"|(?<!\w)[a-z]{1,60}(?:[A-Z][a-z0-9]+)+\b"  # camelCase
    r"|(?<![\w.-])[A-Za-z][\w-]{0,80}(?:\.[A-Za-z][\w-]{0,80}){1,30}\b"  # host.names, dotted.names
    r"|\d{1,2}\s?月\s?\d{1,2}(?:\s?[日号])?"
    r"|[$€£¥￥]?\d+(?:[.,:/-]\d+)*(?:\s?(?:[%％‰°℃]|(?:[kKMGTm]?i?[Bbsg]|ms|km|cm|mm|kg|am|pm|AM|PM|st|nd|rd|th|px|rpm|QPS)\b)"
    rf"|\s?(?:{_UNIT_ZH}))?"
    rf"|第[一二三四五六七八九十]|[〇零一二两三四五六七八九十百千万亿半]{{1,24}}(?<!一)(?:{_UNIT_ZH})|一(?:年|月|号|点|楼|层|百|千|万|周|天|块|元|小时)"
)


def protected_spans(text: str, forced: Sequence[str] = ()) -> list[tuple[int, int]]:
    """Return the spans of ``text`` that are never cut, as ``(start, end)``, in order, without overlap.

    Code in fences and back-ticks, lines indented as code, JSON, URLs, addresses, paths,
    options, ids and names with digits, quotations of at most 120 characters, numbers with
    their units, and what is in ``forced`` as it is written there.
    """
    blocks = sorted([*_fenced(text), *_json(text)])
    numbers = {match.start(1) for match in _NUMBERED.finditer(text)}
    singles = [match.span() for match in _SPAN.finditer(text) if match.start() not in numbers]
    wanted = [span for word in forced if word for span in _places(text, word)]
    return _merged(sorted([*blocks, *singles, *wanted]))


def _fenced(text: str) -> Iterator[tuple[int, int]]:
    if "```" in text or "~~~" in text:
        yield from (match.span() for match in _FENCE.finditer(text))
    if "    " in text or "\t" in text:
        yield from (match.span() for match in _INDENTED_LINE.finditer(text))


def _json(text: str) -> Iterator[tuple[int, int]]:
    """Give the objects and lists of JSON in a text; a list of plain words in brackets is none."""
    at = failures = 0
    while failures < _MOST_FAILURES and (found := _BRACE.search(text, at)):
        try:
            _, end = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            failures += 1
            at = found.end()
            continue
        yield found.start(), end
        at = end


def _places(text: str, word: str) -> Iterator[tuple[int, int]]:
    at = text.find(word)
    while at >= 0:
        yield at, at + len(word)
        at = text.find(word, at + len(word))


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join the spans that overlap."""
    out: list[tuple[int, int]] = []
    for start, end in spans:
        if out and start < out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        elif end > start:
            out.append((start, end))
    return out
