"""Additions of other packages, which name them in their ``pyproject.toml`` as entry points.

    [project.entry-points."gpt2viz.scores"]
    confidence = "gpt2viz_example.scores:CONFIDENCE"

    [project.entry-points."gpt2viz.edits"]
    late = "gpt2viz_example.edits:LATE"

    [project.entry-points."gpt2viz.pages"]
    surest_heads = "gpt2viz_example.page:draw"

Installing such a package is enough. Its code then runs with all of gpt2viz's rights: install
only what you trust.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from gpt2viz.errors import PluginError

#: The groups of entry points: a ``gpt2viz.heads.Score``; a ``gpt2viz.EditKind``; a function that
#: draws a page.
SCORES, EDITS, PAGES = "gpt2viz.scores", "gpt2viz.edits", "gpt2viz.pages"
#: The author of what a program registers itself.
THIS_PROGRAM = "this program"

_LOG = logging.getLogger("gpt2viz")


class Plugin(NamedTuple):
    """An addition: its ``name``, and the package, with its version, that it is ``by``."""

    name: str
    by: str
    entry: EntryPoint

    def load(self) -> Any:
        """The object that the entry point names. Any error of its module is a ``PluginError``."""
        with guard(lambda error: f"{self.entry.value} of {self.by} can't be loaded: {error}"):
            return self.entry.load()


def plugins(group: str) -> list[Plugin]:
    """The plugins of the installed packages in a group, by name and then by package."""
    entries = entry_points(group=group)
    return sorted(Plugin(entry.name, _owner(entry), entry) for entry in entries)


class Named(Protocol):
    """An item of a registry: a dataclass with a name and, in ``by``, its author; "" for ours."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def name(self) -> str: ...

    @property
    def by(self) -> str: ...


T = TypeVar("T", bound=Named)


class Registry(Mapping[str, T]):
    """Items by name: those ``declared`` here, those of other packages, those of this program.

    They are of the type ``made``, whose public name is ``public``, and messages call each a
    ``what``. Plugins are loaded on first use; ``errors`` and stderr say which were left out, and
    why.
    """

    def __init__(
        self, declared: Sequence[T], group: str, made: type[T], public: str, what: str
    ) -> None:
        self._group, self._made, self._public, self._what = group, made, public, what
        self._known = {item.name: item for item in declared}
        self._looked = False
        self._lock = threading.RLock()  # a plugin's module may read it while plugins are loaded
        self._errors: list[str] = []

    def __getitem__(self, name: str) -> T:
        return self._load()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._load()))

    def __len__(self) -> int:
        return len(self._load())

    @property
    def errors(self) -> tuple[str, ...]:
        """The reasons for which plugins were left out, a sentence each."""
        self._load()
        return tuple(self._errors)

    def add(self, item: Any, by: str = THIS_PROGRAM, name: str = "") -> T:
        """Add an item; it replaces one of the same name that is ``by`` the same author.

        Raises ``PluginError`` for an item of another type, and for a name that others use.
        """
        if not isinstance(item, self._made):
            raise PluginError(
                f"{name or 'This'} of {by} is {type(item).__name__}, not a {self._public}."
            )
        taken = self._load().get(item.name)
        if not item.name.strip() or (taken and taken.by != by):
            whose = f"{taken.by or 'gpt2viz'} has one of that name" if taken else "it has no name"
            raise PluginError(
                f"The {self._what} {item.name!r} of {by} is left out: {whose}. Give it another."
            )
        self._known[item.name] = replace(item, by=by)
        return self._known[item.name]

    def _load(self) -> dict[str, T]:
        with self._lock:
            if not self._looked:
                self._looked = True
                for plugin in plugins(self._group):
                    try:
                        self.add(plugin.load(), plugin.by, plugin.name)
                    except PluginError as error:
                        self._errors.append(warn(error))
            return self._known


def _owner(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package without a name"


@contextmanager
def guard(describe: Callable[[str], str]) -> Iterator[None]:
    """Run another package's code: any error becomes a ``PluginError`` with ``describe``'s text.

    ``describe`` gets the error in one line. SystemExit counts, and so does KeyboardInterrupt off
    the main thread, where no key causes it; the exceptions by which Streamlit ends a page don't.
    """
    try:
        yield
    except BaseException as error:
        pressed = isinstance(error, KeyboardInterrupt) and (
            threading.current_thread() is threading.main_thread()
        )
        if pressed or type(error).__module__.startswith("streamlit."):
            raise
        raise PluginError(describe(one_line(error))) from error


def one_line(error: BaseException) -> str:
    """Format an error of another package in one line, such as "KeyError: 'a'"."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message:.300}" if message else type(error).__name__


def warn(error: Exception) -> str:
    """Log the error, by default on stderr, and return its text."""
    _LOG.warning("gpt2viz: %s", error)
    return str(error)
