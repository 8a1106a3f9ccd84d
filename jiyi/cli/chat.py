"""`jiyi chat`: chat with a model that uses a memory, and show how full its window is."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import typer
from rich.text import Text

from jiyi.agent import Agent
from jiyi.cli.options import DEFAULT_DB, Db, exit_on_error, open_user_memory
from jiyi.cli.terminal import fail, plural, safe, shorten, stderr, stdout, warn
from jiyi.cli.windows import budget_bar, format_doubt, hits_view, section_tokens, window_view
from jiyi.clock import utc_now
from jiyi.errors import JiyiError
from jiyi.manager import MemoryManager
from jiyi.records import Budget, Report, Step, Window
from jiyi.settings import load_settings
from jiyi.storage.place import Place
from jiyi.wiring import llm_for

_NO_MODEL = """no language model is set. Name one, and where it is:
  export JIYI_LLM_MODEL=gpt-4o-mini OPENAI_API_KEY=sk-...
or, with Ollama on this machine:
  export JIYI_LLM_MODEL=qwen3:8b JIYI_LLM_BASE_URL=http://localhost:11434/v1
or with --model and --base-url. Any OpenAI-compatible endpoint will do."""
_DEFAULT_GOALS = {"en": "Help the user with what they ask", "zh": "帮助用户完成他所要求的事"}
_HELP = {
    "/context": "show what the model saw last, and the budget report",
    "/recall WORDS": "search the memory",
    "/forget ID ...": "forget records, by the ids that /recall shows",
    "/help": "show this",
    "/quit": "leave; so does Ctrl-D",
}
_MAX_VECTORS_PER_TURN = 64  # more are left to jiyi reembed


def chat(
    db: Db = DEFAULT_DB,
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
    overrides = {"llm_model": model, "llm_base_url": base_url}
    with exit_on_error():
        settings = load_settings(**overrides)
        llm, reply = llm_for(settings), 0 if budget is None else settings.limits[1]
        window = None if budget is None else Budget(max_input_tokens=budget, max_output_tokens=reply)
    if llm is None:  # before a file is created
        fail(_NO_MODEL)
    with closing(llm), open_user_memory(db, user, create=True, **overrides) as memory:
        locale = os.environ.get("LC_ALL") or os.environ.get("LANG") or ""
        is_chinese = settings.language == "zh" or (settings.language == "auto" and locale.startswith("zh"))
        goal = _DEFAULT_GOALS["zh" if is_chinese else "en"]
        agent = Agent(goal, [], memory, llm=llm, budget=window, system=system)
        chat_session = _ChatSession(memory, agent, session or f"chat-{utc_now():%Y%m%d-%H%M%S}")
        chat_session.greet(llm.name, db)
        chat_session.run()
    if chat_session.failed:
        raise typer.Exit(1)


@dataclass(eq=False)
class _ChatSession:
    """A chat at a terminal or over a pipe; over a pipe only answers go to standard output."""

    memory: MemoryManager
    agent: Agent
    session: str
    failed: bool = False  # whether a question from a pipe got no answer
    _window: Window | None = None
    _mid_line: bool = False  # whether the cursor is inside a line

    def __post_init__(self) -> None:
        self._interactive = sys.stdin.isatty()
        self._notes = stdout if stdout.is_terminal else stderr

    def greet(self, model: str, db: Place) -> None:
        if self._interactive:
            count = len(self.memory.recent_messages(self.session))
            more = f", {plural(count, 'message')} in its window" if count else ""
            line = f"{model} with the memory in {db}; session {self.session}{more}. /help lists commands."
            self._notes.print(Text(safe(line), "dim"))

    def run(self) -> None:
        """Answer line after line until /quit or the end of the input."""
        for line in map(str.strip, self._lines()):
            if line in ("/quit", "/exit"):
                break
            try:
                if line.startswith("/"):
                    self._run_command(line)
                elif line:
                    self._answer(line)
            except JiyiError as error:
                self._end_line()
                self.failed = self.failed or not self._interactive
                warn("error:", str(error), style="bold red")
            except KeyboardInterrupt:  # while no answer was being generated
                self._end_line()
                self._note("stopped")
                self._stop_pipe()

    def _lines(self) -> Iterator[str]:
        """Yield typed lines, or those of a pipe; Ctrl-C at the prompt only clears the line."""
        if not self._interactive:
            if isinstance(sys.stdin, io.TextIOWrapper):
                sys.stdin.reconfigure(errors="replace")
            yield from sys.stdin
            return
        with suppress(ImportError):
            import readline  # noqa: F401  # gives input() editing and a history
        while True:
            try:
                yield input("> ")
            except EOFError:
                typer.echo()
                return
            except KeyboardInterrupt:
                typer.echo()
                self._note("Ctrl-D leaves")

    def _answer(self, question: str) -> None:
        prints: dict[str, Any] = {"on_text": self._print_text, "on_step": self._print_step}
        run = self.agent.run(question, session_id=self.session, **prints)
        self._end_line()
        self._window = run.window or self._window
        if run.stopped == "interrupted":
            self._note("stopped; what was said is kept")
        elif run.stopped != "done":
            self.failed = self.failed or not self._interactive
            warn(f"{run.stopped}:", run.reason, style="bold red")
        for note in run.notes:
            self._note(note)
        if run.window is not None:
            self._print_budget(run.window.report)
        if 0 < self.memory.stats()["vectors_pending"] <= _MAX_VECTORS_PER_TURN:
            self.memory.flush()
        if run.stopped == "interrupted":
            self._stop_pipe()

    def _stop_pipe(self) -> None:
        """Exit with 130, as shells do on Ctrl-C, if the input is a pipe."""
        if not self._interactive:
            raise typer.Exit(130)

    def _print_text(self, piece: str) -> None:
        stdout.print(Text(safe(piece)), end="", soft_wrap=True)
        self._mid_line = not piece.endswith("\n")

    def _print_step(self, step: Step) -> None:
        self._end_line()
        result = shorten(step.result or "", 80)
        style = "red" if step.status == "failed" else "dim"
        line = Text(f"  {safe(step.tool_name or '')}: {result}", style, no_wrap=True, overflow="ellipsis")
        self._notes.print(line)

    def _end_line(self) -> None:
        if self._mid_line:
            stdout.print()
            self._mid_line = False

    def _print_budget(self, report: Report) -> None:
        if stdout.is_terminal:
            stdout.print(budget_bar(report, stdout.width))
        else:
            sections = ", ".join(f"{name} {tokens:,}" for name, tokens in section_tokens(report) if tokens)
            limit = report.budget.max_input_tokens
            suffix = "" if report.nothing_relevant is None else f"; {format_doubt(report.nothing_relevant)}"
            stderr.print(f"{report.tokens:,} of {limit:,} tokens: {sections}{suffix}", soft_wrap=True)

    def _note(self, text: str) -> None:
        warn("note:", text, console=self._notes)

    def _run_command(self, text: str) -> None:
        name, rest = text.split(maxsplit=1)[0], text.partition(" ")[2].strip()
        if name == "/help":
            for usage, description in _HELP.items():
                self._notes.print(Text.assemble((f"  {usage:<16}", "cyan"), description))
        elif name == "/context" and self._window is not None:
            stdout.print(window_view(self._window, self.memory.zone, lines=12))
        elif name == "/context":
            self._note("nothing was asked yet")
        elif name == "/recall" and rest:
            stdout.print(hits_view(self.memory.search(rest), self.memory.zone))
        elif name == "/recall":
            self._note("say what to look for: /recall WORDS")
        elif name == "/forget" and rest:
            receipt = self.memory.forget(ids=rest.split())
            self._note(f"{plural(receipt.total, 'record')} forgotten; jiyi restore {rest} brings them back")
        elif name == "/forget":
            self._note("say what to forget: /forget ID, as /recall shows it")
        else:
            self._note(f"there is no command {name}; /help lists them")
