"""Sections of the page Models: parameters, tokenizer, positions, the cost of a run, modules."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from gpt2viz import GPT2VizError, labels
from gpt2viz.anatomy.cost import activations, products
from gpt2viz.anatomy.merges import Pair, Word, follow
from gpt2viz.anatomy.parameters import Component, parts
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.components.diagram import draw_diagram
from gpt2viz.app.frame import controls, sentence
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.app.views import measures
from gpt2viz.labels import first_few, label, numeral, pluralize
from gpt2viz.model.checkpoint import read_config
from gpt2viz.model.devices import to_numpy
from gpt2viz.model.memory import spell
from gpt2viz.model.tokenizer import Tokenizer, TokenList
from gpt2viz.pictures.anatomy import part_bars, similarity_at, similarity_map
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.pictures.pooling import GRID

#: Most characters that are tokenized step by step; more would fill many screens.
LONGEST = 60
#: How many of the pairs that had to wait are named.
_WAITING = 3


def parameter_counts(name: str) -> None:
    """Draw the parameters of every part, all layers together, computed from the config."""
    config = read_config(run_cache.model_folders()[name])
    listed = parts(config)
    counts = [part.n_parameters for part in listed]
    whole = sum(counts)
    prose.markdown(labels.sentence("models.parameters", count=whole, memory=spell(4 * whole)))
    table, chart = st.columns([5, 3], gap="medium")
    with table:
        _part_table(name, listed, whole)
        prose.caption(
            "The unembedding (`lm_head`) makes the logits. It reuses the token embeddings (weight "
            "tying), so they are counted once."
            if config.tie_word_embeddings
            else "The unembedding (`lm_head`) makes the logits, with a table of its own: it isn't "
            "tied to the token embeddings."
        )
    with chart:
        names, groups = [part.name for part in listed], [part.group for part in listed]
        what = f"Parameters of every part of {name}"
        output.picture(
            part_bars(what, names, groups, counts, "parameters"),
            key="part_bars",
            of_run=False,
            made_by=(parts,),
        )


def _part_table(name: str, listed: Sequence[Component], whole: int) -> None:
    counts = [*(part.n_parameters for part in listed), whole]
    table = pd.DataFrame(
        {
            "part": [*(part.name for part in listed), "all"],
            "in one layer": [*(p.each if p.times > 1 else None for p in listed), None],
            "in the model": counts,
            "share (%)": [100 * n / whole for n in counts],
            "weights": [*(part.tensors for part in listed), ""],
        }
    )
    output.table(
        table.astype({"in one layer": "Int64"}),
        f"Parameters of every part of {name}",
        key="parts",
        placeholder="",
        height="content",
        formats={"in one layer": "localized", "in the model": "localized", "share (%)": "%.2f"},
    )


def tokenizer(name: str) -> None:
    """Draw the box of a word and its tokenization, merge by merge."""
    tokenizer = run_cache.tokenizer(name)
    typed = st.text_input(
        "A word, or a few",
        help=prose.tip(
            "A space before a word belongs to the word, so the tokens differ with and without it."
        ),
        width=420,
        **address.text(parameters.WORD),
    )
    if len(typed) > LONGEST:
        cut = labels.sentence("models.cut", typed=len(typed), used=LONGEST)
        st.warning(cut, icon=":material/content_cut:")
    try:
        words = follow(tokenizer, typed[:LONGEST])
    except GPT2VizError as error:
        st.error(literal(str(error)), icon=":material/error:")
        return
    if not words:
        st.info("Type a word to see how it is put together.", icon=":material/edit:")
        return
    _ids(words)
    if isinstance(tokenizer, TokenList):
        prose.markdown(labels.sentence("models.token_list", tokens=tokenizer.n_vocab))
        return
    _name_added_tokens(tokenizer)
    prose.markdown(labels.sentence("models.merges"))
    for n, word in enumerate(words):
        _merges(name, n, word)


def _name_added_tokens(tokenizer: Tokenizer) -> None:
    """Name the tokens that this tokenizer adds to every text, if any."""
    parts = [
        f"{sentence.token_markdown(tokenizer, ids)} {where} it"
        for ids, where in ((tokenizer.first, "before"), (tokenizer.last, "after"))
        if ids
    ]
    parts += ["a space before one that has none"] if tokenizer.prefix_space else []
    if parts:
        prose.caption(labels.sentence("models.around", parts=" and ".join(parts)))


def _ids(words: Sequence[Word]) -> None:
    ids = [i for word in words for i in word.ids]
    pieces = [piece for word in words for piece in word.pieces]
    shown = " &ensp; ".join(
        f"**{literal(label(p))}** :small[:gray[{i}]]" for p, i in zip(pieces, ids, strict=True)
    )
    theirs = "its id" if len(ids) == 1 else "their ids"
    prose.markdown(f"{pluralize(len(ids), 'tokens')}, with {theirs}: &ensp; {shown}")


def _merges(name: str, n: int, word: Word) -> None:
    written = label(b"".join(word.start))
    prose.markdown(f"**{literal(written)}**")
    if word.whole:
        prose.caption("This is already one token.")
        return
    if not word.merges:
        pieces = "  |  ".join(map(label, word.start))
        prose.caption(labels.sentence("models.no_merge", pieces=literal(pieces)))
        return
    steps = [("", None, "", word.start)] + [
        (_pair(merge.pair), merge.rank, _join_pairs(merge.others), merge.pieces)
        for merge in word.merges
    ]
    output.table(
        pd.DataFrame(
            {
                "step": range(len(steps)),
                "this pair is merged": [pair for pair, _, _, _ in steps],
                "rank": [rank for _, rank, _, _ in steps],
                "the pieces then": ["  |  ".join(map(label, left)) for _, _, _, left in steps],
                "pairs that had to wait (rank)": [waiting for _, _, waiting, _ in steps],
            }
        ).astype({"rank": "Int64"}),
        f"Merges of {written} by the tokenizer of {name}",
        key=f"merges_{n}",
        placeholder="",
        height="content",
        column_config={
            "step": st.column_config.NumberColumn(width="small"),
            "rank": st.column_config.NumberColumn(
                format="localized", help="Its number in the list of merges; 0 was learned first"
            ),
            "the pieces then": st.column_config.TextColumn(width="large"),
        },
    )


def _pair(pair: Pair) -> str:
    return " + ".join(map(label, pair))


def _join_pairs(others: Sequence[tuple[Pair, int]]) -> str:
    return first_few([f"{_pair(pair)} ({rank:,})" for pair, rank in others], _WAITING)


def positions(name: str) -> None:
    """Draw the map of all position embeddings, if the model has them."""
    if (compared := _similarities(name)) is None:
        st.info(
            labels.sentence("models.no_positions", model=literal(name)),
            icon=":material/rotate_right:",
        )
    else:
        _draw_positions(name, *compared)


def _draw_positions(name: str, panel: Panel, means: dict[int, float]) -> None:
    """Draw the map and how to read it."""
    n = panel.rows.stop or 0
    chart, words = st.columns([3, 2], gap="large")
    with chart:
        output.picture(
            Heatmaps(
                f"Cosine similarity of every pair of position embeddings of {name}",
                [panel],
                scale="signed",
                height=560,
                numbers=0,
                bar="cosine",
                legend=False,
            ),
            key="positions",
            of_run=False,
            made_by=(similarity_map, similarity_at),
        )
        if len(panel.values) < n:
            prose.caption(labels.sentence("models.pooled", positions=n))
    with words:
        prose.markdown(
            labels.sentence("models.positions", last=n - 1)
            + " Each cell compares two by **cosine similarity**: 1 if the vectors point the same "
            "way, 0 at right angles, −1 if opposite."
        )
        lines = ["|positions apart|mean cosine|", "|-:|-:|"]
        for distance, mean in means.items():
            written = "no direction" if math.isnan(mean) else numeral(mean, "+.3f")
            lines.append(f"|{distance}|{written}|")
        prose.markdown("\n".join(lines))
        if run_cache.is_bundled(run_cache.model_folders()[name]):
            prose.caption(
                "This model's positions began as **waves** of several lengths, which training "
                "then changed: hence the stripes. GPT-2's began as random numbers; it had to learn "
                "which positions are neighbours."
            )
        prose.caption(
            "What to look for: a **band** along the diagonal means that neighbours have similar "
            "vectors, so that the model can tell near from far. **Stripes** mean that vectors come "
            "back to a direction after some steps, as on a wave. A row that stands out, often the "
            "first, has a vector unlike the others. Even colour away from the diagonal means that "
            "those positions were rarely seen, or hardly kept apart."
        )


@st.cache_resource(max_entries=4, show_spinner="Comparing all positions …")
def _similarities(name: str) -> tuple[Panel, dict[int, float]] | None:
    """Return the map, and the mean similarity at some distances; None without embeddings."""
    table = run_cache.load(name).network.position_embedding
    if table is None:
        return None
    vectors = to_numpy(table.weight)
    distances = [d for d in (1, 2, 8, 32, 128, 512) if d < len(vectors)]
    return similarity_map(vectors, GRID), {d: similarity_at(vectors, d) for d in distances}


def cost(view: View) -> None:
    """Draw the run's multiply-adds by part, then its bytes."""
    _multiply_adds(view)
    _bytes(view)


def _multiply_adds(view: View) -> None:
    work = products(view.trace)
    counts = [product.multiply_adds for product in work]
    whole = sum(counts)
    prose.markdown(
        f"#### {whole:,} multiply-adds for {pluralize(view.n_tokens, 'tokens')}\n"
        + labels.sentence("models.products", flops=2 * whole)
    )
    table, chart = st.columns([5, 3], gap="medium")
    with chart:
        output.picture(
            part_bars(
                "Multiply-adds of every part of the run",
                [product.name for product in work],
                [product.group for product in work],
                counts,
                "multiply-adds",
            ),
            key="cost_bars",
            made_by=(products,),
        )
    with table:
        output.table(
            pd.DataFrame(
                {
                    "product": [*(product.name for product in work), "all"],
                    "made · length": [*(p.formula for p in work), ""],
                    "in this run": [*(product.worked for product in work), ""],
                    "layers": [*(p.times if p.times > 1 else None for p in work), None],
                    "multiply-adds": [*counts, whole],
                }
            ).astype({"layers": "Int64"}),
            "Multiply-adds of every product",
            key="products",
            placeholder="",
            height="content",
            formats={"multiply-adds": "localized"},
        )
        prose.caption(_counting_note(view))


def _counting_note(view: View) -> str:
    """Return the note on work that isn't counted, and on counted work that the run doesn't use."""
    hidden = "Keys that the causal mask hides are counted. " if view.trace.causal else ""
    more = "turns by RoPE, the MLP's gate, " if "mlp_gate" in view.trace.graph else ""
    return (
        f"Not counted: softmax, norms, {more}the MLP's curve, biases, additions, and looking up "
        f"embeddings. {hidden}Logits are made for the last token only."
        + measures.reused_note(view.trace, " The counts are those of a full run.")
    )


def _bytes(view: View) -> None:
    tensors = activations(view.trace)
    made, stored = sum(t.made_bytes for t in tensors), sum(t.kept_bytes for t in tensors)
    prose.markdown(
        f"#### {spell(view.model.nbytes)} of weights, {spell(stored)} kept of this run\n"
        + labels.sentence("models.bytes", made=spell(made))
    )
    output.table(
        {
            "tensor": [t.name for t in tensors],
            "key": [t.key for t in tensors],
            "shape": [f"({', '.join(f'{n:,}' for n in t.shape)})" for t in tensors],
            "times": [t.times for t in tensors],
            "bytes made": [t.made_bytes for t in tensors],
            "bytes kept": [t.kept_bytes for t in tensors],
        },
        "Bytes of every tensor",
        key="activations",
        height=320,
        formats={"bytes made": "localized", "bytes kept": "localized"},
    )
    if not view.trace.explicit:
        prose.caption(
            "A text this long runs fused: scores and weights aren't kept, but recomputed from Q "
            "and K for the heads that you open."
        )


def modules(view: View) -> None:
    """Draw the model's modules as boxes, one layer in full."""
    prose.markdown(
        "Each box is a module of this model, with the shape of its output on this sentence. "
        "**Click a box** to open the page that shows it."
    )
    draw_diagram(view, controls.layer(view))
    if view.model.config.tie_word_embeddings:
        table = view.trace.graph["token_embedding"].module
        prose.caption(labels.sentence("models.tied", table=table))
