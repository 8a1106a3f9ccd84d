"""Read the talks under bench/data/talks: short conversations in which things change, with questions.

    python bench/talks.py [FILE...]    check the files and print what is in them

A file holds one hand's talks. The format is described in bench/data/README.md.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

FOLDER = Path(__file__).parent / "data" / "talks"

KINDS = ("current", "as_of", "plain", "none")

_BETWEEN = timedelta(seconds=40)  # two messages of a session
_TIME = re.compile(r"^(\d{4}-\d\d-\d\d) (\d\d:\d\d)$")
_MESSAGE = re.compile(r"^(\d+) ([^:：]{1,40}?)[:：] ?(.*)$")
_ASSISTANTS = ("bot", "助手", "assistant")
_CALL = re.compile(rf"(?:{'|'.join(_ASSISTANTS)}) calls (.+)")
_SPAN = re.compile(r"^(\d{4}-\d\d-\d\d) to (\d{4}-\d\d-\d\d)$")


class BadTalk(Exception):
    """A file that breaks the format."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message."""

    number: int
    role: str  # "call": of a tool, by the assistant
    name: str
    text: str  # of a call, its arguments
    at: datetime
    session: int


@dataclass(frozen=True, slots=True)
class Value:
    """What holds from a message on; an empty ``text`` ends what held before."""

    number: int
    text: tuple[str, ...]  # accepted wordings, found in the message


@dataclass(frozen=True, slots=True)
class Chain:
    """One point of one thing, and the values it took; the last one holds at the end."""

    about: str
    what: str
    values: tuple[Value, ...]
    until: tuple[str, str] | None = None  # days of a temporary value


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the messages that answer it, and those that say what is not true then."""

    kind: str
    text: str
    answer: str
    evidence: tuple[int, ...]
    all_needed: bool
    stale: tuple[int, ...]
    at: datetime


@dataclass(slots=True)
class Talk:
    """One conversation."""

    hand: str
    name: str
    asked_at: datetime
    said: list[Said] = field(default_factory=list)
    chains: list[Chain] = field(default_factory=list)
    questions: list[Asked] = field(default_factory=list)


def read_talks(path: Path) -> list[Talk]:
    """Return the talks of a file.

    Raises:
        BadTalk: a line breaks the format; says which.
    """
    talks: list[Talk] = []
    for place, line in _lines(path):
        try:
            _read(line, talks, path.stem)
        except (BadTalk, ValueError, IndexError) as error:
            raise BadTalk(f"{path.name}:{place}: {error or 'cannot be read'}: {line[:80]}") from error
    return talks


def all_talks(paths: Sequence[Path] = ()) -> Iterator[Talk]:
    """Yield the talks of the files, by default of every hand."""
    for path in paths or sorted(FOLDER.glob("*.txt")):
        yield from read_talks(path)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    for place, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield place, line.strip()


def _read(line: str, talks: list[Talk], hand: str) -> None:
    if line.startswith("talk:"):
        talks.append(Talk(hand, line[5:].strip(), datetime(1970, 1, 1, tzinfo=UTC)))
        return
    if not talks:
        raise BadTalk("a file begins with talk:")
    talk = talks[-1]
    if line.startswith("asked:"):
        talk.asked_at = _time(line[6:].strip())
    elif _TIME.match(line):
        talk.said.append(Said(0, "", "", "", _time(line), _session(talk) + 1))
    elif line.startswith(("F ", "T ")):
        talk.chains.append(_chain(line, talk))
    elif line.startswith("Q "):
        talk.questions.append(_question(line, talk))
    else:
        _message(line, talk)


def _message(line: str, talk: Talk) -> None:
    match = _MESSAGE.match(line)
    if not match or not talk.said:
        raise BadTalk("neither a message nor a line of another kind")
    last = talk.said[-1]
    number, who = int(match[1]), match[2].strip()
    if last.number == 0:
        talk.said.pop()
        at = last.at
    else:
        at = last.at + _BETWEEN
    if number != len(talk.said) + 1:
        raise BadTalk(f"message {number} stands where {len(talk.said) + 1} belongs")
    role = "user"
    if who.startswith("tool "):
        role, who = "tool", who[5:].strip()
    elif called := _CALL.match(who):
        role, who = "call", called[1]
    elif who in _ASSISTANTS:
        role = "assistant"
    talk.said.append(Said(number, role, who, match[3].replace("\\n", "\n"), at, last.session))


def _chain(line: str, talk: Talk) -> Chain:
    parts = [part.strip() for part in line[2:].split("|")]
    about, what, rest = parts[0], parts[1], parts[2:]
    until = None
    if line[0] == "T":
        span = _SPAN.match(rest.pop())
        if not span:
            raise BadTalk("a temporary value ends with '| YYYY-MM-DD to YYYY-MM-DD'")
        until = (span[1], span[2])
    values = []
    for one in rest:
        number, _, text = one.partition(":")
        said = talk.said[int(number) - 1]
        wordings = tuple(word.strip() for word in text.split(" / ") if word.strip() not in {"", "-"})
        if wordings and not any(word.lower() in said.text.lower() for word in wordings):
            raise BadTalk(f"message {said.number} does not say {wordings[0]!r}")
        values.append(Value(said.number, wordings))
    if not about or not what or not values:
        raise BadTalk("a fact is F about | what | number: value | ...")
    return Chain(about, what, tuple(values), until)


def _question(line: str, talk: Talk) -> Asked:
    parts = [part.strip() for part in line[2:].split("|")]
    kind, text, answer = parts[:3]
    if kind not in KINDS:
        raise BadTalk(f"{kind!r} is not one of {', '.join(KINDS)}")
    evidence, stale, at = (*parts[3:], "", "", "")[:3]
    numbers = [int(n) for n in re.findall(r"\d+", evidence)]
    stales = [int(n) for n in re.findall(r"\d+", stale)]
    if (kind == "none") == bool(numbers) or any(n > len(talk.said) for n in (*numbers, *stales)):
        raise BadTalk("evidence is missing, or names a message that there is not")
    if set(numbers) & set(stales):
        raise BadTalk("a message is evidence and stale")
    when = _time(at) if at else talk.asked_at
    return Asked(kind, text, answer, tuple(numbers), "+" in evidence, tuple(stales), when)


def _session(talk: Talk) -> int:
    return talk.said[-1].session if talk.said else 0


def _time(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=UTC)


def main() -> None:
    talks = list(all_talks([Path(name) for name in sys.argv[1:]]))
    for hand in dict.fromkeys(talk.hand for talk in talks):
        mine = [talk for talk in talks if talk.hand == hand]
        kinds = [q.kind for talk in mine for q in talk.questions]
        values = [chain for talk in mine for chain in talk.chains]
        print(
            f"{hand:24} talks {len(mine)}  messages {sum(len(t.said) for t in mine)}"
            f"  facts {len(values)}  changes {sum(len(c.values) - 1 for c in values)}"
            f"  questions {' '.join(f'{kind} {kinds.count(kind)}' for kind in KINDS)}"
        )


if __name__ == "__main__":
    main()
