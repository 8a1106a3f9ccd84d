"""The shape of the code: sizes, docstrings, `__all__`, and where tests live."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = sorted(file for folder in ("jiyi", "tests", "bench") for file in (ROOT / folder).rglob("*.py"))
MODULES = [file for file in FILES if file.is_relative_to(ROOT / "jiyi") and file.name != "__main__.py"]

LISTED = {ROOT / "jiyi/errors.py"}  # what reads its __all__ sends and documents errors

MOST_LINES = 400
MOST_FUNCTION_LINES = 60
MOST_CONSTRUCTOR_PARAMETERS = 8  # beside self
SLACK = 1.02  # a ceiling may be so much above what it is for

# Folders of tests that stand for no package: suites run on several, and whole programs.
SUITES = {"acceptance", "campaigns", "chroma", "contract", "faults", "postgres", "postgres_faults"}

MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|Users|work|opt|mnt)/\w")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def named(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@cache
def text(file: Path) -> str:
    return file.read_text("utf-8")


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(text(file), named(file))


def over_the_ceiling(ceilings: Mapping[str, int]) -> Iterator[str]:
    """Say which rooms of the package have more lines of Python than they may, or far fewer."""
    lines: Counter[str] = Counter()
    for file in (ROOT / "jiyi").rglob("*.py"):
        inside = file.relative_to(ROOT / "jiyi").parts
        count = len(text(file).splitlines())
        lines.update({inside[0] if len(inside) > 1 else "root": count, "total": count})
    for room in sorted({*lines, *ceilings}):
        if lines[room] > ceilings.get(room, 0):
            yield f"{room} has {lines[room]} lines, at most {ceilings.get(room, 0)}: take something out"
        if ceilings.get(room, 0) > SLACK * lines[room] + 20:
            yield f"{room} has {lines[room]} lines: lower its ceiling of {ceilings[room]}"


def too_big(file: Path) -> Iterator[str]:
    count = len(text(file).splitlines())
    if count > MOST_LINES:
        yield f"{named(file)}:{MOST_LINES + 1}: {count} lines, at most {MOST_LINES}"
    for node in ast.walk(tree(file)):
        if not isinstance(node, Function):
            continue
        count = (node.end_lineno or node.lineno) - node.lineno + 1
        if count > MOST_FUNCTION_LINES:
            yield f"{named(file)}:{node.lineno}: {node.name} has {count} lines, at most {MOST_FUNCTION_LINES}"
        if node.name == "__init__":
            given = node.args
            count = len([*given.posonlyargs, *given.args, *given.kwonlyargs]) - 1
            if count > MOST_CONSTRUCTOR_PARAMETERS:
                yield (
                    f"{named(file)}:{node.lineno}: the constructor has {count} parameters, "
                    f"at most {MOST_CONSTRUCTOR_PARAMETERS}"
                )


def imported(module: ast.Module) -> set[str]:
    return {
        (name.asname or name.name).partition(".")[0]
        for node in ast.walk(module)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }


def defined(module: ast.Module) -> dict[str, int]:
    """Return the names a module binds at its top level, with their lines; a command's function is none."""
    out: dict[str, int] = {}
    for node in module.body:
        if isinstance(node, ast.ClassDef | Function):
            if not any("app." in ast.unparse(decorator) for decorator in node.decorator_list):
                out[node.name] = node.lineno
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            out |= {target.id: node.lineno for target in targets if isinstance(target, ast.Name)}
    return out


def badly_exported(file: Path) -> Iterator[str]:
    """A folder lists what it offers, and a module what a folder takes from it with a star, or hands on."""
    module = tree(file)
    names = defined(module)
    if "__all__" not in names:
        if (file.name == "__init__.py" and (names or imported(module) - {"*"})) or file in starred():
            yield f"{named(file)}:1: no __all__"
        return
    line = names.pop("__all__")
    value = next(n.value for n in module.body if isinstance(n, ast.Assign) and n.lineno == line)
    exported = ast.literal_eval(value)
    needed = file in LISTED or file in starred() or imported(module) & set(exported)
    if file.name != "__init__.py" and not needed:
        yield f"{named(file)}:{line}: __all__ repeats which names have no underscore"
    for name in sorted(set(exported) - set(names) - imported(module)):
        yield f"{named(file)}:{line}: __all__ names {name}, which does not exist"
    for name in sorted(set(names) - set(exported)):
        if not name.startswith("_"):
            yield f"{named(file)}:{names[name]}: {name} is public and not in __all__"
    if len(exported) != len(set(exported)):
        yield f"{named(file)}:{line}: __all__ names something twice"


@cache
def starred() -> frozenset[Path]:
    """Return the modules that a folder takes everything from."""
    lines = chain.from_iterable(re.findall(r"from ([\w.]+) import \*", text(file)) for file in MODULES)
    return frozenset(ROOT / f"{module.replace('.', '/')}.py" for module in lines)


def check(faults: Iterable[str]) -> None:
    found = "\n".join(faults)
    assert not found, f"\n{found}"


def test_sizes():
    check(fault for file in FILES for fault in too_big(file))


def test_no_room_grows():
    check(over_the_ceiling(tomllib.loads((ROOT / "tests" / "ceilings.toml").read_text("utf-8"))))


def test_modules_say_what_they_are_and_what_is_public():
    check(f"{named(file)}:1: no docstring" for file in MODULES if not ast.get_docstring(tree(file)))
    inside = [file for file in MODULES if file != ROOT / "jiyi" / "__init__.py"]  # it gives what api.py has
    check(fault for file in inside for fault in badly_exported(file))


def test_no_path_of_one_machine():
    lines = ((file, n, line) for file in FILES for n, line in enumerate(text(file).splitlines(), 1))
    check(f"{named(file)}:{n}: {line.strip()}" for file, n, line in lines if MACHINE_PATH.search(line))


def test_tests_mirror_the_packages():
    packages = {file.parent.name for file in (ROOT / "jiyi").glob("*/__init__.py") if _has_code(file.parent)}
    tested = {f.parent.relative_to(ROOT / "tests").parts[0] for f in (ROOT / "tests").glob("*/**/test_*.py")}
    assert not sorted(packages - tested), "packages without tests"
    assert not sorted(tested - packages - SUITES), "folders of tests that belong to no package"


def test_helpers_have_names_of_their_own():
    """Tests are imported by file, so what they share must be found without its folder."""
    helpers = [f.name for f in FILES if f.is_relative_to(ROOT / "tests") and not f.name.startswith("test_")]
    helpers = [name for name in helpers if name not in ("conftest.py", "__init__.py")]
    assert len(helpers) == len(set(helpers))


def _has_code(folder: Path) -> bool:
    return any(file.name != "__init__.py" for file in folder.rglob("*.py"))
