"""Each format on its sample: what goes in, that twice changes nothing, and that damage harms nothing."""

import os
import shutil
from pathlib import Path

import pytest
from importers.damaged_variants import DAMAGES, damaged
from tables import read_tables

import jiyi
from jiyi.errors import ImportFailed
from jiyi.testing import HashEmbedder

SAMPLES = Path(__file__).parent / "samples"
COUNTS = read_tables(__file__)["messages, knowledge, facts and items of a sample, and what is left out"]
EXPECTED = {name: [*map(int, counts)] for name, *counts in COUNTS}


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    path = tmp_path_factory.mktemp("m") / "m.db"
    with jiyi.open(path, user_id="ana", embedder=HashEmbedder(), background=False) as memory:
        yield memory


def state(memory, user):
    """Return everything there is of a user, as text."""
    sessions = memory.sessions(user_id=user)
    kept = [repr(m) for s in sessions for m in memory.session_messages(s.id, user_id=user)]
    every = ("active", "unsure", "superseded", "retracted", "expired")
    known = [*memory.knowledge(user_id=user), *memory.facts(status=every, user_id=user)]
    return [*kept, *map(repr, [*known, *memory.items(user_id=user)])]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_goes_in_once(memory, name):
    user, (*kinds, left) = f"sample {name}", EXPECTED[name]
    counted = dict(zip(("message", "knowledge", "fact", "item"), kinds, strict=True))
    planned = memory.import_(SAMPLES / name, dry_run=True, user_id=user)
    assert state(memory, user) == []
    done = memory.import_(SAMPLES / name, user_id=user)
    assert done.counts == planned.counts == {kind: count for kind, count in counted.items() if count}
    assert (sum(done.left_out.values()), done.rejected) == (left, ())
    before = state(memory, user)
    again = memory.import_(SAMPLES / name, user_id=user)
    assert (again.added, again.known, state(memory, user)) == (0, sum(kinds), before)
    for session in memory.sessions(user_id=user):
        window = memory.build_context(session.id, query="tide", budget=4_000, user_id=user)
        assert window.messages


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_damage_harms_nothing(memory, tmp_path, name):
    sample = SAMPLES / name
    for seed in range(DAMAGES):
        target, user = tmp_path / f"{seed}-{name}", f"{name} {seed}"
        if sample.is_dir():
            shutil.copytree(sample, target)
            inner = sorted(target.iterdir())[seed % 3 % len(os.listdir(target))]
            inner.write_bytes(damaged(inner.read_bytes(), seed))
        else:
            target.write_bytes(damaged(sample.read_bytes(), seed))
        try:
            first = memory.import_(target, user_id=user)
        except ImportFailed:
            assert not memory.sessions(user_id=user)
            continue
        before = state(memory, user)
        again = memory.import_(target, user_id=user)
        assert (again.added, again.known) == (0, first.added + first.known)
        assert state(memory, user) == before


@pytest.mark.skipif("JIYI_TEST_SAMPLES" not in os.environ, reason="JIYI_TEST_SAMPLES names no folder")
def test_agent_files_that_others_published(memory):
    files = sorted(Path(os.environ["JIYI_TEST_SAMPLES"]).glob("**/*.af"))
    assert files
    for file in files:
        done = memory.import_(file, user_id=file.name)
        assert done.added + sum(done.left_out.values()) > 0, file
        assert done.rejected == ()
