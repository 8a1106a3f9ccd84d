"""Names that readers of tutorials look for in `jiyi`, and what to use; read only when one is missing."""

import sys
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec

USE: Mapping[str, str] = tomllib.loads((files("jiyi") / "names.toml").read_text("utf-8"))
"""What to use in place of a name."""


def missing_name_error(name: str) -> AttributeError | ImportError:
    """Return the error for a name that `jiyi` lacks; for a known one it says what to use.

    Python replaces an AttributeError of ``from jiyi import name`` by words of its own, so that statement
    gets an ImportError; for attribute access and `hasattr` it stays an AttributeError.
    """
    message = f"module 'jiyi' has no attribute {name!r}"
    use = USE.get(name) or _find_module(name)
    if not use:
        return AttributeError(message, name=name)
    caller = sys._getframe(2)  # the caller of `jiyi.__getattr__`
    if caller.f_globals.get("__name__") == "importlib._bootstrap":
        return ImportError(f"jiyi has no {name!r}; use {use}; see docs/names.md", name="jiyi")
    return AttributeError(f"{message}; use {use}; see docs/names.md", name=name)


def missing_verb_error(memory: object, name: str) -> AttributeError:
    """Return the error for a verb that a memory lacks; for one of another library it says what to use."""
    use = USE.get(f"memory.{name}")
    message = f"{type(memory).__name__!r} object has no attribute {name!r}"
    return AttributeError(f"{message}; use {use}" if use else message, name=name, obj=memory)


def _find_module(name: str) -> str:
    """Return where in jiyi the name is, among the loaded packages, or ""."""
    if name.startswith("_") or find_spec(f"jiyi.{name}"):  # private, or a folder not loaded yet
        return ""
    places = []
    for module in [module for module in list(sys.modules) if module.startswith("jiyi.")]:
        loaded = sys.modules[module]  # a folder without a list of its own offers all it imports
        if name in getattr(loaded, "__all__", vars(loaded) if hasattr(loaded, "__path__") else ()):
            places.append(module)
    return f"{min(places, key=lambda place: (place.count('.'), place))}.{name}" if places else ""
