"""What ``pip install gpt2viz`` leaves out, and what to install for it, such as ``gpt2viz[app]``.

``pyproject.toml`` lists what each extra brings. What needs one is loaded when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpt2viz.errors import MissingExtraError


def missing(what: str, extra: str, module: str) -> MissingExtraError:
    """The error that says in one sentence that ``what`` needs a ``module``, and what brings it."""
    return MissingExtraError(f"{what} needs {module}: pip install 'gpt2viz[{extra}]'")


@contextmanager
def needed(what: str, extra: str) -> Iterator[None]:
    """Within it, a module that isn't installed raises ``MissingExtraError``; see ``missing``."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "gpt2viz"):
            raise
        raise missing(what, extra, name) from None
