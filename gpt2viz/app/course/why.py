"""Why does it look there? One weight of the model above, taken apart down to the embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import streamlit as st

from gpt2viz import Edit, Reason, explain_row, reason
from gpt2viz.analysis.cell import Step
from gpt2viz.analysis.explanation import Part, RowExplanation, Side
from gpt2viz.analysis.reasons import part_label
from gpt2viz.analysis.scores import induction
from gpt2viz.app import address, output, pages, parameters, prose, run_cache
from gpt2viz.app.course.parts import Book, code, link
from gpt2viz.app.course.questions import Question
from gpt2viz.app.literal import literal
from gpt2viz.app.pages import Page
from gpt2viz.app.parameters import Parameter
from gpt2viz.app.view import View
from gpt2viz.app.views.head import said_twice
from gpt2viz.app.views.measures import draw_weights
from gpt2viz.labels import pluralize
from gpt2viz.pictures.explanation import reason_map
from gpt2viz.pictures.palette import ABOVE, BELOW
from gpt2viz.run.trace import Trace

#: A look that takes more of the row than all other keys together.
_HALF = 0.5


class _Text(NamedTuple):
    """The text of the chapter: the sentence, or, where nothing comes twice, that said ``twice``."""

    text: str
    view: View
    twice: bool


def draw(book: Book) -> Iterator[Question]:
    """The hardest look at what followed the same token before, step by step."""
    prose.markdown(
        "A weight says **where** a head looks. This chapter asks **why**, of one weight in the "
        "model above. The answer is a sum, and nothing is left over."
    )
    read = _text(book.view)
    look = None if read is None else _hardest(read.view.trace)
    if read is None or look is None:
        _pairs_formula()
        prose.markdown(f"Here nothing can be copied: {_nothing(book.view, read)}")
        code(induction)
        yield from _questions(None, 0.0)
        return
    _look(read, look)
    case = reason(explain_row(read.view.model, read.view.trace, *look[:3]), look.key)
    if not np.isfinite(case.deviation).all():
        prose.markdown("It can't be taken apart: some numbers went beyond float32.")
        yield from _questions(read, case.weight)
        return
    _sum(case)
    _apart(read, case)
    yield from _questions(read, case.weight)
    before = _before(case)
    if before is not None:
        _read(read, look, before)
    _so(read, case, before)


def _text(view: View) -> _Text | None:
    """The sentence where a token comes twice and is followed; else the sentence said twice."""
    if induction(view.trace.token_ids).any():
        return _Text(address.get(parameters.TEXT), view, twice=False)
    if (twice := said_twice(view)) is None:
        return None
    text, run = twice
    output.run("The sentence said twice", run)
    return _Text(text, replace(view, trace=run), twice=True)


def _hardest(trace: Trace) -> Step | None:
    """The hardest look at what followed the same token before, of the head that most looks there.

    A head of layer 0 can't: no head has written yet what came before a token.
    """
    scores = np.nan_to_num(run_cache.head_scores(trace.key)["induction"][1:])
    targets = induction(trace.token_ids)
    if not scores.size or not targets.any():
        return None
    above, head = map(int, np.unravel_index(scores.argmax(), scores.shape))
    on = np.nan_to_num(trace.stage("weights", above + 1)[0, head]) * targets
    query, key = map(int, np.unravel_index(on.argmax(), on.shape))
    return Step(above + 1, head, query, key) if on[query, key] > 0 else None


def _nothing(view: View, read: _Text | None) -> str:
    """Why there is no look to explain, and what helps."""
    if view.trace.config.n_layer == 1:
        return "the model has a single layer. Choose another model."
    if read is None:
        return (
            "no token comes twice, and the sentence said twice would be too long. Type another one."
        )
    return (
        "no head looks at what followed the same token before, not even where your sentence is "
        "said twice. Type a longer one."
    )


def _look(read: _Text, look: Step) -> None:
    st.subheader("A look", anchor="look")
    view, labels = read.view, read.view.labels
    if read.twice:
        prose.markdown(
            "In your sentence no token comes twice, so there is nothing to copy. The chapter reads "
            f"it said twice: “{literal(read.text)}”."
        )
    row = view.trace.stage("weights", look.layer, look.head)[look.query]
    seen = int((~view.trace.hidden_pairs()[look.query]).sum())
    asks, answers = (literal(labels[n]) for n in (look.query, look.key))
    prose.markdown(
        f"Of all heads above layer 0, **head {look.layer}.{look.head}** (layer {look.layer}, "
        f"head {look.head}) looks most at *what followed the same token before*. Its hardest such "
        f"look here goes from {look.query} {asks} to {look.key} {answers}: weight "
        f"**{row[look.key]:.2f}**. If the {pluralize(seen, 'keys')} it sees were alike, each would "
        f"have {1 / seen:.2f}."
    )
    _weights(view, look, "why_look")
    _to(pages.HEAD, "See how this weight was made, on Head", read, look)


def _weights(view: View, step: Step, key: str) -> None:
    """A head's weights with one cell framed."""
    at = replace(view, query=step.query)
    draw_weights(at, step.layer, step.head, key=key, height=330, column=step.key)


def _pairs_formula() -> None:
    st.latex(r"q = \sum_i q_i \qquad k = \sum_j k_j \qquad q \cdot k = \sum_i \sum_j q_i \cdot k_j")


def _sum(case: Reason) -> None:
    st.subheader("A score is a sum", anchor="sum")
    row = case.row
    prose.markdown(
        "A head reads the residual stream, and that is a sum: token vector, position vector, and "
        "what each head, bias and MLP before has added. LayerNorm divides by σ, one number for "
        "each token. Take that σ as it was, and the rest of the way to query and key is "
        "multiplying and adding."
        "\n\nSo a query is a sum with **one part for each writer**, and so is a key. Their dot "
        "product is the sum over all pairs of parts (Elhage et al. 2021, *A Mathematical Framework "
        "for Transformer Circuits*):"
    )
    _pairs_formula()
    n = len(row.names)
    total, score = float(row.table(case.key).sum()), float(row.scores[row.row_of(case.key)])
    st.latex(
        rf"{n} \cdot {n} = {n**2} \text{{ pairs}} \qquad "
        rf"\sum_i \sum_j q_i \cdot k_j \approx {total:.4f}"
    )
    prose.caption(
        f"i and j run over the writers: {', '.join(row.names[:3])} and so on; the last, constant, "
        f"is what was there whatever was written. The run's own q·k is {score:.4f}."
    )


def _apart(read: _Text, case: Reason) -> None:
    st.subheader("What sets this key apart", anchor="apart")
    prose.markdown(
        "Softmax knows only differences: what a pair gives to *all* keys explains nothing. So from "
        "each pair its mean over the keys that the query sees is taken away. What is left says why "
        "this key got more than the others, or less:"
    )
    st.latex(
        r"\text{score} - \text{mean of the row} \approx "
        rf"{case.raised:.2f} - {abs(case.lowered):.2f} \approx "
        rf"{case.raised + case.lowered:.2f}"
    )
    prose.caption("First all that raises it, then all that lowers it.")
    output.picture(reason_map(case), read.view.colors, key="why_parts")
    prose.caption(
        f"The query's writers down, the key's across: {ABOVE} raises the score, {BELOW} lowers it."
    )
    if case.pairs:
        pair, verb = case.pairs[0], "raises" if case.above else "lowers"
        prose.markdown(
            f"The pair that {verb} it most is **{pair}**: {100 * pair.share:.0f} % of all that "
            f"{verb} it. If this pair gave nothing to any key, the weight would be "
            f"{pair.ablated_weight:.2f}."
        )
    code(explain_row, RowExplanation.deviation, reason)


def _before(case: Reason) -> Step | None:
    """The cell that a head among the leading pairs looked at, the key's first; else None."""
    at_key = (case.source_of("key", pair.key_part) for pair in case.pairs)
    at_query = (case.source_of("query", pair.query_part) for pair in case.pairs)
    return next((step for step in (*at_key, *at_query) if step is not None), None)


def _read(read: _Text, look: Step, before: Step) -> None:
    st.subheader("What had that head read?", anchor="read")
    view = read.view
    side: Side = "key" if before.query == look.key else "query"
    part = Part("head", before.layer, before.head)
    weight = view.trace.weights_of_queries(before.layer, slice(before.query, before.query + 1))
    asks, answers = (f"{n} {literal(view.labels[n])}" for n in (before.query, before.key))
    back = before.query - before.key
    apart = f"{pluralize(back, 'tokens')} back" if back else "the token there"
    prose.markdown(
        f"One of the writers in the leading pairs is {part_label(part, side)}. It is a head as "
        f"well, so ask it the same: at {asks}, it had looked hardest at {answers}, **{apart}** "
        f"(weight {weight[before.head, 0, before.key]:.2f}). What it found there, it wrote into "
        "the stream."
    )
    _weights(view, before, "why_read")
    _to(pages.HEAD, f"Why did {part} look there?", read, look, _why(before))


def _why(*steps: Step) -> dict[Parameter, Any]:
    """Parameters that open the explanation on Head, at heads further down."""
    return {parameters.SEE: "why", parameters.WHY: steps}


def _so(read: _Text, case: Reason, before: Step | None) -> None:
    st.subheader("So why does it look there?", anchor="so")
    if case.rule is None:
        prose.markdown(
            "No single reason stands out by more than half here: the score is made of many small "
            "pairs. That is an answer too."
        )
    else:
        prose.markdown(f"**{literal(case.words()[-1])}**")
    if case.rule is not None and case.rule[0].name == "induction":
        prose.markdown(
            "Two heads do it together. An early one writes beside each token which one came "
            "before it. A later one looks for its token among these notes, and finds what came "
            "next the last time. This is an **induction** circuit (Olsson et al. 2022, "
            "*In-context Learning and Induction Heads*)."
        )
    if before is not None:
        _without(read, case, before)


def _without(read: _Text, case: Reason, before: Step) -> None:
    """The same weight where the head before is off: by the sum, and by a run."""
    row, edit = case.row, Edit("off", before.layer, before.head)
    part = Part("head", before.layer, before.head)
    run = run_cache.run(replace(read.view.trace.key, edits=(edit,)))
    weights = run.weights_of_queries(row.layer, slice(row.query, row.query + 1))
    left = float(weights[row.head, 0, case.key])
    prose.markdown(
        f"A sum is no experiment, so the model was run again with {part} switched off. "
        f"The weight went from {case.weight:.2f} to **{left:.2f}**. By the sum alone it would be "
        f"{row.ablated_part_weight(case.key, part):.2f}; the two need not agree, as without the "
        "head σ and all later parts change too."
    )
    at = Step(row.layer, row.head, row.query, case.key)
    _to(pages.WHAT_IF, f"Switch {part} off, on What if", read, at, {parameters.EDITS: (edit,)})


def _to(
    page: Page, label: str, read: _Text, at: Step, more: dict[Parameter, Any] | None = None
) -> None:
    """A link to the very cell on another page."""
    there: dict[Parameter, Any] = {
        parameters.TEXT: read.text,
        parameters.LAYER: at.layer,
        parameters.HEAD: at.head,
        parameters.QUERY: at.query,
        **({parameters.KEY: at.key} if page is pages.HEAD else {}),
        **(more or {}),
    }
    link(page, label, there)


def _questions(read: _Text | None, weight: float) -> list[Question]:
    own = read is not None and not read.twice
    return [
        Question(
            "why_pairs",
            "A query has 4 parts and a key has 7. Over how many **pairs** is their score a sum?",
            "Each part of the query meets each part of the key.",
            "4 · 7. With n writers on each side, n².",
            answer="28",
        ),
        Question(
            "why_shared",
            "One part adds 5 to the scores of **all** keys of a row. By how much does each weight "
            "change?",
            "Softmax divides by the sum of the row.",
            "Each numerator grows e⁵ times, and so does their sum. What all keys share cancels.",
            answer="0",
            also=("nothing", "none", "not at all", "no change", "unchanged"),
        ),
        Question(
            "why_own",
            "Type a sentence in which a token comes **twice**, so that a head gives more than half "
            "of its weight to what followed it the first time.",
            "Say something, then begin to say it again.",
            f"The hardest look takes {weight:.2f}. Change the word that follows, and read again.",
            done=own and weight > _HALF,
            note=f"The hardest look takes {weight:.2f} here. Try a longer sentence, or one with a "
            "rarer token twice."
            if own and weight <= _HALF
            else "",
        ),
    ]
