"""The two sides: how the other one is picked, and what is shown of both."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import GPT2Config, GPT2VizError, Model, TooLargeError
from gpt2viz.app import address, parameters, prose, run_cache
from gpt2viz.app.components import lines
from gpt2viz.app.frame import controls
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View, Window, whole_text
from gpt2viz.app.views import edits as editing
from gpt2viz.app.views import two_texts
from gpt2viz.app.views.two_runs import (
    Place,
    Side,
    Sides,
    of_one_text,
    with_mask_and_without,
)
from gpt2viz.app.views.zoom import window
from gpt2viz.model.checkpoint import weight_bytes
from gpt2viz.model.memory import spell
from gpt2viz.model.tokenizer import load_tokenizer

#: Said below the pictures: what both sides are.
NOTES = {
    "head": "Both heads come from one run: the same model, sentence and mask.",
    "mask": "GPT-2 was trained with the mask **on**: to learn to predict the next token, no token "
    "may see the ones after it. Switching it off is an experiment: the model was never trained "
    "that way.",
    "model": "Both read the same tokens. Two checkpoints of one training can be compared head by "
    "head; heads of models that were trained separately share nothing but their number.",
}


def sides(view: View, what: str, choices: DeltaGenerator) -> Sides:
    """Ask for side B among the ``choices`` and run it; or one message and the end of the page."""
    if what == "text":
        other = two_texts.second(view, choices)
        matches = two_texts.matches(view, other)
        a, b = two_texts.choose(view, other, matches)
        return Sides(Side("First sentence", view, a), Side("Second sentence", other, b), matches)
    if what == "head":
        return of_one_text(("One head", "Another"), view, view)
    if what == "mask":
        return with_mask_and_without(view)
    return {"edits": editing.both_runs, "model": _two_models}[what](view, choices)


def _two_models(view: View, choices: DeltaGenerator) -> Sides:
    name = view.model.name
    others = [other for other in run_cache.model_folders() if other != name]
    if not others:
        st.info("There is only one model here. Get another one on **Models**.")
        st.stop()
    chosen: str = choices.selectbox(
        "Model B",
        others,
        help="Any model with the same tokenizer, such as another checkpoint of the same training.",
        **address.choice(parameters.MODEL2, others, others[0]),
    )
    try:
        if not _cut_alike(name, chosen):
            raise GPT2VizError(
                f"{name} and {chosen} have different tokenizers: they cut a text into different "
                "tokens, so there is nothing to put side by side. Choose another model."
            )
        model = _load_beside(name, chosen)
        trace = run_cache.run(replace(view.trace.key, model=chosen))
    except GPT2VizError as error:
        st.error(f"Model B: {literal(str(error))}", icon=":material/error:")
        st.stop()
    return of_one_text((name, chosen), view, replace(view, model=model, trace=trace))


@st.cache_data(max_entries=64, show_spinner="Comparing the tokenizers …")
def _cut_alike(one: str, other: str) -> bool:
    folders = run_cache.model_folders()
    return load_tokenizer(folders[one]).cuts_like(load_tokenizer(folders[other]))


def _load_beside(first: str, second: str) -> Model:
    """The second model while the first one stays. Raises ``TooLargeError`` for two too large."""
    folders, budget = run_cache.model_folders(), run_cache.models().budget
    needed = sum(weight_bytes(folders[name]) for name in (first, second))
    if needed > budget and not any(map(run_cache.shared, (first, second))):
        raise TooLargeError(
            f"{first} and {second} need {spell(needed)} of memory together, and this server has "
            f"room for {spell(budget)} of models. Choose a smaller one."
        )
    return run_cache.load(second)


def places(both: Sides, what: str, parts: tuple[Window, Window]) -> tuple[Place, Place, bool]:
    """Pick (layer, head) of A and B, head None for the mean of all; one choice for both sides
    but where heads are what differs. And pick lines, which is True, or a matrix for the
    ``parts`` that are shown."""
    configs = [side.view.model.config for side in (both.a, both.b)]
    view, opening = both.a.view, editing.opening(both.a.view) if what == "edits" else None
    layer = controls.layer(view, min(c.n_layer for c in configs), opening)
    head = controls.head(view, min(c.n_head for c in configs), opening)
    b = _place_of_b(configs[0]) if what == "head" else (layer, head)
    whole: bool = st.toggle(
        "Mean of all heads",
        width="content",
        help=prose.tip("Compares layers: the mean of each layer's heads in place of one head."),
        **address.switch(parameters.WHOLE),
    )
    as_lines = lines.switched(*parts)
    if whole:
        return (layer, None), (b[0], None), as_lines
    return (layer, head), b, as_lines


def _place_of_b(config: GPT2Config) -> tuple[int, int]:
    """Pick the layer and the head of B, which is of the same model."""
    layers, heads = range(config.n_layer), range(config.n_head)
    layer: int = st.segmented_control(
        "Layer of B",
        layers,
        required=True,
        wrap=True,
        **address.choice(parameters.LAYER2, layers, layers[-1]),
    )
    head: int = st.segmented_control(
        "Head of B", heads, required=True, wrap=True, **address.choice(parameters.HEAD2, heads)
    )
    return layer, head


def parts(both: Sides, what: str) -> tuple[Window, Window]:
    """The part of A and of B that is shown: of two sentences, all of both."""
    if what == "text":
        return whole_text(both.a.view.n_tokens), whole_text(both.b.view.n_tokens)
    return (window(both.a.view),) * 2
