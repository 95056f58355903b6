"""Optional dependencies: a missing one is an error that names its extra, such as ``gpt2viz[app]``.

``pyproject.toml`` lists each extra's packages. Modules that need one are loaded on first use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

from gpt2viz.errors import MissingExtraError


def missing(what: str, extra: str, module: str) -> MissingExtraError:
    """The error saying that ``what`` needs a ``module``, with the command that installs it."""
    return MissingExtraError(f"{what} needs {module}: pip install 'gpt2viz[{extra}]'")


@contextmanager
def require(what: str, extra: str) -> Iterator[None]:
    """Turn a missing module into ``MissingExtraError`` inside the block; see ``missing``."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "gpt2viz"):
            raise
        raise missing(what, extra, name) from None


def lazy_names(
    package: str,
    modules: Mapping[str, Iterable[str]],
    public: Iterable[str],
    extra: str = "",
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package that loads some of its names on first use.

    ``modules`` has the names that each module of the package defines, or the module's own.
    ``public`` are further names for ``dir``, ``extra`` is what these modules need: see ``missing``.
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        whole = f"{package}.{name}"
        with require(whole, extra) if extra else nullcontext():
            loaded = import_module(f"{package}.{module_of[name]}")
        value = loaded if loaded.__name__ == whole else getattr(loaded, name)
        vars(sys.modules[package])[name] = value
        return value

    return get, lambda: sorted({*public, *module_of})
