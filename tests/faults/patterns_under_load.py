"""Time every pattern of the package on long hostile texts, and print those slower than linear.

A program of its own: it watches `re.compile` before the package is loaded. Each pattern looks for all its
matches in runs of one class of characters, of mixed classes and of words that nearly match, and the
time must not grow by much more than the length. Prints a JSON list of [pattern, place, run, seconds].
"""

import importlib
import json
import pkgutil
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RUNS = (
    *"aA09 \n\t.,-_'\"()[]{}<>/:@=#*|\\`%$",
    *"汉一三十万的我年月日点第零不，。“”’",
    *("a ", "a.", "a,", "a-", "a_", "a0", "A0", "aA", "a'", "a\n", "0.", "0,", "0 ", "0:", "0-", "0/"),
    *("- ", "--", "\n ", "汉 ", "汉，", "一二", "http", "http://", "www.", "```\n", "<think>", "May "),
    *("is ", "the ", "my ", "no ", "not ", "and ", "or ", "I ", "at ", "on ", "one ", "half "),
)
FEW, SOME, MANY = 500, 2_000, 8_000  # characters, each four times the last
SUSPECT = 5  # times longer from FEW to SOME: no verdict yet, but worth the time at MANY
AT_MOST = 2.6**2  # times longer from SOME to MANY
NOTHING = 0.05  # seconds at MANY that hold nobody up
PATIENCE = 3.0  # seconds of CPU for one pattern and run


class Slow(Exception):
    """One run took all its time."""


def watch_compile() -> dict[re.Pattern[str], str]:
    """Return the patterns compiled from now on by modules of the package, each with its place."""
    found: dict[re.Pattern[str], str] = {}
    compile_ = re.compile

    def watched(pattern: Any, flags: int = 0) -> re.Pattern[Any]:
        made = compile_(pattern, flags)
        caller = sys._getframe(1)
        if caller.f_globals.get("__name__", "").startswith("jiyi.") and isinstance(made.pattern, str):
            found.setdefault(made, f"{caller.f_globals['__name__']}:{caller.f_lineno}")
        return made

    re.compile = watched
    return found


def load_all() -> None:
    """Import every module and use a memory once, so that patterns made on first use are there."""
    import jiyi
    from jiyi.errors import MissingExtra
    from jiyi.extraction import forms

    for module in pkgutil.walk_packages(jiyi.__path__, "jiyi."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except MissingExtra:
                continue
            except ImportError as error:
                if "jiyi" in (error.name or "jiyi"):
                    raise  # only a package of an extra may be missing
    for language in ("en", "zh"):  # each of these is compiled when a sentence first has one of its hints
        for form in forms._load_phrases(language)[0]:
            forms._compiled(form.pattern)
    with tempfile.TemporaryDirectory() as folder:
        memory = jiyi.open(Path(folder) / "agent.db", user_id="ana", background=False)
        for text in (
            "My name is Ana; I live in Berlin since 3 May 2025.",
            "我叫小明，昨天下午三点在上海开会，端口从今天起改成 8080。",
            "The password is swordfish1, actually the port is 9090 now.",
        ):
            memory.save_message(role="user", content=text, session_id="s")
        for question in ("Where do I live now?", "我的端口现在是多少？", "What happened last week?"):
            memory.search(question)
            memory.build_context("s", question)
        memory.close()


def seconds(pattern: re.Pattern[str], text: str) -> float:
    """Return the CPU time of this thread for finding every match, PATIENCE where it does not end."""
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    began = time.thread_time()
    try:
        for _ in pattern.finditer(text):
            pass
        return time.thread_time() - began
    except Slow:
        return PATIENCE
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def suspect(pattern: re.Pattern[str], run: str) -> bool:
    """Tell whether a run could hold somebody up at MANY, as far as its first characters show."""
    few = seconds(pattern, (run * FEW)[:FEW])
    if few < NOTHING / 16**2:  # what is quadratic stays below NOTHING
        return False
    some = seconds(pattern, (run * SOME)[:SOME])
    return some >= PATIENCE or some > max(NOTHING / 16, SUSPECT * few)


def slower_than_linear(found: dict[re.Pattern[str], str]) -> Iterator[tuple[str, str, str, float]]:
    for pattern, place in found.items():
        for run in RUNS:
            if not suspect(pattern, run):
                continue
            some, many, short = (run * SOME)[:SOME], (run * MANY)[:MANY], 0.0
            for _ in range(3):  # a neighbour on the machine may slow down one look, hardly all
                long = seconds(pattern, many)
                short = max(short, seconds(pattern, some)) if long > NOTHING else short
                if long <= max(NOTHING, AT_MOST * short) and long < PATIENCE:
                    break
            else:
                yield pattern.pattern, place, run, round(long, 3)
                break


def main() -> None:
    def stop(*_: object) -> None:
        raise Slow

    found = watch_compile()
    load_all()
    signal.signal(signal.SIGVTALRM, stop)
    print(json.dumps({"patterns": len(found), "slow": list(slower_than_linear(found))}, ensure_ascii=False))


if __name__ == "__main__":
    main()
