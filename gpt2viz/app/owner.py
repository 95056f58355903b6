"""What the server's owner decides: folders shown, names that visitors may load, the device.

    streamlit run app.py -- --model folder --allow-model gpt2 --allow-model owner/name --device cuda

or the variables and the file that ``gpt2viz.settings`` reads.
A name of the hub is allowed where it, or "*", is listed, and nowhere else: the server's address
doesn't tell who reaches it, as a proxy on this machine may let everybody in.
"""

from __future__ import annotations

import argparse
import sys
from functools import lru_cache
from pathlib import Path

import streamlit as st

from gpt2viz import settings
from gpt2viz.settings import ALLOW_VARIABLE as ALLOW_VARIABLE
from gpt2viz.settings import CONFIG_VARIABLE as CONFIG_VARIABLE

#: Stands for every name.
EVERY = "*"


def folders() -> list[Path]:
    """The folders of the command line, ``GPT2VIZ_MODELS`` and the owner's file.

    Raises ``CheckpointError`` for a file that can't be read.
    """
    given = [settings.expanded(entry) for entry in _arguments().model]
    return given + settings.folders()


def allowed() -> list[str]:
    """The names that visitors may load from the hub or its cache, or ``EVERY``; none by default.

    Raises ``CheckpointError`` for a file that can't be read.
    """
    return _arguments().allow_model or settings.allowed()


def allows(name: str) -> bool:
    """Whether visitors may load the model ``name``. Raises what ``allowed`` does."""
    return not {EVERY, name}.isdisjoint(allowed())


def device() -> str:
    """Where the models of this server compute, such as "cpu" or "cuda"."""
    return str(_arguments().device)


def is_local() -> bool:
    """Whether the server is for this machine alone, as far as it can be known.

    Its address and every name that it answers to are this machine's own. Behind a proxy it answers
    to the proxy's name as well.
    """
    names = st.get_option("server.allowedHosts") or [EVERY]
    return {st.get_option("server.address"), *names} <= set(settings.LOCAL)


def _arguments() -> argparse.Namespace:
    return _read(tuple(sys.argv[1:]))


@lru_cache(maxsize=1)
def _read(given: tuple[str, ...]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--allow-model", action="append", default=[])
    parser.add_argument("--device", default="cpu")
    return parser.parse_known_args(given)[0]
