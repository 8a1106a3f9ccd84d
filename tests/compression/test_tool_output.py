"""Long tool outputs made short, and read page by page."""

import json
from collections.abc import Sequence
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import refused
from tables import literals, read_tables

from jiyi.compression import Compressor, ToolOutput, page
from jiyi.compression.json_lines import json_lines
from jiyi.errors import InputError
from jiyi.records import Message
from jiyi.text import counter_for

COUNT = counter_for().count_text


def errors_in(texts: Sequence[str]) -> set[int]:
    return {place for place, text in enumerate(texts) if "full" in text}


def output(text: str) -> Message:
    return Message(role="tool", tool_call_id="c1", content=text, id="msg-7")


LOG = "\n".join(
    [f"2026-03-02 08:{n // 60:02d}:{n % 60:02d} GET /item/{n} 200 in {n * 7 % 90} ms" for n in range(300)]
    + [
        "2026-03-02 08:05:01 ERROR upstream app-03 refused the connection",
        "Traceback (most recent call last):",
    ]
    + [f"2026-03-02 08:{n // 60:02d}:{n % 60:02d} POST /cart {n} 200" for n in range(300)]
    + ["shutting down, 601 requests served"]
)


def test_short_outputs_are_unchanged_and_a_bare_text_has_no_handle():
    made = ToolOutput()(output("ok"))
    assert (made.text, made.sources) == ("ok", ("msg-7",))
    assert not made.notes
    assert isinstance(ToolOutput(), Compressor)
    assert "open_output" not in ToolOutput(max_tokens=100)(LOG).text


def test_a_log_keeps_head_tail_and_errors_of_which_a_count_of_none_is_none():
    made = ToolOutput(max_tokens=250)(output(LOG))
    assert made.tokens == COUNT(made.text) <= 250 < made.tokens_before == COUNT(LOG)
    for kept in ("GET /item/0 200", "ERROR upstream app-03", "601 requests served", "more lines like this"):
        assert kept in made.text, kept
    assert 'open_output("msg-7")' in made.text
    assert "left out" in made.notes[0]
    lines = [f"{chr(97 + n % 26) * (n % 7 + 1)} step finished" for n in range(200)]
    lines[100] = "0 errors, 0 warnings"
    assert "0 errors" not in ToolOutput(max_tokens=120)(output("\n".join(lines))).text


def test_errors_amid_different_lines_are_found():
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
    lines = [f"{words[n % 10]} {words[n // 10 % 10]} {words[n // 100]} done" for n in range(900)]
    lines[500] = "RuntimeError: disk quota exceeded on vol-7"
    made = ToolOutput(max_tokens=200)(output("\n".join(lines)))
    assert "disk quota exceeded on vol-7" in made.text
    assert made.text.startswith(lines[0])
    assert lines[-1] in made.text
    assert "lines left out" in made.text


def shown(value: object, limit: int = 200) -> str:
    made = ToolOutput(max_tokens=limit)(output(json.dumps(value, ensure_ascii=False)))
    assert made.tokens <= limit
    return made.text


def test_a_long_json_becomes_a_table_of_its_longest_list_and_a_table_keeps_its_header():
    rows = [{"id": n, "name": f"host-{n}", "tags": ["a", "b"], "ok": n % 2 == 0} for n in range(500)]
    lines = shown({"rows": rows, "next": None}).splitlines()
    assert lines[:6] == literals(read_tables(__file__)["a long json becomes a table of its longest list"])
    assert "next: null" in lines
    assert 'open_output("msg-7")' in lines[-1]
    rows = "\n".join(f"{n},host-{n},{n * 3}" for n in range(400))
    made = ToolOutput(max_tokens=120)(output(f"id,name,load\n{rows}"))
    assert made.text.startswith("id,name,load\n")
    assert "399 more lines like this" in made.text


def test_rows_that_differ_and_rows_with_errors_are_shown_wherever_they_stand():
    rows = [{"id": n, "state": "up", "err": None} for n in range(300)]
    for row in rows[280:]:
        row["err"] = "disk full"
    rows[250] |= {"state": "draining"}
    text = shown(rows, 160)
    assert 'err: null x 280, "disk full" x 20' in text
    assert "280 | up | disk full" in text
    assert "250 | draining | null" in text


def test_what_is_said_of_a_column_is_never_shown_of_another():
    mounts = ("/", "/var/lib/docker")
    rows = [
        {"at": f"10.20.3.{n % 9}:9100", "host": f"app-{n % 7}", "mount": mounts[n % 2], "n": n}
        for n in range(90)
    ]
    for limit in range(80, 400, 10):
        line = next((line for line in shown(rows, limit).splitlines() if line.startswith("of all 90: ")), "")
        for told in line.removeprefix("of all 90: ").split("; "):
            name, _, values = told.partition(": ")
            named = [value.partition(" x ")[0] for value in values.split(", ")]
            known = {json.dumps(row[name]) for row in rows} if name in rows[0] and name != "n" else set()
            full = [value for value in named if not value.endswith("…") and value.startswith('"')]
            assert set(full) <= known, line


def test_json_keeps_values_where_there_is_room_and_errors_and_objects_become_a_table():
    article = "Every word of it counts. " * 16
    page = {"url": "x", "text": article, "more": "And on it goes. " * 80}
    assert article.strip() in shown(page, 300)
    pods = {f"pod-{n}": {"status": {"phase": "Pending" if n == 70 else "Running"}} for n in range(100)}
    text = shown(pods, 100)
    assert '"key" | status.phase' in text
    assert 'status.phase: "Running" x 99, "Pending" x 1' in text
    assert "pod-70 | Pending" in text
    value = {"items": list(range(2_000)), "error": "quota exceeded for tenant 42"}
    assert "quota exceeded for tenant 42" in ToolOutput(max_tokens=150)(output(json.dumps(value))).text


def test_a_json_with_five_megabytes_is_read_whole_within_seconds():
    rows = [{"id": n, "host": f"app-{n}", "msg": f"request {n} served", "err": None} for n in range(70_000)]
    rows[69_000]["err"] = "disk full"
    text = json.dumps(rows)
    assert len(text) > 4_500_000
    started = process_time()
    made = json_lines(json.loads(text), errors_in, "en")
    assert process_time() - started < 5  # a third of a second where nothing else runs
    assert 'err: null x 69,999, "disk full" x 1' in "\n".join(made.head)
    assert "disk full" in made[made.notable[0]]


LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(-5, 5)
    | st.sampled_from(["", "a", "1", "null"])
)
ITEMS = st.lists(st.dictionaries(st.sampled_from("abc"), LEAF, max_size=3), min_size=3, max_size=40)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(items=ITEMS)
def test_what_the_head_says_of_all_items_is_true(items):
    made = json_lines(items, errors_in, "en")
    assert made.head[0] == f"JSON, {len(items)} items"
    for line in made.head:
        if line.startswith("the same in all "):
            for told in line.split(": ", 1)[1].split("; "):
                name, _, value = told.rpartition(": ")
                assert all(json.dumps(item[name] if name else item) == value for item in items), line
        elif line.startswith(f"of all {len(items)}: "):
            for told in line.split(": ", 1)[1].split("; "):
                check_told(items, *told.split(": "))


def check_told(items: list[dict[str, object]], name: str, told: str) -> None:
    """Check one column's ranges and counts against the items."""
    if name == '"item"':
        cells = ["absent" if item else "{}" for item in items]
    else:
        cells = [json.dumps(item[name]) if name in item else "absent" for item in items]
    left = len(cells)
    named: list[str] = []
    for part in told.split(", "):
        value, _, times = part.partition(" x ")
        count = int(times) if times else len(cells)
        if ".." in value:
            low, high = map(float, value.split(".."))
            numbers = [float(cell) for cell in cells if cell[0] in "-0123456789"]
            assert (min(numbers), max(numbers), len(numbers)) == (low, high, count)
        elif value != "other values":
            assert cells.count(value) == count, told
        left -= count
        named.append(value)
    assert left == 0, told
    assert len(set(named)) == len(named)


@settings(max_examples=200, deadline=None)
@given(items=ITEMS)
def test_each_row_stands_in_its_place_with_its_values(items):
    made = json_lines(items, errors_in, "en")
    names = made.head[-1].split(" | ")
    if len(made) != len(items) or not set(names) <= set("abc"):
        return
    for place, item in enumerate(items):
        for name, cell in zip(names, made[place].split(" | "), strict=True):
            value = item.get(name, ...)
            assert cell == ("" if value is ... else value if value == "a" else json.dumps(value))


def test_chinese_outputs_are_explained_in_chinese():
    lines = "\n".join(f"第 {n} 步：节点{'甲乙丙丁'[n % 4]}，一切正常，{'等待' * (n % 3)}" for n in range(300))
    made = ToolOutput(max_tokens=200)(output(f"{lines}\n错误：连接被拒绝"))
    assert "错误：连接被拒绝" in made.text
    assert '看全文：open_output("msg-7")' in made.text
    assert made.tokens <= 200


def test_a_very_long_line_is_clipped_and_a_small_limit_gives_the_beginning():
    made = ToolOutput(max_tokens=100)(output("head " + "x7 " * 20_000 + "tail"))
    assert made.tokens <= 100
    assert "head" in made.text
    assert made.text.splitlines()[0].endswith("tail")
    made = ToolOutput(max_tokens=5)(output(LOG))
    assert 0 < made.tokens <= 5
    assert LOG.startswith(made.text)


@pytest.mark.parametrize("text", [LOG, "端口" * 3_000, "a" * 5_000, "👩‍👩‍👧‍👦" * 200, "short"], ids=ascii)
@pytest.mark.parametrize("size", [1, 50, 1_000])
def test_pages_make_up_the_whole(text, size):
    text = text[: 300 * size]
    read, offset = [], 0
    while offset is not None:
        found = page(text, offset, size)
        assert found.offset == offset
        assert found.total == len(text)
        assert len(found.text) <= 1 or COUNT(found.text) <= size
        read.append(found.text)
        offset = found.next_offset
    assert "".join(read) == text


def test_pages_end_behind_a_line_and_misuse_is_named():
    assert page(LOG, 0, 200).text.endswith("\n")
    refused(InputError, "one output at a time, not 2", ToolOutput(), [output("a"), output("b")])
    refused(InputError, "max_tokens", ToolOutput, max_tokens=0)


@pytest.mark.parametrize("offset", [-1, 10_000, "0", True])
def test_a_place_outside_is_named(offset):
    refused(InputError, "offset=", page, "text", offset)
