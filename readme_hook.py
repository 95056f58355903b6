"""README.md as a package index shows it, where nothing of the clone is beside it."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

#: An image or a link to a file of the clone, and not to an address.
_IMAGE = re.compile(r"^!\[[^]]*\]\((?!https?:)[^)]*\)\n\n", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^]]+)\]\((?!https?:|#)([^)]*)\)")


class ReadmeHook(MetadataHookInterface):
    """Hatchling asks it for the fields that ``pyproject.toml`` leaves open."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the long description: without pictures, and files by their names."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(text)}


def for_an_index(text: str) -> str:
    """The text without relative images; a relative link becomes its words and the file's name."""
    return _LINK.sub(_named, _IMAGE.sub("", text))


def _named(link: re.Match[str]) -> str:
    words, file = link.groups()
    return f"`{file}`" if words == file else f"{words} (`{file}`)"
