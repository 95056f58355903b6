"""The next token: what comes next, which step of the stream decided it, and which head wrote it."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from gpt2viz import contributions, entropy, logit_lens, sampling_distribution, surprise
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.clicks import Cell, open_head
from gpt2viz.app.frame import page
from gpt2viz.app.literal import literal
from gpt2viz.app.parameters import Text
from gpt2viz.app.source_code import Line
from gpt2viz.app.view import View
from gpt2viz.labels import difference, signed
from gpt2viz.pictures import tables
from gpt2viz.pictures.lens import lens_map
from gpt2viz.pictures.prediction import contribution_map, probability_bars, token_bars

Distribution = NDArray[np.float64]

TEMPERATURES = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0]
SHARES = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0]
COUNTS = ["all", 1, 2, 3, 5, 10, 20, 40, 50, 100, 200]

#: The most probable tokens that have a bar each.
TOP = 12
#: Columns of the lens: as many tokens as can be read in one row.
LENS_WIDTH = 10
#: So many candidates are offered for a logit to take apart; any other token can be typed.
CANDIDATES = 100

NONE = "nothing"


class Sampling(TypedDict):
    """Arguments of ``gpt2viz.sampling_distribution``."""

    temperature: float
    top_k: int | None
    top_p: float


#: The model's own distribution, left as it is.
UNCHANGED: Sampling = {"temperature": 1.0, "top_k": None, "top_p": 1.0}


def draw(view: View, settings: Any) -> None:
    """Draw the mode; ``settings`` is the container for what tokens are drawn with."""
    page.stop_without_numbers(view.trace)
    with settings:
        sampled = sampling()
    position = view.n_tokens - 1 if view.query is None else view.query
    _next_token(view, position, sampled)
    _surprise(view)
    _lens(view, position)
    _contributions(view, position)


def _here(view: View, position: int) -> str:
    """A token with its position."""
    return f"{position} “{literal(view.labels[position])}”"


def _next_token(view: View, position: int, settings: Sampling) -> None:
    """What comes after the token at ``position``: the model's probabilities, and what is drawn."""
    logits, names = view.trace.logits_at(position), run_cache.vocabulary(view.model.name)
    model, drawn = sampling_distribution(logits), sampling_distribution(logits, **settings)
    table = tables.next_token_table(model, drawn, names, top=TOP)
    cases = {"the model's probability": table["model (%)"]}
    if settings == UNCHANGED:
        del table["drawn from (%)"]
    else:
        cases["what a token is drawn from, with these settings"] = table["drawn from (%)"]
    picture, numbers = st.columns([5, 4], gap="large")
    with picture, st.container(gap="xsmall"):
        st.markdown(f"**What comes after token {_here(view, position)}**")
        output.picture(
            probability_bars(
                f"Probability of the most probable next tokens after token {position}",
                table["token"],
                cases,
                rest=True,
            ),
            view.colors,
            key="next_tokens",
            made_by=(Line(view.trace, "last_logits"), sampling_distribution, entropy),
        )
        prose.caption("The model gives **every** token of its vocabulary a probability.")
    with numbers, st.container(gap="xsmall"):
        _how_undecided(model, drawn)
        percent = st.column_config.NumberColumn(format="%.3f")
        formats = {name: percent for name in table.columns if "%" in name}
        token = st.column_config.TextColumn(width=140)
        output.table(
            table,
            f"Next tokens after token {position}",
            hide_index=True,
            height="content",
            column_config=formats | {"id": None, "token": token},
        )


def _how_undecided(model: Distribution, drawn: Distribution) -> None:
    """How many tokens the model hesitates between, and how many can be drawn; (n_vocab,) each."""
    with st.container(key="undecided", horizontal=True, gap="large"):
        st.metric(
            "Entropy",
            f"{entropy(model):.2f} bits",
            help=prose.tip(
                "How undecided the model is. 0: sure of one token. Each further bit doubles the "
                f"number of tokens it hesitates between; {len(model):,} equally probable ones "
                "would give the most bits."
            ),
            width="content",
        )
        st.metric(
            "Can be drawn",
            f"{(drawn > 0).sum():,}",
            help=prose.tip("Tokens with a probability above 0 after temperature, top-k and top-p."),
            width="content",
        )


def _surprise(view: View) -> None:
    """How well every token of the sentence could be predicted."""
    prose.markdown("#### How surprising each token of the sentence was")
    prose.caption(
        "The model reads nothing before the first token, so it can't predict it. Write a longer "
        "sentence."
        if view.n_tokens == 1
        else "Surprise is −log₂ of the probability that the model gave to this token when it had "
        "read only those before it. 0 bits: it was sure; 10 bits: one chance in 1,024."
        if view.trace.causal
        else "The mask is off: the model has **already seen** the token whose surprise is shown, "
        "so these numbers don't say how well it predicts."
    )
    if view.n_tokens > 1:
        bits = surprise(view.trace)
        output.picture(
            token_bars(
                "Surprise of every token in bits", view.labels, bits, "surprise (bits)", "bits"
            ),
            view.colors,
            key="surprise",
            made_by=(surprise,),
        )


def _lens(view: View, position: int) -> None:
    """What each step of the stream would predict, after the token at ``position`` and others."""
    prose.markdown("#### When is it decided? The logit lens")
    prose.caption(
        "Each layer adds to the residual stream. Here the stream is read after every step as if "
        "that step were the last: final LayerNorm, then the unembedding. It shows the token that "
        "would be most probable there. Only the bottom row is the model's own prediction "
        "(nostalgebraist 2020)."
    )
    names, shown = run_cache.vocabulary(view.model.name), lens_positions(view, position)
    lens = run_cache.lens(view.trace.key, tuple(shown))
    answer = literal(names[lens.answer[position - shown[0]]])
    output.picture(
        lens_map(
            "Most probable next token at every step of the stream, after each token",
            lens,
            names,
            view.labels,
            position,
        ),
        view.colors,
        key="lens_map",
        made_by=(logit_lens,),
    )
    window = f"Tokens {shown[0]} to {shown[-1]} are shown; choose another above to move there. "
    prose.caption(
        (window if len(shown) < view.n_tokens else "")
        + f"The curves on the right belong to token {_here(view, position)}, whose final answer is "
        f"“{answer}”."
    )


def _contributions(view: View, position: int) -> None:
    """What every part of the model added to a logit after the token at ``position``."""
    prose.markdown("#### Who wrote it? Direct contributions to a logit")
    names, logits = run_cache.vocabulary(view.model.name), view.trace.logits_at(position)
    token, versus = _explained(view, [int(n) for n in (-logits).argsort()])
    parts = contributions(view.model, view.trace, token, versus, position)
    apart = difference(abs(parts.total - parts.logit))
    logit, total = (signed(one, "+.4f") for one in (parts.logit, parts.total))
    compared = "" if versus is None else f" minus that of “{literal(names[versus])}”"
    prose.markdown(
        f"After token {_here(view, position)}, the logit of “{literal(names[token])}”{compared} is "
        f"**{logit} nats**. The parts below and the embeddings sum to {total} "
        f":small[:gray[(difference: {apart})]]. Click a head to look inside it."
    )
    grid, path = st.columns([5, 3], gap="medium")
    with grid, st.container(key="contributions"):
        output.picture(
            contribution_map(
                f"What each head, bias and MLP added to the logit after token {position}", parts
            ),
            view.colors,
            key="contribution_map",
            made_by=(contributions,),
            then=lambda cell: _open(cell, view.model.config.n_head),
        )
        prose.caption(
            "What a part wrote into the stream, through the final LayerNorm with its scale held at "
            "this run's value, times the token's unembedding (Elhage et al. 2021). What a part did "
            "by changing what later layers read is not counted here."
        )
    output.table(
        tables.contribution_table(parts),
        f"Contributions to a logit after token {position}",
        place=path,
        hide_index=True,
        height=330,
        column_config={"added (nats)": st.column_config.NumberColumn(format="%+.4f")},
    )


def _open(cell: Cell, n_head: int) -> None:
    """Look inside a head; what stands beside the heads is none."""
    if cell.column < n_head:
        open_head(cell.row, cell.column)


def sampling() -> Sampling:
    """Pick temperature, top-k and top-p, which both modes of the page draw with."""
    chosen = st.select_slider(
        "Temperature",
        TEMPERATURES,
        help=prose.tip(
            "Divides the logits: below 1 the probable tokens gain, above 1 they lose, "
            "at 0 only the most probable one is left."
        ),
        **address.choice(parameters.TEMPERATURE, TEMPERATURES),
    )
    kept = st.select_slider(
        "Top-k",
        COUNTS,
        help=prose.tip("Keeps only the k most probable tokens."),
        **address.choice(parameters.TOP_K, COUNTS),
    )
    part = st.select_slider(
        "Top-p",
        SHARES,
        help=prose.tip("Keeps the fewest tokens that together reach this probability."),
        **address.choice(parameters.TOP_P, SHARES),
    )
    return {"temperature": chosen, "top_k": None if kept == "all" else kept, "top_p": part}


def lens_positions(view: View, position: int) -> range:
    """Up to ``LENS_WIDTH`` positions, the chosen one among them, as late as can be."""
    last = min(view.n_tokens, max(position + 1, LENS_WIDTH))
    return range(max(0, last - LENS_WIDTH), last)


def _explained(view: View, best: list[int]) -> tuple[int, int | None]:
    """Pick the token whose logit is taken apart, and one to compare it with or None.

    ``best`` are the candidates, most probable first. Any token can be typed instead.
    """
    names = run_cache.vocabulary(view.model.name)
    offered = [names[n] for n in best[:CANDIDATES]]
    one, other = st.columns(2, gap="medium")
    with one:
        token = pick(view, "Logit of", parameters.EXPLAIN, offered, offered[0])
    with other:  # a logit minus itself is nothing
        others = [name for name in offered if name != address.chosen(parameters.EXPLAIN)]
        versus = pick(view, "minus the logit of", parameters.MINUS, [NONE, *others], NONE)
    return (best[0] if token is None else token), versus


def pick(view: View, title: str, which: Text, offered: list[str], default: str) -> int | None:
    """Pick a token, ``offered`` or typed: its id, None for ``NONE``; or one message and the end."""
    widget = address.text(which, default)
    written: str = address.chosen(which)
    st.selectbox(
        title,
        offered if written in offered else [written, *offered],
        accept_new_options=True,
        help=prose.tip(
            "The most probable tokens are offered. Any other can be typed; · is a space."
        ),
        **widget,
    )
    if written == NONE:
        return None
    token = _token(view, written)
    if token is None:
        st.warning(
            f"{literal(written)} is not a single token of this model's vocabulary. "
            "Type another, or choose one from the list.",
            icon=":material/edit:",
        )
        st.stop()
    return token


def _token(view: View, written: str) -> int | None:
    """The id of a token as it is written on screen, or as a person types it: he for ·he."""
    ids = run_cache.token_of_label(view.model.name)
    if written in ids:
        return ids[written]
    plain = written.strip()
    return ids.get(f"·{plain}", ids.get(plain))
