"""Every public verb with any arguments: only errors of jiyi's tree, and the memory stays whole.

    python tests/campaigns/fuzz_verbs.py --minutes 10 [--seed 1]

Verbs and arguments come from the signatures of `MemoryManager`; records, `load_settings` and `jiyi.open`
are called alike. An argument is what its annotation asks for, nearly that, or anything. All calls go to
one memory, which fills up. The oracle, after each call:

- it returns, or raises a `JiyiError` of at most 2,000 characters without the password that was handed in;
- it takes at most 5 seconds of CPU;
- after an `InputError` the counts of the memory are as before it;

and now and then: the file is sound, what was saved is found. Prints JSON; exit code 1 on a fault.
"""

import dataclasses
import inspect
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from campaign_run import asked, told
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import jiyi
from jiyi import records
from jiyi.databases import check_database
from jiyi.errors import InputError, JiyiError
from jiyi.manager import MemoryManager
from jiyi.settings import load_settings
from jiyi.testing import HashEmbedder

SECONDS = 5.0  # most of a call
LONGEST = 2_000  # characters of an error
EVERY = 300  # calls between two looks at the whole file
PASSWORD = "hunter2-not-to-be-told"
NOT_CALLED = {"close"}

CIRCLE: list[Any] = []
CIRCLE.append({"in": CIRCLE})
NESTED: dict[str, Any] = {}
for _ in range(3_000):
    NESTED = {"in": NESTED}

WORDS = [
    *("s", "main", "nginx 又 502 了", "I moved to Lisbon on 3 May 2025.", "2026-01-01", "jsonl", "message"),
    *("", " ", "\ud800", "a\0b", "\x1b[31m\u202e", "x" * 100_000, "." * 5_000, "一" * 5_000, "%s{}%"),
    f"postgresql://u:{PASSWORD}@h/d",
]
JUNK = st.one_of(
    st.sampled_from([None, True, False, 0, -1, 2**63, 10**5_000, float("nan"), float("inf"), b"x", object()]),
    st.sampled_from(WORDS),
    st.text(max_size=30),
    # `slice` takes what ``progress`` is given: an error of the caller's own function is raised as it is.
    st.sampled_from([CIRCLE, NESTED, {1: 2}, {"a": {1, 2}}, {"role": "user"}, [["x"]], Ellipsis, slice]),
    st.builds(iter, st.just(["x"])),
    st.builds(bytearray, st.binary(max_size=3)),
    st.sampled_from([datetime(2026, 1, 1), datetime(1, 1, 1, tzinfo=UTC)]),  # noqa: DTZ001
    st.recursive(st.none() | st.integers() | st.floats() | st.text(max_size=5), st.lists, max_leaves=8),
    st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=5), max_size=3),
)
_PLAIN: Mapping[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-1, 20),
    float: st.floats(),
    bool: st.booleans(),
    datetime: st.just(datetime(2026, 5, 1, tzinfo=UTC)),
}


class Campaign:
    """One memory, what was done with it, and what went wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: Counter[str] = Counter()
        self.raised: Counter[str] = Counter()
        self.faults: dict[str, str] = {}
        self.slowest = 0.0
        (folder / "skills" / "one").mkdir(parents=True)
        (folder / "skills" / "one" / "SKILL.md").write_text("---\nname: one\ndescription: d\n---\nbody")
        own = {"embedder": HashEmbedder(), "background": False, "skills": [folder / "skills"]}
        self.memory = jiyi.open(folder / "a.db", user_id="ana", **own)
        self.memory.save_message("s", role="user", content="the needle is in the hay", id="m-1")
        self.memory.export(folder / "good.jsonl")
        self.ids = ["m-1", "one", "user", self.memory.start_task("s", "look").id]
        self.targets = dict(self.all_targets())

    def all_targets(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        for name in dir(MemoryManager):
            member = getattr(MemoryManager, name)
            if not name.startswith("_") and inspect.isfunction(member) and name not in NOT_CALLED:
                yield name, getattr(self.memory, name)
        for name, member in sorted(vars(records).items()):
            if dataclasses.is_dataclass(member) and isinstance(member, type):
                yield f"records.{name}", member
        yield "load_settings", load_settings
        yield "open", self.open

    def open(self, **given: Any) -> None:
        jiyi.open(self.folder / "b.db", **{"background": False, **given}).close()

    def check(self) -> None:
        """Check the whole file, and that the memory still remembers."""
        check_database(self.folder / "a.db")
        name = f"canary-{sum(self.calls.values())}"
        saved = self.memory.save_message(name, role="user", content=f"{name} sings", user_id="ana")
        found = self.memory.search(f"{name} sings", user_id="ana", session_id=name)
        if [hit.id for hit in found][:1] != [saved.id]:
            self.fault("check", "what was saved is not found", name)

    def fault(self, target: str, what: str, detail: str) -> None:
        self.faults.setdefault(f"{target}: {what}", detail[-1_500:])

    def call(self, target: str, arguments: Mapping[str, Any]) -> None:
        """Make one call and judge it."""
        before, began = dict(self.memory.stats(user_id="ana")), time.process_time()
        self.calls[target] += 1
        try:
            result = self.targets[target](**arguments)
        except JiyiError as error:
            self.raised[type(error).__name__] += 1
            text = str(error)
            if PASSWORD in text or len(text) > LONGEST:
                self.fault(target, "an error tells too much", text)
            if isinstance(error, InputError) and dict(self.memory.stats(user_id="ana")) != before:
                self.fault(target, "InputError, and something was written", f"{arguments!r:.1000}")
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__} in {Path(place.filename).name}:{place.name}"
            self.fault(target, what, f"{error!s:.200} {brief(arguments)}")
        else:
            if isinstance(id_ := getattr(result, "id", None), str) and len(self.ids) < 500:
                self.ids.append(id_)
        took = time.process_time() - began
        self.slowest = max(took, self.slowest)
        if took > SECONDS:
            self.fault(target, f"took over {SECONDS:.0f} s", f"{took:.1f} s {brief(arguments)}")

    def near(self, name: str, hint: Any) -> st.SearchStrategy[Any]:
        """Return values of what an annotation asks for, by the parameter's name where that says more."""
        if name == "path":
            some = [self.folder / "good.jsonl", "out.jsonl", self.folder, "gone.jsonl", "", "a\0b", "\ud800"]
            return st.sampled_from(some)
        origin, inner = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            return st.one_of([self.near(name, one) for one in inner])
        if origin is Literal:
            return st.sampled_from(inner)
        if origin in (list, tuple, Sequence, Iterable, frozenset, set):
            return st.lists(self.near("", next(iter(inner), Any)) | JUNK, max_size=3)
        if origin in (dict, Mapping):
            return st.sampled_from([{"role": "user", "content": "hello"}, {"since": None}, {}]) | JUNK
        if hint is str:
            return st.sampled_from(WORDS) | st.integers(0, 499).map(lambda n: self.ids[n % len(self.ids)])
        if hint is NoneType:
            return st.none()
        if origin is Callable:
            return st.just(lambda *_: None)
        return _PLAIN.get(hint, JUNK)

    def arguments(self, draw: Callable[[st.SearchStrategy[Any]], Any], target: str) -> dict[str, Any]:
        called = self.targets[target]
        hints = get_type_hints(called.__init__ if isinstance(called, type) else called)
        out = {}
        for name, parameter in inspect.signature(called).parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                field = draw(st.sampled_from(sorted(jiyi.Settings.model_fields)))
                out[field] = draw(JUNK)
            elif parameter.default is parameter.empty or draw(st.integers(0, 2)) == 0:
                wild = draw(st.integers(0, 2)) == 0 and name != "path"
                out[name] = draw(JUNK if wild else self.near(name, hints.get(name, Any)))
        return out


def brief(arguments: Mapping[str, Any]) -> str:
    def one(value: Any) -> str:
        try:
            return f"{value!r:.80}"
        except (ValueError, RecursionError) as error:
            return f"<{type(value).__name__}: {error}>"

    return ", ".join(f"{name}={one(value)}" for name, value in arguments.items())


def run(seconds: float, number: int, rounds: int = sys.maxsize) -> dict[str, Any]:
    """Fuzz for so long, and no more than ``rounds`` of 500 examples; return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path.cwd()
        os.chdir(folder)
        campaign, began = Campaign(Path(folder)), time.monotonic()

        def example(data: st.DataObject) -> None:
            target = data.draw(st.sampled_from(sorted(campaign.targets)))
            arguments = campaign.arguments(data.draw, target)
            if time.monotonic() - began > seconds:
                return
            campaign.call(target, arguments)
            if sum(campaign.calls.values()) % EVERY == 0:
                campaign.check()

        try:
            while time.monotonic() - began < seconds and rounds:
                number, rounds = number + 1, rounds - 1
                quiet = settings(
                    max_examples=500,
                    deadline=None,
                    database=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                )
                seed(number)(quiet(given(st.data())(example)))()
            campaign.check()
            campaign.memory.close()
        finally:
            os.chdir(here)
    return {
        "calls": sum(campaign.calls.values()),
        "targets": len(campaign.targets),
        "seconds": round(time.monotonic() - began),
        "slowest": round(campaign.slowest, 2),
        "raised": dict(campaign.raised.most_common()),
        "faults": campaign.faults,
    }


def main() -> int:
    options = asked(__doc__)
    return told(run(60 * options.minutes, 1_000_000 * options.seed))


if __name__ == "__main__":
    sys.exit(main())
