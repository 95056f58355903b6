"""Optional dependencies: a missing one is an error that names its extra, as ``gpt2viz[app]``.

``pyproject.toml`` lists each extra's packages. Modules that need one are loaded on first use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from types import MappingProxyType
from typing import Any

from gpt2viz.errors import MissingExtraError


def missing(what: str, extra: str, module: str) -> MissingExtraError:
    """The error that ``what`` needs a ``module``, with the command that installs it."""
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
    modules: Mapping[str, str],
    public: Iterable[str],
    extras: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package that loads some of its names on first use.

    ``modules`` maps each name to the package's module that defines it; a module maps to
    itself. ``public`` are further names for ``dir``, ``extras`` what a name needs: see ``missing``.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        whole = f"{package}.{name}"
        with require(whole, extras[name]) if name in extras else nullcontext():
            loaded = import_module(f"{package}.{modules[name]}")
        value = loaded if loaded.__name__ == whole else getattr(loaded, name)
        vars(sys.modules[package])[name] = value
        return value

    return get, lambda: sorted({*public, *modules})
