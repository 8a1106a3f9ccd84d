"""What is told and shown of a text: no password, not all of a long one, nothing that steers a terminal."""

import json
import re

__all__ = ["masked", "safe", "safe_json", "told"]

_LONGEST = 200  # characters of one quoted input
_USER = r"(?://|\bpostgres(?:ql)?:/?)[^\s:@/?#'\"]{0,100}+:"
_BEFORE_PASSWORD = re.compile(rf"\A[\w.%+-]{{1,100}}+:(?!//)|{_USER}")
# Within a sentence the address ends at a blank, unless its password has some; a port is no password.
_BARE = r"(?<![\w.%+/-])[\w.%+-]{1,100}+:(?=[^\s/@]{1,200}@[\w.-]{1,200}(?::\d{1,5})?/)"
_WITHIN = re.compile(rf"({_USER}|{_BARE})(?!\d{{1,5}}(?![^\s/?#,;.)'\"]))(?:\S{{0,300}}|[^\n@]{{0,200}})@")
_NAMES = (
    r"\w{0,9}passw(?:or)?d\w{0,9}|pwd|passphrase|(?:api|access|secret)[_-]?key|(?:access[_-]?)?token|secret"
)
_PARAMETER = re.compile(rf"([?&](?:{_NAMES}|key)=)[^&\s#'\"]*", re.IGNORECASE)
_SETTING = re.compile(
    rf"(?<![?&\w])((?:{_NAMES})\s{{0,9}}=\s{{0,9}})(?:'(?:[^'\\]|\\.)*+'?|[^\s'*][^\s']*)", re.IGNORECASE
)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.){200,}+'?|\"(?:[^\"\\]|\\.){200,}+\"?", re.DOTALL)

# C0 without tab and line feed, DEL and C1; soft hyphens, fillers and other characters of no width, but for
# the joiners of emoji and scripts; bidirectional marks; line separators; tags; lone surrogates.
_UNSAFE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


def safe(text: str) -> str:
    """Return a text with the characters that steer a terminal, or hide in it, as visible escapes."""
    return _UNSAFE.sub(_escape, text) if _UNSAFE.search(text) else text


def safe_json(text: str) -> str:
    """Return the same JSON with those characters escaped."""
    return _UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1] if found[0] != "\x7f" else "\\u007f", text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def masked(address: str) -> str:
    """Return an address, in any shape, with its password or key hidden.

    A password may hold any character: it goes on to the last @.
    """
    if (user := _BEFORE_PASSWORD.search(address)) and (end := address.rfind("@", user.end())) >= 0:
        address = f"{address[: user.end()]}***{address[end:]}"
    return _without_settings(address)


def told(text: str, longest: int) -> str:
    """Return a message without secrets, each quoted input and the whole cut to a length.

    A message that is too long loses its middle: what is wrong stands first, what to do last.
    """
    text = _without_settings(_WITHIN.sub(r"\1***@", text))
    if len(text) <= _LONGEST:
        return text
    text = _QUOTED.sub(lambda found: f"{found[0][: _LONGEST // 2]}…{found[0][0]}", text)
    return text if len(text) <= longest else f"{text[: longest // 2]} … {text[-longest // 3 :]}"


def _without_settings(text: str) -> str:
    return _SETTING.sub(r"\1***", _PARAMETER.sub(r"\1***", text))
