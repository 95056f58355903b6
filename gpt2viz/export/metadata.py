"""Metadata of PNG, PDF and SVG files: what they show, without traces of how they were made."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

from gpt2viz.export.about import About
from gpt2viz.pictures.sheet import escape_xml, png_chunk

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_METRE = 39.3701  # inches

#: The end of a PDF with a plain table of objects, as Typst writes it.
_TRAILER = re.compile(rb"trailer\s*<<(.*?/Size (\d+).*?)>>\s*startxref\s+(\d+)\s+%%EOF\s*$", re.S)


def label_png(picture: bytes, texts: Mapping[str, str], dpi: float) -> bytes:
    """Return the PNG with its resolution, in pixels per inch, and with named texts.

    The pixels don't change. Raises ``ValueError`` for anything but a PNG.
    """
    if not picture.startswith(_SIGNATURE) or picture[12:16] != b"IHDR":
        raise ValueError("not a PNG")
    end = len(_SIGNATURE) + 25  # the header's chunk, which has to be the first
    per_metre = round(dpi * _METRE)
    added = png_chunk(b"pHYs", struct.pack(">IIB", per_metre, per_metre, 1))
    for name, text in texts.items():
        added += png_chunk(b"iTXt", name.encode("latin-1") + b"\0\0\0\0\0" + text.encode())
    return picture[:end] + added + picture[end:]


def label_pdf(document: bytes, texts: Mapping[str, str]) -> bytes:
    """Return the PDF with these names and texts as its information (PDF 1.7, section 14.3.3).

    They replace what it says of its creator, by an update at its end (section 7.5.6). Raises
    ``ValueError`` for a PDF that doesn't end as Typst's do.
    """
    trailer = _TRAILER.search(document)
    if not trailer:
        raise ValueError("no PDF as Typst writes it")
    fields, number, before = trailer.groups()
    document = document.rstrip() + b"\n"
    information = b"".join(b"/%s %s" % (n.encode("ascii"), _text(t)) for n, t in texts.items())
    added = b"%s 0 obj\n<<%s>>\nendobj\n" % (number, information)
    fields = re.sub(rb"/Size \d+|/Info \d+ 0 R", b"", fields)
    fields += b"/Size %d/Info %s 0 R/Prev %s" % (int(number) + 1, number, before)
    table = b"xref\n%s 1\n%010d 00000 n \n" % (number, len(document))
    start = len(document) + len(added)
    return document + added + table + b"trailer\n<<%s>>\nstartxref\n%d\n%%%%EOF\n" % (fields, start)


def _text(text: str) -> bytes:
    """A PDF text string: UTF-16 with a byte-order mark, in hex, so that no character ends it."""
    return b"<FEFF%s>" % text.encode("utf-16-be", "replace").hex().upper().encode()


def svg_heads(about: About | None) -> str:
    """The elements that describe an SVG's content."""
    if about is None:
        return ""
    title, source = escape_xml(about.title), escape_xml(about.source)
    content = escape_xml(about.as_json())
    return f"<title>{title}</title><desc>{source}</desc><metadata>{content}</metadata>"
