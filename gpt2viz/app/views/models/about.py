"""What a model's files say of it: its card, where they come from, and its config."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st
from huggingface_hub import constants

from gpt2viz import settings
from gpt2viz.anatomy.fields import derived, explained, unused, written
from gpt2viz.anatomy.files import HASHED, StoredFile, stored_files
from gpt2viz.app import output, prose, run_cache
from gpt2viz.files import read_json
from gpt2viz.model.checkpoint import read_config, set_aside, stored_numbers
from gpt2viz.model.memory import spell
from gpt2viz.pictures.palette import Palette

_FORMATS = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}


def card(name: str, _colors: Palette) -> None:
    """The card beside where the files come from."""
    folder = run_cache.model_folders()[name]
    text, source = st.columns([3, 2], gap="large")
    with source:
        _provenance(name, folder)
    with text:
        found = run_cache.card(name)
        if found is None:
            st.info(
                "This model's folder has no card (README.md) that can be read.",
                icon=":material/info:",
            )
            return
        if not run_cache.is_bundled(folder):
            prose.caption(
                "Written by the model's makers, not by gpt2viz, and not checked. Images are left "
                "out: nothing is loaded from elsewhere."
            )
        with st.container(key="card", border=True):
            st.markdown(found.text)
        if found.cut:
            prose.caption("The card goes on; only its beginning is shown.")


def _provenance(name: str, folder: Path) -> None:
    config = read_json(folder / "config.json")
    rows = [("comes from", _origin(name, folder))]
    for kind, count in stored_numbers(folder).items():
        rows.append(("weights", f"{count:,} numbers stored as {_FORMATS.get(kind, kind)}"))
    if aside := set_aside(folder):
        rows.append(("set aside", f"{', '.join(aside)}: other tasks' heads, which aren't run"))
    found = run_cache.card(name)
    rows += [(f"card: {what}", text) for what, text in (found.facts if found else {}).items()]
    for field in ("_name_or_path", "transformers_version"):
        if config.get(field):
            rows.append((f"config: {field}", written(config[field])))
    prose.markdown("**Where it comes from**")
    output.table(
        pd.DataFrame(rows, columns=["what", "is"]),
        "Where the model comes from",
        hide_index=True,
        key="origin",
        height="content",
    )
    prose.markdown("**Its files**")
    files = _files(folder)
    output.table(
        pd.DataFrame(
            {
                "file": [file.name for file in files],
                "size": [spell(file.nbytes) for file in files],
                "SHA-256": [file.sha256 for file in files],
            }
        ),
        "Its files",
        hide_index=True,
        key="files",
        height="content",
    )
    prose.caption(
        "Two files with the same SHA-256 are identical, bit for bit."
        + (
            ""
            if all(f.sha256 for f in files)
            else f" Files over {spell(HASHED)} are too large to be read for it."
        )
    )


def _origin(name: str, folder: Path) -> str:
    if run_cache.is_bundled(folder):
        return "came with gpt2viz"
    if folder in run_cache.from_hub().values():
        return f"{constants.ENDPOINT}/{name.removeprefix(settings.HUB)}, revision {folder.name}"
    return "a folder that this server's owner lists"


@st.cache_data(max_entries=8, show_spinner=False)
def _files(folder: Path) -> list[StoredFile]:
    return stored_files(folder)


def config(name: str, _colors: Palette) -> None:
    """Every field with its meaning; those that nothing reads, below."""
    folder = run_cache.model_folders()[name]
    read, values = read_config(folder), read_json(folder / "config.json")
    fields = [*explained(read, values), *derived(read)]
    output.table(
        pd.DataFrame(
            {
                "field": [field.name for field in fields],
                "value": [field.value for field in fields],
                "meaning": [field.meaning for field in fields],
                "from": [field.source for field in fields],
            }
        ),
        "Fields of the config",
        hide_index=True,
        key="fields",
        height="content",
        column_config={"meaning": st.column_config.TextColumn(width="large")},
    )
    prose.caption(
        "*default*: the file leaves the field out, and GPT-2's own value applies. *computed*: it "
        "follows from the others."
    )
    others = unused(values)
    if others:
        prose.markdown("**Not used by gpt2viz**")
        output.table(
            pd.DataFrame({"field": list(others), "value": list(others.values())}),
            "Fields that are not used",
            hide_index=True,
            key="unused",
            height="content",
        )
