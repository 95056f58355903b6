"""The corpus file: books of plain text, each with a held-out part."""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpt2viz.errors import GPT2VizError

SEPARATOR = "<|endoftext|>"
HELD_OUT_SHARE = 0.02
OVERLAP = 13
"""A training paragraph may not share this many consecutive words with held-out text (as in Brown
et al. 2020, "Language Models are Few-Shot Learners", appendix C)."""


class CorpusError(GPT2VizError):
    """A corpus file that can't be used; the message says why."""


@dataclass(frozen=True)
class Corpus:
    """Books, each split once: the first 98 % for training, the last 2 % held out."""

    train: tuple[str, ...]
    held_out: tuple[str, ...]


def read_corpus(path: Path) -> Corpus:
    """Read a UTF-8 text file (plain, or xz by its name) of books between ``<|endoftext|>`` lines.

    Raises ``CorpusError`` for a file that is missing, isn't UTF-8 or holds no book.
    """
    try:
        raw = path.read_bytes()
        raw = lzma.decompress(raw) if path.suffix == ".xz" else raw
        text = raw.decode("utf-8-sig")
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: can't be read as a corpus: {error}") from error
    books = [book.strip("\n") for book in text.split(SEPARATOR)]
    pairs = [split_book(book) for book in books if book.strip()]
    if not pairs:
        raise CorpusError(f"{path}: holds no text")
    return Corpus(tuple(head for head, _ in pairs), tuple(tail for _, tail in pairs))


def split_book(book: str) -> tuple[str, str]:
    """Cut a book into (training part, held-out part), at the end of a paragraph if possible.

    The held-out part is at least the last 2 % of the characters (``HELD_OUT_SHARE``): the cut moves
    back to the end of the previous paragraph, unless the book is a single paragraph.
    """
    cut = len(book) - int(len(book) * HELD_OUT_SHARE)
    paragraph = book.rfind("\n", 0, cut)
    cut = paragraph + 1 if paragraph >= 0 else cut
    return book[:cut], book[cut:]


def without_overlap(texts: Iterable[str], held_out: Iterable[str]) -> tuple[str, ...]:
    """The texts without paragraphs that share ``OVERLAP`` consecutive words with held-out text.

    Compares letters and digits in lower case: books quote each other with other punctuation.
    """
    seen = {run for text in held_out for line in text.split("\n") for run in _runs(line)}
    return tuple(
        "\n".join(line for line in text.split("\n") if seen.isdisjoint(_runs(line)))
        for text in texts
    )


def known_runs(texts: Iterable[str], others: Iterable[str]) -> list[tuple[int, int]]:
    """For each text: how many of its runs of ``OVERLAP`` words the others also have, and its total.

    Each different run of a text is counted once; a run never crosses a paragraph.
    """
    mine = [{run for line in text.split("\n") for run in _runs(line)} for text in texts]
    every_run = set().union(*mine)
    known = {run for text in others for line in text.split("\n") for run in _runs(line) & every_run}
    return [(len(runs & known), len(runs)) for runs in mine]


def _runs(paragraph: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", paragraph.lower())
    return {tuple(words[n : n + OVERLAP]) for n in range(len(words) - OVERLAP + 1)}
