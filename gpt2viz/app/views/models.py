"""Models: those that can be loaded, how to get another, and the parts of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd
import streamlit as st
from huggingface_hub import constants

from gpt2viz import CheckpointError, GPT2VizError, settings
from gpt2viz.anatomy.card import HASHED, StoredFile, stored_files
from gpt2viz.anatomy.fields import explain, one_line, other_fields, sizes
from gpt2viz.app import output, pages, parameters, prose, run_cache, server_config
from gpt2viz.app.clicks import page_link
from gpt2viz.app.frame import controls, page
from gpt2viz.app.jobs import downloads, start_download
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.app.views import model_parts
from gpt2viz.files import is_gguf
from gpt2viz.labels import sentence
from gpt2viz.model import hub
from gpt2viz.model.checkpoint import (
    config_values,
    read_config,
    stored_numbers,
    task_heads,
    weight_bytes,
)
from gpt2viz.model.memory import free_memory, run_bytes, spell

_FORMATS = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}


#: Titles by the value in the address.
SECTIONS = {
    "all": "All models",
    "card": "Card",
    "config": "Config",
    "parameters": "Parameters",
    "tokenizer": "Tokenizer",
    "positions": "Positions",
    "cost": "Cost of a sentence",
    "modules": "Modules",
}


def show() -> None:
    """Draw the page: one section, or one message if the model's files can't be read."""
    page.open_menu(pages.MODELS)
    section = controls.pick("Show", parameters.PART, SECTIONS, hidden=True, wrap=True)
    try:
        if section == "all":
            _models()
            _get_another()
        elif section in _OF_A_RUN:
            _OF_A_RUN[section](page.read_sentence(choosing=""))
        else:
            lead, draw = _OF_A_MODEL[section]
            heading, menu = st.columns([6.9, 1.6], vertical_alignment="bottom")
            with menu:
                model = page.choose_model()
            prose.markdown(f"#### {literal(model)}\n{lead}", slot=heading)
            draw(model)
    except GPT2VizError as error:
        st.error(literal(str(error)), icon=":material/error:")


def _models() -> None:
    """List every model that can be chosen, from its files' headers alone."""
    prose.markdown("#### Models that you can choose")
    rows, broken = [], []
    for name, folder in run_cache.model_folders().items():
        try:
            config, weights = read_config(folder), weight_bytes(folder)
        except CheckpointError as error:
            broken.append(sentence("models.broken", model=literal(name), error=literal(str(error))))
            continue
        rows.append(
            {
                "Model": name,
                "From": _sources(name, folder)[0],
                "Layers": config.n_layer,
                "Heads": config.n_head,
                "Channels": config.n_embd,
                "Vocabulary": config.vocab_size,
                "Longest text": config.n_positions,
                "Parameters": weights // 4,
                "Weights": spell(weights),
                "Longest run": spell(run_bytes(config)),
                "In memory": name in run_cache.models() or run_cache.shared(name) is not None,
            }
        )
    numbers = ("Layers", "Heads", "Channels", "Vocabulary", "Longest text", "Parameters")
    formats = dict.fromkeys(numbers, "localized")
    output.table(pd.DataFrame(rows), "Models", key="models", formats=formats)
    prose.caption(sentence("models.memory", free=spell(free_memory())))
    for message in broken:
        st.warning(message, icon=":material/error:")


def _sources(name: str, folder: Path) -> tuple[str, str]:
    """Say where a model's files come from, in short and at length."""
    if run_cache.is_bundled(folder):
        return "gpt2viz", "came with gpt2viz"
    if folder in settings.packaged_models().values():
        return "a package", f"a package that is installed here: {folder.parent.name}"
    if folder in run_cache.hub_cache().values():
        repository = f"{constants.ENDPOINT}/{name.removeprefix(settings.HUB)}"
        return "the hub", f"{repository}, revision {folder.name}"
    kind = "a file" if is_gguf(folder) else "a folder"
    return kind, f"{kind} that this server's owner lists"


def _get_another() -> None:
    """Draw the search for a model on the hub, its size, and the button that downloads it."""
    prose.markdown("#### Get another model")
    if not server_config.allowed_models():
        prose.markdown(
            "Other models can be fetched from Hugging Face if this server's owner permits them; "
            "none is permitted yet. If you are the owner, start it with their names, or with "
            "`'*'` for all:"
        )
        st.code("gpt2viz app --allow-model gpt2 --allow-model distilgpt2", language="sh")
        return
    released = [name for name in hub.RELEASED if server_config.allows(name)]
    picked = _pick_released(released) if released else None
    with (
        st.form("by_name", border=False),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        name = st.text_input(
            "Name on the Hugging Face hub",
            key="hub_name",
            placeholder="distilgpt2, or owner/name",
            help="Its owner and name on the hub. Only safetensors files are read.",
            width=420,
        ).strip()
        submitted = st.form_submit_button("Look it up", icon=":material/search:")
    if picked or (submitted and name):
        st.session_state["offer"] = _look_up(picked or name)
    offer: hub.Offer | None = st.session_state.get("offer")
    if offer is not None:
        _draw_offer(offer)


def _pick_released(names: Sequence[str]) -> str | None:
    """Draw the released models as buttons; return the name of the pressed one."""
    with st.container(key="released", horizontal=True, vertical_alignment="center"):
        prose.markdown("Released", width="content")
        pressed = [st.button(name, key=f"released_{name}", help="Look it up") for name in names]
    return next((name for name, is_it in zip(names, pressed, strict=True) if is_it), None)


def _look_up(name: str) -> hub.Offer | None:
    """Look up the hub's model of that name; on failure show a message and return None."""
    try:
        if not server_config.allows(name):
            raise GPT2VizError(sentence("models.refused", model=f"{name!r:.100}"))
        with st.spinner("Asking the hub …"):
            return hub.look_up(name)
    except GPT2VizError as error:
        st.error(literal(str(error)), icon=":material/error:")
        return None


def _draw_offer(offer: hub.Offer) -> None:
    """Draw an offer: its size and the download's button, then the progress and the result."""
    download = downloads().get(offer.name)
    running = download is not None and download.running
    if running or (download is not None and download.error):
        _progress(offer)
    if running:
        return
    here = offer.here
    if here < offer.nbytes:
        much = here > offer.nbytes // 100  # config.json always is here: the look-up fetched it
        some = sentence("models.partly", here=spell(here)) if much else ""
        model, size = literal(offer.name), spell(offer.nbytes)
        prose.markdown(sentence("models.offer", model=model, size=size, some=some))
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
def _progress(offer: hub.Offer) -> None:
    download, whole = downloads()[offer.name], offer.nbytes
    if not download.running:
        if download.error:
            st.warning(literal(download.error), icon=":material/cloud_off:")
        if st.session_state.pop("download_shown", None):
            st.rerun()  # the page around this fragment still shows it running
        return
    st.session_state["download_shown"] = True
    st.progress(
        min(1.0, download.result / whole),
        f"{literal(offer.name)}: {spell(download.result)} of {spell(whole)} "
        f"({download.result:,} of {whole:,} bytes)",
    )
    if st.button("Stop", icon=":material/stop:", disabled=download.cancelled):
        download.cancel()


def _ready(offer: hub.Offer) -> None:
    """Link to a downloaded model, or finish its download if the cache doesn't list it yet."""
    name = run_cache.name_of_fetched(offer.name)
    if name is None:
        start_download(offer)  # all its bytes are here, but not linked into the cache yet
        _progress(offer)
        return
    st.success(f"**{literal(name)}** is here.", icon=":material/check:")
    page_link(pages.ATTENTION, f"Open {literal(name)}", "arrow_forward", {parameters.MODEL: name})


def _card(name: str) -> None:
    """Draw the card, and beside it where the files come from."""
    folder = run_cache.model_folders()[name]
    text, source = st.columns([3, 2], gap="large")
    with source:
        _provenance(name, folder)
    with text:
        card = run_cache.card(name)
        if card is None:
            st.info(
                "This model's folder has no card (README.md) that can be read.",
                icon=":material/info:",
            )
            return
        if settings.card_folder(folder) == folder and not run_cache.is_bundled(folder):
            prose.caption(sentence("models.card"))
        with st.container(key="card", border=True):
            st.markdown(card.text)
        if card.cut:
            prose.caption("Only the beginning of this card is shown.")


def _provenance(name: str, folder: Path) -> None:
    _config = config_values(folder)
    rows = [("comes from", _sources(name, folder)[1])]
    for kind, count in stored_numbers(folder).items():
        rows.append(("weights", f"{count:,} numbers stored as {_FORMATS.get(kind, kind)}"))
    if aside := task_heads(folder):
        rows.append(("set aside", f"{', '.join(aside)}: heads for other tasks, which aren't run"))
    card = run_cache.card(name)
    rows += [(f"card: {what}", text) for what, text in (card.facts if card else {}).items()]
    for field in ("_name_or_path", "transformers_version"):
        if _config.get(field):
            rows.append((f"config: {field}", one_line(_config[field])))
    prose.markdown("**Where it comes from**")
    output.table(
        pd.DataFrame(rows, columns=["what", "is"]),
        f"Where {name} comes from",
        key="origin",
        height="content",
    )
    prose.markdown("**Its files**")
    files = _files(folder)
    output.table(
        {
            "file": [file.name for file in files],
            "size": [spell(file.nbytes) for file in files],
            "SHA-256": [file.sha256 for file in files],
        },
        f"Files of {name}",
        key="files",
        height="content",
    )
    prose.caption(
        "Files with the same SHA-256 are identical."
        + (
            ""
            if all(f.sha256 for f in files)
            else f" Files over {spell(HASHED)} are too large to compute it."
        )
    )


@st.cache_data(max_entries=8, show_spinner=False)
def _files(folder: Path) -> list[StoredFile]:
    return stored_files(folder)


def _config(name: str) -> None:
    """List every field with its meaning, and below those that aren't used."""
    folder = run_cache.model_folders()[name]
    read, values = read_config(folder), config_values(folder)
    fields = [*explain(read, values), *sizes(read)]
    widths = {"field": 200, "value": 150, "meaning": 430}
    output.table(
        {
            "field": [field.name for field in fields],
            "value": [field.value for field in fields],
            "meaning": [field.meaning for field in fields],
            "from": [field.source for field in fields],
        },
        f"Fields of the config of {name}",
        key="fields",
        height="content",
        column_config={name: st.column_config.TextColumn(width=n) for name, n in widths.items()},
    )
    prose.caption(sentence("models.fields"))
    others = other_fields(read, values)
    if others:
        prose.markdown("**Not used by gpt2viz**")
        output.table(
            {"field": list(others), "value": list(others.values())},
            f"Fields of the config of {name} that are not used",
            key="unused",
            height="content",
        )


_OF_A_RUN: Mapping[str, Callable[[View], None]] = {
    "cost": model_parts.cost,
    "modules": model_parts.modules,
}
#: Section -> the line below the model's name, and the function that draws it.
_OF_A_MODEL: Mapping[str, tuple[str, Callable[[str], None]]] = {
    "card": ("Notes by its makers, and where its files come from.", _card),
    "config": ("Every size and option of this model.", _config),
    "parameters": ("Where its learned numbers sit.", model_parts.parameter_counts),
    "tokenizer": ("How a word is cut into tokens, merge by merge.", model_parts.tokenizer),
    "positions": ("What it knows about positions in a text.", model_parts.positions),
}
