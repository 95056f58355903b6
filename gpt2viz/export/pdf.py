"""PDF files told what they show, in place of what the browser that printed them says of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

_INFO = re.compile(rb"/Info (\d+) 0 R")
_XREF = re.compile(
    rb"\nxref\n0 (\d+)\n((?:\d{10} \d{5} [nf][ \r]\n)+)(trailer\n.*?startxref\n)\d+", re.S
)
_PRODUCER = re.compile(rb"/Producer \((?:[^()\\]|\\.)*\)")


def with_metadata(document: bytes, texts: Mapping[str, str]) -> bytes:
    """The same PDF with these names and texts as its information (PDF 1.7, section 14.3.3).

    What printed it stays the producer; its title, creator and date of printing go, so that the
    same picture gives the same bytes. Raises ``ValueError`` for a PDF without a plain table of
    its objects, which Chromium's have.
    """
    table, info = _XREF.search(document), _INFO.search(document)
    if not table or not info:
        raise ValueError("no PDF as Chromium prints it")
    old = re.search(rb"(?<=\n)" + info[1] + rb" 0 obj\n<<.*?>>\nendobj\n", document, re.S)
    if not old:
        raise ValueError("a PDF without information")
    producer = _PRODUCER.search(old[0])
    told = b"\n".join(
        [*(b"/%s %s" % (n.encode("ascii"), _text(t)) for n, t in texts.items())]
        + ([producer[0]] if producer else [])
    )
    new = b"%s 0 obj\n<<%s>>\nendobj\n" % (info[1], told)
    moved = len(new) - len(old[0])
    places = [
        b"%010d" % (place + moved if place > old.start() else place) + row[10:]
        for row in table[2].splitlines(keepends=True)
        for place in (int(row[:10]),)
    ]
    start = table.start() + 1 + moved
    end = b"\nxref\n0 %s\n%s%s%d" % (table[1], b"".join(places), table[3], start)
    body = document[: old.start()] + new + document[old.end() : table.start()]
    return body + end + document[table.end() :]


def _text(text: str) -> bytes:
    """A text string: UTF-16 with its mark, in hex, so that nothing in it ends it."""
    return b"<FEFF%s>" % text.encode("utf-16-be", "replace").hex().upper().encode()
