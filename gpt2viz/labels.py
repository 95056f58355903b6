"""Readable labels of tokens: visible, unambiguous, never read as markup; and sentences."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

SPACE = "·"
_ESCAPES = {" ": SPACE, SPACE: r"\u00b7", "\\": r"\\", "\n": r"\n", "\t": r"\t", "\r": r"\r"}
# Letters, combining marks, numbers, punctuation and symbols are visible; the
# other categories (controls, formats such as bidi overrides, separators, unassigned) aren't.
_VISIBLE = "LMNPS"
# Visible by category, but drawn blank.
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"
# Controls, formats such as bidi overrides, and separators of lines …
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
# … except the characters of an isolate, and the line ends in our own messages.
_ALLOWED = "\u2068\u2069\n"


def label(token: bytes) -> str:
    """A token's bytes as one short line of plain text.

    A space is drawn as ``·``. Invisible characters and incomplete ones are escaped:
    ``\\n``, ``\\u200b``, ``\\xe2``. Two different tokens never get the same label.
    """
    text = token.decode("utf-8", errors="surrogateescape")
    return "".join(_escape(char, first=n == 0) for n, char in enumerate(text)) or "∅"


def _escape(char: str, first: bool) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # one undecodable byte, as surrogateescape hides it
        return f"\\x{code - 0xDC00:02x}"
    category = unicodedata.category(char)[0]
    hangs = category == "M" and first  # a mark without a letter before it in its token
    selector = 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF
    if char == "∅" or category not in _VISIBLE or hangs or selector or char in _BLANK:
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return char


def escape_controls(text: str) -> str:
    """Escape every invisible control in plain text, so that names and messages from outside have no
    terminal's escape sequence and no override of the writing direction.

    Line ends stay, and so do the marks that ``bidi_isolate`` added.
    """
    return "".join(map(_escape_control, text))


def _escape_control(char: str) -> str:
    if unicodedata.category(char) in _UNSEEN and char not in _ALLOWED:
        return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
    return char


#: Zero width, and no line break at it (Unicode Standard Annex 14).
JOINER = "\u2060"
# After https: and www, before the @ of an address, and after the colon of :names:, each of them
# with the backslash that Markdown removes.
_ACTIVE = re.compile(
    r"(?<=:)(?=\\?/|(?:\\?[+-])*\w(?:\\?[\w+-])*\\?:)|(?<=www)(?=\\?\.)|(?=\\?@)",
    re.IGNORECASE,
)
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# -> and others between spaces.
_ARROWS = re.compile(r"(?<=[<>~-])(?=[->=])")


def no_autolink(text: str) -> str:
    """Change text, or Markdown, so that no address becomes a link and no ``:name:`` a picture.

    Both are detected after Markdown's escapes are resolved, so a backslash doesn't help: GitHub's
    Markdown makes a link of https://, www. and a@b.c, Streamlit's a picture of :streamlit:. An
    invisible ``JOINER`` breaks them.
    """
    return _ACTIVE.sub(JOINER, text)


def no_typography(text: str) -> str:
    """``no_autolink``, which also keeps Streamlit from turning arrows into signs."""
    return _ARROWS.sub(JOINER, no_autolink(text))


def markup_safe(text: str) -> str:
    """Escape a label for Plotly, whose titles and ticks read some HTML and ``$…$`` as LaTeX."""
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("$", "&#36;")):
        text = text.replace(char, entity)
    return text


def bidi_isolate(text: str) -> str:
    """Keep the text from changing the order of its neighbours in a line.

    A number after a right-to-left word would be drawn before it (Unicode
    Standard Annex 9); an isolate prevents that. Text without such letters is returned as it is.
    """
    turns = any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for char in text)
    return f"\u2068{text}\u2069" if turns else text


def sentence(name: str, /, **values: Any) -> str:
    """The sentence ``name`` of ``sentences.toml``, "page.name", with its ``values``.

    Raises ``KeyError`` if there is none of that name, or if a value is missing.
    """
    return template(name).format(**values)


def template(name: str) -> str:
    """The sentence ``name`` as written there, with its values in braces."""
    page, _, rest = name.partition(".")
    text: str = _sentences()[page][rest]
    return text


@lru_cache(maxsize=1)
def _sentences() -> dict[str, dict[str, str]]:
    path = resources.files("gpt2viz") / "sentences.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def first_few(names: Sequence[str], most: int) -> str:
    """Name the first ``most``, and say how many more there are: "a, b and 1,000 more"."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def pluralize(n: int, things: str) -> str:
    """A count with its noun: "4 tokens", "1 token". ``things`` begins with a plural."""
    first, _, rest = things.partition(" ")
    singular = {"entries": "entry"}.get(first, first.removesuffix("s"))
    return " ".join(filter(None, [f"{n:,}", singular if n == 1 else first, rest]))


def layers_of_heads(n_layer: int, n_head: int) -> str:
    """The size of a model: "4 layers of 1 head"."""
    return f"{pluralize(n_layer, 'layers')} of {pluralize(n_head, 'heads')}"


def head_of(name: str) -> tuple[int, int]:
    """The layer and the head that a name such as "1.3" means. Raises ``ValueError``."""
    layer, head = map(int, name.split("."))
    return layer, head


def numeral(number: float, form: str = "") -> str:
    """A number in a format such as "+.2f", with true signs: "−0.50", "∞", "NaN".

    What rounds to 0 has a minus only in a format that writes a plus too.
    """
    zero = "+" not in form and not float(f"{number:{form}}")
    return (
        f"{abs(number) if zero else number:{form}}".replace("-", "−")
        .replace("inf", "∞")
        .replace("nan", "NaN")
    )


def percent(share: float, digits: int = 0) -> str:
    """Format a share of 1 in percent, with ``digits`` decimals: "56 %"; less, but not 0: "<1 %"."""
    if 0 < 100 * share <= 10**-digits / 2:
        return f"<{10**-digits:g} %"
    return f"{numeral(100 * share, f'.{digits}f')} %"


def power_of_ten(x: float, digits: int = 1) -> str:
    """Format a number with ``digits`` decimals and a power of ten: "3.9 · 10⁻⁴".

    If the power would be 1, or there is none, the number alone: "5.2", "0", "∞", "NaN".
    """
    number, _, exponent = f"{x:.{digits}e}".partition("e")
    if not x or not int(exponent or 0):
        return numeral(float(number), f".{digits}f" if x else ".0f")
    return f"{numeral(float(number), f'.{digits}f')} · 10{str(int(exponent)).translate(_RAISED)}"


def difference(n: float) -> str:
    """Format a difference that should be only rounding: "3 · 10⁻⁷"; "none" if it is 0."""
    return power_of_ten(n, 0) if n else "none"


def shorten(text: str, width: int = 14) -> str:
    """Shorten to ``width`` characters, leaving out the middle of a longer text."""
    if len(text) <= width:
        return text
    half = (width - 1) // 2
    return f"{text[: width - 1 - half]}…{text[-half:]}"
