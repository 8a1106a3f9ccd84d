"""`jiyi chat`: over a pipe, at a terminal, and without a model."""

import io
import os
import pty
import signal
import subprocess
import sys
import time

import pytest
import typer
from rich.console import Console
from scripted_chat import END, ScriptedChat, call, calls, delta, refuses, sse, turn
from scripted_endpoint import Reply
from typer.testing import CliRunner

from jiyi.agent import Environment
from jiyi.cli.chat import chat
from jiyi.cli.windows import budget_bar
from jiyi.embeddings import E5Embedder
from jiyi.records import SECTIONS, Budget, Report


@pytest.fixture(autouse=True)
def _english(monkeypatch):
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.delenv("LC_ALL", raising=False)


@pytest.fixture
def talk(tmp_path):
    """Pipe lines into the command; the memory is ana's, in agent.db."""
    app = typer.Typer()
    app.command()(chat)

    def talk(*lines, server=None, options=(), code=0):
        words = ["--db", str(tmp_path / "agent.db"), "--user", "ana", *map(str, options)]
        if server is not None:
            words += ["--model", "m", "--base-url", server.url]
        typed = "".join(f"{line}\n" for line in lines)
        result = CliRunner().invoke(app, words, input=typed.encode(errors="surrogateescape"))
        assert result.exit_code == code, (result.output, result.exception)
        assert "Traceback" not in result.output
        return result

    return talk


@pytest.fixture
def saved(open_memory):
    """What stands in a session."""

    def saved(session, **options):
        with open_memory(**options) as memory:
            return [message.content for message in memory.session_messages(session)]

    return saved


def test_without_a_model_it_says_what_to_set_and_makes_no_file(talk, tmp_path, monkeypatch):
    told = talk("hello", code=1).stderr
    for name in ("JIYI_LLM_MODEL", "JIYI_LLM_BASE_URL", "OPENAI_API_KEY", "localhost:11434/v1"):
        assert name in told
    monkeypatch.setenv("JIYI_LLM_MODEL", "gpt-4o-mini")
    assert "OPENAI_API_KEY" in talk("hello", code=1).stderr
    assert list(tmp_path.iterdir()) == []


def test_over_a_pipe_each_line_is_a_question(talk, saved):
    with ScriptedChat(turn("Hello Ana."), turn("两个。")) as server:
        result = talk("Who am I?", "", "几个？", server=server, options=["--session", "s", "--budget", 1_000])
    assert result.stdout == "Hello Ana.\n两个。\n"
    assert result.stderr.count("of 1,000 tokens: system ") == 2
    assert saved("s") == ["Who am I?", "Hello Ana.", "几个？", "两个。"]
    assert [len(asked["messages"]) for asked in server.asked] == [3, 5]
    assert result.stderr.count("; nothing relevant: ") == 2
    assert "; nothing relevant: 100 %" in result.stderr, "the question does not find itself"
    assert server.asked[0]["messages"][0]["content"].startswith("You work towards these goals")


def test_a_session_goes_on_and_settings_name_the_model(talk, monkeypatch):
    with ScriptedChat() as server:
        monkeypatch.setenv("JIYI_LLM_MODEL", "m")
        monkeypatch.setenv("JIYI_LLM_BASE_URL", server.url)
        monkeypatch.setenv("LANG", "zh_CN.UTF-8")
        talk("one", options=["--session", "s"])
        talk("two", options=["--session", "s", "--system", "Be brief."])
    contents = [message["content"] for message in server.asked[1]["messages"]]
    assert contents[0].startswith("Be brief.\n\n你的目标")
    assert contents[1:3] == ["one", "ok"]


def test_what_fails_is_told_and_the_next_question_is_asked(talk, saved):
    with ScriptedChat(refuses("no such model", status=404), turn("here")) as server:
        result = talk("one", "two", server=server, options=["--session", "s"], code=1)
    assert "failed: " in result.stderr
    assert "no such model" in result.stderr
    assert result.stdout == "here\n"
    assert saved("s") == ["one", "two", "here"]


def test_commands(talk, saved):
    with ScriptedChat(turn("ok then")) as server:
        result = talk(
            "/context",
            "Which port? The port of pay-gw is 9443.",
            "/context",
            "/recall pay-gw",
            "/recall",
            "/forget nope",
            "/nonsense",
            "/help",
            "/quit",
            "never asked",
            server=server,
            options=["--session", "s"],
            code=1,
        )
    for words in ("nothing was asked yet", "say what to look for", "'nope'", "no command /nonsense"):
        assert words in result.stderr
    assert "/recall WORDS" in result.stderr
    assert "In the window" in result.stdout
    assert "9443" in result.stdout
    assert saved("s") == ["Which port? The port of pay-gw is 9443.", "ok then"]


def test_what_is_forgotten_is_gone(talk, open_memory):
    with open_memory() as memory:
        (fact,) = memory.remember("The door code is 4711.", session_id="s").facts
    with ScriptedChat() as server:
        result = talk(f"/forget {fact.id}", "/recall 4711", server=server, options=["--session", "s"])
    assert "1 record forgotten" in result.stderr
    assert "4711" not in result.stdout


def test_what_the_model_does_is_shown_beside_its_answer(talk):
    look = calls(call("recall", {"query": "door"}), text="Let me see.")
    with ScriptedChat(look, turn("No idea.")) as server:
        result = talk("Which door?", server=server)
    assert result.stdout == "Let me see.\nNo idea.\n"
    assert "  recall: nothing found" in result.stderr


def test_ctrl_c_ends_a_pipe(talk, saved, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Environment, "execute", interrupted)
    with ScriptedChat(calls(call("recall", {"query": "door"})), turn("never")) as server:
        talk("one", "two", server=server, options=["--session", "s"], code=130)
    assert saved("s") == ["one"]


def test_bytes_that_are_no_text_are_read_and_control_characters_do_not_steer_the_terminal(talk):
    with ScriptedChat() as server:
        assert talk(b"caf\xe9?".decode(errors="surrogateescape"), server=server).stdout == "ok\n"
    assert server.asked[0]["messages"][-1]["content"] == "caf\ufffd?"
    with ScriptedChat(turn("\x1b]0;title\x07red\x1b[31m")) as server:
        result = talk("Hi", server=server)
    assert "\x1b" not in result.output


def test_bad_options_are_told_briefly(talk):
    with ScriptedChat() as server:
        assert "max_input_tokens=0" in talk("x", server=server, options=["--budget", 0], code=1).stderr
        assert "of the budget" in talk("x", server=server, options=["--budget", 20], code=1).stderr


# --- the bar


def report(**tokens: int) -> Report:
    sections = dict.fromkeys(SECTIONS, 0) | tokens
    total, budget = sum(sections.values()) + 20, Budget(max_input_tokens=1_000)
    return Report(budget=budget, tokens=total, sections=sections, framing=20, included=(), left_out=())


@pytest.mark.parametrize("width", [1, 2, 10, 40, 80, 200])
@pytest.mark.parametrize("tokens", [{}, {"history": 980}, {"system": 1, "recalled": 500, "input": 3}])
def test_the_bar_is_one_line_that_fits(width, tokens):
    bar = budget_bar(report(**tokens), width)
    assert 1 <= bar.cell_len <= width
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system="standard").print(bar)
    assert out.getvalue().count("\n") == 1


def test_the_bar_shows_the_shares():
    bar = budget_bar(report(history=480, recalled=250), 120)
    cells, words = bar.plain[:24], bar.plain[24:]
    assert words == " 750/1,000 history 480 recalled 250 framing 20"
    assert (cells.count("█"), cells.count("·")) == (18, 6)
    assert {"cyan", "bright_blue"} <= {str(span.style) for span in bar.spans}


# --- a real terminal


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_at_a_terminal_ctrl_c_stops_an_answer_and_ctrl_d_leaves(tmp_path, saved):
    slow = Reply(body=sse(*[delta(content=f"word{n} ") for n in range(200)], END, "[DONE]"), drip=0.002)
    with ScriptedChat(turn("Hello Ana."), slow) as server:
        with _Terminal(tmp_path / "agent.db", server.url) as terminal:
            terminal.wait("> ")
            terminal.type("Hi\n")
            terminal.wait("framing")
            terminal.type("Tell me everything\n")
            terminal.wait("word3 ")
            terminal.process.send_signal(signal.SIGINT)
            terminal.wait("what was said is kept")
            terminal.wait("\n> ")
            terminal.type("\x04")
            assert terminal.process.wait(timeout=30) == 0
        assert "Hello Ana." in terminal.seen
        assert "█" in terminal.seen
        assert "Traceback" not in terminal.seen
    kept = saved("s", embedder=E5Embedder())  # that process used the bundled model
    assert kept[:3] == ["Hi", "Hello Ana.", "Tell me everything"]
    assert kept[3].startswith("word0 word1 word2 word3")
    assert "word199" not in kept[3]


class _Terminal:
    """The command at a terminal of its own."""

    def __init__(self, db, url):
        own, theirs = pty.openpty()
        self.own, self.seen, self.place = own, "", 0  # the place after what was waited for last
        # A process begun in the background has SIGINT switched off.
        heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
        run = f"{heard}; import typer; from jiyi.cli.chat import chat; typer.run(chat)"
        words = ["--db", str(db), "--user", "ana", "--session", "s", "--model", "m", "--base-url", url]
        environ = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", run, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environ
        )
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        os.close(self.own)

    def type(self, text):
        os.write(self.own, text.encode())

    def wait(self, words, seconds=60):
        until = time.monotonic() + seconds
        while (found := self.seen.find(words, self.place)) < 0:
            assert time.monotonic() < until, self.seen
            try:
                self.seen += os.read(self.own, 4_096).decode("utf-8", "replace")
            except OSError:
                raise AssertionError(self.seen) from None
        self.place = found + len(words)
