"""jiyi (记忆): memory for LLM agents.

::

    import jiyi

    memory = jiyi.open("agent.db", user_id="ana")
    memory.save_message("s-42", {"role": "user", "content": "nginx 又 502 了"})
    window = memory.build_context("s-42", "上次 502 是怎么修好的？", budget=4000)
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from jiyi.api import *  # noqa: F403 - what is in its __all__
    from jiyi.api import __all__ as __all__
    from jiyi.api import __version__ as __version__
else:  # a type checker would take every name for one of ours
    from importlib import import_module as _imported

    def __getattr__(name: str) -> object:
        from importlib.util import find_spec

        if name.startswith("__") and name not in ("__all__", "__version__"):
            raise AttributeError(f"module 'jiyi' has no attribute {name!r}", name=name)
        if name != "__all__" and find_spec(f"jiyi.{name}"):
            return _imported(f"jiyi.{name}")
        api = _imported("jiyi.api")
        if name not in (*api.__all__, "__all__"):
            from jiyi.names import missing_name_error

            raise missing_name_error(name)
        globals()[name] = value = getattr(api, name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_imported("jiyi.api").__all__})
