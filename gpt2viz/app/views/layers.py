"""Layers: some side by side, and one head in all of them."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz.app import address, output, pages, parameters, prose
from gpt2viz.app.clicks import choose_query, open_head
from gpt2viz.app.components import lines
from gpt2viz.app.components.lines import Lined
from gpt2viz.app.frame import controls
from gpt2viz.app.source_code import Made
from gpt2viz.app.view import View, Window
from gpt2viz.app.views import measures, zoom
from gpt2viz.app.views.two_runs import HEIGHT
from gpt2viz.pictures.from_trace import difference, difference_in_words
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import Heatmaps


@dataclass(frozen=True)
class _Chosen:
    """Which layers stand side by side, a head or "mean" or "rollout", and how it is drawn."""

    layers: list[int]
    head: int | str
    whole_words: bool
    as_lines: bool

    @property
    def what(self) -> str:
        """The head in words."""
        named = {"mean": "mean of all heads", "rollout": "rollout"}
        return named.get(str(self.head), f"head {self.head}")

    @property
    def between(self) -> str:
        """What is added to a title."""
        return " · whole words" if self.whole_words else ""

    def made_by(self, view: View, shown: str = "weights") -> tuple[Made, ...]:
        """The code that made the numbers of what is ``shown``, a key in ``MEASURES``."""
        shown = shown if isinstance(self.head, int) else self.head
        words = self.whole_words and shown != "norms"
        return measures.made_by(view, self.layers[0], shown, words)


def draw(view: View, choices: DeltaGenerator) -> None:
    """Draw the mode, with what is picked among ``choices``."""
    part = zoom.window(view)
    with choices:
        layer, head = controls.layer_and_head(view)
        layers, shown = controls.several_layers(view, layer), controls.head_or_whole(view, head)
        as_lines = lines.switched(part)
        chosen = _Chosen(layers, shown, measures.words(), as_lines)
    _side_by_side(view, part, chosen)
    _scale(chosen)
    _in_every_layer(view, chosen)
    _words(view, chosen)


def _side_by_side(view: View, part: Window, chosen: _Chosen) -> None:
    """The chosen layers, and how each differs from the first of them."""
    whole = [
        measures.layer_panel(
            view.trace,
            layer,
            chosen.head,
            f"Layer {layer} · {chosen.what}{chosen.between}",
            chosen.whole_words,
        )
        for layer in chosen.layers
    ]
    panels = [part.fit(panel) for panel in whole]
    quantity, (first, *others) = panels[0].quantity.capitalize(), map(str, chosen.layers)
    alt = panels[0].named(f"{quantity} of layers {', '.join([first, *others])}, {chosen.what}")
    change = panels[0].named(
        f"{quantity}, {chosen.what}: layers {', '.join(others)} − layer {first}"
    )
    with st.container(key="layer_charts"):
        if len(others) in (1, 2):  # all in one row
            of_layers, of_differences = st.columns([len(whole), len(others)], gap="medium")
        else:
            of_layers, of_differences = st.container(), st.container()
        with of_layers:
            _layers(view, part, panels, chosen, alt)
        if others:
            with of_differences:
                _differences(view, part, whole, chosen, change)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        output.code(*chosen.made_by(view), *([difference] if others else []), of=[alt, change])
        if chosen.head != "rollout":
            measures.proof(view, chosen.layers)
        prose.caption(
            "Click a row, or a query among lines, to choose its token on every page.",
            width="content",
        )


def _layers(view: View, part: Window, panels: list[Panel], chosen: _Chosen, alt: str) -> None:
    """One matrix a layer, or the lines of all."""
    picture = Heatmaps(
        alt, panels, n_columns=4, height=HEIGHT, row=view.query, bar=panels[0].quantity
    )
    lines.draw(
        view,
        picture,
        [Lined(alt, [f"Layer {layer}" for layer in chosen.layers])],
        as_lines=chosen.as_lines,
        key="layers_chart",
        choose=choose_query(panels[0].rows),
        drag=part.drag(panels[0]),
    )


def _differences(view: View, part: Window, whole: list[Panel], chosen: _Chosen, alt: str) -> None:
    """Every other layer minus the first, whose matrices over the whole text are given."""
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
        view.colors,
        key="differences",
        choose=choose_query(changes[0].rows),
        drag=part.drag(changes[0]),
    )


def _scale(chosen: _Chosen) -> None:
    """What is shown above, on which scale."""
    prose.caption(
        "**Attention rollout**, on one scale from 0 to 1: how much of each token's start (key) has "
        "reached each token (query) after the layer, if every head counted the same and values, "
        "MLPs and norms did nothing (Abnar & Zuidema 2020). A rough guide, not a measurement."
        if chosen.head == "rollout"
        else f"**Attention weights, {chosen.what}**, on one scale from 0 to 1."
    )


def _words(view: View, chosen: _Chosen) -> None:
    """What else there is to know about the pictures of layers."""
    if len(chosen.layers) > 1:
        first = f"layer {chosen.layers[0]}"
        prose.caption(difference_in_words("Difference", first, "the other layer", "number"))
    if chosen.whole_words:
        prose.caption(measures.words_note(view))


def _in_every_layer(view: View, chosen: _Chosen) -> None:
    """One head in every layer, small; a click opens that head, or the layer."""
    head = chosen.head
    name = {"mean": "The mean of all heads", "rollout": "Rollout"}.get(str(head), f"Head {head}")
    with st.container(horizontal=True, gap="medium", vertical_alignment="center"):
        prose.markdown(f"**{name} in every layer**", width="content")
        of_head = measures.of_head(head)
    strip, scale = measures.in_every_layer(view.trace.key, head, of_head, chosen.whole_words)
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
            view.colors,
            key="strip_chart",
            made_by=chosen.made_by(view, of_head),
            then=lambda cell: _open(int(cell.panel), head),
        )


def _open(layer: int, head: int | str) -> None:
    """Go to a head of a layer, or to the layer where all its heads were shown as one."""
    if isinstance(head, int):
        open_head(layer, head)
    st.switch_page(pages.ATTENTION.path, query_params=address.parameters({parameters.LAYER: layer}))
