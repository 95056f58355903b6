"""The Models page: what can be loaded, and how to get another by its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import streamlit as st

from gpt2viz import CheckpointError, GPT2VizError
from gpt2viz.app import address, output, pages, parameters, prose, run_cache, server_config
from gpt2viz.app.jobs import Download, downloads, start_download
from gpt2viz.app.literal import literal
from gpt2viz.model import hub
from gpt2viz.model.checkpoint import read_config, weight_bytes
from gpt2viz.model.memory import free_memory, run_bytes, spell


def table() -> None:
    """Every model that can be chosen, from its files' headers alone."""
    prose.markdown("#### Models that can be chosen")
    rows, broken = [], []
    for name, folder in run_cache.model_folders().items():
        try:
            config, weights = read_config(folder), weight_bytes(folder)
        except CheckpointError as error:
            broken.append(f"**{literal(name)}** can't be loaded: {literal(str(error))}")
            continue
        rows.append(
            {
                "Model": name,
                "From": _place(folder),
                "Layers": config.n_layer,
                "Heads": config.n_head,
                "Channels": config.n_embd,
                "Vocabulary": config.vocab_size,
                "Longest text": config.n_positions,
                "Parameters": weights // 4,
                "Weights": spell(weights),
                "Longest run": spell(run_bytes(config)),
                "In memory": run_cache.in_memory(name),
            }
        )
    numbers = ("Layers", "Heads", "Channels", "Vocabulary", "Longest text", "Parameters")
    localized = {name: st.column_config.NumberColumn(format="localized") for name in numbers}
    output.table(
        pd.DataFrame(rows), "Models", hide_index=True, key="models", column_config=localized
    )
    prose.caption(
        f"{spell(free_memory())} of memory is free. Loading a model needs room for its weights and "
        "its longest run; where there isn't enough, it is refused without trying."
    )
    for message in broken:
        st.warning(message, icon=":material/error:")


def _place(folder: Path) -> str:
    if run_cache.is_bundled(folder):
        return "gpt2viz"
    return "the hub" if folder in run_cache.from_hub().values() else "a folder"


def by_name() -> None:
    """Ask for a name, say what it weighs, and fetch it when told to."""
    prose.markdown("#### Get one by its name")
    if not server_config.allowed():
        prose.markdown(
            "Other GPT-2s come from the Hugging Face hub, where the owner of this server allows "
            "it. None is allowed yet. If you are the owner, start it with the names, or with "
            "`'*'` for every name:"
        )
        st.code("gpt2viz app --allow-model gpt2 --allow-model distilgpt2", language="sh")
        return
    released = [name for name in hub.RELEASED if server_config.allows(name)]
    picked = _released(released) if released else None
    with (
        st.form("by_name", border=False),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        name = st.text_input(
            "Name on the Hugging Face hub",
            key="hub_name",
            placeholder="distilgpt2, or owner/name",
            help="Any GPT-2 there, by its owner and name. Only safetensors are read.",
            width=420,
        ).strip()
        asked = st.form_submit_button("Look it up", icon=":material/search:")
    if picked or (asked and name):
        st.session_state["offer"] = _offer(picked or name)
    offer: hub.Offer | None = st.session_state.get("offer")
    if offer is not None:
        _ask(offer)


def _released(names: Sequence[str]) -> str | None:
    """The released models as buttons; the one that was pressed."""
    with st.container(key="released", horizontal=True, vertical_alignment="center"):
        prose.markdown("Released", width="content")
        pressed = [st.button(name, key=f"released_{name}", help="Look it up") for name in names]
    return next((name for name, is_it in zip(names, pressed, strict=True) if is_it), None)


def _offer(name: str) -> hub.Offer | None:
    """What the hub has under that name; or one message."""
    try:
        if not server_config.allows(name):
            raise GPT2VizError(f"The owner of this server has not allowed {name!r:.100}.")
        with st.spinner("Asking the hub …"):
            return hub.look_up(name)
    except GPT2VizError as error:
        st.error(literal(str(error)), icon=":material/error:")
        return None


def _ask(offer: hub.Offer) -> None:
    """The size first; then the download, its progress and its end."""
    download = downloads().get(offer.name)
    running = download is not None and not download.ended
    if running or (download is not None and download.error):
        _progress(offer.name)
    if running:
        return
    here = offer.here
    if here < offer.nbytes:
        much = here > offer.nbytes // 100  # config.json always is: it was asked for first
        some = f", of which {spell(here)} is here already" if much else ""
        prose.markdown(f"**{literal(offer.name)}** is {spell(offer.nbytes)}{some}. Fetch it?")
        st.button(
            f"Download {spell(offer.nbytes - here)}",
            on_click=start_download,
            args=(offer,),
            type="primary",
            icon=":material/download:",
        )
    else:
        _ready(offer)


@st.fragment(run_every=0.5)
def _progress(name: str) -> None:
    download: Download = downloads()[name]
    whole = download.offer.nbytes
    if download.ended:
        if download.error:
            st.warning(literal(download.error), icon=":material/cloud_off:")
        if st.session_state.pop("download_shown", None):
            st.rerun()  # the page round this part still shows it running
        return
    st.session_state["download_shown"] = True
    st.progress(
        min(1.0, download.here / whole),
        f"{literal(name)}: {spell(download.here)} of {spell(whole)} "
        f"({download.here:,} of {whole:,} bytes)",
    )
    if st.button("Stop", icon=":material/stop:", disabled=download.stop.is_set()):
        download.stop.set()


def _ready(offer: hub.Offer) -> None:
    """A model that is here: the way to it, where its files are whole."""
    name = run_cache.name_of_fetched(offer.name)
    if name is None:
        start_download(offer)  # all its bytes are here, only its place in the cache isn't made yet
        _progress(offer.name)
        return
    st.success(f"**{literal(name)}** is here.", icon=":material/check:")
    st.page_link(
        pages.ATTENTION.path,
        label=f"Open {literal(name)}",
        icon=":material/arrow_forward:",
        query_params=address.parameters({parameters.MODEL: name}),
    )
