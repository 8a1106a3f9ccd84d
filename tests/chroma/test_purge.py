"""Purged with vectors in Chroma: afterwards nothing of it is in Chroma's files either."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jiyi.settings import load_settings
from jiyi.storage.backend import drift
from jiyi.storage.place import Place
from jiyi.testing import HashEmbedder

SECRET = "zyxomarkerqwv is the password"


def needles(path, text):
    """Bytes of a text's vector as Chroma may write them, and the ids of its vectors there."""
    import apsw

    vector = HashEmbedder().embed([text], "passage")[0].astype(np.float16).astype(np.float32)
    whole = vector.tobytes()
    connection = apsw.Connection(str(path))
    tokens = [row[0] for row in connection.execute("SELECT token FROM chroma_items WHERE doc = 1")]
    connection.close()
    start = int(np.flatnonzero(vector)[0]) * 4
    return [whole, whole[start : start + 64], text.encode(), b"zyxomarkerqwv", *(t.encode() for t in tokens)]


def found_in(folder, marks):
    return sorted(
        {
            file.name
            for file in folder.rglob("*")
            if file.is_file() and any(mark in file.read_bytes() for mark in marks)
        }
    )


@pytest.mark.parametrize("others", [30, 1_500], ids=["in the log", "in the index"])
def test_no_byte_is_left_in_the_folder(open_chroma, path, folder, others):
    memory = open_chroma()
    memory.save_message("s", {"role": "user", "content": SECRET})
    for number in range(others // 50):
        for place in range(50):
            memory.save_message("s", {"role": "user", "content": f"word {number} {place}"})
    memory.save_message("s", {"role": "user", "content": "the last word"})
    memory.flush()
    marks = needles(path, SECRET)
    assert found_in(folder, marks) != []
    memory.forget(query="zyxomarkerqwv", purge=True)
    assert found_in(folder, marks) == []
    found = drift(Place(path=path), load_settings(vector_index="chroma"))
    assert (found.sound, found.waiting) == (True, 0)
    assert memory.search("the last word", limit=1)[0].text == "the last word"
    memory.close()
    assert found_in(path.parent, marks) == []


def test_what_was_taken_out_before_is_gone_too(open_chroma, path, folder):
    memory = open_chroma()
    for text in (SECRET, "coffee", "tea"):
        memory.save_message("s", {"role": "user", "content": text})
    memory.flush()
    marks = needles(path, SECRET)
    memory.forget(query="zyxomarkerqwv")
    assert found_in(folder, marks) != [], "it lies in the trash, and in Chroma's log"
    memory.forget(query="coffee", purge=True)
    assert [hit.text for hit in memory.search("tea coffee", limit=5)] == ["tea"]
    memory.forget(query="zyxomarkerqwv", purge=True)
    assert found_in(path.parent, marks) == []


def test_the_last_record_takes_the_collection_along(open_chroma, path, folder):
    memory = open_chroma()
    memory.save_message("s", {"role": "user", "content": SECRET})
    memory.flush()
    marks = needles(path, SECRET)
    memory.forget(everything=True, purge=True)
    assert found_in(path.parent, marks) == []
    memory.save_message("s", {"role": "user", "content": "coffee"})
    assert memory.flush() == 1
    assert memory.search("coffee")[0].text == "coffee"


def test_of_a_servers_files_the_numbers_go_and_vacuum_does_the_rest(open_chroma, path, own_server):
    memory = open_chroma(chroma_url=own_server.url)
    for text in (SECRET, "coffee", "tea"):
        memory.save_message("s", {"role": "user", "content": text})
    memory.flush()
    vector, part, *words, token = needles(path, SECRET)
    memory.forget(query="zyxomarkerqwv", purge=True)
    data = own_server.folder / "data"
    assert found_in(data, words) == [], "texts never go there"
    assert {Path(name).suffix for name in found_in(data, [vector, part, token])} <= {".sqlite3"}
    own_server.kill()
    chroma = str(Path(sys.executable).with_name("chroma"))
    subprocess.run([chroma, "vacuum", "--force", "--path", str(data)], check=True, capture_output=True)
    assert found_in(data, [vector, part, token]) == []
