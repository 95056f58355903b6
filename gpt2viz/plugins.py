"""What other packages add to gpt2viz: they name it in their ``pyproject.toml``, as an entry point.

    [project.entry-points."gpt2viz.scores"]
    confidence = "gpt2viz_example.scores:CONFIDENCE"

    [project.entry-points."gpt2viz.pages"]
    surest_heads = "gpt2viz_example.page:draw"

Installing such a package is all that it takes. Its code then runs as gpt2viz's own does: install
only what you trust.
"""

from __future__ import annotations

import logging
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from gpt2viz.errors import PluginError

#: The groups of entry points: a ``gpt2viz.heads.Score``; a function that draws a page.
SCORES, PAGES = "gpt2viz.scores", "gpt2viz.pages"

_LOG = logging.getLogger("gpt2viz")


class Plugin(NamedTuple):
    """Something that is added: its ``name``, and ``by`` which package, with its version."""

    name: str
    by: str
    entry: EntryPoint

    def load(self) -> Any:
        """What the entry point names. Raises ``PluginError`` for whatever its module raises."""
        try:
            return self.entry.load()
        except Exception as error:
            raise PluginError(
                f"{self.entry.value} of {self.by} can't be loaded: {what_happened(error)}"
            ) from error


def plugins(group: str) -> list[Plugin]:
    """What the installed packages add to a group, by name and then by package."""
    found = entry_points(group=group)
    return sorted(Plugin(entry.name, _owner(entry), entry) for entry in found)


def _owner(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package without a name"


def what_happened(error: Exception) -> str:
    """An error of somebody else's code in one line, such as "KeyError: 'a'"."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said:.300}" if said else type(error).__name__


def tell(error: Exception) -> str:
    """Say on stderr, or wherever the log "gpt2viz" goes, what is wrong; the same as text."""
    _LOG.warning("gpt2viz: %s", error)
    return str(error)
