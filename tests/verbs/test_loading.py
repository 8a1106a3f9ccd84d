"""What a process loads with its first message is loaded before other processes have to wait for it."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, re, sys
import apsw, jiyi
from jiyi.testing import HashEmbedder

compiled = {"inside": 0, "outside": 0}
place, dictionary = "outside", []
real = re._compiler.compile

def compile(*given, **named):
    compiled[place] += 1
    return real(*given, **named)

def watch(cursor, sql, bindings):
    global place
    word = sql.split()[0].upper()
    if word == "BEGIN":
        place = "inside"
        dictionary.append("rjieba" in sys.modules)
    elif word in ("COMMIT", "END", "ROLLBACK"):
        place = "outside"
    return True

def first_message(file, text):
    with jiyi.open(file, user_id="ana", embedder=HashEmbedder(), background=False) as memory:
        for connection in apsw.connections():
            connection.exec_trace = watch
        re._compiler.compile = compile
        memory.save_message("s", role="user", content=text)
    print(json.dumps({**compiled, "dictionary": dictionary[0]}), flush=True)

for number, text in enumerate(sys.argv[2:]):
    if not os.fork():  # a process for each, which has loaded no more than the package
        first_message(f"{sys.argv[1]}/{number}.db", text)
        os._exit(0)
    os.wait()
"""
TEXTS = [
    "I moved to Porto last May, my brother is called Rui and I don't eat fish.",
    "我去年五月搬到成都了，弟弟叫小军，不吃鱼。",
    "staging 的端口改成 9443 了, please tell Ben tomorrow at 9.",
]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_first_message_compiles_next_to_nothing_while_it_holds_the_lock(tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), *TEXTS]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for text, line in zip(TEXTS, lines, strict=True):
        told = json.loads(line)
        assert told["outside"] > 50
        assert told["inside"] < told["outside"] / 4
        assert told["dictionary"] or text.isascii()
