"""Settings: arguments, then the environment, then the file; errors name the field and tell no secret."""

import json
import traceback
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from refusing import refused
from tables import read_tables

import jiyi
from jiyi.errors import InputError, JiyiError, NotFound, SettingsError
from jiyi.records import ForgetWeights
from jiyi.settings import Settings, load_settings
from jiyi.telling import mask

TABLES = read_tables(__file__)


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """No settings in a file."""
    monkeypatch.chdir(tmp_path)


def test_everything_has_a_default_and_settings_are_values():
    settings = load_settings()
    assert (settings.user_id, settings.embedder, settings.max_turns) == (None, "e5", 20)
    assert settings.zone is UTC
    assert settings.session_ttl_minutes == 30
    with pytest.raises(ValueError, match="frozen"):
        settings.max_turns = 5


def test_arguments_win_over_environment_over_file(monkeypatch, tmp_path):
    (tmp_path / "jiyi.toml").write_text('max_turns = 1\nlanguage = "zh"\nuser_id = "file"\nmodel = "gpt-4"\n')
    assert load_settings().max_turns == 1
    monkeypatch.setenv("JIYI_MAX_TURNS", "2")
    monkeypatch.setenv("JIYI_USER_ID", "env")
    settings = load_settings(max_turns=3, agent_id=None, model=None)
    assert (settings.max_turns, settings.user_id, settings.language) == (3, "env", "zh")
    assert settings.model == "gpt-4"
    assert settings.agent_id is None


def test_a_file_that_was_named_is_read_and_must_exist(monkeypatch, tmp_path):
    elsewhere = tmp_path / "own name.toml"
    elsewhere.write_text('timezone = "Asia/Shanghai"\n')
    monkeypatch.setenv("JIYI_CONFIG", str(elsewhere))
    assert load_settings().zone == ZoneInfo("Asia/Shanghai")
    for missing in (tmp_path / "nowhere.toml", tmp_path):
        monkeypatch.setenv("JIYI_CONFIG", str(missing))
        refused(SettingsError, "JIYI_CONFIG", load_settings)


def test_the_setting_that_was_meant_is_named():
    refused(SettingsError, "user: .*; did you mean user_id$", load_settings, user="ana", model="gpt-4o")
    refused(SettingsError, "Asia/Shanghai$", load_settings, timezone="nowhere")


@pytest.mark.parametrize(("name", "written"), TABLES["what cannot be used"])
def test_what_cannot_be_used_is_named(monkeypatch, tmp_path, name, written):
    value = json.loads(written)
    said = "colour: there is no such setting" if name == "colour" else name
    refused(SettingsError, said, load_settings, **{name: value})
    if name not in ("colour", "user_id"):
        monkeypatch.setenv(f"JIYI_{name.upper()}", str(value))
        refused(SettingsError, name, load_settings)
        monkeypatch.delenv(f"JIYI_{name.upper()}")
    if isinstance(value, str):
        (tmp_path / "jiyi.toml").write_text(f'{name} = "{value}"\n')
        refused(SettingsError, name, load_settings)


def test_weights_are_put_together_from_all_sources(monkeypatch, tmp_path):
    (tmp_path / "jiyi.toml").write_text("[forget_weights]\nage = 0.05\nalert = 0.3\n")
    assert load_settings().forget_weights == ForgetWeights(age=0.05, alert=0.3)
    monkeypatch.setenv("JIYI_FORGET_WEIGHTS", '{"age": 0.1, "failed": -0.1}')
    assert load_settings(forget_weights={"age": 0.2}).forget_weights == ForgetWeights(
        age=0.2, alert=0.3, failed=-0.1
    )
    assert load_settings(forget_weights=ForgetWeights(age=0.2)).forget_weights == ForgetWeights(age=0.2)


@pytest.mark.parametrize("given", TABLES["unusable weights"])
def test_unusable_weights_in_the_environment_are_named(monkeypatch, given):
    monkeypatch.setenv("JIYI_FORGET_WEIGHTS", given)
    refused(SettingsError, r"unusable settings: .*forget_weights", load_settings)


@pytest.mark.parametrize(("name", "nearest"), TABLES["unknown variables and the nearest"])
def test_an_unknown_variable_is_an_error_that_names_the_nearest(monkeypatch, name, nearest):
    monkeypatch.setenv(name, "x")
    refused(SettingsError, f"{name} is no setting; the nearest is {nearest}:", load_settings)


@pytest.mark.parametrize("name", TABLES["variables that are let be"])
def test_other_known_variables_are_let_be(monkeypatch, name):
    monkeypatch.setenv(name, "x")
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
    refused(SettingsError, "settings file", load_settings)


SECRET = "hunter2"
ADDRESSES, OF_SERVICES = (
    [one.replace("SECRET", SECRET) for one in TABLES[name]] for name in ("addresses", "addresses of services")
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_broken_address_is_refused_without_its_password(address):
    assert SECRET not in mask(address)
    assert SECRET not in str(JiyiError(f"cannot open {address}: no such host; see docs of ana@example.org"))
    with pytest.raises(JiyiError) as refused:
        jiyi.open(address, user_id="ana")
    assert SECRET not in "".join(traceback.format_exception(refused.value))
    assert address not in str(refused.value)


@pytest.mark.parametrize("address", OF_SERVICES)
def test_settings_show_no_key(address):
    given = Settings(llm_base_url=address, chroma_url=address, llm_api_key=SECRET)
    assert SECRET not in repr(given)
    assert given.llm_base_url == address
    with pytest.raises(ValueError, match="llm_api_key") as refused:
        Settings(llm_api_key=[SECRET])
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("plain", TABLES["other words"])
def test_other_words_stay(plain):
    assert str(JiyiError(plain)) == plain


def test_a_long_input_is_not_repeated():
    said = str(NotFound(f"no session {'s' * 10_000!r}; list them with: jiyi show"))
    assert len(said) < 200
    assert said.endswith("…'; list them with: jiyi show")
    said = str(InputError(f"ids={['x'] * 10_000!r} must be text; give a list of ids"))
    assert len(said) < 500
    assert said.startswith("ids=['x', ")
    assert said.endswith("must be text; give a list of ids")
