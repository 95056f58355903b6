"""What other packages add to gpt2viz: they name it in their ``pyproject.toml``, as an entry point.

    [project.entry-points."gpt2viz.scores"]
    confidence = "gpt2viz_example.scores:CONFIDENCE"

    [project.entry-points."gpt2viz.edits"]
    late = "gpt2viz_example.edits:LATE"

    [project.entry-points."gpt2viz.pages"]
    surest_heads = "gpt2viz_example.page:draw"

Installing such a package is all that it takes. Its code then runs as gpt2viz's own does: install
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
#: Who adds what a program registers itself.
THIS_PROGRAM = "this program"

_LOG = logging.getLogger("gpt2viz")


class Plugin(NamedTuple):
    """Something that is added: its ``name``, and ``by`` which package, with its version."""

    name: str
    by: str
    entry: EntryPoint

    def load(self) -> Any:
        """What the entry point names. Raises ``PluginError`` for whatever its module raises."""
        with blamed(lambda error: f"{self.entry.value} of {self.by} can't be loaded: {error}"):
            return self.entry.load()


def plugins(group: str) -> list[Plugin]:
    """What the installed packages add to a group, by name and then by package."""
    found = entry_points(group=group)
    return sorted(Plugin(entry.name, _owner(entry), entry) for entry in found)


class Named(Protocol):
    """What a registry holds: a dataclass with a name that says ``by`` whom it is, "" for ours."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def name(self) -> str: ...

    @property
    def by(self) -> str: ...


T = TypeVar("T", bound=Named)


class Registry(Mapping[str, T]):
    """Things by name: those ``declared`` here, those of other packages, those of this program.

    They are of the type ``made``, which people import as ``public``, and a message calls each
    ``what``. Packages are looked through when it is first read. One whose thing can't be taken is
    left out, and ``troubles`` and stderr say why.
    """

    def __init__(
        self, declared: Sequence[T], group: str, made: type[T], public: str, what: str
    ) -> None:
        self._group, self._made, self._public, self._what = group, made, public, what
        self._known = {one.name: one for one in declared}
        self._looked = False
        self._lock = threading.RLock()  # a package's module may read it while it is looked through
        self._troubles: list[str] = []

    def __getitem__(self, name: str) -> T:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._all()))

    def __len__(self) -> int:
        return len(self._all())

    @property
    def troubles(self) -> tuple[str, ...]:
        """Why things of other packages are left out, a sentence each."""
        self._all()
        return tuple(self._troubles)

    def add(self, one: Any, by: str = THIS_PROGRAM, name: str = "") -> T:
        """Take what is ``by`` others, in place of their own of that name, if any.

        Raises ``PluginError`` for what is of another type, and for a name that others have.
        """
        if not isinstance(one, self._made):
            raise PluginError(
                f"{name or 'This'} of {by} is {type(one).__name__}, not a {self._public}."
            )
        taken = self._all().get(one.name)
        if not one.name.strip() or (taken and taken.by != by):
            whose = f"{taken.by or 'gpt2viz'} has one of that name" if taken else "it has no name"
            raise PluginError(
                f"The {self._what} {one.name!r} of {by} is left out: {whose}. Give it another."
            )
        self._known[one.name] = replace(one, by=by)
        return self._known[one.name]

    def _all(self) -> dict[str, T]:
        with self._lock:
            if not self._looked:
                self._looked = True
                for found in plugins(self._group):
                    try:
                        self.add(found.load(), found.by, found.name)
                    except PluginError as error:
                        self._troubles.append(tell(error))
            return self._known


def _owner(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package without a name"


@contextmanager
def blamed(tell: Callable[[str], str]) -> Iterator[None]:
    """Code of others runs here: whatever it raises is a ``PluginError``, with what ``tell`` says.

    ``tell`` gets the error in one line. SystemExit counts, and so does Ctrl-C where nobody can have
    pressed it, outside the main thread; what Streamlit ends a page with doesn't.
    """
    try:
        yield
    except BaseException as error:
        pressed = isinstance(error, KeyboardInterrupt) and (
            threading.current_thread() is threading.main_thread()
        )
        if pressed or type(error).__module__.startswith("streamlit."):
            raise
        raise PluginError(tell(what_happened(error))) from error


def what_happened(error: BaseException) -> str:
    """An error of somebody else's code in one line, such as "KeyError: 'a'"."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said:.300}" if said else type(error).__name__


def tell(error: Exception) -> str:
    """Say on stderr, or wherever the log "gpt2viz" goes, what is wrong; the same as text."""
    _LOG.warning("gpt2viz: %s", error)
    return str(error)
