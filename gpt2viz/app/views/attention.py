"""Attention: a map of every head of the model, the chosen one large, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import streamlit as st

from gpt2viz import BUNDLED
from gpt2viz.analysis.nonfinite import first_not_finite
from gpt2viz.app import address, describe, output, pages, parameters, prose, run_cache
from gpt2viz.app.clicks import Changes, choose_query, open_head
from gpt2viz.app.components import attention as components
from gpt2viz.app.components import lines, mount
from gpt2viz.app.components.lines import Lined
from gpt2viz.app.describe import describe_head
from gpt2viz.app.frame import controls, examples, page_fragment
from gpt2viz.app.frame.sentence import A_CHIP, LIGHT_UP, chips, choose_part, choose_token
from gpt2viz.app.literal import literal
from gpt2viz.app.run_cache import EveryHead
from gpt2viz.app.view import View, Window
from gpt2viz.app.views import edits as editing
from gpt2viz.app.views import measures, training, zoom
from gpt2viz.arrays import largest
from gpt2viz.labels import bidi_isolate, percent, pluralize, sentence
from gpt2viz.pictures import tables
from gpt2viz.pictures.every_head import Thumbnails
from gpt2viz.pictures.from_trace import Measure, one_head
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.picture import NUMBERS_FIT_LARGE, Heatmaps
from gpt2viz.pictures.pooling import THUMBNAIL, thumbnails
from gpt2viz.run.key import RunKey

#: How many next tokens are named.
_TOP = 5
#: Arcs of a word: ``strongest`` in scripts/words.js draws no more, none for small weights.
_ARCS = 6

#: A first column is strong if it has more than this share of the later rows' weight.
_STRONG = 0.5


@dataclass(frozen=True)
class _Chosen:
    """The choices: the chosen head, ``more`` of its layer, a measure, tokens or words."""

    layer: int
    head: int
    more: Sequence[int]
    shown: str
    whole_words: bool
    as_lines: bool

    @property
    def what(self) -> str:
        """The measure's name."""
        return f"{measures.MEASURES[self.shown][0]}{self.between}"

    @property
    def between(self) -> str:
        """The suffix of titles."""
        return " · whole words" if self.whole_words else ""


def show() -> None:
    """Draw the page."""
    page_fragment.draw(pages.ATTENTION, _heads, lambda: None)  # its tokens are words


def _heads(view: View) -> None:
    """Draw the map, the chosen head beside it, and notes on both."""
    layer, head = controls.layer_and_head(view)
    config = view.model.config
    before, view = view, editing.apply(view, editing.heads_off())
    _purpose(view)
    with st.container(key="as_words"):
        words = st.container()  # filled last: it uses the weights that the pictures send
    is_deep = config.n_layer > config.n_head  # then the map is wide and low
    the_map, large = st.columns([5, 3] if is_deep else [4, 3], gap="medium")
    with large, st.container(key="choices", horizontal=True, vertical_alignment="center"):
        shown, whole_words = measures.choose()
        as_lines = lines.switch(part := zoom.whole_or_part(view))
    chosen = _Chosen(layer, head, controls.more_heads(view), shown, whole_words, as_lines)
    every_head = run_cache.every_head(view.trace.key, whole_words)
    numbers = measures.measure(view.trace, layer, shown, whole_words)
    panels = {
        n: part.fit(one_head(numbers, n, f"Layer {layer} · Head {n}{chosen.between}", shown))
        for n in (components.line_heads(head, chosen.more) if as_lines else [head])
    }
    with large:
        zoom.note(view, part)
        with st.container(key="head_large"):
            alike = len({*view.trace.windows}) == 1  # the browser has one mask for all layers
            here = _numbers(every_head, numbers, shown) if alike else ""
            _draw_large(view, part, numbers, chosen, panels, here)
    with the_map, st.container(key="heads"):
        _explain_squares(view, chosen)
        drawn = _map(view, chosen, numbers, every_head)
    with words:
        _words(view, before, (layer, head), "" if whole_words else here)
    with the_map, st.container(key="below"):
        strong = bool((every_head.first > _STRONG).any())
        _draw_notes(view, chosen, panels[head], drawn, here, strong)


def _purpose(view: View) -> None:
    """Draw what the page is for; or which heads are off, with buttons; or what an example shows."""
    config = view.model.config
    with st.container(key="purpose", horizontal=True, vertical_alignment="center"):
        if view.trace.edits:
            editing.describe_edits(view)
            st.button(
                "Switch on again",
                key="all_on",
                icon=":material/power_settings_new:",
                type="tertiary",
                on_click=editing.switch_all_on,
            )
            link = address.parameters({parameters.WHAT_IF: "edits"})
            st.page_link(pages.WHAT_IF.path, label="Go on in What if", query_params=link)
            return
        if note := examples.note(view.trace):
            prose.caption(note)
            return
        bundled = view.model.name == BUNDLED.name
        prose.markdown(
            sentence(
                "attention.purpose",
                heads=config.n_layer * config.n_head,
                model="a small GPT-2" if bundled else literal(view.model.name),
                tokens=pluralize(view.n_tokens, "tokens"),
            ),
            help=prose.tip(f"{A_CHIP} {LIGHT_UP}"),
        )


def _numbers(every_head: EveryHead, numbers: Measure, shown: str) -> str:
    """Send every head's weights to the browser, if shown and not too many; return their name."""
    whole = every_head.tiles.shape[-1] == numbers.values.shape[-1]
    return components.send_weights(every_head.tiles) if whole and shown == "weights" else ""


def _map(view: View, chosen: _Chosen, numbers: Measure, every_head: EveryHead) -> Thumbnails:
    """Draw every head of the model, masked where all layers are; a click chooses one."""
    weights, windows, layer = numbers, view.trace.windows, chosen.layer
    layer = layer if windows[layer] == max(windows) else view.trace.widest_layer
    if (chosen.shown, chosen.layer) != ("weights", layer):
        weights = measures.weights(view.trace, layer, chosen.whole_words)
    drawn = Thumbnails(
        f"Attention weights of every head{chosen.between}: layers down, heads across",
        every_head.tiles,
        weights.hidden[0],
        weights.panel.rows.labels,
        weights.panel.rows.positions,
        row=view.query,
        chosen=(chosen.layer, chosen.head),
        groups=view.model.config.n_kv_head,
    )
    components.draw_map(
        drawn,
        every_head.links,
        key="all_heads",
        choose=_choose,
        off=[f"{edit.layer}.{edit.head}" for edit in view.trace.edits],
        switch=editing.switch_head,
    )
    return drawn


def _choose(layer: int, head: int, query: int | None) -> None:
    """Choose the map's clicked head, and a token reached with the keyboard. For callbacks."""
    changes: Changes = {parameters.LAYER: layer, parameters.HEAD: head}
    address.put_all(changes if query is None else changes | {parameters.QUERY: query})


def _draw_large(
    view: View,
    part: Window,
    numbers: Measure,
    chosen: _Chosen,
    panels: Mapping[int, Panel],
    here: str,
) -> None:
    """Draw the chosen head as a matrix, or with further heads as lines, and describe it in words.

    ``panels`` are the drawn heads, by number. ``here`` is the browser's name for every head's
    weights; if it isn't "", all are described, and the browser draws the others itself.
    """
    panel, listed = panels[chosen.head], ", ".join(map(str, panels))
    what = panel.label(f"{chosen.what}, layer {chosen.layer}, head {listed}")
    picture = Heatmaps(
        what,
        list(panels.values()),
        numbers.scale,
        n_columns=len(panels),
        row=view.query,
        numbers=NUMBERS_FIT_LARGE,
        height=340,
        bar=numbers.panel.quantity,
    )
    lines.draw(
        view,
        picture,
        [Lined(what, [f"Head {n}" for n in panels])],
        as_lines=chosen.as_lines,
        key="one_head",
        choose=choose_query(panel.rows),
        drag=part.drag(panel),
        script="head_picture",
        further={"head": _for_browser(view, chosen, here)},
        on={"more": lambda heads: address.put(parameters.MORE, list(map(int, heads)))},
    )


def _for_browser(view: View, chosen: _Chosen, here: str) -> dict[str, Any]:
    """Return the data to draw and describe heads with; tokens' names only if the browser can."""
    config = view.model.config
    every = product(range(config.n_layer), range(config.n_head))
    described = every if here else [(chosen.layer, chosen.head)]
    return {
        "layer": chosen.layer,
        "head": chosen.head,
        "more": chosen.more,
        "n_head": config.n_head,
        "numbers": here,
        "names": _names(view, chosen) if here else [],
        "descriptions": _descriptions(view, chosen, list(described)),
        "reason": _reason(view, chosen),
        "between": chosen.between,
        "what": chosen.what,
        "query": view.query,
        "sentences": describe.IN_BROWSER,
        "least": float(describe.LEAST),
    }


def _descriptions(view: View, chosen: _Chosen, heads: Sequence[tuple[int, int]]) -> dict[str, str]:
    """Describe heads (layer, head) in words, by name "layer.head", from the numbers shown."""
    runs = [view.trace]
    if not view.trace.causal:
        runs.append(run_cache.run(_key_with_mask(view)))

    numbers = {
        layer: [measures.measure(run, layer, chosen.shown, chosen.whole_words) for run in runs]
        for layer in {layer for layer, _ in heads}
    }

    def panels(layer: int, head: int) -> list[Panel]:
        return [one_head(of_run, head, "", chosen.shown) for of_run in numbers[layer]]

    return {f"{n}.{h}": describe_head(*panels(n, h), query=view.query) for n, h in heads}


def _names(view: View, chosen: _Chosen) -> list[str]:
    """Return the tokens' names, if the browser can describe heads from weights between tokens."""
    if chosen.whole_words or not view.trace.causal or first_not_finite(view.trace):
        return []
    return describe.token_names(view.trace)


def _reason(view: View, chosen: _Chosen) -> str:
    """Say why this head opened; "" if it was chosen."""
    opened = None in map(address.get_chosen, (parameters.LAYER, parameters.HEAD))
    if not opened or not run_cache.every_head(_key_with_mask(view), False).links.weights.any():
        return ""
    copies, head = examples.first_visit_view(view.trace), f"{chosen.layer}.{chosen.head}"
    if not copies or copies[:2] != (chosen.layer, chosen.head):
        return sentence("head.opened", head=head)
    if others := examples.other_copying_heads(view.trace, copies):
        return sentence("head.copies_in_group", head=head, others=others)
    return sentence("head.copies", head=head)


def _key_with_mask(view: View) -> RunKey:
    """Return the key of the same sentence's run with the causal mask on."""
    return replace(view.trace.key, causal=True)


def _words(view: View, before: View, at: tuple[int, int], numbers: str) -> None:
    """Draw the sentence as large words, with arcs to those that each attends to in the head ``at``.

    At the line's end are the next tokens, and the words that raise each; a click on such a word
    opens a head there. ``before`` is the view with every head on, whose next token is crossed out;
    ``numbers`` is the browser's name for the weights of every head, "" if they weren't sent.
    """
    (layer, head), trace = at, view.trace
    shown = choose_part(trace, view.query)
    weights = np.nan_to_num(trace.stage("weights", layer)[0, head])
    rows = weights[:0] if numbers else weights[shown.start : shown.stop]
    clicked = mount(
        {
            **chips(trace.labels, trace.token_ids, shown, view.query),
            "script": "words",
            "n_tokens": view.n_tokens,
            "layer": layer,
            "head": head,
            "n_head": trace.config.n_head,
            "numbers": numbers,
            "arcs": [[(n, float(row[n])) for n in largest(row, _ARCS).tolist()] for row in rows],
            "strongest": describe.strongest_query(weights),
            "next": _next_tokens(view),
            "before": _next_tokens(before)[:1] if view is not before else [],
        },
        key="token_chips",
        on={"query": choose_token, "open": None},
    )
    if clicked.open:
        layer, head, key = map(int, str(clicked.open).split("."))
        address.put_all({parameters.QUERY: view.n_tokens - 1, parameters.KEY: key})
        open_head(layer, head)


def _next_tokens(view: View) -> list[dict[str, Any]]:
    """Return the most probable next tokens with their routes; [] if probabilities aren't finite."""
    share = view.trace.next_token_probabilities[0]
    if not np.isfinite(share).all():
        return []
    names = run_cache.vocabulary(view.trace.key.model)
    best = tuple(map(int, largest(share, _TOP)))
    routes = run_cache.routes(view.trace.key, best)
    return [
        {"label": bidi_isolate(names[n]), "percent": percent(share[n]), **route}
        for n, route in zip(best, routes, strict=True)
    ]


def _explain_squares(view: View, chosen: _Chosen) -> None:
    """Explain the small squares, and their brackets if heads share keys and values."""
    groups, n_head = view.model.config.n_kv_head, view.model.config.n_head
    unit = "word" if chosen.whole_words else "token"
    prose.markdown(sentence("attention.squares", unit=unit))
    if groups != n_head:
        prose.caption(sentence("attention.groups", heads=pluralize(n_head // groups, "heads")))
    if view.n_tokens > THUMBNAIL:
        prose.caption(sentence("attention.pooled", size=THUMBNAIL))


def _draw_notes(
    view: View, chosen: _Chosen, panel: Panel, drawn: Thumbnails, here: str, strong: bool
) -> None:
    """Draw code, tables and notes of both pictures; ``strong`` if a head's first column is."""
    layer, shown, whole_words = chosen.layer, chosen.shown, chosen.whole_words
    the_large = panel.label(f"{chosen.what}, layer {layer}, head {chosen.head}")
    # Filled last: the notes below are the first to link the glossary's words.
    above = st.container(horizontal=True, vertical_alignment="center")
    if shown != "weights":
        prose.markdown(f"**The large head**: {measures.MEASURES[shown][1]}")
    if whole_words:
        prose.caption(measures.words_note(view))
    measures.proof(view, range(view.model.config.n_layer) if here else [layer])
    with above:
        if st.button("Look inside this head", icon=":material/search:", type="tertiary"):
            open_head(layer, chosen.head)
        training.offer_birth(view, layer, chosen.head)
        output.code(
            *measures.code_behind(view, layer, shown, whole_words),
            thumbnails,
            of=[drawn.what, the_large],
        )
        output.tables_on_demand(
            "These numbers as a table", {the_large: partial(tables.shown_table, panel)}
        )
        if strong:
            with st.popover("Why is the first column so strong?", type="tertiary"):
                seen = ", which every query can see"
                far = min(view.trace.windows) < view.n_tokens  # then not every query can
                prose.markdown(sentence("attention.sink", seen="" if far else seen))
