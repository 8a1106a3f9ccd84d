"""`jiyi chat`: talk with a model that has this memory, and see how full its window is."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer
from rich.text import Text

from jiyi.agent import Agent
from jiyi.cli.options import AGENT_DB, Db, brief_errors, opened
from jiyi.cli.search import hits_view
from jiyi.cli.terminal import fail, safe, short, stderr, stdout, warn
from jiyi.cli.windows import budget_bar, doubt, shares, window_view
from jiyi.clock import utc_now
from jiyi.errors import JiyiError
from jiyi.llm import OpenAILLM
from jiyi.manager import MemoryManager
from jiyi.records import Budget, Report, Step, Window
from jiyi.settings import Settings, load_settings
from jiyi.storage.place import Place
from jiyi.wiring import llm_for

__all__ = ["chat"]

_NO_MODEL = """no language model is set. Name one, and where it is:
  export JIYI_LLM_MODEL=gpt-4o-mini OPENAI_API_KEY=sk-...
or, with Ollama on this machine:
  export JIYI_LLM_MODEL=qwen3:8b JIYI_LLM_BASE_URL=http://localhost:11434/v1
or with --model and --base-url. Any OpenAI-compatible endpoint will do."""
_GOALS = {"en": "Help the user with what they ask", "zh": "帮助用户完成他所要求的事"}
_HELP = {
    "/context": "show what the model saw last, and the budget report",
    "/recall WORDS": "search the memory",
    "/forget ID ...": "forget records, by the ids that /recall shows",
    "/help": "show this",
    "/quit": "leave; so does Ctrl-D",
}
_FEW = 64  # vectors that may be made between two questions; more are left to jiyi reembed


def chat(
    db: Db = AGENT_DB,
    user: str | None = None,
    session: str | None = None,
    budget: int | None = None,
    model: str | None = None,
    base_url: str | None = None,
    system: str = "",
) -> None:
    """Talk with a language model that has this memory; without a terminal, one question per line.

    Ctrl-C stops an answer and keeps what was said of it.
    """
    with _model(model, base_url) as (llm, settings):
        chosen = {"llm_model": model, "llm_base_url": base_url}
        with opened(db, user, create=True, **chosen) as memory:
            agent = Agent(
                _GOALS["zh" if _in_chinese(settings) else "en"],
                [],
                memory,
                llm=llm,
                budget=_budget(budget, settings),
                system=system,
            )
            talk = _Talk(memory, agent, session or _new_name())
            talk.greet(llm.name, db)
            talk.go()
    if talk.failed:
        raise typer.Exit(1)


class _Talk:
    """One talk at a terminal, or over a pipe; then only answers go to standard output.

    Attributes:
        failed: whether a question of a pipe had no answer.
    """

    def __init__(self, memory: MemoryManager, agent: Agent, session: str) -> None:
        self.failed = False
        self._memory = memory
        self._agent = agent
        self._session = session
        self._window: Window | None = None
        self._typed = sys.stdin.isatty()
        self._beside = stdout if stdout.is_terminal else stderr
        self._mid_line = False  # whether the answer is in the middle of a line

    def greet(self, model: str, db: Place) -> None:
        """Say who talks, with which memory, and where help is."""
        if self._typed:
            there = len(self._memory.recent_messages(self._session))
            goes_on = f", {there} messages in its window" if there else ""
            where = (
                f"{model} with the memory in {db}; session {self._session}{goes_on}. /help lists commands."
            )
            self._beside.print(Text(safe(where), "dim"))

    def go(self) -> None:
        """Take line after line until there are no more."""
        for line in self._lines():
            words = line.strip()
            if words in ("/quit", "/exit"):
                break
            if not words:
                continue
            try:
                if words.startswith("/"):
                    self._command(words)
                else:
                    self._answer(words)
            except JiyiError as error:
                self._end_line()
                self.failed = self.failed or not self._typed
                warn("error:", str(error), style="bold red")
            except KeyboardInterrupt:  # where no answer was under way
                self._end_line()
                self._note("stopped")
                self._stop_pipe()

    def _lines(self) -> Iterator[str]:
        """Yield what is typed, or the lines of a pipe; Ctrl-C at the prompt only empties the line."""
        if not self._typed:
            if isinstance(sys.stdin, io.TextIOWrapper):
                sys.stdin.reconfigure(errors="replace")
            yield from sys.stdin
            return
        with suppress(ImportError):
            import readline  # noqa: F401  # gives input() editing and a history
        while True:
            try:
                line = input("> ")
            except EOFError:
                typer.echo()
                return
            except KeyboardInterrupt:
                typer.echo()
                self._note("Ctrl-D leaves")
                continue
            yield line

    def _answer(self, question: str) -> None:
        run = self._agent.run(question, session_id=self._session, on_text=self._say, on_step=self._step)
        self._end_line()
        self._window = run.window or self._window
        if run.stopped == "interrupted":
            self._note("stopped; what was said is kept")
        elif run.stopped != "done":
            self.failed = self.failed or not self._typed
            warn(f"{run.stopped}:", run.reason, style="bold red")
        for note in run.notes:
            self._note(note)
        if run.window is not None:
            self._show(run.window.report)
        if 0 < self._memory.stats()["vectors_pending"] <= _FEW:
            self._memory.flush()
        if run.stopped == "interrupted":
            self._stop_pipe()

    def _stop_pipe(self) -> None:
        """End the command if nobody could type on; shells use 130 for Ctrl-C."""
        if not self._typed:
            raise typer.Exit(130)

    def _say(self, piece: str) -> None:
        stdout.print(Text(safe(piece)), end="", soft_wrap=True)
        self._mid_line = not piece.endswith("\n")

    def _step(self, step: Step) -> None:
        self._end_line()
        came = short(step.result or "", 80)
        style = "red" if step.status == "failed" else "dim"
        line = Text(f"  {safe(step.tool_name or '')}: {came}", style, no_wrap=True, overflow="ellipsis")
        self._beside.print(line)

    def _end_line(self) -> None:
        if self._mid_line:
            stdout.print()
            self._mid_line = False

    def _show(self, report: Report) -> None:
        if stdout.is_terminal:
            stdout.print(budget_bar(report, stdout.width))
        else:
            some = ", ".join(f"{name} {tokens:,}" for name, tokens in shares(report) if tokens)
            most = report.budget.max_input_tokens
            more = "" if report.nothing_relevant is None else f"; {doubt(report.nothing_relevant)}"
            stderr.print(f"{report.tokens:,} of {most:,} tokens: {some}{more}", soft_wrap=True)

    def _note(self, words: str) -> None:
        warn("note:", words, console=self._beside)

    def _command(self, words: str) -> None:
        name, _, rest = words.partition(" ")
        if name in {usage.split()[0] for usage in _HELP} - {"/quit"}:
            getattr(self, f"_{name[1:]}")(rest.strip())
        else:
            self._note(f"there is no command {name}; /help lists them")

    def _help(self, _: str) -> None:
        for name, what in _HELP.items():
            self._beside.print(Text.assemble((f"  {name:<16}", "cyan"), what))

    def _context(self, _: str) -> None:
        if self._window is None:
            self._note("nothing was asked yet")
        else:
            stdout.print(window_view(self._window, self._memory.zone, lines=12))

    def _recall(self, rest: str) -> None:
        if not rest:
            self._note("say what to look for: /recall WORDS")
            return
        stdout.print(hits_view(self._memory.search(rest), self._memory.zone))

    def _forget(self, rest: str) -> None:
        if not rest:
            self._note("say what to forget: /forget ID, as /recall shows it")
            return
        receipt = self._memory.forget(ids=rest.split())
        self._note(f"{receipt.total} records forgotten; jiyi restore {rest} brings them back")


@contextmanager
def _model(model: str | None, base_url: str | None) -> Iterator[tuple[OpenAILLM, Settings]]:
    """Give the model that is set, and close it; without one the command ends before a file is made."""
    with brief_errors():
        settings = load_settings(llm_model=model, llm_base_url=base_url)
        llm = llm_for(settings)
    if llm is None:
        fail(_NO_MODEL)
    try:
        yield llm, settings
    finally:
        llm.close()


def _budget(given: int | None, settings: Settings) -> Budget | None:
    if given is None:
        return None
    with brief_errors():
        return Budget(max_input_tokens=given, max_output_tokens=settings.limits[1])


def _in_chinese(settings: Settings) -> bool:
    spoken = os.environ.get("LC_ALL") or os.environ.get("LANG") or ""
    return settings.language == "zh" or (settings.language == "auto" and spoken.startswith("zh"))


def _new_name() -> str:
    return f"chat-{utc_now():%Y%m%d-%H%M%S}"
