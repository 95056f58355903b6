"""What the server's owner decides: folders shown, names that visitors may load, the device.

    streamlit run app.py -- --model folder --allow-model gpt2 --allow-model owner/name --device cuda

or the variables and the file that ``gpt2viz.settings`` reads.
A name of the hub is allowed where it, or "*", is listed. Where nothing is listed, a server that
only this machine reaches allows every name and another one none.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import streamlit as st

from gpt2viz import settings
from gpt2viz.settings import ALLOW_VARIABLE as ALLOW_VARIABLE
from gpt2viz.settings import CONFIG_VARIABLE as CONFIG_VARIABLE

_LOCAL = ("127.0.0.1", "localhost", "::1")


def folders() -> list[Path]:
    """The folders of the command line, ``GPT2VIZ_MODELS`` and the owner's file.

    Raises ``CheckpointError`` for a file that can't be read.
    """
    given = [settings.expanded(entry) for entry in _arguments().model]
    return given + settings.folders()


def allows(name: str) -> bool:
    """Whether visitors may load the model ``name`` from the hub or its cache.

    Raises ``CheckpointError`` for a file that can't be read.
    """
    names = _arguments().allow_model or settings.allowed()
    if names:
        return "*" in names or name in names
    return is_local()


def device() -> str:
    """Where the models of this server compute, such as "cpu" or "cuda"."""
    return str(_arguments().device)


def is_local() -> bool:
    """Whether only this machine reaches the server."""
    return st.get_option("server.address") in _LOCAL


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--allow-model", action="append", default=[])
    parser.add_argument("--device", default="cpu")
    return parser.parse_known_args(sys.argv[1:])[0]
