import os

import pytest
from at_once import at_once
from refusing import refused
from tables import literals, read_tables

from jiyi.errors import InputError, NotFound
from jiyi.skills import SkillRegistry
from jiyi.text import counter_for


def reasons(registry):
    return {problem.folder.name: problem.reason for problem in registry.problems}


def test_the_examples_are_sound(examples):
    registry = SkillRegistry(examples)
    assert (registry.names, registry.problems) == (("code-review", "nginx-502", "weekly-report"), ())
    card = registry.get("code-review")
    assert card.body is None
    assert card.description.startswith("Reviews a pull request or diff: correctness")
    assert (card.allowed_tools, card.metadata["version"]) == (("Bash(git:*)", "Read"), "1.0")
    assert registry.get("nginx-502").tags == ("nginx", "运维", "网关")
    whole = registry.open("nginx-502")
    assert whole.body.startswith("# 排查 nginx")
    assert list(whole.examples) == ["examples.md"]
    assert whole.resources == ("references/upstream-errors.md",)


def test_a_body_is_read_when_it_is_opened_and_not_before(write_skill):
    registry = SkillRegistry(write_skill("late", body=b"\xff\xfe not text").parent)
    assert registry.names == ("late",)
    refused(InputError, r"late cannot be opened: the body .* UTF-8", registry.open, "late")
    write_skill("late", body="text after all")
    assert registry.open("late").body == "text after all"


def test_fields_that_are_optional(write_skill):
    head = (
        "Name: one\ndescription: Does one.\nwhen_to_use: On Mondays.\ntags: [a, b]\n"
        "allowed-tools:\n  - Read\n  - Bash(jq:*)\ncompatibility: Requires jq\n"
        "metadata:\n  author: me\n  version: '2'\n  deep: {x: y}\nunknown: [1]"
    )
    card = SkillRegistry(write_skill(head=head).parent).get("one")
    assert (card.when_to_use, card.tags) == ("On Mondays.", ("a", "b"))
    assert (card.allowed_tools, card.compatibility) == (("Read", "Bash(jq:*)"), "Requires jq")
    assert card.metadata == {"author": "me", "version": "2"}


def test_windows_line_ends_and_a_byte_order_mark(tmp_path):
    folder = tmp_path / "one"
    folder.mkdir()
    text = "\ufeff---\r\nname: one\r\ndescription: Does one.\r\n---\r\nFirst.\r\nSecond.\r\n"
    (folder / "SKILL.md").write_bytes(text.encode())
    assert SkillRegistry(tmp_path).open("one").body == "First.\nSecond."


def test_a_bad_skill_hides_no_good_one(write_skill, tmp_path):
    write_skill("good")
    heads, files = (literals(read_tables(__file__)[f"{what}, what is said"]) for what in ("head", "file"))
    heads.append((f"name: {'x' * 65}\ndescription: x", "65 characters"))
    heads.append((f"name: a\ndescription: {'x' * 1025}", "1,025 characters"))
    files.append((b"---\nname: huge\n" + b"# x\n" * 100_000 + b"---\n", "has no end"))
    said = {"empty": "no SKILL.md"}
    skills = tmp_path / "skills"
    (skills / "empty").mkdir()
    for number, (head, complaint) in enumerate(heads):
        write_skill(f"head-{number}", head=head)
        said[f"head-{number}"] = complaint
    for number, (data, complaint) in enumerate(files):
        (skills / f"file-{number}").mkdir()
        (skills / f"file-{number}" / "SKILL.md").write_bytes(data)
        said[f"file-{number}"] = complaint
    (skills / "README.md").write_text("not a folder")
    (skills / ".git").mkdir()
    registry = SkillRegistry(skills)
    assert registry.names == ("good",)
    found = reasons(registry)
    assert found.keys() == said.keys()
    for name, complaint in said.items():
        assert complaint in found[name]
    assert not any(problem.usable for problem in registry.problems)


def test_a_folder_that_is_not_there_is_a_problem(tmp_path, write_skill):
    registry = SkillRegistry(tmp_path / "nowhere", write_skill().parent)
    assert registry.names == ("one",)
    assert "cannot be listed" in reasons(registry)["nowhere"]
    assert len(SkillRegistry()) == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_a_problem(write_skill):
    folder = write_skill()
    (folder / "SKILL.md").chmod(0)
    assert "cannot be read" in reasons(SkillRegistry(folder.parent))["one"]


def test_of_two_with_one_name_the_first_stays(write_skill):
    first = write_skill("same", head="name: same\ndescription: First.", inside="project")
    second = write_skill("same", head="name: same\ndescription: Second.", inside="user")
    registry = SkillRegistry(first.parent, second.parent)
    assert registry.get("same").description == "First."
    (problem,) = registry.problems
    assert problem.folder == second
    assert str(first) in problem.reason
    assert SkillRegistry(second.parent, first.parent).get("same").description == "Second."
    assert SkillRegistry(first.parent, first.parent).names == ("same",)


def test_names_of_all_folders_stand_in_order_and_a_skills_own_folder_may_be_given(write_skill):
    last, first = write_skill("zeta", inside="project"), write_skill("alpha", inside="user")
    assert SkillRegistry(last.parent, first.parent).names == ("alpha", "zeta")
    folder = write_skill("one", scripts__sub__SKILL_md="---\nname: x\ndescription: y\n---\n")
    assert SkillRegistry(folder).names == ("one",)


def test_a_name_unlike_its_folder_is_noted_and_used(write_skill):
    registry = SkillRegistry(write_skill("folder", head="name: other\ndescription: x").parent)
    assert registry.names == ("other",)
    assert registry.problems[0].usable
    assert "'other'" in registry.problems[0].reason


def test_what_is_unknown_names_what_there_is(write_skill):
    registry = SkillRegistry(write_skill("one", references__codes_md="42").parent)
    refused(NotFound, "there are one", registry.open, "two")
    refused(NotFound, r"it has references/codes\.md", registry.resource, "one", "codes.md")
    refused(NotFound, "give folders", SkillRegistry().get, "one")


@pytest.mark.parametrize(
    "name", ["../secret.txt", "files/../../secret.txt", "", "a\0b", "..", "~/secret.txt", "..\\secret.txt"]
)
def test_a_name_that_leads_out_is_refused(write_skill, name):
    folder = write_skill(references__codes_md="42")
    (folder.parent / "secret.txt").write_text("secret")
    refused(InputError, "inside the folder", SkillRegistry(folder.parent).resource, "one", name)


def test_an_absolute_name_is_refused_and_a_skill_may_be_a_link_as_a_whole(write_skill, tmp_path):
    folder = write_skill(inner_md="42")
    with pytest.raises(InputError, match="inside the folder"):
        SkillRegistry(folder.parent).resource("one", str(folder / "inner.md"))
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "one").symlink_to(folder)
    registry = SkillRegistry(tmp_path / "links")
    assert registry.resource("one", "inner.md") == "42"
    assert registry.open("one").resources == ("inner.md",)


def test_links_out_of_the_folder_are_refused_and_not_listed(write_skill, tmp_path):
    secret = tmp_path / "secret.md"
    secret.write_text("---\nname: secret\ndescription: x\n---\n")
    folder = write_skill(inner_md="42", examples__shown_md="shown")
    (folder / "out.md").symlink_to(secret)
    (folder / "outside").symlink_to(tmp_path)
    (folder / "examples" / "out.md").symlink_to(secret)
    (folder / "again.md").symlink_to(folder / "inner.md")
    (folder / "loop.md").symlink_to(folder / "loop.md")
    os.mkfifo(folder / "examples.md")
    registry = SkillRegistry(folder.parent)
    whole = registry.open("one")
    assert whole.resources == ("again.md", "inner.md")
    assert whole.examples == {"examples/shown.md": "shown"}
    assert registry.resource("one", "again.md") == "42"
    for name in ("out.md", "outside/secret.md", "examples/out.md"):
        refused(InputError, "leads out", registry.resource, "one", name)
    refused(NotFound, "loop", registry.resource, "one", "loop.md")
    (folder.parent / "linked").mkdir()
    (folder.parent / "linked" / "SKILL.md").symlink_to(secret)
    assert "leads out" in reasons(SkillRegistry(folder.parent))["linked"]


def test_resources_must_be_text_of_a_sane_size(write_skill):
    folder = write_skill()
    (folder / "picture.png").write_bytes(b"\x89PNG\xff\xfe")
    (folder / "zeros.bin").write_bytes(bytes(10))
    (folder / "huge.txt").write_bytes(b"x" * 1_000_001)
    registry = SkillRegistry(folder.parent)
    assert registry.open("one").resources == ("huge.txt", "picture.png", "zeros.bin")
    for name, complaint in {
        "picture.png": "no UTF-8",
        "zeros.bin": "no text",
        "huge.txt": "larger than 1,000,000",
    }.items():
        refused(InputError, complaint, registry.resource, "one", name)
    write_skill("big", body="x" * 1_000_001)
    refused(InputError, "larger than", SkillRegistry(folder.parent).open, "big")


def test_reload_reads_everything_again(write_skill):
    folder = write_skill("one", body="old", examples_md="old")
    write_skill("two")
    registry = SkillRegistry(folder.parent)
    assert registry.open("one").body == "old"
    version = registry.version
    write_skill("one", body="newer", examples_md="newer")
    write_skill("three")
    (folder.parent / "two" / "SKILL.md").unlink()
    assert registry.open("one").body == "old"
    registry.reload()
    assert registry.version > version
    assert registry.names == ("one", "three")
    assert registry.open("one").body == "newer"
    assert registry.open("one").examples == {"examples.md": "newer"}
    assert "no SKILL.md" in reasons(registry)["two"]
    write_skill("two")
    registry.reload()
    assert registry.problems == ()


def test_body_tokens_count_body_and_examples(write_skill):
    counter = counter_for()
    folder = write_skill("one", body="one two three", examples_md="four five")
    write_skill("bad", body=b"\xff")
    registry = SkillRegistry(folder.parent)
    expected = counter.count_text("one two three") + counter.count_text("four five")
    assert registry.body_tokens("one", counter) == expected
    assert registry.body_tokens("bad", counter) == 0
    write_skill("one", body="one two three four")
    registry.reload()
    assert registry.body_tokens("one", counter) == expected + 1


def test_threads_may_open_and_reload_at_once(write_skill):
    folders = [write_skill(f"s{n}", body=f"body {n}") for n in range(20)]
    registry = SkillRegistry(folders[0].parent)

    def use(place):
        for n in range(100):
            assert registry.open(f"s{(n + place) % 20}").body == f"body {(n + place) % 20}"
            registry.reload()

    at_once(use, range(4))
