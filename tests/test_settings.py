"""Settings: arguments, then the environment, then the file; errors name the field."""

from datetime import UTC, timedelta
from zoneinfo import ZoneInfo

import pytest

from jiyi.errors import SettingsError
from jiyi.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """No settings from outside the test."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"JIYI_{name.upper()}", raising=False)
    monkeypatch.delenv("JIYI_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


def test_everything_has_a_default():
    settings = load_settings()
    assert (settings.user_id, settings.embedder, settings.max_turns) == (None, "e5", 20)
    assert settings.zone is UTC
    assert settings.session_ttl == timedelta(minutes=30)


def test_arguments_win_over_environment_over_file(monkeypatch, tmp_path):
    (tmp_path / "jiyi.toml").write_text('max_turns = 1\nlanguage = "zh"\nuser_id = "file"\nmodel = "gpt-4"\n')
    assert load_settings().max_turns == 1
    monkeypatch.setenv("JIYI_MAX_TURNS", "2")
    monkeypatch.setenv("JIYI_USER_ID", "env")
    settings = load_settings(max_turns=3, agent_id=None, model=None)
    assert (settings.max_turns, settings.user_id, settings.language) == (3, "env", "zh")
    assert settings.model == "gpt-4"
    assert settings.agent_id is None


def test_the_file_may_be_elsewhere(monkeypatch, tmp_path):
    elsewhere = tmp_path / "own name.toml"
    elsewhere.write_text('timezone = "Asia/Shanghai"\n')
    monkeypatch.setenv("JIYI_CONFIG", str(elsewhere))
    assert load_settings().zone == ZoneInfo("Asia/Shanghai")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_input_tokens", 0),
        ("max_output_tokens", -1),
        ("max_turns", 0),
        ("max_turns", "many"),
        ("session_ttl_minutes", 0),
        ("session_ttl_minutes", float("inf")),
        ("lock_timeout", -1),
        ("lock_timeout", float("inf")),
        ("lock_timeout", float("nan")),
        ("language", "fr"),
        ("timezone", "Mars/Olympus"),
        ("timezone", "../../etc/passwd"),
        ("embedder", "magic"),
        ("embedding_threads", 0),
        ("reranker", "magic"),
        ("reranker_seconds", 0),
        ("llm_seconds", float("nan")),
        ("user_id", 5),
        ("colour", "red"),
    ],
)
def test_what_cannot_be_used_is_named(monkeypatch, tmp_path, name, value):
    with pytest.raises(SettingsError, match=name):
        load_settings(**{name: value})
    if name not in ("colour", "user_id"):
        monkeypatch.setenv(f"JIYI_{name.upper()}", str(value))
        with pytest.raises(SettingsError, match=name):
            load_settings()
        monkeypatch.delenv(f"JIYI_{name.upper()}")
    if isinstance(value, str):
        (tmp_path / "jiyi.toml").write_text(f'{name} = "{value}"\n')
        with pytest.raises(SettingsError, match=name):
            load_settings()


@pytest.mark.parametrize("name", ["embedding_api_key", "llm_api_key", "reranker_api_key"])
def test_a_secret_is_never_shown(name):
    settings = load_settings(**{name: "sk-very-secret"})
    assert "very-secret" not in f"{settings!r} {settings}"
    with pytest.raises(SettingsError) as caught:
        load_settings(**{name: "sk-very-secret", "max_turns": 0})
    assert "very-secret" not in str(caught.value)


@pytest.mark.parametrize("content", [b"max_turns = [", b"\xff\xfe", b"just words"])
def test_a_file_that_is_no_toml_is_named(tmp_path, content):
    (tmp_path / "jiyi.toml").write_bytes(content)
    with pytest.raises(SettingsError, match="settings file"):
        load_settings()


def test_a_file_that_was_named_must_exist(monkeypatch, tmp_path):
    for missing in (tmp_path / "nowhere.toml", tmp_path):
        monkeypatch.setenv("JIYI_CONFIG", str(missing))
        with pytest.raises(SettingsError, match="JIYI_CONFIG"):
            load_settings()


def test_settings_are_values():
    settings = load_settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.max_turns = 5
