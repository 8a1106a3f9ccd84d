"""Items against a plain dict: random puts, deletes, ends and lists of two users, on every database."""

import json
from datetime import timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jiyi
from jiyi.errors import Changed
from jiyi.testing import HashEmbedder, ManualClock

LABELS = ["acme", "acme-corp", "acme/", "acme%", "%2F", "ACME", "渠道", "'; --", '"', "\x01", "\U0010ffff"]
PLACES = st.lists(st.sampled_from(LABELS), min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "k ", "K", "$.k", "键"])
PUT = (st.just("put"), PLACES, KEYS, st.integers(0, 3), st.none() | st.integers(1, 3))
OF_A_KEY = (st.sampled_from(["forget", "refresh"]), PLACES, KEYS)
OTHER = [OF_A_KEY, (st.just("forget below"), PLACES), (st.just("wait"),)]
OTHER += [OF_A_KEY, (st.just("put if"), PLACES, KEYS, st.integers(0, 2))]
ACTS = st.one_of(*(st.tuples(*act) for act in (PUT, PUT, *OTHER)))


class Model:
    """What a memory should hold: by user, place and key the value, its version, its ttl and its end."""

    def __init__(self, memory, users, clock):
        self.memory, self.users, self.clock, self.turn = memory, users, clock, count()
        self.held = {user: {} for user in users}

    def there(self, user):
        now = self.clock()
        return {k: v for k, v in self.held[user].items() if v["end"] is None or v["end"] > now}

    def put(self, user, place, key, n, ttl=None, if_version=None):
        self.clock.forward(milliseconds=1)
        before = self.there(user).get((place, key), {"version": 0})
        value = {"n": n, "in": {"place": list(place)}}
        if if_version not in (None, before["version"]):
            with pytest.raises(Changed):
                self.memory.put_item(place, key, value, if_version=if_version, user_id=user)
            return
        made = self.memory.put_item(place, key, value, ttl=ttl, if_version=if_version, user_id=user)
        end = None if ttl is None else self.clock() + timedelta(seconds=ttl)
        version = before["version"] + 1
        now = {"value": value, "version": version, "ttl": ttl, "end": end, "turn": next(self.turn)}
        self.held[user][place, key] = now
        assert (made.version, made.expires_at) == (version, end)

    def forget(self, user, place, key):
        if (place, key) in self.there(user):
            self.memory.forget(ids=[self.memory.get_item(place, key, user_id=user).id], user_id=user)
            del self.held[user][place, key]

    def forget_below(self, user, place):
        self.memory.forget(namespace=place, user_id=user)
        self.held[user] = {k: v for k, v in self.held[user].items() if k[0][: len(place)] != place}

    def refresh(self, user, place, key):
        self.memory.get_item(place, key, refresh=True, user_id=user)
        one = self.there(user).get((place, key))
        if one and one["ttl"]:
            one["end"] = self.clock() + timedelta(seconds=one["ttl"])

    def agrees(self, user, place):
        memory, there = self.memory, self.there(user)
        for (where, key), one in self.held[user].items():
            found = memory.get_item(where, key, user_id=user)
            wanted = one if (where, key) in there else None
            assert (found and (found.value, found.version, found.expires_at)) == (
                wanted and (wanted["value"], wanted["version"], wanted["end"])
            )
        newest = sorted(there, key=lambda k: -there[k]["turn"])
        below = [k for k in newest if k[0][: len(place)] == place]
        part = memory.items(place, limit=2, user_id=user)
        listed = [*part]
        while part.next:
            part = memory.items(place, limit=2, after=part.next, user_id=user)
            listed += part
        assert [(item.namespace, item.key) for item in listed] == below
        odd = [k for k in below if there[k]["value"]["n"] in (1, 3)]
        where = {"n": [1, 3], "in.place": {"exists": True}, "in.place.0": {"exists": False}}
        assert [(i.namespace, i.key) for i in memory.items(place, filters=where, user_id=user)] == odd
        assert memory.namespaces(user_id=user) == sorted({k[0] for k in there})
        assert memory.namespaces(place, depth=1, user_id=user) == sorted({k[0][:1] for k in below})
        ends = sorted({k[0] for k in there if k[0][-1:] == place[-1:]})
        assert memory.namespaces("*", suffix=place[-1:], user_id=user) == ends
        assert json.loads(json.dumps([item.value for item in listed])) == [there[k]["value"] for k in below]


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def test_items_are_what_a_dict_would_be(request, tmp_path, database):
    url = tmp_path / "items.db" if database == "sqlite" else request.getfixturevalue("postgres_url")
    numbers, clock = count(), ManualClock()

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(st.integers(0, 1), ACTS), max_size=25), PLACES)
    def agrees(acts, place):
        users = [f"{name} {next(numbers)}" for name in ("ana", "ben")]
        model = Model(memory, users, clock)
        for which, (act, *given_) in acts:
            user = users[which]
            if act == "wait":
                clock.forward(seconds=1)
            elif act == "put if":
                where, key, version = given_
                model.put(user, where, key, 9, if_version=version)
            else:
                getattr(model, act.replace(" ", "_"))(user, *given_)
        for user in users:
            model.agrees(user, place)

    with jiyi.open(url, embedder=HashEmbedder(), background=False, clock=clock) as memory:
        agrees()
