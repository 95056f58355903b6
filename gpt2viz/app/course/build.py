"""Build it yourself: GPT-2 in eighty lines, with eight gaps that the reader fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from gpt2viz import GPT2Config, Trace
from gpt2viz.analysis.generation import generate
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.course.parts import Book
from gpt2viz.app.course.questions import Check
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.labels import pluralize
from gpt2viz.textbook import gaps
from gpt2viz.textbook.expressions import LONGEST, ExpressionError
from gpt2viz.textbook.gaps import FILLED, GAPS, NEW, Case, Draft, Gap, Verdict

_ATTENTION = ("scores", "scale", "mask", "softmax", "merge")
#: Most bytes of a model that can be built here: it reruns at each change.
_LARGEST = 600 * 2**20


def fits(book: Book) -> dict[str, Any]:
    """Return whether the model can be built with this sentence, or why not."""
    model, config = book.view.model, book.view.model.config
    plain = isinstance(config, GPT2Config) and not config.scale_attn_by_inverse_layer_idx
    differs = not (plain and config.tie_word_embeddings)
    too_large = not differs and model.nbytes > _LARGEST
    too_short = not differs and not too_large and book.view.n_tokens < gaps.FEWEST
    return {
        "differs": differs,
        "too_large": too_large,
        "too_short": too_short,
        "fewest": gaps.FEWEST,
        "fits": not (differs or too_large or too_short),
        **dict.fromkeys(("waits", "stuck", "differently", "built", "hidden"), False),
        **_checks({}, same=True),
    }


def fill_gaps(book: Book) -> dict[str, Any]:
    """Draw the gaps, and judge the expression in each."""
    run = _run(book.view)
    n = len(run.token_ids)
    cases, config = gaps.trace_cases(book.view.model, run, n), book.view.model.config
    others = gaps.random_cases(config.n_head, config.head_dim, n)
    listing_place = st.container()
    given, verdicts = {}, {}
    for gap in GAPS:
        given[gap.name], verdicts[gap.name] = _gap(gap, cases[gap.name], others[gap.name])
    with listing_place.expander("All eighty lines, with what you wrote", icon=":material/code:"):
        st.code(Draft(given).source(), wrap_lines=True)
    return {
        "sentence": run,
        "given": given,
        "verdicts": verdicts,
        "n_right": len(_right_gaps(verdicts)),
        "gaps": pluralize(len(GAPS), "gaps"),
        "waits": not all(verdict.runs for verdict in verdicts.values()),
        **_checks(verdicts, same=True),
    }


def _run(view: View) -> Trace:
    """Return the sentence's run with the mask on; of a long sentence, its first tokens' run."""
    ids = view.trace.token_ids[: gaps.MOST]
    if view.trace.causal and ids == view.trace.token_ids:
        return view.trace
    if ids != view.trace.token_ids:
        prose.caption(f"Only the first {gaps.MOST} tokens of your sentence are read.")
    if not view.trace.causal:
        prose.caption("Here the sentence is read with the mask on, as GPT-2 reads.")
    run = run_cache.run(replace(view.trace.key, token_ids=ids, causal=True))
    output.run("The sentence, with the mask on", run)
    return run


def _gap(gap: Gap, cases: list[Case], other: Case) -> tuple[str, Verdict]:
    """Draw a gap; return the expression typed there, and the verdict on it."""
    with st.container(border=True, key=f"gap_{gap.name}"):
        words, hint = st.columns([8, 1], vertical_alignment="top")
        prose.markdown(f"**{GAPS.index(gap) + 1}. {gap.title}.** {gap.does}", slot=words)
        with hint.popover("Hint", type="tertiary"):
            prose.markdown(gap.hint)
        st.code(gap.line)
        hand = " · ".join(f"`{name}` {size}" for name, size in cases[0].at_hand.items())
        st.caption(f"At hand: {hand}")
        given = st.text_input(
            f"{gap.title}: what belongs in the gap?",
            max_chars=LONGEST,
            autocomplete="off",
            **address.text(parameters.GAP[gap.name]),
        )
        verdict = gaps.judge(gap, given, cases, other)
        if verdict.kind == "right":
            prose.markdown(f":green-badge[right] {verdict.remark}")
        elif verdict.remark:
            prose.markdown(f":orange-badge[not yet] {verdict.remark}")
    return given, verdict


def solution(book: Book) -> None:
    """Draw the file with the right expression in each gap."""
    st.code(Draft(FILLED).file(book.view.model, book.view.trace.token_ids), wrap_lines=True)


def write_on(book: Book) -> dict[str, Any]:
    """Generate with the reader's model, once it runs, and compare with the real model's text."""
    run, given, verdicts = (book.values[name] for name in ("sentence", "given", "verdicts"))
    if book.values["waits"]:
        return {}
    try:
        own = _reader_tokens(run.key.model, run.token_ids, tuple(given.items()))
    except ExpressionError as error:
        return {"stuck": error, **_checks(verdicts, same=False)}
    real = _app_tokens(run.key.model, run.token_ids)
    tokenizer = run_cache.load(run.key.model).tokenizer
    beginning, ends, real_end = (literal(tokenizer.decode(n)) for n in (run.token_ids, own, real))
    same, complete = own == real, len(_right_gaps(verdicts)) == len(GAPS)
    st.markdown(f"“{beginning}:{'green' if same else 'orange'}-background[{ends}]”")
    if same and complete:
        file = Draft(given).file(book.view.model, run.token_ids)
        output.file_button("Your GPT-2 as a file", file, "my_gpt2.py")
    return {
        "differently": not same,
        "real_end": real_end,
        "built": same and complete,
        "hidden": same and not complete,
        "n_written": pluralize(len(real), "tokens"),
        **_checks(verdicts, same),
    }


@st.cache_data(max_entries=64, show_spinner="Your model writes …")
def _reader_tokens(
    model_name: str, text: tuple[int, ...], given: tuple[tuple[str, str], ...]
) -> list[int]:
    model = run_cache.load(model_name)
    return Draft(dict(given)).build(model).write(list(text), NEW, model.tokenizer.end_of_text)


@st.cache_data(max_entries=64, show_spinner="The model writes …")
def _app_tokens(model_name: str, text: tuple[int, ...]) -> list[int]:
    model = run_cache.load(model_name)
    return [choice.token for choice in generate(model, text, NEW)]


def _right_gaps(verdicts: Mapping[str, Verdict]) -> list[str]:
    """Return the gaps that are filled in as in the real model."""
    return [name for name, verdict in verdicts.items() if verdict.kind == "right"]


def _checks(verdicts: Mapping[str, Verdict], same: bool) -> dict[str, Check]:
    """Check the questions; ``same`` is false if the reader's model generates a different text."""
    right = _right_gaps(verdicts)
    runs = bool(verdicts) and all(verdict.runs for verdict in verdicts.values())
    one_wrong = runs and len(right) == len(GAPS) - 1
    unnoticed = "One is wrong, but the tokens are the same. Spoil it more, or another."
    return {
        "build_attention": Check(set(_ATTENTION) <= set(right)),
        "build_all": Check(len(right) == len(GAPS) and same),
        "build_broken": Check(one_wrong and not same, unnoticed if one_wrong and same else ""),
    }
