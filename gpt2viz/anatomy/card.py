"""A model's files, and its card, the README.md of its folder: untrusted text, made harmless.

On screen a card may have Markdown's headings, lists, tables and code. It may not load
anything from elsewhere, which would reveal who reads it, and nothing in it is a link:
addresses are plain text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import RepoCard

from gpt2viz.errors import CheckpointError
from gpt2viz.files import is_gguf, own_file, read_text
from gpt2viz.labels import JOINER, no_autolink, shorten
from gpt2viz.model.fingerprint import sha256_of
from gpt2viz.model.tokenizer_files import FILES
from gpt2viz.settings import card_folder

#: The most characters of a card to show.
LONGEST = 100_000

# Fields of a card's head about the model's origin.
_FACTS = ("license", "language", "base_model", "datasets", "library_name")
# A fence of code, and the name of its language if that is a plain word.
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}(?=[^`]*$)|~{3,})[ \t]*(?P<language>\w*)")
# Languages that Streamlit renders as diagrams, which may load pictures.
_DRAWN = ("mermaid",)
_IMAGE = r"!\[[^\[\]]*\]\([^()]*\)"
# In a line of prose: escaped signs, code, an image or a link, and signs that would be markup.
_PARTS = re.compile(
    r"(?P<kept>\\[!-/:-@\[-`{-~])"
    r"|(?P<code>(?<!`)(?P<ticks>`+)(?!`)[^|]*?[^|`](?P=ticks)(?!`))"
    rf"|(?P<image>!?)\[(?P<words>(?:{_IMAGE}|[^\[\]])*+)\]"
    r"\(\s*+<?(?P<address>[^\s()<>]*+)>?[^()]*+\)"
    r"|(?P<active>[\[\]<$`&]|:(?=:|[+-]*\w))"
)


@dataclass(frozen=True)
class Card:
    """``text`` is Markdown without images, and without HTML outside of code; ``facts``
    are short plain texts from its head; ``cut`` says that the end is missing."""

    text: str
    facts: Mapping[str, str]
    cut: bool = False


def read_card(folder: Path) -> Card | None:
    """The card of a model's folder, or None if it has none that can be read."""
    path = card_folder(folder) / "README.md"
    try:
        content = read_text(path, errors="replace")
    except CheckpointError:
        return None
    text, facts = _split(content[:LONGEST])
    return Card(harmless(text), facts, len(content) > LONGEST)


def harmless(markdown: str) -> str:
    """Make Markdown load nothing and link nowhere: no image, no link, and outside of code no
    HTML, no formula and none of Streamlit's directives.

    Code is recognized here and rewritten, so that every renderer agrees: fences that begin
    at the edge of the page, longer than any inside of them, and code within one line. All other
    lines are prose, in which every sign that could be markup is escaped.
    """
    lines: list[str] = []
    fence, language, code = "", "", list[str]()
    for line in markdown.splitlines():
        opens = _FENCE.match(line)
        if not fence and opens:
            fence, language, code = opens["fence"], opens["language"], []
        elif not fence:
            lines.append(_plain(line))
        elif re.fullmatch(rf" {{0,3}}{fence[0]}{{{len(fence)},}}[ \t]*", line):
            lines += _fence_code(code, language)
            fence = ""
        else:
            code.append(line)
    return "\n".join(lines + (_fence_code(code, language) if fence else []))


def _fence_code(code: list[str], language: str) -> list[str]:
    """Put lines of code between fences longer than any in them."""
    longest = max((len(ticks) for line in code for ticks in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + ("" if language.lower() in _DRAWN else language), *code, fence]


def _plain(line: str) -> str:
    """A line of prose, with headings two sizes smaller, as it is inside a page."""
    line = " ".join(html.unescape(line).splitlines())
    return _inline(re.sub(r"^(#{1,4})(?=\s)", r"##\1", line))


def _inline(text: str) -> str:
    """Escape prose, except for code; images and links become their words."""
    written, prose, end = "", "", 0
    for match in _PARTS.finditer(text):
        prose += text[end : match.start()]
        end = match.end()
        if match["code"]:
            apart = JOINER if (written + prose).endswith("`") else ""  # two spans, not one
            written, prose = written + no_autolink(prose) + apart + match[0], ""
        else:
            prose += _harmless_part(match)
    return written + no_autolink(prose + text[end:])


def _harmless_part(match: re.Match[str]) -> str:
    if match["kept"]:
        return match[0]
    if match["active"]:
        return f"\\{match[0]}"
    words, address = _inline(match["words"]), _inline(match["address"])
    if match["image"] or address in ("", words):
        return words
    return f"{words} ({address})"


def _split(content: str) -> tuple[str, dict[str, str]]:
    """Split a card into its text and the fields of its YAML head; an invalid head stays text."""
    if not content.startswith("---"):
        return content, {}
    try:
        card = RepoCard(content, ignore_metadata_errors=True)
        head = vars(card.data)
    except Exception:  # untrusted YAML can make a parser raise anything
        return content, {}
    facts = {name: _spell(head[name]) for name in _FACTS if head.get(name)}
    return card.text, {name: text for name, text in facts.items() if text}


def _spell(value: Any) -> str:
    values = value if isinstance(value, list) else [value]
    plain = [str(v) for v in values[:20] if isinstance(v, str | int | float)]
    return shorten(" ".join(", ".join(plain).split()), 200)


#: The largest file to read just for its hash, in bytes.
HASHED = 64 * 10**6

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class StoredFile:
    """``sha256`` is empty for a file over ``HASHED`` bytes, unless the hub's cache has it."""

    name: str
    nbytes: int
    sha256: str


def stored_files(folder: Path) -> list[StoredFile]:
    """The files of a model that gpt2viz reads, the weights last."""
    weights = [folder] if is_gguf(folder) else sorted(folder.glob("model*.safetensors*"))
    paths = [*(folder / name for name in ("README.md", "config.json", *FILES)), *weights]
    return [StoredFile(p.name, p.stat().st_size, _sha256(p)) for p in paths if _is_own(p)]


def _is_own(path: Path) -> bool:
    try:
        return bool(own_file(path))
    except CheckpointError:
        return False


def _sha256(path: Path) -> str:
    blob = path.resolve().name  # in the hub's cache a large file is named after its hash
    if _SHA256.fullmatch(blob):
        return blob
    return sha256_of(path) if path.stat().st_size <= HASHED else ""
