"""The lessons' printable sheets, with and without answers, made from ``sheet.md``.

In ``sheet.md`` a number is a name in braces, a short answer stands in [[ ]], and an answer of a
sentence or two is quoted. The numbers come from the NumPy GPT-2, and from calculations done as
students do them: with the numbers as printed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
from markdown_it import MarkdownIt

from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.textbook import attention, sizes
from tests.bundled import CATS, CRANE, back, bundled_model, copier, ids_of
from tests.numpy_gpt2 import reference, softmax

LESSONS = Path(__file__).parents[2] / "docs" / "lessons"
SHEET = Path(__file__).with_name("sheet.md")
SHORT = "The cat sat"

_STYLE = """
body { font: 11.5pt/1.45 Georgia, serif; color: #000; max-width: 44em; margin: 1.5em auto;
  padding: 0 1em; background: #fff; }
h1 { font-size: 1.5em; }
h2 { font-size: 1.15em; margin: 1.4em 0 .3em; break-after: avoid; }
section { break-inside: avoid; }
table { border-collapse: collapse; margin: .6em 0; }
th, td { border: 1px solid #555; padding: .25em .8em; min-width: 2.5em; height: 1.2em; }
.blank { display: inline-block; min-width: 4.5em; border-bottom: 1px solid #000; }
td .blank { border: 0; }
.lines { height: 5.4em; background: repeating-linear-gradient(#fff 0 1.75em, #777 1.75em 1.8em);
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.answer, blockquote { color: #00579c; }
blockquote { margin: .4em 0; padding-left: .8em; border-left: 3px solid; }
@page { size: A4; margin: 11mm 14mm; }
@media print { body { margin: 0; padding: 0; max-width: none; font-size: 9.5pt; line-height: 1.3; }
  h2 { margin: .7em 0 .2em; } p, table { margin: .35em 0; } th, td { padding: .1em .7em; }
  .lines { height: 3.6em; } }
"""


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _vector(numbers: tuple[float, ...]) -> str:
    return ", ".join(f"{x:g}" for x in numbers)


@cache
def model(text: str, off: tuple[int, int] | None = None) -> Mapping[str, np.ndarray]:
    """Every stage of a text in NumPy; with one head off, if one is named."""

    def turn_off(layer: int, heads: np.ndarray) -> np.ndarray:
        silent = np.arange(len(heads)) == off[1] if off and off[0] == layer else np.zeros(1, bool)
        return np.where(silent[:, None, None], 0, heads)

    ids = ids_of(text)
    return reference(BUNDLED, ids, causal=True, edit_heads=turn_off)


def guesses() -> dict[str, str]:
    """The model's predictions after the sentence, after its beginning, and without a head."""
    name = bundled_model().tokenizer.decode
    long, short, off = model(CATS), model(SHORT), model(CATS, back())
    chances, few, left = (run["next_token_probabilities"] for run in (long, short, off))
    best, second = (int(n) for n in (-chances).argsort()[:2])
    layer, head = copier()
    return {
        "best": name([best]).strip(),
        "best_chance": percent(chances[best]),
        "second": name([second]).strip(),
        "second_chance": percent(chances[second]),
        "short_best": name([int(few.argmax())]).strip(),
        "short_chance": percent(few.max()),
        "without": percent(left[best]),
        "copied": percent(long["weights"][layer][head, 9, 3]),
    }


def by_hand() -> dict[str, str]:
    """The softmax of the row that the guide opens, and the crane's mixture of values."""
    guide = (LESSONS.parent / "teachers.md").read_text(encoding="utf-8")
    (result,) = re.findall(r"/head\?text=A\+crane\+ate\+fish&layer=(\d+)&head=(\d+)", guide)
    layer, head = map(int, result)
    scores = model(CRANE)["scaled_scores"][layer][head, 3].round(2)
    words, powers, weights = CRANE.split(), np.exp(scores), softmax(scores)
    rows = [
        f"| {word} | {score:.2f} | [[{power:.3f}]] | [[{weight:.2f}]] |".replace("-", "−")
        for word, score, power, weight in zip(words, scores, powers, weights, strict=True)
    ]
    keys, values = (np.array(of["bird"]) for of in (attention.CRANE_KEYS, attention.CRANE_VALUES))
    fits = keys @ np.array(attention.CRANE_QUERY[0])
    shares = softmax(fits)
    mixture = [
        f"| {word} | {_vector(key)} | {_vector(value)} | [[{fit:.2f}]] | [[{share:.2f}]] |"
        for word, key, value, fit, share in zip(
            attention.CRANE_WORDS["bird"], keys, values, fits, shares, strict=True
        )
    ]
    animal, machine = shares @ values
    return {
        "head": f"{layer}.{head}",
        "softmax": "\n".join(rows),
        "powers": f"{powers.sum():.3f}",
        "one": f"{weights.sum():.2f}",
        "most": words[int(weights.argmax())],
        "query": _vector(attention.CRANE_QUERY[0]),
        "mixture": "\n".join(mixture),
        "animal": f"{animal:.2f}",
        "machine": f"{machine:.2f}",
    }


def counts() -> dict[str, str]:
    """Counts of tokens, of the mask's cells and of a table's numbers."""
    ids, small = ids_of(CATS), sizes.RELEASED["small"]
    seen = [np.tri(n, dtype=bool) for n in (len(CRANE.split()), len(ids))]
    first, last = (n for n, id in enumerate(ids) if id == ids[-1])
    words, vocabulary = CRANE.split(), small.vocab_size
    crossed = (["[[×]]" if n > row else "" for n in range(4)] for row in range(4))
    grid = [f"| {w} | {' | '.join(row)} |" for w, row in zip(words, crossed, strict=True)]
    return {
        "tokens": str(len(ids)),
        "first_sat": str(first),
        "last_sat": str(last),
        "grid": "\n".join([f"| | {' | '.join(words)} |", "|:--|" + ":-:|" * 4, *grid]),
        "cells": str(seen[0].size),
        "hidden": str((~seen[0]).sum()),
        "more_cells": str(seen[1].size),
        "more_hidden": str((~seen[1]).sum()),
        "vocabulary": f"{vocabulary:,}",
        "channels": str(small.n_embd),
        "million": f"{vocabulary * small.n_embd / 1e6:.1f}",
    }


@cache
def figures() -> dict[str, str]:
    """All numbers of the sheet, by their names in braces."""
    heads = {name: f"{at[0]}.{at[1]}" for name, at in (("back", back()), ("copier", copier()))}
    texts = {"cats": CATS, "short": SHORT, "crane": CRANE}
    return texts | heads | guesses() | by_hand() | counts()


def sheet(answers: bool) -> str:
    """The sheet as a printable page of HTML, in one file."""
    text = SHEET.read_text(encoding="utf-8").format_map(figures())
    if answers:
        text = re.sub(r"\[\[(.*?)\]\]", r'<b class="answer">\1</b>', text)
    else:
        text = re.sub(r"\[\[.*?\]\]", '<span class="blank">&nbsp;</span>', text)
        text = re.sub(r"(?m)(^> .*\n?)+", '<div class="lines"></div>\n', text)
    title = "How a language model reads a sentence" + (" – answers" if answers else "")
    first, *parts = text.split("\n## ")
    numbered = [f"## {n} · {part}" for n, part in enumerate(parts, start=1)]
    render = MarkdownIt("commonmark").enable("table").render
    body = "\n".join(f"<section>\n{render(part)}</section>" for part in (first, *numbered))
    head = f'<meta charset="utf-8">\n<title>{title}</title>\n<style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en">\n{head}\n<h1>{title}</h1>\n{body}\n</html>\n'


def sheets() -> dict[Path, str]:
    """Both sheets, by file."""
    names = {"sheet.html": False, "sheet-answers.html": True}
    return {LESSONS / name: sheet(answers) for name, answers in names.items()}
