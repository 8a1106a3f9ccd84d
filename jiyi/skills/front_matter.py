"""The head of a SKILL.md: YAML between two lines of three hyphens."""

import json
import re
from typing import Any

from jiyi.errors import InputError

__all__ = ["parse"]

_MOST_BRACKETS = 500  # the reader's time grows with the square of how deep they are
# A plain value with a colon in it is no YAML, and is what authors write most often by mistake.
_PLAIN = re.compile(r"""^([A-Za-z][\w-]*): +([^\s"'\[{>|&*!#].*: .*?)\s*$""", re.MULTILINE)


def parse(text: str) -> dict[str, Any]:
    """Return the fields of a front matter; every scalar is text as it is written, "1.0" as "1.0".

    A plain value with ": " inside, which YAML forbids and most readers of skills accept, is
    taken as if it stood in quotes.

    Raises:
        InputError: it is no YAML, or no list of fields; says the line.
    """
    import yaml  # type: ignore[import-untyped]

    if text.count("[") + text.count("{") > _MOST_BRACKETS:
        raise InputError(
            f"the front matter has more than {_MOST_BRACKETS} brackets; keep it to fields and lists"
        )
    fault: yaml.YAMLError | None = None
    for reading in (text, _PLAIN.sub(_quoted, text)):
        try:
            fields = yaml.load(reading, yaml.BaseLoader)
            break
        except yaml.YAMLError as error:
            fault = fault or error
        except RecursionError as error:
            raise InputError("the front matter is nested too deeply; keep it to fields and lists") from error
    else:
        raise InputError(f"the front matter is no YAML: {_where(fault)}") from fault
    if not isinstance(fields, dict):
        raise InputError('the front matter holds no fields; write lines such as "name: my-skill"')
    return {str(name): value for name, value in fields.items()}


def _quoted(line: re.Match[str]) -> str:
    return f"{line[1]}: {json.dumps(line[2], ensure_ascii=False)}"


def _where(error: Exception | None) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    # The mark counts from 0, and the line of hyphens stands before.
    return f"line {mark.line + 2}: {problem}; put the value in quotes" if mark else problem
