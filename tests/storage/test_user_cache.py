"""What stays in memory of whom: the budget, and threads that ask at once."""

import threading
from concurrent.futures import ThreadPoolExecutor

from refusing import refused

from jiyi.storage.search.user_cache import UserCache

WAIT = 20


class Part:
    """A part that takes as many bytes as it has rows."""

    def __init__(self, generation):
        self.generation, self.rows = generation, []

    @property
    def nbytes(self):
        return len(self.rows)

    def view(self):
        copy = type(self)(self.generation)
        copy.rows = list(self.rows)
        return copy


class Other(Part):
    pass


def add(*rows):
    return lambda part: part.rows.extend(rows)


def test_a_part_is_extended_until_its_generation_changes():
    cache = UserCache(100)
    view = cache.use("ana", Part, 1, add("a"))
    assert view.rows == ["a"]
    assert cache.use("ana", Part, 1, add("b")).rows == ["a", "b"]
    assert view.rows == ["a"], "views do not grow"
    assert cache.use("ana", Other, 1, add("c")).rows == ["c"]
    assert cache.use("ben", Part, 1, add()).rows == []
    assert cache.use("ana", Part, 2, add("d")).rows == ["d"]
    assert cache.use("ana", Part, 1, add("e")).rows == ["e"], "an older one is another one too"


def test_those_asked_least_recently_leave_with_all_their_parts():
    cache = UserCache(10)
    for user in ("ana", "ben"):
        cache.use(user, Part, 1, add(*"123"))
        cache.use(user, Other, 1, add("1"))
    assert cache.use("ana", Part, 1, add()).rows == ["1", "2", "3"]
    cache.use("cy", Part, 1, add(*"123"))
    assert list(cache._users) == ["ana", "cy"]
    assert cache.use("ben", Other, 1, add()).rows == []
    cache.use("dora", Part, 1, add(*range(50)))
    assert list(cache._users) == ["dora"], "who was asked last stays, whatever it takes"
    cache.clear()
    assert cache.use("dora", Part, 1, add()).rows == []


def test_what_could_not_be_read_to_its_end_is_forgotten():
    cache = UserCache(100)
    cache.use("ana", Part, 1, add("a"))

    def half(part):
        part.rows.append("half")
        raise OSError("on the way")

    refused(OSError, "on the way", cache.use, "ana", Part, 1, half)
    assert cache.use("ana", Part, 1, add("b")).rows == ["b"]


def test_threads_read_a_user_once_and_do_not_wait_for_other_users():
    cache = UserCache(100)
    reading, go_on = threading.Event(), threading.Event()

    def slow(part):
        if not part.rows:
            reading.set()
            assert go_on.wait(WAIT)
            part.rows.append("read")

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(cache.use, "ana", Part, 1, slow) for _ in range(4)]
        assert reading.wait(WAIT)
        assert cache.use("ben", Part, 1, add("b")).rows == ["b"]
        assert not any(one.done() for one in asked)
        go_on.set()
        assert [one.result(WAIT).rows for one in asked] == [["read"]] * 4
