"""A text's reading level: its Flesch–Kincaid grade, the school year in which one can read it.

Kincaid, Fishburne, Rogers & Chissom 1975, *Derivation of New Readability Formulas*. Syllables are
counted by spelling: groups of vowels, except silent ones. Code, formulas, numbers and references
are no prose, and aren't counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Markdown that is no prose, each pattern with its replacement.
_NO_PROSE = (
    (r"(?m)^\|.*$", " "),  # tables
    (r"\([^()]*\b(?:19|20)\d\d\b[^()]*\)", " "),  # references
    (r"`[^`]*`|\$[^$]*\$", " "),  # code and formulas
    (r":[a-z]+(?:-badge)?\[[^\]]*\]|:material/\w+:", " "),  # badges and icons
    (r"\[([^\]]*)\]\([^)]*\)", r"\1"),  # a link's words stay
    (r"\S*\d\S*?(?=[.?!]*(?:\s|$))", " "),  # numbers
    (r"\be\.g\.|\bi\.e\.|\bet al\.", " "),
)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
#: Adjacent vowels in two syllables, as in "being", "causal", "create" and "linear".
_APART = re.compile(r"[aeiouy]ing|ia(?!l\b|n\b)|io(?!n|us)|iu|eo|(?<!q)ua|die|crea|idea|inea")
#: A y between vowels is a consonant, as in "layer".
_CONSONANT = re.compile(r"(?<=[aeou])y(?=[aeiou])(?!ing)")
#: A silent e, as in "made", "scores", "trained" and "likely", but not in "table".
_SILENT = re.compile(
    r"(?<=[^aeiouy])(?<![^aeiouyrwl]l)(?:e|(?<![sxzcg])(?<![sc]h)es|(?<![td])ed)$"
    r"|(?<=[^aeiouy])e(?=ly$)"
)


def syllables(word: str) -> int:
    """The number of syllables in an English word, by its spelling; at least one."""
    parts = re.findall(r"[a-z]+", re.sub(r"['’]s\b|['’]", "", word.lower()))
    return max(1, sum(map(_of_one, parts)))


def _of_one(word: str) -> int:
    heard = _SILENT.sub("", _CONSONANT.sub("-", word))
    return max(1, len(re.findall(r"[aeiouy]+", heard)) + len(_APART.findall(heard)))


def sentences(markdown: str) -> list[list[str]]:
    """The words of each sentence of a page's Markdown; a paragraph also ends a sentence."""
    for pattern, instead in _NO_PROSE:
        markdown = re.sub(pattern, instead, markdown)
    parts = re.split(r"[.?!]+[”’)*]*(?=\s|$)|\n\s*\n|\n- ", markdown.replace("*", ""))
    result = ([w for w in _WORD.findall(part) if len(w) > 1 or w in "aAI"] for part in parts)
    return [words for words in result if words]


def grade(texts: Iterable[str]) -> float:
    """The Flesch–Kincaid grade of several texts in Markdown, taken together.

    Raises ``ValueError`` if they have no words.
    """
    results = [words for text in texts for words in sentences(text)]
    if not results:
        raise ValueError("no words to read")
    n = sum(map(len, results))
    heard = sum(syllables(word) for words in results for word in words)
    return 0.39 * n / len(results) + 11.8 * heard / n - 15.59
