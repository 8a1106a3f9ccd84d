"""Copies between a file and a server, both ways, and from server to server."""

import os
import signal
import subprocess
import sys
import time

import pytest
from copying import both_ends, fill, found, whole
from samples import ANA, AWKWARD, START, message

from jiyi.records import Query
from jiyi.storage.transfer.copy import copy_memory

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("small_batches")
def test_there_and_back_is_the_same(tmp_path, postgres_url):
    with both_ends(tmp_path / "here.db", postgres_url) as (here, there):
        fill(here)
        fill(here, "ben")
        for number, text in enumerate(AWKWARD.values()):
            here.store.put([message(text, session="awkward", id=f"odd{number}", at=number)])
            before = [("message", f"odd{number - 1}")]
            here.trash.discard(ANA, before, reason=text, at=START)
        first = copy_memory(here, there)
        before = whole(here)
        assert whole(there) == before
        assert found(there, "disks")[0] == found(here, "disks")[0]
        assert {key[:2] for key in found(there, "disks")[1]} == {key[:2] for key in found(here, "disks")[1]}
        again = copy_memory(here, there)
        assert (sum(again.added.values()), again.checked) == (0, first.checked)
        there.database.check()
    with both_ends(postgres_url, tmp_path / "back.db") as (there, back):
        assert copy_memory(there, back).checked == first.checked
        assert whole(back) == before
        for session in ("s0", "s1", "s3"):
            told = [side.store.put([message("next", session=session, id=session)]) for side in (there, back)]
            assert told[0] == told[1]


def test_a_killed_command_goes_on(tmp_path, postgres_url):
    with both_ends(tmp_path / "here.db", tmp_path / "unused.db") as (here, _):
        here.store.put([message(f"消息 {i}", session=f"s{i % 20}", id=f"m{i}", at=i) for i in range(4_000)])
        fill(here, "ben")
        wanted = whole(here)
    command = [sys.executable, "-m", "jiyi", "copy", str(tmp_path / "here.db"), postgres_url, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    with both_ends(postgres_url, tmp_path / "unused.db") as (there, _):
        deadline = time.monotonic() + 60
        while not there.store.find(Query(scope=ANA, kinds=("message",), limit=1)):
            assert process.poll() is None
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(there.store.find(Query(scope=ANA, limit=10_000))) < 4_000
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=200)
        assert whole(there) == wanted
        there.database.check()
