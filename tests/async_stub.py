"""Writes jiyi/async_manager.pyi from the verbs of MemoryManager: `python tests/async_stub.py`."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

from jiyi.async_manager import AsyncMemoryManager
from jiyi.manager import MemoryManager

Method = ast.FunctionDef | ast.AsyncFunctionDef

STUB = Path(inspect.getfile(AsyncMemoryManager)).with_suffix(".pyi")


def written() -> str:
    """Return what the stub should be now: the verbs with their docstrings, and the imports they need."""
    imports: set[str] = set()
    body: list[ast.stmt] = []
    for owner in (AsyncMemoryManager, *MemoryManager.__mro__[:-1]):
        module = ast.parse(Path(inspect.getfile(owner)).read_text("utf-8"))
        node = next(n for n in module.body if isinstance(n, ast.ClassDef) and n.name == owner.__name__)
        methods = [n for n in node.body if isinstance(n, Method)]
        if owner is AsyncMemoryManager:
            chosen = methods
            body.append(node.body[0])  # its docstring
        else:
            chosen = [_awaited(n, owner) for n in methods if not n.name.startswith("_")]
        for method in chosen:
            method.body = method.body[:1] if ast.get_docstring(method) else [ast.Expr(ast.Constant(...))]
            imports |= _imports(method, module, owner.__module__)
        body += chosen
    name = AsyncMemoryManager.__name__
    whole = ast.ClassDef(name=name, bases=[], keywords=[], body=body, decorator_list=[])
    code = ast.unparse(ast.fix_missing_locations(whole))
    text = "\n".join([*sorted(imports), f"__all__ = [{name!r}]", code])
    return _ruff("format", text=_ruff("check", "--select", "I", "--fix", text=text))


def _awaited(method: Method, owner: type) -> Method:
    """Return a method as a coroutine, its defaults as values; a property as it is."""
    member = getattr(owner, method.name)
    if isinstance(member, property):
        return method
    given = inspect.signature(member).parameters.values()
    shown = {one.name: repr(one.default) for one in given if one.default is not one.empty}
    defaults = {name: ast.parse(value, mode="eval").body for name, value in shown.items()}
    args = method.args
    positional = [*args.posonlyargs, *args.args]
    args.defaults = [defaults[one.arg] for one in positional if one.arg in defaults]
    args.kw_defaults = [defaults.get(one.arg) for one in args.kwonlyargs]
    return ast.AsyncFunctionDef(**{**dict(ast.iter_fields(method)), "decorator_list": []})


def _imports(method: ast.AST, module: ast.Module, name: str) -> set[str]:
    """Return the imports that a method's annotations need, out of the module that it is written in."""
    used = {node.id for node in ast.walk(method) if isinstance(node, ast.Name)}
    places = {
        alias.name: node.module
        for node in module.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    places |= {node.name: name for node in module.body if isinstance(node, ast.ClassDef)}
    return {f"from {places[one]} import {one}" for one in used if one in places}


def _ruff(*command: str, text: str) -> str:
    run = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(STUB), "-"]
    return subprocess.run(run, input=text, capture_output=True, check=True, encoding="utf-8").stdout


if __name__ == "__main__":
    STUB.write_text(written(), "utf-8")
