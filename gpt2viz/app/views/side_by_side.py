"""Side by side: layers, the mask on and off, sentences, heads or models, on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import ArgumentError, GPT2VizError, Model, TooLargeError
from gpt2viz.analysis.comparison import Path, largest_differences
from gpt2viz.analysis.model_changes import check_comparable
from gpt2viz.analysis.patterns import likeness
from gpt2viz.app import address, output, pages, parameters, prose, run_cache
from gpt2viz.app.clicks import choose_map_head, choose_query, open_head
from gpt2viz.app.components import lines
from gpt2viz.app.components.lines import Lined, put_query
from gpt2viz.app.frame import controls, page_fragment
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Code, Line
from gpt2viz.app.view import View, Window, whole_text
from gpt2viz.app.views import alike, changes, measures, two_runs, two_texts, zoom
from gpt2viz.app.views.two_runs import HEIGHT, Head, Side, Sides, Weights, sides_of_text
from gpt2viz.app.views.zoom import window
from gpt2viz.labels import first_few, sentence
from gpt2viz.model.checkpoint import weight_bytes
from gpt2viz.model.memory import spell
from gpt2viz.model.tokenizer import load_tokenizer
from gpt2viz.pictures.from_trace import difference, difference_in_words, who_sees_whom
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.run.trace import Trace

#: Notes on modes.
_NOTES = {
    "mask": sentence("side_by_side.mask_note"),
    "model": sentence("side_by_side.model_note"),
}
#: Title and tip of the map of heads: for sides that differ by more than a head, and for two heads.
_MAP_TITLE = ("Which heads differ most?", "Which heads are like A?")
_MAP_CAPTION = (
    "The largest |B − A| of any weight, for each head that both have. Click a head to see it.",
    "The cosine similarity between the weights of each head and of A's, without the first row. "
    "Click a head to see it as B.",
)


def show() -> None:
    """Draw the page."""
    page_fragment.draw(pages.SIDE_BY_SIDE, _modes)


def _modes(view: View) -> None:
    """Pick what differs between the sides, and draw the mode."""
    choices = st.container(key="choices", horizontal=True, vertical_alignment="center")
    with choices:
        alone = len(run_cache.model_folders()) == 1
        what = controls.mode(pages.SIDE_BY_SIDE, without=["model"] if alone else [])
    if what == "layers":
        _several_layers(view, choices)
    else:
        _draw_sides(view, what, choices)


def _draw_sides(view: View, what: str, choices: DeltaGenerator) -> None:
    """Draw the mode ``what``, a key of the page's modes, with its widgets in ``choices``."""
    pictures = st.container(key="sides", gap="xsmall")  # above the widgets that decide them
    both = _pick_sides(view, what, choices, pictures)
    if what == "model" and _compare_over_texts(both, choices):
        return
    for letter, side in zip("AB", both.both, strict=True):
        if side.trace is not view.trace:
            output.run(letter, side.trace)
    if what == "text":  # two texts aren't one window
        parts = whole_text(both.a.view.n_tokens), whole_text(both.b.view.n_tokens)
    else:
        parts = (window(both.a.view),) * 2
    with choices:
        heads = _pick_heads(both, what)
        as_lines = lines.switch(*parts)
        prose.caption(difference_in_words("B − A", "A", "B"), width="content")
    with pictures:
        drawn = _weights(both, what, heads, as_lines, parts)
    left, right = st.columns([8, 5], gap="medium")
    with right, st.container(gap="xsmall"):
        _head_map(both, what == "head", heads)
    with left, st.container(gap="xsmall"):
        if what == "head":
            two_runs.draw_rows(both, drawn)
        else:
            changed = _next_tokens(both)
    paths = two_runs.paths(_pairs(both, what), (both.a.token, both.b.token))
    _explain(both, what, heads, paths)
    if what == "mask":
        _mask(both.a.view, parts[0], heads[0][0])
    if what != "head":
        two_runs.draw_rows(both, drawn)
    if paths:
        note = " " + sentence("side_by_side.directions") if what == "model" else ""
        two_runs.draw_paths(both, paths, note)
    if what != "head" and not changed.empty:
        prose.markdown("#### Which next tokens differ most?")
        two_runs.draw_changes(
            changed,
            key="next",
            alt="Tokens whose probability differs most between A and B",
            name="Largest differences of next-token probabilities",
            order="The largest rises from A to B, then the largest falls, over the whole "
            "vocabulary.",
        )


def _weights(
    both: Sides, what: str, heads: Sequence[Head], as_lines: bool, parts: tuple[Window, Window]
) -> Weights:
    """Draw the weights of both sides and their difference, and return them."""
    a, b = (side.title(head) for side, head in zip(both.both, heads, strict=True))
    weights = two_runs.weights(both, heads, (a, b), "B − A")
    shown, tokens = weights.fit(parts), (put_query, put_query)
    if what == "text":
        of_b = partial(two_texts.choose_from_second, both.matches, both.a.token)
        tokens = (put_query, of_b)
    traces = zip(both.traces, heads, strict=True)
    two_runs.draw(
        both,
        shown,
        (f"Weights of both sides ({a}; {b})", f"Weights of B minus weights of A ({b}; {a})"),
        as_lines=as_lines,
        made_by=[Line(trace, "weights", layer) for trace, (layer, _head) in traces],
        tokens=tokens,
        choose=shown.choose_row(tokens),
        drag=None if what == "text" else parts[0].drag(shown.a),
        hint="Click a row to choose that token on both sides."
        + (" Only tokens with a partner have a difference." if what == "text" else ""),
    )
    return weights


def _explain(
    both: Sides, what: str, heads: Sequence[Head], paths: dict[str, tuple[Path, Path]]
) -> None:
    """Explain the pictures above."""
    if what == "text":
        two_texts.verdict(both.a.view, both.b.view, (both.a.token, both.b.token), paths)
    if what in _NOTES:
        prose.caption(_NOTES[what])
    measures.proof(both.a.view, sorted({layer for layer, _head in heads}), "the run of A")


def _pick_sides(view: View, what: str, choices: DeltaGenerator, notes: DeltaGenerator) -> Sides:
    """Pick side B in ``choices`` and run it; if that fails, show one message and stop the page.

    ``notes`` gets those on a second sentence.
    """
    if what == "text":
        with notes:
            other = two_texts.ask(view, choices)
        matches = two_texts.matches(view, other)
        a, b = two_texts.choose(view, other, matches)
        sides = Side("A: First sentence", view, a), Side("B: Second sentence", other, b)
        return Sides(*sides, matches)
    if what == "head":
        return sides_of_text(("A: One head", "B: Another"), view, view)
    if what == "mask":
        on, off = (
            replace(view, trace=run_cache.run(replace(view.trace.key, causal=causal)))
            for causal in (True, False)
        )
        return sides_of_text(("A: Mask on", "B: Mask off"), on, off)
    return _pick_model(view, choices)


def _pick_model(view: View, choices: DeltaGenerator) -> Sides:
    name = view.model.name
    folders = run_cache.model_folders()
    others = [other for other in folders if other != name and _tokenize_alike(name, other)]
    if not others:
        st.info(sentence("side_by_side.no_other", a=literal(name)), icon=":material/info:")
        st.stop()
    chosen: str = choices.selectbox(
        "Model B",
        help="Any model with the same tokenizer, such as another checkpoint of one training.",
        **address.choice(parameters.MODEL2, others, others[0]),
    )
    try:
        model = _load_beside(name, chosen)
        trace = run_cache.run(replace(view.trace.key, model=chosen))
    except GPT2VizError as error:
        st.error(f"Model B: {literal(str(error))}", icon=":material/error:")
        st.stop()
    return sides_of_text(
        (f"A: {name}", f"B: {chosen}"), view, replace(view, model=model, trace=trace)
    )


#: The texts over which two models are compared.
_OVER = {"sentence": "This sentence", "texts": "Over many texts"}


def _compare_over_texts(both: Sides, choices: DeltaGenerator) -> bool:
    """Compare both models over many texts, if picked in ``choices``; return whether that is so."""
    models = [side.view.model for side in both.both]
    try:
        check_comparable(*models)
    except ArgumentError:
        return False
    with choices:
        if controls.pick("Compare over", parameters.OVER, _OVER, hidden=True) != "texts":
            return False
        controls.layer_and_head(both.a.view)
    loading = {model.name: partial(run_cache.load, model.name) for model in models}
    changes.draw([*loading], loading, pages.SIDE_BY_SIDE, {parameters.OVER: "sentence"})
    return True


@st.cache_data(max_entries=64, show_spinner="Comparing the tokenizers …")
def _tokenize_alike(a: str, b: str) -> bool:
    """Return True for two models with one tokenizer; False if one can't be read."""
    folders = run_cache.model_folders()
    with suppress(GPT2VizError):
        return load_tokenizer(folders[a]).cuts_like(load_tokenizer(folders[b]))
    return False


def _load_beside(first: str, second: str) -> Model:
    """Load the second model beside the first. Raises ``TooLargeError`` if both don't fit."""
    folders, budget = run_cache.model_folders(), run_cache.models().budget
    needed = sum(weight_bytes(folders[name]) for name in (first, second))
    if needed > budget and not any(map(run_cache.shared, (first, second))):
        need, room = spell(needed), spell(budget)
        raise TooLargeError(
            sentence("side_by_side.too_large", a=first, b=second, needed=need, room=room)
        )
    return run_cache.load(second)


def _pick_heads(both: Sides, what: str) -> tuple[Head, Head]:
    """Pick (layer, head) of A and B, head None for the mean of all.

    Both sides share one choice, except in the mode that compares heads.
    """
    configs = [side.trace.config for side in both.both]
    view = both.a.view
    layer = layer_b = controls.layer(view, min(c.n_layer for c in configs))
    head = head_b = controls.head(view, min(c.n_head for c in configs))
    if what == "head":
        layers, heads = range(configs[0].n_layer), range(configs[0].n_head)
        layer_b = controls.pick("Layer of B", parameters.LAYER2, layers, layers[-1], wrap=True)
        head_b = controls.pick("Head of B", parameters.HEAD2, heads, wrap=True)
    whole = two_runs.pick_whole()
    return (layer, None if whole else head), (layer_b, None if whole else head_b)


def _head_map(both: Sides, like: bool, heads: Sequence[Head]) -> None:
    """Draw a map of all heads: the difference of their sides or, if ``like``, similarity to A's.

    Of the shown ``heads``, B's is framed.
    """
    prose.markdown(f":small[**{_MAP_TITLE[like]}**]", help=prose.tip(_MAP_CAPTION[like]))
    if like and both.a.view.n_tokens == 1:
        prose.caption(sentence("find.single"))
        return
    (layer, head), framed = heads
    numbers = alike.head_similarities(both.a.view, layer, head) if like else both.head_differences()
    quantity = "cosine similarity" if like else "largest difference"
    chosen = (parameters.LAYER2, parameters.HEAD2) if like else ()
    with st.container(key="side_heads"):
        measures.draw_head_map(
            numbers,
            quantity,
            framed,
            f"Every head of every layer: {quantity}",
            key="heads_map",
            made_by=(likeness if like else largest_differences,),
            choose=choose_map_head({parameters.WHOLE: False}, *chosen),
            height=226,  # on one screen with the matrices of that head
            numbers=16,
        )


def _pairs(both: Sides, what: str) -> dict[str, Sequence[Trace]]:
    """Return the pairs of runs whose paths are drawn: none if both sides are the same run, and for
    two texts one pair with the mask on and one with it off."""
    if what == "head":
        return {}
    if what != "text":
        return {"A and B": both.traces}
    return {
        name: [run_cache.run(replace(run.key, causal=causal)) for run in both.traces]
        for name, causal in (("mask on", True), ("mask off", False))
    }


def _next_tokens(both: Sides) -> pd.DataFrame:
    """Draw both predictions after the token; return the largest differences of a probability."""
    prose.markdown(":small[**What comes next?**]")
    table = two_runs.compare_predictions(
        both,
        ("A", "B"),
        [
            f"{letter}: most likely after {side.view.token_name(side.token)}"
            for letter, side in zip("AB", both.both, strict=True)
        ],
    )
    if table.empty:
        prose.caption("Identical predictions.")
    return table


def _mask(view: View, part: Window, layer: int) -> None:
    """Draw the pairs that the mask hides in a layer, in the part that is shown."""
    seen = who_sees_whom(view.trace, view.labels, "Mask on: who may see whom", layer)
    there = f" in layer {layer}" if len({*view.trace.windows}) > 1 else ""
    prose.markdown(f"#### Who may see whom{there}?")
    words, picture = st.columns([2, 1], gap="large")
    prose.markdown(_mask_in_words(seen, view.query if view.query is not None else 0), slot=words)
    shown = part.fit(seen)
    with picture, st.container(key="mask"):
        output.picture(
            Heatmaps(
                shown.label("Which query may see which key with the mask on"),
                [shown],
                height=280,
                row=view.query,
                numbers=0,
            ),
            key="seen",
            made_by=(who_sees_whom, Line(view.trace, "masked_scores", layer)),
            choose=choose_query(shown.rows),
            drag=part.drag(shown),
        )


def _mask_in_words(seen: Panel, query: int) -> str:
    """List the tokens that a query may see and those that it may not, as Markdown; ``seen`` is 1
    for visible ones."""
    names = [f"“{literal(text)}” ({n})" for n, text in enumerate(seen.columns.labels)]
    allowed = seen.values[query] > 0
    others = [name for n, name in enumerate(names) if allowed[n] and n != query]
    hidden = [name for n, name in enumerate(names) if not allowed[n]]
    visible = sentence(
        "mask.sees" if others else "mask.sees_itself", query=names[query], keys=first_few(others, 8)
    )
    return " ".join([visible] + [sentence("mask.hides", keys=first_few(hidden, 8))] * bool(hidden))


@dataclass(frozen=True)
class _Layers:
    """The layers side by side, a head or "mean" or "rollout", and how they are drawn."""

    layers: list[int]
    head: int | str
    whole_words: bool
    as_lines: bool

    @property
    def what(self) -> str:
        """The head in words."""
        whole = {"mean": "mean of all heads", "rollout": "rollout"}
        return whole.get(str(self.head), f"head {self.head}")

    @property
    def between(self) -> str:
        """The suffix of titles."""
        return " · whole words" if self.whole_words else ""

    def code_behind(self, view: View, shown: str = "weights") -> tuple[Code, ...]:
        """Return the code behind the measure ``shown``, a key in ``MEASURES``."""
        shown = shown if isinstance(self.head, int) else self.head
        words = self.whole_words and shown != "norms"
        return measures.code_behind(view, self.layers[0], shown, words)


def _several_layers(view: View, choices: DeltaGenerator) -> None:
    """Draw the mode, with its widgets in ``choices``."""
    part = zoom.window(view)
    with choices:
        layer, head = controls.layer_and_head(view)
        layers, shown = controls.pick_layers(view, layer), controls.pick_head_or_whole(view, head)
        as_lines = lines.switch(part)
        chosen = _Layers(layers, shown, measures.words(), as_lines)
        if len(layers) > 1:
            compared = difference_in_words("Difference", f"layer {layers[0]}", "the other layer")
            prose.caption(compared, width="content")
    if chosen.head == "rollout":
        prose.caption(sentence("side_by_side.rollout"))
    _layer_pictures(view, part, chosen)
    _draw_every_layer(view, chosen)
    if chosen.whole_words:
        prose.caption(measures.words_note(view))


def _layer_pictures(view: View, part: Window, chosen: _Layers) -> None:
    """Draw the chosen layers, and the difference of each from the first."""
    whole = [
        measures.layer_panel(
            view.trace,
            layer,
            chosen.head,
            f"Layer {layer} · {chosen.what}{chosen.between}",
            chosen.whole_words,
            "weights",
        )
        for layer in chosen.layers
    ]
    panels = [part.fit(panel) for panel in whole]
    quantity = panels[0].quantity.capitalize()
    first, *others = (f"layer {n}" for n in chosen.layers)
    alt = panels[0].label(f"{quantity} of {', '.join([first, *others])}, {chosen.what}")
    change = panels[0].label(f"{quantity}, {chosen.what}: {', '.join(others)} − {first}")
    with st.container(key="layer_charts"):
        if len(others) in (1, 2):  # all in one row; each picture has names and a colour bar too
            widths = [len(whole) + 0.85, len(others) + 0.85]
            of_layers, of_differences = st.columns(widths, gap="medium")
        else:
            of_layers, of_differences = st.container(), st.container()
        with of_layers:
            lines.draw(
                view,
                Heatmaps(
                    alt, panels, n_columns=4, height=HEIGHT, row=view.query, bar=panels[0].quantity
                ),
                [Lined(alt, [f"Layer {layer}" for layer in chosen.layers])],
                as_lines=chosen.as_lines,
                key="layers_chart",
                choose=choose_query(panels[0].rows),
                drag=part.drag(panels[0]),
            )
        if others:
            with of_differences:
                _layer_differences(view, part, whole, chosen, change)
    with st.container(horizontal=True, vertical_alignment="center"):
        output.code(*chosen.code_behind(view), *([difference] if others else []), of=[alt, change])
        if chosen.head != "rollout":
            measures.proof(view, chosen.layers)
        prose.caption("Click a row to choose that token on every page.", width="content")


def _layer_differences(
    view: View, part: Window, whole: list[Panel], chosen: _Layers, alt: str
) -> None:
    """Draw every other layer minus the first; ``whole`` are their panels over the whole text."""
    first = chosen.layers[0]
    changes = [
        part.fit(difference(whole[0], other, f"Layer {layer} − layer {first}{chosen.between}"))
        for layer, other in zip(chosen.layers[1:], whole[1:], strict=True)
    ]
    output.picture(
        Heatmaps(
            alt,
            changes,
            scale="signed",
            n_columns=3,
            height=HEIGHT,
            row=view.query,
            bar=changes[0].quantity,
        ),
        key="differences",
        choose=choose_query(changes[0].rows),
        drag=part.drag(changes[0]),
    )


def _draw_every_layer(view: View, chosen: _Layers) -> None:
    """Draw one head in every layer, small; a click opens that head, or the layer."""
    head, name = chosen.head, chosen.what.capitalize()
    with st.container(horizontal=True, gap="medium", vertical_alignment="center"):
        prose.markdown(f"**{name} in every layer**", width="content")
        of_head = measures.pick(width=280) if isinstance(head, int) else "weights"
    strip, scale = measures.layer_panels(view.trace.key, head, of_head, chosen.whole_words)
    n_columns = min(len(strip), 6 if len(strip) <= 12 else 8)
    with st.container(key="strip"):
        output.picture(
            Heatmaps(
                f"{name} in every layer: {strip[0].quantity}",
                strip,
                scale=scale,
                n_columns=n_columns,
                height=(46 + 560 // n_columns) * -(-len(strip) // n_columns),
                row=view.query,
                numbers=0,
                bar=strip[0].quantity,
            ),
            key="strip_chart",
            made_by=chosen.code_behind(view, of_head),
            then=lambda cell: _open_layer(int(cell.panel), head),
        )


def _open_layer(layer: int, head: int | str) -> None:
    """Open a head of a layer, or the layer on *Attention* if its heads were drawn as one."""
    if isinstance(head, int):
        open_head(layer, head)
    st.switch_page(pages.ATTENTION.path, query_params=address.parameters({parameters.LAYER: layer}))
