from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def examples():
    return ROOT / "examples" / "skills"


@pytest.fixture
def write_skill(tmp_path):
    """Write a SKILL.md and other files below ``tmp_path/skills``; return the skill's folder."""

    def write(
        name: str = "one",
        head: str | None = None,
        body: str | bytes = "Do it.",
        inside: str = "skills",
        **files: str,
    ) -> Path:
        folder = tmp_path / inside / name
        folder.mkdir(parents=True, exist_ok=True)
        fields = f"name: {name}\ndescription: Does {name}." if head is None else head
        words = body.encode() if isinstance(body, str) else body
        (folder / "SKILL.md").write_bytes(f"---\n{fields}\n---\n".encode() + words)
        for path, text in files.items():
            file = folder / path.replace("__", "/").replace("_md", ".md")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        return folder

    return write
