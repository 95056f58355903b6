"""The frame around every page: menu, sentence, model, mask, tokens. One call draws it all."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from importlib import resources
from typing import Any, NoReturn

import streamlit as st

from gpt2viz import (
    BUNDLED,
    CheckpointError,
    ContextError,
    GPT2VizError,
    Model,
    Trace,
    labels,
    settings,
)
from gpt2viz.analysis.nonfinite import first_not_finite
from gpt2viz.app import (
    address,
    compat,
    garbage,
    output,
    parameters,
    popover,
    prose,
    run_cache,
    server,
    server_config,
)
from gpt2viz.app.frame import examples, menu, sentence, tour
from gpt2viz.app.literal import literal
from gpt2viz.app.pages import Page
from gpt2viz.app.parameters import Switch
from gpt2viz.app.view import View
from gpt2viz.run.hooks import network_graph
from gpt2viz.run.key import RunKey

#: The switches beside the sentence, on every page.
SWITCHES: tuple[Switch, ...] = (parameters.CAUSAL, parameters.BOS)

#: On one line, or Streamlit would dedent it again for each page.
_STYLE = " ".join(
    (resources.files("gpt2viz.app") / "theme.css").read_text(encoding="utf-8").split()
)


def open_page(which: Page, choosing: str | None = sentence.LIGHT_UP) -> View:
    """Draw the frame and run the model; if that fails, show one message and stop the page.

    ``choosing`` says what choosing a token does: "" if nothing, None if the page draws the tokens
    itself.
    """
    open_menu(which)
    return read_sentence(choosing)


def open_menu(which: Page) -> None:
    """Draw the menu alone: enough for a page without a sentence."""
    st.set_page_config(page_title=f"{which.title} · gpt2viz", page_icon="🔎", layout="wide")
    st.html(f"<style>{_STYLE}</style>")
    garbage.begin()
    server.install()
    address.trim()
    prose.begin()
    output.begin(which.title)
    with st.container(key="menu", horizontal=True, vertical_alignment="center", gap=None):
        menu.draw_menu(which)
        end_slot = menu.draw_tools(which)
    server_config.admit()
    server_config.notice()
    welcome_back()
    address.begin()
    with end_slot:
        menu.present_button()
    sentence.keep_choices()
    tour.draw(which)


def read_sentence(
    choosing: str | None = sentence.LIGHT_UP,
    switches: Collection[Switch] = SWITCHES,
    reader: str | None = None,
) -> View:
    """Draw the inputs and run the model; if that fails, show one message and stop the page.

    ``choosing`` is as for ``open_page``. A switch that isn't among ``switches`` is drawn only if it
    was moved on another page, so that it can be moved back. The model ``reader``
    (``model_with_stages``) reads the sentence; if it isn't the chosen one, the page says so.
    """
    model = _model_and_sentence(switches)
    if reader not in (None, model.name):
        name = f"the bundled model, {reader}," if reader == BUNDLED.name else literal(reader)
        prose.caption(labels.sentence("frame.reader", model=literal(model.name), reader=name))
        model = run_cache.load(reader)
    trace = _run(model)
    output.run(output.OF_PAGE, trace)
    first = examples.first_visit_view(trace)
    query = sentence.draw_tokens(trace, choosing, first and first.query)
    _notes(model, trace)
    return View(model, trace, query)


def model_with_stages(stages: Collection[str]) -> str | None:
    """Return the name of the first model with these stages: chosen, bundled, or packaged.

    A chosen model that can't be loaded is returned too: ``read_sentence`` reports it. None if no
    model has the stages.
    """
    names = _model_names()
    chosen: str = address.read(address.choice(parameters.MODEL, names, names[0]))
    try:
        if _has_stages(chosen, stages):
            return chosen
    except GPT2VizError:
        return chosen
    for name in (BUNDLED.name, *settings.packaged_models()):
        with suppress(GPT2VizError):
            if _has_stages(name, stages):
                return name
    return None


def _has_stages(name: str, stages: Collection[str]) -> bool:
    """Return whether the model has all of these stages; without any it isn't loaded."""
    return not stages or network_graph(run_cache.load(name).network).keys() >= set(stages)


def _run(model: Model) -> Trace:
    """Run the sentence, and warn of numbers that aren't finite; stop the page if that fails."""
    try:
        ids = sentence.encode(model, address.get(parameters.TEXT))
        trace = run_cache.run(RunKey(model.name, ids, address.get(parameters.CAUSAL)))
    except ContextError as error:
        sentence.stop_too_long(model, error)
    except GPT2VizError as error:
        stop(literal(str(error)))
    if (wrong := first_not_finite(trace)) is not None:
        words = labels.sentence("frame.not_finite", first=literal(str(wrong)))
        st.error(words, icon=":material/error:")
    return trace


def _notes(model: Model, trace: Trace) -> None:
    """Show notes on the run in one line."""
    notes = [] if trace.causal else [_explain_mask_off(trace)]
    notes += sentence.describe_added_tokens(model.tokenizer)
    if notes:
        prose.caption(" · ".join(notes))


def _explain_mask_off(trace: Trace) -> str:
    """Explain the mask being off, and its effect on the prediction."""
    notes = [labels.sentence("frame.mask_off")]
    both = trace, run_cache.run(replace(trace.key, causal=True))
    if not any(first_not_finite(run) for run in both):
        names, guesses = run_cache.vocabulary(trace.key.model), []
        for run in both:
            probable = run.next_token_probabilities[0]
            best = int(probable.argmax())
            guesses.append(f"“{literal(names[best])}” {labels.percent(probable[best], 1)}")
        notes.append(labels.sentence("frame.without_mask", off=guesses[0], on=guesses[1]))
    return " ".join(notes)


def stop(words: str) -> NoReturn:
    """Show what to change, in Markdown, and stop the page."""
    st.info(words, icon=":material/edit:")
    sentence.end_page()


def stop_without_numbers(*runs: Trace) -> None:
    """Stop the page if a run has NaN: the largest of NaNs isn't a prediction."""
    if any(first_not_finite(run) for run in runs):
        st.info("Nothing can be predicted from NaN, so the rest of this page is left out.")
        st.stop()


def choose_model(**look: Any) -> str:
    """Pick a model; if the owner's list can't be read, show one message and stop the page.

    ``look`` are options of ``st.selectbox``.
    """
    names = _model_names()
    chosen: str = st.selectbox(
        "Model",
        help="The bundled model is small and was trained for this app. Find others on Models.",
        **look,
        **address.choice(parameters.MODEL, names, names[0]),
    )
    return chosen


def _model_and_sentence(switches: Collection[Switch]) -> Model:
    with st.container(key="reads", horizontal=True, vertical_alignment="center"):
        with st.container(key="sentence"):
            sentence.box(
                parameters.TEXT,
                parameters.TEXT.default,
                "Sentence",
                placeholder="Type a sentence and press Enter",
                label_visibility="collapsed",
            )
            popover.button("Examples", examples.draw, key="examples")
        choose_model(label_visibility="collapsed", width=150)
        _mask_switch(parameters.CAUSAL in switches)
        end_slot = st.container(width="content")
    sentence.notes(parameters.TEXT)
    try:
        model = run_cache.load(address.get(parameters.MODEL))
    except CheckpointError as error:
        name = literal(st.session_state["model"])
        words = labels.sentence("frame.no_model", model=name, error=literal(str(error)))
        st.error(words, icon=":material/error:")
        sentence.end_page()
    with end_slot:
        sentence.bos_switch(model, parameters.BOS in switches)
    return model


def _mask_switch(offered: bool) -> None:
    """Draw the switch for the mask if it is ``offered`` or the mask is off."""
    bound = address.switch(parameters.CAUSAL)
    if offered or not address.get(parameters.CAUSAL):
        st.toggle(
            "Causal mask",
            help=prose.tip(
                "On, as in training: a token sees only itself and the tokens before it. Off: it "
                "sees later tokens too."
            ),
            **bound,
        )


def _model_names() -> list[str]:
    try:
        return list(run_cache.model_folders())
    except CheckpointError as error:
        st.error(literal(str(error)), icon=":material/error:")
        st.stop()


_WELCOMED = "_known"
WELCOME_BACK = (
    "The connection was lost and is back. Please repeat your last step; a sentence that was too "
    "long for the address has to be entered again."
)


def welcome_back() -> None:
    """Tell a browser that reconnects into a new session, once, to repeat the last step."""
    if st.session_state.get(_WELCOMED):
        return
    st.session_state[_WELCOMED] = True
    if compat.is_reconnection():
        st.toast(WELCOME_BACK, icon=":material/sync:", duration="long")
