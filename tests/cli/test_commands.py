"""Every command, for people and as JSON."""

import tomllib
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files

import pytest
import typer
from scripted_chat import ScriptedChat, refuses

import jiyi
from jiyi.cli.app import app
from jiyi.cli.terminal import tally
from jiyi.evaluate import BASELINES

HELLO = '{"role": "user", "content": "你好 from a file"}\n'


def test_help_says_what_there_is(run):
    text = run("--help").output
    for name, said in tomllib.loads((files("jiyi.cli") / "options.toml").read_text("utf-8")).items():
        if "run" in said:
            assert f"│ {name} " in text
            assert run(name, "-h").output
    texts = tomllib.loads((files("jiyi.cli") / "options.toml").read_text("utf-8"))
    del texts["shared"]
    root = typer.main.get_command(app)
    for name, said in texts.items():
        command = root
        for word in name.split():
            command = command.get_command(None, word)
        parameters = {parameter.name for parameter in command.params}
        assert {*said.get("arguments", ()), *said.get("options", ())} <= parameters, name
    texts = tomllib.loads((files("jiyi.cli") / "options.toml").read_text("utf-8"))
    assert ", ".join(BASELINES) in texts["evaluate"]["options"]["baseline"]


def test_no_command_shows_the_help_and_an_option_the_version(run):
    assert "Usage" in run(code=2).output
    assert run("--version").output == f"jiyi {version('jiyi')}\n"
    assert version("jiyi") == jiyi.__version__


def test_import(run, run_json, tmp_path):
    file = tmp_path / "talk.jsonl"
    file.write_text(HELLO, "utf-8")
    db = tmp_path / "new.db"
    done = run_json("import", file, "--db", db, "--user", "ana")
    assert done == {"added": 1, "known": 0, "rejected": [], "left_out": {}}
    assert "0 messages added, 1 were there already" in run("import", file, "--db", db).stdout
    assert run_json("stats", "--db", db)["vectors_pending"] == 0
    assert run_json("import", file, "--session", "other", "--no-vectors", "--db", db)["added"] == 1
    assert run_json("stats", "--db", db)["vectors_pending"] == 1


def test_import_reports_bad_lines_and_takes_the_rest_if_there_is_any(run, run_json, db, tmp_path):
    file = tmp_path / "talk.jsonl"
    file.write_text('{"role": "[bold]robot[/bold]"}\n' + HELLO, "utf-8")
    result = run("import", file, "--db", db)
    assert "1 message added" in result.stdout
    assert "rejected talk.jsonl:1: role '[bold]robot[/bold]'" in result.stderr
    [bad] = run_json("import", file, "--db", db)["rejected"]
    assert bad["where"] == "talk.jsonl:1"
    file = tmp_path / "bad.jsonl"
    file.write_text("{\n" * 25, "utf-8")
    result = run("import", file, "--db", db, code=1)
    assert "25 rejected" in result.stdout
    assert "note: 5 more were rejected" in result.stderr.partition("rejected bad.jsonl:20")[2]


def test_one_of_what_is_left_out_is_singular():
    told = [tally(1, nouns) for nouns in ("memories of other users", "messages without words", "thoughts")]
    assert told == ["1 memory of other users", "1 message without words", "1 thought"]
    assert tally(2_000, "thoughts") == "2,000 thoughts"


def test_one_unusable_file_does_not_keep_the_others_out(run, run_json, db, tmp_path):
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.json"
    good.write_text(HELLO, "utf-8")
    bad.write_text("no JSON", "utf-8")
    told = run_json("import", bad, good, "--db", db, code=1)
    assert told["added"] == 1
    assert "is not JSON" in told["rejected"][0]["reason"]
    assert "rejected bad.json" in run("import", bad, "--db", db, code=1).stderr.replace("\n", "")


def test_search(run, run_json, db):
    text = run("search", "502", "--db", db).stdout
    assert "nginx 又 502 了" in text
    assert "m-502" in text
    found = run_json("search", "502", "--db", db)
    assert (found["query"], found["notes"]) == ("502", [])
    hit = next(hit for hit in found["hits"] if hit["id"] == "m-502")
    assert (hit["kind"], hit["session_id"]) == ("message", "s1")
    assert hit["created_at"].endswith("+00:00")
    assert {"window", "meaning"} <= set(hit["why"])
    assert sum(hit["why"].values()) == pytest.approx(hit["score"], abs=0.01)
    assert hit["around"] == []


def test_search_says_how_likely_nothing_answers_and_where_asked_what_speaks_for_a_hit(run, run_json, db):
    likely = run_json("search", "502", "--db", db)["nothing_relevant"]
    assert 0 < likely < 1
    assert f"\n\nnothing relevant: {100 * likely:.0f} %\n" in run("search", "502", "--db", db).stdout
    hit = run_json("search", "502", "--limit", 1, "--db", db)["hits"][0]
    strongest = max(hit["why"], key=lambda name: abs(hit["why"][name]))
    shown = f"why: {strongest} {hit['why'][strongest]:+.2f} · "
    assert shown in run("search", "502", "--limit", 1, "--why", "--db", db).stdout
    assert "why:" not in run("search", "502", "--limit", 1, "--db", db).stdout


def test_search_shows_what_was_said_around_a_message(run, run_json, db):
    words = ("search", "502", "--role", "user", "--session", "s1", "--around", 1, "--db", db)
    [hit] = run_json(*words)["hits"]
    before, after = hit["around"]
    assert (before["role"], before["name"], before["text"]) == ("system", None, "你是运维助手")
    assert (after["role"], after["text"]) == ("assistant", "shell {}")
    assert before["created_at"].endswith("+00:00")
    assert run_json("show", after["id"], "--db", db)[0]["role"] == "assistant"
    lines = [line.rstrip() for line in run(*words).stdout.splitlines()]
    places = [lines.index(f"{' ' * 6}{line}") for line in ("  system: 你是运维助手", "  assistant: shell {}")]
    assert places[1] == places[0] + 2
    assert lines[places[0] + 1] == f"{' ' * 6}nginx 又 502 了  m-502"


def test_search_takes_the_day_it_is_asked(run_json, open_memory, path):
    with open_memory() as memory:
        for day, what in ((2, "logs"), (10, "dumps")):
            said = {"role": "user", "content": f"the disk was full of {what}", "id": f"m-{what}"}
            memory.save_message("s", said, created_at=datetime(2026, 3, day, 12, tzinfo=UTC))
    question = ("search", "What was the disk full of yesterday?", "--db", path, "--asked-at")
    assert run_json(*question, "2026-03-03")["hits"][0]["id"] == "m-logs"
    assert run_json(*question, "2026-03-11T08:00")["hits"][0]["id"] == "m-dumps"


def test_search_filters_and_may_find_nothing(run_json, db, run):
    def ids(*options: str) -> list[str]:
        found = run_json("search", "502 nginx certificate", "--db", db, *options)
        return [hit["id"] for hit in found["hits"]]

    assert "m-502" in ids("--kind", "message", "--role", "user", "--session", "s1")
    assert "m-502" not in ids("--session", "s2")
    assert "m-502" not in ids("--role", "assistant")
    assert "m-502" in ids("--speaker", "user")
    assert "m-502" not in ids("--speaker", "Ana")
    assert "m-502" not in ids("--kind", "episode", "--kind", "knowledge")
    assert ids("--kind", "episode")
    assert len(ids("--limit", "1")) == 1
    assert ids("--since", "2100-01-01") == []
    assert ids("--until", "2000-01-01T08:00") == []
    assert run("search", "502", "--since", "2100-01-01", "--db", db).stdout == "nothing found\n"
    found = run_json("search", "502", "--since", "2100-01-01", "--db", db)
    assert (found["hits"], found["nothing_relevant"]) == ([], 1)


def test_context(run, run_json, db):
    text = run("context", "s1", "上次怎么修好的？", "--db", db).stdout
    assert "上次怎么修好的？" in text
    assert "In the window" in text
    told = run_json("context", "s1", "上次怎么修好的？", "--budget", 500, "--db", db)
    assert told["messages"][0] == {"role": "system", "content": "你是运维助手"}
    assert told["messages"][-1] == {"role": "user", "content": "上次怎么修好的？"}
    assert told["report"]["tokens"] <= told["report"]["max_input_tokens"] == 500
    assert {"role": "user", "content": "nginx 又 502 了"} in run_json("context", "s1", "--db", db)["messages"]


def test_context_cuts_long_messages_for_the_screen_only(run, run_json, db):
    question = "\n".join(f"line {i}" for i in range(100))
    assert "… 95 more lines" in run("context", "s1", question, "--lines", 5, "--db", db).stdout
    assert run_json("context", "s1", question, "--db", db)["messages"][-1]["content"] == question


def test_show(run, run_json, db):
    text = run("show", "--db", db).stdout
    assert "s1" in text
    assert "重启 nginx 容器" in text
    told = run_json("show", "--db", db)
    assert {s["session_id"]: s["messages"] for s in told["sessions"]} == {"s1": 5, "s2": 1}
    [task] = told["tasks"]
    assert task["steps"][0]["description"] == "docker restart nginx"
    roles = [message["role"] for message in run_json("show", "s1", "--db", db)]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    assert "nginx 又 502 了" in run("show", "m-502", "--db", db).stdout
    assert run_json("show", "m-502", "--db", db)[0]["content"] == "nginx 又 502 了"
    assert "docker restart nginx" in run("show", task["id"], "--db", db).stdout
    [episode] = run_json("search", "nginx", "--kind", "episode", "--db", db)["hits"]
    assert "docker restart nginx" in run("show", episode["id"], "--db", db).stdout
    assert run_json("show", episode["id"], "--db", db)[0]["task_id"] == task["id"]


def test_stats_of_a_database_that_may_be_named_by_the_environment(run, run_json, db, monkeypatch):
    assert "6  message" in run("stats", "--db", db).stdout
    counts = run_json("stats", "--db", db)
    assert (counts["message"], counts["session"], counts["episode"]) == (6, 2, 1)
    monkeypatch.setenv("JIYI_DB", str(db))
    assert run_json("stats")["message"] == 6


@pytest.mark.slow
def test_doctor_says_how_the_reader_stands(run_json, db, open_memory, monkeypatch):
    def checked(**options):
        return {one["name"]: one for one in run_json("doctor", "--db", db, **options)["checks"]}

    assert "reader" not in checked()
    monkeypatch.setenv("JIYI_LLM_MODEL", "m")
    monkeypatch.setenv("JIYI_LLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("JIYI_LLM_API_KEY", "k")
    told = checked()["reader"]
    assert told["ok"]
    assert "6 messages to read, 0 of 60 calls this hour, 0 of 500,000 tokens today" in told["detail"]
    monkeypatch.setenv("JIYI_READER_PAUSE_MINUTES", "0")
    monkeypatch.setenv("JIYI_LLM_SECONDS", "1")
    with open_memory() as memory:
        assert memory.maintain().reading.notes
    failing = checked(code=1)["reader"]
    assert not failing["ok"]
    assert "1 failure in a row: the language model read nothing" in failing["detail"]
    monkeypatch.setenv("JIYI_READER", "off")
    assert "reader" not in checked(code=1)  # the model is still skipped in this process


def test_maintain_does_not_wait_for_a_model_that_is_away_once_for_each_user(run, two_users, monkeypatch):
    monkeypatch.setenv("JIYI_LLM_MODEL", "m")
    monkeypatch.setenv("JIYI_LLM_API_KEY", "k")
    monkeypatch.setenv("JIYI_READER_PAUSE_MINUTES", "0")
    with ScriptedChat(*[refuses("bad key", status=401)] * 9) as server:
        monkeypatch.setenv("JIYI_LLM_BASE_URL", server.url)
        told = run("maintain", "--db", two_users)
    assert len(server.asked) == 1
    assert told.stderr.count("HTTP 401") == 1


def test_doctor_of_unusable_settings_names_them_and_stops(run_json, db, monkeypatch):
    monkeypatch.setenv("JIYI_MAX_TURN", "3")
    _, settings = run_json("doctor", "--db", db, code=1)["checks"]
    assert (settings["name"], settings["ok"]) == ("settings", False)
    assert "JIYI_MAX_TURN is no setting; the nearest is JIYI_MAX_TURNS" in settings["detail"]


def test_doctor(run, run_json, db, tmp_path):
    told = run_json("doctor", "--db", db)
    assert told["ok"] is True
    assert next(c for c in told["checks"] if c["name"] == "database")["detail"].startswith(f"{db} is sound")
    assert "does not exist yet" in run("doctor", "--db", tmp_path / "none.db").stdout
    foreign = tmp_path / "foreign.db"
    foreign.write_text("x" * 200)
    result = run_json("doctor", "--db", foreign, code=1)
    assert [c["name"] for c in result["checks"] if not c["ok"]] == ["database"]
    assert "fix" in run("doctor", "--db", foreign, code=1).stdout


def test_lone_surrogates_are_shown_and_valid_json(run, run_json, tmp_path):
    file, db = tmp_path / "s.jsonl", tmp_path / "s.db"
    file.write_text('{"id": "m1", "role": "user", "content": "a\\ud800b"}\n', "utf-8")
    run("import", file, "--db", db, "--user", "ana")
    assert run_json("show", "m1", "--db", db)[0]["content"] == "a\ud800b"


def test_monitor_tells_what_is_stored(run, run_json, open_memory, path):
    with open_memory() as memory:
        memory.save_message("s", role="user", content="deploy 2.3")
        memory.save_message("s", role="assistant", content="I start with staging.")
        task = memory.start_task("s", "Deploy version 2.3 to staging")
        for _ in range(3):
            memory.add_step(task.id, "deploy", status="failed")
    told = run_json("monitor", "--db", path)
    assert (told["replies"], told["steps"], told["failed_steps"]) == (1, 3, 3)
    assert told["output_reserve"] >= told["output_tokens"]["p95"] > 0
    assert [one["task"] for one in told["drifting"]] == [task.id]
    text = run("monitor", "--db", path).output
    assert "1 session, 1 reply, 0 summaries" in text
    assert "failed 3 times" in " ".join(text.split())
