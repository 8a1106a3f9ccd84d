"""Skills: instructions for one kind of task, with a card always shown and a body opened on demand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jiyi.errors import InputError
from jiyi.records.checks import explain_type_errors

__all__ = ["MAX_SKILL_DESCRIPTION", "MAX_SKILL_NAME", "Skill"]

MAX_SKILL_NAME = 64
"""Characters of a skill's name, as the Agent Skills format has it (agentskills.io/specification)."""

MAX_SKILL_DESCRIPTION = 1024
"""Characters of a skill's description, from the same format."""


@explain_type_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill: its card, and its body once read; `InputError` for a malformed name or description."""

    name: str  # lower-case letters of any script, digits, single hyphens between them
    description: str  # what it does and when to use it
    folder: Path  # of its SKILL.md
    body: str | None = None  # the instructions; None while only the card was read
    examples: Mapping[str, str] = field(default_factory=dict)  # its example files, read with the body
    resources: tuple[str, ...] = ()  # names of its other files, known once the body was read
    when_to_use: str = ""  # from the front matter, if separate from the description
    tags: tuple[str, ...] = ()  # from the front matter
    allowed_tools: tuple[str, ...] = ()  # tools its author allows without asking
    license: str = ""  # its name, or the file that contains it
    compatibility: str = ""  # what it needs to run
    metadata: Mapping[str, str] = field(default_factory=dict)  # other entries of the front matter

    def __post_init__(self) -> None:
        name, description = self.name, self.description
        parts = name.split("-")
        if not name:
            raise InputError('the name is missing; write "name: my-skill" in the front matter')
        if len(name) > MAX_SKILL_NAME:
            raise InputError(f"the name has {len(name)} characters; {MAX_SKILL_NAME} are the most")
        if name != name.lower() or not all(part.isalnum() for part in parts):
            raise InputError(
                f"the name {name!r} must be lower-case letters and digits with single hyphens between"
            )
        if not description.strip():
            advice = 'write "description: what it does and when to use it"'
            raise InputError(f"the description is missing; {advice}")
        if len(description) > MAX_SKILL_DESCRIPTION:
            most = f"{MAX_SKILL_DESCRIPTION:,} are the most: move the rest into the body"
            raise InputError(f"the description has {len(description):,} characters; {most}")
