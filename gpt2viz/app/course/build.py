"""Build it yourself: GPT-2 in eighty lines, with eight gaps that the reader fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from gpt2viz import Trace
from gpt2viz.analysis.generation import generate
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.course.parts import Book, code
from gpt2viz.app.course.questions import Question
from gpt2viz.app.literal import literal
from gpt2viz.app.parameters import Text
from gpt2viz.app.view import View
from gpt2viz.labels import pluralize
from gpt2viz.textbook import gaps
from gpt2viz.textbook.expressions import LONGEST, ExpressionError
from gpt2viz.textbook.gaps import GAPS, NEW, Case, Draft, Gap, Verdict

#: What the address calls the expression in each gap.
_WRITTEN: Mapping[str, Text] = {
    "embedding": parameters.BUILD_EMBEDDING,
    "scores": parameters.BUILD_SCORES,
    "scale": parameters.BUILD_SCALE,
    "mask": parameters.BUILD_MASK,
    "softmax": parameters.BUILD_SOFTMAX,
    "merge": parameters.BUILD_MERGE,
    "residual": parameters.BUILD_RESIDUAL,
    "head": parameters.BUILD_HEAD,
}
_ATTENTION = ("scores", "scale", "mask", "softmax", "merge")
#: Bytes of the largest model that is built here: it is run again at each change.
_LARGEST = 600 * 2**20


def draw(book: Book) -> list[Question]:
    """The gaps, what is to be said of each, and what the reader's model writes."""
    refusal = _refusal(book.view)
    if refusal:
        prose.markdown(
            "GPT-2 fits into eighty lines. Here you fill **eight gaps** in them. Each is compared "
            f"with what the model above made of your sentence. {refusal}"
        )
        return _questions({}, same=True)
    prose.markdown(
        "GPT-2 fits into eighty lines. Here they are, but for **eight gaps**. Put an expression "
        "into each: it is computed with the tensors of your sentence, and compared with what the "
        "model above made there."
    )
    st.latex(r"\text{softmax}\!\left(\frac{QK^\top}{\sqrt{h_s}} + \text{mask}\right)V")
    prose.caption(
        "Write as in PyTorch: `+ - * / ** @`, comparisons, `x[1:T]`, `x.mT`, and functions such "
        "as `softmax`, `sqrt`, `ones`, `tril`, `where`, `masked_fill`, `transpose`, `permute` and "
        "`reshape`. A small language of this project reads it; no Python is run."
    )
    run = _run(book.view)
    n = len(run.token_ids)
    cases, shorter = (gaps.as_in(book.view.model, run, m) for m in (n, n - 1))
    listing_place = st.container()
    given, verdicts = {}, {}
    for gap in GAPS:
        given[gap.name], verdicts[gap.name] = _gap(gap, cases[gap.name], shorter[gap.name][0])
    with listing_place.expander("All eighty lines, with what you wrote", icon=":material/code:"):
        st.code(Draft(given).source(), wrap_lines=True)
    code(gaps.as_in, gaps.judge)
    return _questions(verdicts, _speaks(run, given, verdicts))


def _refusal(view: View) -> str:
    """Why this model or sentence can't be built with; "" where it can."""
    config = view.model.config
    if not config.tie_word_embeddings or config.scale_attn_by_inverse_layer_idx:
        return (
            "The model above differs from GPT-2 in its scale or in its head. Choose another to "
            "build it here."
        )
    if view.model.nbytes > _LARGEST:
        return "The model above is too large to be run at each change. Choose a smaller one."
    if view.n_tokens < gaps.FEWEST:
        return (
            f"Type a sentence of {gaps.FEWEST} tokens or more: in a shorter one some mistakes "
            "don't show."
        )
    return ""


def _run(view: View) -> Trace:
    """The sentence's run with the mask on; of a long sentence, that of its first tokens."""
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


def _gap(gap: Gap, cases: list[Case], shorter: Case) -> tuple[str, Verdict]:
    """Draw a gap; what is written there, and what that is."""
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
            **address.text(_WRITTEN[gap.name]),
        )
        verdict = gaps.judge(gap, given, cases, shorter)
        if verdict.kind == "right":
            prose.markdown(f":green-badge[right] {verdict.remark}")
        elif verdict.remark:
            prose.markdown(f":orange-badge[not yet] {verdict.remark}")
    return given, verdict


def _speaks(run: Trace, given: Mapping[str, str], verdicts: Mapping[str, Verdict]) -> bool:
    """Let the reader's model write, once it can; whether it writes what the real one does."""
    st.subheader("Your model writes", anchor="writes")
    right = [gap.title for gap in GAPS if verdicts[gap.name].kind == "right"]
    prose.markdown(f"Right: **{len(right)} of {pluralize(len(GAPS), 'gaps')}**.")
    if not all(verdict.runs for verdict in verdicts.values()):
        prose.caption(
            "Once something of the right shape stands in each gap, right or wrong, your model "
            "writes on."
        )
        return True
    try:
        mine = _by_reader(run.key.model, run.token_ids, tuple(given.items()))
    except ExpressionError as error:
        prose.markdown(f"Your model can't write on: {error}")
        return False
    real = _by_app(run.key.model, run.token_ids)
    tokenizer = run_cache.load(run.key.model).tokenizer
    begun, ends, real_end = (literal(tokenizer.decode(n)) for n in (run.token_ids, mine, real))
    st.markdown(f"“{begun}:{'green' if mine == real else 'orange'}-background[{ends}]”")
    if mine != real:
        prose.markdown(f"The real model goes on: “{real_end}”")
    elif len(right) == len(GAPS):
        prose.markdown(
            f"{pluralize(len(real), 'tokens')}, and each is what the model above writes at "
            "temperature 0. **You have built GPT-2.**"
        )
    else:
        prose.markdown("The same tokens as the real model's: this mistake doesn't show here.")
    return mine == real


@st.cache_data(max_entries=64, show_spinner="Your model writes …")
def _by_reader(
    model_name: str, text: tuple[int, ...], given: tuple[tuple[str, str], ...]
) -> list[int]:
    model = run_cache.load(model_name)
    return Draft(dict(given)).read_by(model).write(list(text), NEW, model.tokenizer.end_of_text)


@st.cache_data(max_entries=64, show_spinner="The model writes …")
def _by_app(model_name: str, text: tuple[int, ...]) -> list[int]:
    model = run_cache.load(model_name)
    return [choice.token for choice in generate(model, text, NEW)]


def _questions(verdicts: Mapping[str, Verdict], same: bool) -> list[Question]:
    """``same`` tells that the reader's model writes what the real one does, or doesn't write."""
    right = [name for name, verdict in verdicts.items() if verdict.kind == "right"]
    runs = bool(verdicts) and all(verdict.runs for verdict in verdicts.values())
    one_wrong = runs and len(right) == len(GAPS) - 1
    return [
        Question(
            "build_attention",
            "Fill the five gaps of **attention**: scores, scale, mask, softmax and merge.",
            "Each has a hint of its own, and the formula above has four of them.",
            "Five lines, and every head of every layer runs through them.",
            done=set(_ATTENTION) <= set(right),
        ),
        Question(
            "build_all",
            "Fill **all eight**, so that your model writes what the real one writes.",
            "Start with those that need least: the residual is one sign.",
            "All else in the eighty lines is linear layers, norms and a loop.",
            done=len(right) == len(GAPS) and same,
        ),
        Question(
            "build_broken",
            "Now spoil **one** of the eight, so that your model still runs but writes something "
            "else.",
            "What if nothing hid later keys, or if layers replaced the stream?",
            "No error, no warning: only the words tell. That's why a model is tested against "
            "numbers that something else has worked out.",
            done=one_wrong and not same,
            note="One is wrong, but the tokens are the same. Spoil it more, or another."
            if one_wrong and same
            else "",
        ),
    ]
