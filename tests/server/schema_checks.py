"""What schemathesis checks beside its own: what the schema allows may be refused by a verb, not for its form.

Which words, ids or moments go together is more than a schema can say; the verbs refuse it with errors of
their own. Where the form is wrong the server says `InputError`, and of which argument.

How many cases of each operation each phase had goes to the file that SCHEMA_CHECKS_COUNTED names.
"""

import atexit
import json
import os
import re
from collections import Counter
from pathlib import Path

import schemathesis

_counted: Counter[tuple[str, str]] = Counter()


@atexit.register
def _tell():
    Path(os.environ["SCHEMA_CHECKS_COUNTED"]).write_text(json.dumps(list(_counted.items())))


@schemathesis.check
def allowed_form_is_taken(ctx, response, case):
    """Fail where a request that the schema allows is refused for its form."""
    if case.meta is not None:
        _counted[case.operation.label, case.meta.phase.name.value] += 1
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 400:
        return
    problem = json.loads(response.content)
    of_form = problem["type"] == "/errors#InputError" and re.match(r"[\w.]+: ", problem["detail"])
    # To JSON Schema 1.0 is a whole number, and a second may be the 61st. Records check what they hold.
    odd = ("valid integer", "ISO 8601", "Value error", "Extra inputs")  # a query may name more, to OpenAPI
    if of_form and not any(known in problem["detail"] for known in odd):
        raise AssertionError(f"the schema allows what was refused: {problem['detail']}")
