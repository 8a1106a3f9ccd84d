"""Makes text to show: passwords masked, long text cut, no characters that steer a terminal, counts."""

import json
import re

_MAX_QUOTED_CHARS = 200  # characters of one quoted input
_USER = r"(?://|\bpostgres(?:ql)?:/?)[^\s:@/?#'\"]{0,100}+:"
_BEFORE_PASSWORD = re.compile(rf"\A[\w.%+-]{{1,100}}+:(?!//)|{_USER}")
# Within a sentence the address ends at a blank, unless its password has one; a port is no password.
_BARE = r"(?<![\w.%+/-])[\w.%+-]{1,100}+:(?=[^\s/@]{1,200}@[\w.-]{1,200}(?::\d{1,5})?/)"
_ADDRESS = re.compile(rf"({_USER}|{_BARE})(?!\d{{1,5}}(?![^\s/?#,;.)'\"]))(?:\S{{0,300}}|[^\n@]{{0,200}})@")
_NAMES = (
    r"\w{0,9}passw(?:or)?d\w{0,9}|pwd|passphrase|(?:api|access|secret)[_-]?key|(?:access[_-]?)?token|secret"
)
_URL_PARAMETER = re.compile(rf"([?&](?:{_NAMES}|key)=)[^&\s#'\"]*", re.IGNORECASE)
_SETTING = re.compile(
    rf"(?<![?&\w])((?:{_NAMES})\s{{0,9}}=\s{{0,9}})(?:'(?:[^'\\]|\\.)*+'?|[^\s'*][^\s']*)", re.IGNORECASE
)
_LONG_QUOTATION = re.compile(r"'(?:[^'\\]|\\.){200,}+'?|\"(?:[^\"\\]|\\.){200,}+\"?", re.DOTALL)

# C0 without tab and line feed, DEL and C1; soft hyphens, fillers and other characters of no width, but for
# the joiners of emoji and scripts; bidirectional marks; line separators; tags; lone surrogates.
_UNSAFE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_PLURALS = {"knowledge": "knowledge", "stretch": "stretches", "reply": "replies", "summary": "summaries"}


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 fact" or "2,000 messages"."""
    return f"{number:,} {noun if number == 1 else _PLURALS.get(noun, noun + 's')}"


def safe(text: str) -> str:
    """Return a text with invisible and terminal control characters as visible escapes."""
    return _UNSAFE.sub(_escape, text) if _UNSAFE.search(text) else text


def safe_json(text: str) -> str:
    """Return the same JSON with those characters escaped."""
    return _UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1] if match[0] != "\x7f" else "\\u007f", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def mask(address: str) -> str:
    """Return an address with its password or key hidden; a password extends to the last @."""
    if (user := _BEFORE_PASSWORD.search(address)) and (end := address.rfind("@", user.end())) >= 0:
        address = f"{address[: user.end()]}***{address[end:]}"
    return _mask_settings(address)


def redact(text: str, max_chars: int) -> str:
    """Return a message without secrets, each quoted input and the whole cut to a length.

    A message that is too long loses its middle: the problem comes first, the advice last.
    """
    text = _mask_settings(_ADDRESS.sub(r"\1***@", text))
    if len(text) <= _MAX_QUOTED_CHARS:
        return text
    text = _LONG_QUOTATION.sub(lambda match: f"{match[0][: _MAX_QUOTED_CHARS // 2]}…{match[0][0]}", text)
    return text if len(text) <= max_chars else f"{text[: max_chars // 2]} … {text[-max_chars // 3 :]}"


def _mask_settings(text: str) -> str:
    return _SETTING.sub(r"\1***", _URL_PARAMETER.sub(r"\1***", text))
