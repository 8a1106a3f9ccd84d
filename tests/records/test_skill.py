from pathlib import Path

import pytest
from refusing import refused
from tables import literals, read_tables

from jiyi.errors import InputError
from jiyi.records.skill import MAX_SKILL_DESCRIPTION, MAX_SKILL_NAME, Skill


def skill(name="one", description="Does one thing."):
    return Skill(name=name, description=description, folder=Path("one"))


@pytest.mark.parametrize("name", ["a", "pdf-forms", "nginx-502", "周报", "周报-模板", "x" * MAX_SKILL_NAME])
def test_names_that_are_fine(name):
    assert skill(name).name == name
    assert skill(name).body is None


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        *literals(read_tables(__file__)["names that are refused"]),
        ("x" * (MAX_SKILL_NAME + 1), "65 characters"),
    ],
)
def test_names_that_are_refused(name, complaint):
    refused(InputError, complaint, skill, name)


def test_descriptions():
    assert skill(description="x" * MAX_SKILL_DESCRIPTION).description
    for empty in ("", "  \n"):
        refused(InputError, "description is missing", skill, description=empty)
    refused(InputError, r"1,025 characters.*body", skill, description="x" * (MAX_SKILL_DESCRIPTION + 1))
