"""Metadata of PNG, PDF and SVG files: what they show, without traces of how they were made."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

from gpt2viz.export.about import About
from gpt2viz.pictures.sheet import escape_xml, png_chunk

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_METRE = 39.3701  # inches

_INFO = re.compile(rb"/Info (\d+) 0 R")
_XREF = re.compile(
    rb"\nxref\n0 (\d+)\n((?:\d{10} \d{5} [nf][ \r]\n)+)(trailer\n.*?startxref\n)\d+", re.S
)
_PRODUCER = re.compile(rb"/Producer \((?:[^()\\]|\\.)*\)")


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

    The producer stays; title, creator and date of printing are removed, so that the same picture
    gives the same bytes. Raises ``ValueError`` for a PDF without the plain table of
    objects that Chromium's have.
    """
    table, info = _XREF.search(document), _INFO.search(document)
    if not table or not info:
        raise ValueError("no PDF as Chromium prints it")
    old = re.search(rb"(?<=\n)" + info[1] + rb" 0 obj\n<<.*?>>\nendobj\n", document, re.S)
    if not old:
        raise ValueError("a PDF without information")
    producer = _PRODUCER.search(old[0])
    information = b"\n".join(
        [*(b"/%s %s" % (n.encode("ascii"), _text(t)) for n, t in texts.items())]
        + ([producer[0]] if producer else [])
    )
    new = b"%s 0 obj\n<<%s>>\nendobj\n" % (info[1], information)
    moved = len(new) - len(old[0])
    offsets = [
        b"%010d" % (offset + moved if offset > old.start() else offset) + row[10:]
        for row in table[2].splitlines(keepends=True)
        for offset in (int(row[:10]),)
    ]
    start = table.start() + 1 + moved
    end = b"\nxref\n0 %s\n%s%s%d" % (table[1], b"".join(offsets), table[3], start)
    body = document[: old.start()] + new + document[old.end() : table.start()]
    return body + end + document[table.end() :]


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
