"""Long tool outputs made short, and read page by page."""

import json

import pytest

from jiyi.compression import Compressor, ToolOutput, page
from jiyi.errors import InputError
from jiyi.records import Message
from jiyi.text import counter_for

COUNT = counter_for().count_text


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


def test_short_outputs_are_unchanged() -> None:
    made = ToolOutput()(output("ok"))
    assert made.text == "ok"
    assert made.sources == ("msg-7",)
    assert not made.notes
    assert isinstance(ToolOutput(), Compressor)


def test_a_log_keeps_head_tail_and_errors() -> None:
    made = ToolOutput(max_tokens=250)(output(LOG))
    assert made.tokens == COUNT(made.text) <= 250 < made.tokens_before == COUNT(LOG)
    for kept in ("GET /item/0 200", "ERROR upstream app-03", "601 requests served", "more lines like this"):
        assert kept in made.text, kept
    assert 'open_output("msg-7")' in made.text
    assert "left out" in made.notes[0]


def test_errors_amid_different_lines_are_found() -> None:
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
    lines = [f"{words[n % 10]} {words[n // 10 % 10]} {words[n // 100]} done" for n in range(900)]
    lines[500] = "RuntimeError: disk quota exceeded on vol-7"
    made = ToolOutput(max_tokens=200)(output("\n".join(lines)))
    assert "disk quota exceeded on vol-7" in made.text
    assert made.text.startswith(lines[0])
    assert lines[-1] in made.text
    assert "lines left out" in made.text


def test_counts_of_no_errors_are_no_errors() -> None:
    lines = [f"{chr(97 + n % 26) * (n % 7 + 1)} step finished" for n in range(200)]
    lines[100] = "0 errors, 0 warnings"
    assert "0 errors" not in ToolOutput(max_tokens=120)(output("\n".join(lines))).text


def test_long_json_becomes_its_schema_with_its_first_item() -> None:
    rows = [{"id": n, "name": f"host-{n}", "tags": ["a", "b"], "ok": n % 2 == 0} for n in range(500)]
    made = ToolOutput(max_tokens=200)(output(json.dumps({"rows": rows, "next": None})))
    assert made.tokens <= 200
    schema = '{"rows": [{"id": int 0..199, "name": text of 6..8, "tags": ["a" | "b"] x 2, "ok": bool}] x 500'
    assert schema in made.text
    assert 'first item: {"id": 0, "name": "host-0", "tags": ["a", "b"], "ok": true}' in made.text
    assert 'open_output("msg-7")' in made.text


def test_errors_inside_json_are_shown() -> None:
    value = {"items": list(range(2_000)), "error": "quota exceeded for tenant 42"}
    assert "quota exceeded for tenant 42" in ToolOutput(max_tokens=150)(output(json.dumps(value))).text


def test_a_table_keeps_its_header() -> None:
    rows = "\n".join(f"{n},host-{n},{n * 3}" for n in range(400))
    made = ToolOutput(max_tokens=120)(output(f"id,name,load\n{rows}"))
    assert made.text.startswith("id,name,load\n")
    assert "399 more lines like this" in made.text


def test_chinese_outputs_are_explained_in_chinese() -> None:
    lines = "\n".join(
        f"第 {n} 步：检查节点{'甲乙丙丁'[n % 4]}，一切正常，{'继续等待' * (n % 3)}" for n in range(300)
    )
    made = ToolOutput(max_tokens=200)(output(f"{lines}\n错误：连接被拒绝"))
    assert "错误：连接被拒绝" in made.text
    assert '看全文：open_output("msg-7")' in made.text
    assert made.tokens <= 200


def test_a_bare_text_has_no_handle() -> None:
    assert "open_output" not in ToolOutput(max_tokens=100)(LOG).text


def test_one_very_long_line_is_clipped() -> None:
    made = ToolOutput(max_tokens=100)(output("head " + "x7 " * 20_000 + "tail"))
    assert made.tokens <= 100
    assert "head" in made.text
    assert made.text.splitlines()[0].endswith("tail")


def test_a_limit_too_small_gives_the_beginning() -> None:
    made = ToolOutput(max_tokens=5)(output(LOG))
    assert 0 < made.tokens <= 5
    assert LOG.startswith(made.text)


def test_misuse_is_named() -> None:
    with pytest.raises(InputError, match="one output at a time, not 2"):
        ToolOutput()([output("a"), output("b")])
    with pytest.raises(InputError, match="max_tokens"):
        ToolOutput(max_tokens=0)


@pytest.mark.parametrize("text", [LOG, "端口" * 3_000, "a" * 5_000, "👩‍👩‍👧‍👦" * 200, "short"], ids=ascii)
@pytest.mark.parametrize("size", [1, 50, 1_000])
def test_pages_make_up_the_whole(text: str, size: int) -> None:
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


def test_pages_end_behind_a_line() -> None:
    assert page(LOG, 0, 200).text.endswith("\n")


@pytest.mark.parametrize("offset", [-1, 10_000, "0", True])
def test_a_place_outside_is_named(offset: object) -> None:
    with pytest.raises(InputError, match="offset="):
        page("text", offset)  # type: ignore[arg-type]
