"""What the server's owner decides: which folders are shown, and which names visitors may load.

    streamlit run app.py -- --model folder --allow-model gpt2 --allow-model owner/name

or ``gpt2viz.toml`` beside ``app.py`` (or where ``GPT2VIZ_CONFIG`` says):

    models = ["~/models/mine", "/data/gpt2-finetuned"]
    allow = ["gpt2", "owner/name"]

A name of the hub is allowed where it, or "*", is listed. Where nothing is listed, a server that
only this machine reaches allows every name and another one none.
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from pathlib import Path

import streamlit as st

from gpt2viz import CheckpointError

CONFIG_VARIABLE = "GPT2VIZ_CONFIG"
#: Names that visitors may load from the hub, with commas between; "*" for every name.
ALLOW_VARIABLE = "GPT2VIZ_ALLOW_MODEL"

_DEFAULT = Path(__file__).parents[2] / "gpt2viz.toml"
_LOCAL = ("127.0.0.1", "localhost", "::1")


def folders() -> list[Path]:
    """The folders that the command line and the file list; the file's are relative to it.

    Raises ``CheckpointError`` for a file that can't be read.
    """
    given = [Path(entry).expanduser() for entry in _arguments().model]
    beside = _config().parent
    return given + [beside / Path(entry).expanduser() for entry in _listed("models")]


def allows(name: str) -> bool:
    """Whether visitors may load the model ``name`` from the hub or its cache.

    Raises ``CheckpointError`` for a file that can't be read.
    """
    variable = [part.strip() for part in os.environ.get(ALLOW_VARIABLE, "").split(",")]
    names = _arguments().allow_model or list(filter(None, variable)) or _listed("allow")
    if names:
        return "*" in names or name in names
    return st.get_option("server.address") in _LOCAL


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--allow-model", action="append", default=[])
    return parser.parse_known_args(sys.argv[1:])[0]


def _config() -> Path:
    return Path(os.environ.get(CONFIG_VARIABLE) or _DEFAULT)


def _listed(key: str) -> list[str]:
    """A list of texts in the owner's file; empty where there is no such file or list."""
    file = _config()
    if not file.is_file():
        return []
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8")).get(key, [])
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file.name}: can't be read ({error})") from None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise CheckpointError(f'{file.name}: {key} must be a list of texts, such as ["gpt2"]')
    return values
