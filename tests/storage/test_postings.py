"""The stored form of a record's terms: pinned to the byte, because files hold it."""

import zlib

from hypothesis import given
from hypothesis import strategies as st

from jiyi.storage.search.postings import ENTRY, pack, term_hash, unpack


def test_the_bytes_are_hashes_in_order_with_counts_little_endian():
    assert pack(["disk", "磁盘", "disk"]) == bytes.fromhex("02dd740c02" + "03302d1801")
    assert pack([]) == b""
    assert ENTRY.itemsize == 5


def test_the_hash_is_the_crc_of_zip_files():
    for term in ("disk", "磁盘", "😀", ""):
        assert term_hash(term) == zlib.crc32(term.encode())
    assert term_hash("\ud800") == zlib.crc32(b"\xed\xa0\x80"), "text that is no UTF-8 has a hash too"


def test_counts_stop_at_255():
    for times, count in ((1, 1), (255, 255), (256, 255), (10_000, 255)):
        assert unpack(pack(["disk"] * times))["count"].tolist() == [count]


@given(st.lists(st.text(max_size=3)), st.lists(st.text(max_size=3)))
def test_what_is_packed_comes_back_and_entries_can_be_joined(some, others):
    wanted = sorted({term_hash(t): min(255, some.count(t)) for t in some}.items())
    found = unpack(pack(some))
    assert list(zip(found["term"].tolist(), found["count"].tolist(), strict=True)) == wanted
    assert unpack(pack(some) + pack(others)).tolist() == found.tolist() + unpack(pack(others)).tolist()
    assert pack(reversed(some)) == pack(some)
