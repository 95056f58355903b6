"""The chapter *Why there?*: one weight of the model, decomposed down to the embeddings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gpt2viz import Edit, Reason, explain_row, reason
from gpt2viz.analysis.cell import HeadCell
from gpt2viz.analysis.explanation import Part, Side
from gpt2viz.analysis.reasons import part_label, token_distance
from gpt2viz.analysis.scores import induction
from gpt2viz.app import address, output, pages, parameters, run_cache
from gpt2viz.app.course.parts import Book, link
from gpt2viz.app.course.questions import Check
from gpt2viz.app.course.real_step import choices_of
from gpt2viz.app.literal import literal
from gpt2viz.app.pages import Page
from gpt2viz.app.parameters import Parameter
from gpt2viz.app.view import View
from gpt2viz.app.views.head import repeat_sentence
from gpt2viz.app.views.measures import draw_weights
from gpt2viz.labels import percent, pluralize, sentence
from gpt2viz.pictures.explanation import reason_map
from gpt2viz.pictures.palette import LOWER, UPPER
from gpt2viz.run.trace import Trace

#: A weight above this is larger than those of all other keys together.
_HALF = 0.5


class _Text(NamedTuple):
    """The text of the chapter: the sentence or, if no token repeats, the sentence ``twice``."""

    text: str
    view: View
    twice: bool


def find(book: Book) -> dict[str, Any]:
    """Choose the chapter's cell: the largest induction weight, if there is one."""
    read = _text(book.view)
    look = None if read is None else _strongest_copy(read.view.trace)
    shallow = look is None and book.view.trace.config.n_layer == 1
    too_long = not shallow and read is None
    return {
        "read": read,
        "look": look,
        "shallow": shallow,
        "too_long": too_long,
        "unseen": look is None and not shallow and not too_long,
        **dict.fromkeys(("case", "before", "beyond", "pair", "rule", "no_rule", "copies")),
        "weight": "0.00",
        "why_own": Check(),
    }


def _text(view: View) -> _Text | None:
    """Return the sentence if induction heads have a target in it, else the sentence twice."""
    if induction(view.trace.token_ids).any():
        return _Text(address.get(parameters.TEXT), view, twice=False)
    if (twice := repeat_sentence(view)) is None:
        return None
    text, run = twice
    output.run("The sentence said twice", run)
    return _Text(text, replace(view, trace=run), twice=True)


def _strongest_copy(trace: Trace) -> HeadCell | None:
    """Return the cell of the best induction head with the largest weight on an induction target.

    Layer 0 is left out: no head before it can have written what preceded a token.
    """
    scores = np.nan_to_num(run_cache.score_run(trace.key).scores["induction"][1:])
    targets = induction(trace.token_ids)
    if not scores.size or not targets.any():
        return None
    above, head = map(int, np.unravel_index(scores.argmax(), scores.shape))
    on = np.nan_to_num(trace.stage("weights", above + 1)[0, head]) * targets
    query, key = map(int, np.unravel_index(on.argmax(), on.shape))
    return HeadCell(above + 1, head, query, key) if on[query, key] > 0 else None


def show(book: Book, text: str) -> None:
    """Draw the chosen cell, in the weights of its head."""
    read, look = book.values["read"], book.values["look"]
    view, labels = read.view, read.view.labels
    row = view.trace.stage("weights", look.layer, look.head)[look.query]
    seen = int((~view.trace.hidden_pairs(look.layer)[look.query]).sum())
    book.write(
        text,
        twice=read.twice,
        doubled=literal(read.text),
        head=f"{look.layer}.{look.head}",
        of_layer=look.layer,
        of_head=look.head,
        asks=f"{look.query} {literal(labels[look.query])}",
        answers=f"{look.key} {literal(labels[look.key])}",
        weight=f"{row[look.key]:.2f}",
        keys=pluralize(seen, "keys"),
        alike=f"{1 / seen:.2f}",
    )
    _weights(view, look, "why_look")
    _link_to(pages.HEAD, "See how this weight was made, on Head", read, look)


def _weights(view: View, cell: HeadCell, key: str) -> None:
    """Draw a head's weights with one cell framed."""
    at = replace(view, query=cell.query)
    draw_weights(at, *cell[:2], key=key, height=330, column=cell.key, numbers=0)


def take_apart(book: Book) -> dict[str, Any]:
    """Decompose the cell's score into a sum, and explain why its key got more than the others."""
    read, look = book.values["read"], book.values["look"]
    case = reason(explain_row(read.view.model, read.view.trace, *look[:3]), look.key)
    own = not read.twice and address.get(parameters.TEXT) != parameters.TEXT.default
    small = sentence("why.small", weight=case.weight)
    hard = case.weight > _HALF
    values: dict[str, Any] = {
        "weight": f"{case.weight:.2f}",
        "why_own": Check(own and hard, small if own and not hard else ""),
    }
    if not np.isfinite(case.deviation).all():
        return values | {"beyond": True}
    row, names = case.row, case.row.names
    return values | {
        "case": case,
        "before": _find_earlier_cell(case),
        "n_writers": len(names),
        "n_pairs": len(names) ** 2,
        "writers": ", ".join(names[:3]),
        "total": f"{float(row.table(case.key).sum()):.4f}",
        "score": f"{float(row.scores[row.row_of(case.key)]):.4f}",
        "raised": f"{case.raised:.2f}",
        "lowered": f"{abs(case.lowered):.2f}",
        "apart": f"{case.raised + case.lowered:.2f}",
        "above": UPPER.capitalize(),
        "below": LOWER,
        "verb": "raises" if case.above else "lowers",
        "rule": case.rule and literal(" ".join(case.words()[:: len(case.words()) - 1])),
        "no_rule": case.rule is None,
        "copies": case.rule is not None and case.rule[0].name == "induction",
    }


def parts(book: Book) -> dict[str, Any]:
    """Draw the map of pairs of writers, which raise or lower the score."""
    case = book.values["case"]
    output.picture(reason_map(case), key="why_parts")
    if not case.pairs:
        return {}
    pair = case.pairs[0]
    ablated = f"{pair.ablated_weight:.2f}"
    return {"pair": pair, "share": percent(pair.share), "ablated": ablated}


def _find_earlier_cell(case: Reason) -> HeadCell | None:
    """Return the cell that a head among the leading pairs attended to, the key's first, or None."""
    at_key = (case.source_of("key", pair.key_part) for pair in case.pairs)
    at_query = (case.source_of("query", pair.query_part) for pair in case.pairs)
    return next((cell for cell in (*at_key, *at_query) if cell is not None), None)


def earlier_cell(book: Book, text: str) -> None:
    """Draw the cell that one of the writers attended to before."""
    read, look, before = (book.values[name] for name in ("read", "look", "before"))
    view = read.view
    side: Side = "key" if before.query == look.key else "query"
    part = Part("head", before.layer, before.head)
    weight = view.trace.weights_of_queries(before.layer, slice(before.query, before.query + 1))
    book.write(
        text,
        writer=part_label(part, side),
        asks=f"{before.query} {literal(view.labels[before.query])}",
        answers=f"{before.key} {literal(view.labels[before.key])}",
        back=token_distance(before.query - before.key),
        weight_before=f"{weight[before.head, 0, before.key]:.2f}",
    )
    _weights(view, before, "why_read")
    why = {parameters.SEE: "why", parameters.WHY: (before,)}
    _link_to(pages.HEAD, f"Why did {part} look there?", read, look, why)


def ablate(book: Book, text: str) -> None:
    """Show the same weight with the earlier head off: from the sum, and from a run."""
    read, case, before = (book.values[name] for name in ("read", "case", "before"))
    row, edit = case.row, Edit("off", before.layer, before.head)
    part = Part("head", before.layer, before.head)
    run = run_cache.run(replace(read.view.trace.key, edits=(edit,)))
    weights = run.weights_of_queries(row.layer, slice(row.query, row.query + 1))
    book.write(
        text,
        part=part,
        weight_off=f"{float(weights[row.head, 0, case.key]):.2f}",
        by_sum=f"{row.ablated_part_weight(case.key, part):.2f}",
    )
    at = HeadCell(row.layer, row.head, row.query, case.key)
    off = {parameters.EDITS: (edit,), parameters.WHAT_IF: "edits"}
    _link_to(pages.WHAT_IF, f"Switch {part} off, on What if", read, at, off)


def _link_to(
    page: Page, label: str, read: _Text, at: HeadCell, more: dict[Parameter, Any] | None = None
) -> None:
    """Draw a link to the cell on another page."""
    of_page: dict[Parameter, Any] = {parameters.SEE: "run"} if page is pages.HEAD else {}
    there = {parameters.TEXT: read.text, **choices_of(at), **of_page, **(more or {})}
    link(page, label, there)
