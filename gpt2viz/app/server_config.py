"""The owner's settings: models shown and allowed, the device, and limits on visitors.

    streamlit run app.py -- --model folder --allow-model gpt2 --allow-model owner/name --device cuda

or the variables and the file that ``gpt2viz.settings`` reads.
A name of the hub is allowed only if it, or "*", is listed, even on a local address: a proxy on this
machine may let anyone in.
``GPT2VIZ_MAX_TOKENS`` bounds a text, ``GPT2VIZ_MAX_SESSIONS`` the visitors at a time,
``GPT2VIZ_CACHE_MB`` and ``GPT2VIZ_MODELS_MB`` the memory for all of them.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import lru_cache
from pathlib import Path

import streamlit as st

from gpt2viz import CheckpointError, ModelConfig, settings
from gpt2viz.app import metrics, server
from gpt2viz.app.literal import literal
from gpt2viz.labels import pluralize, sentence
from gpt2viz.model.memory import total_memory

#: Most tokens of a text; by default as many as the model reads.
TOKENS_VARIABLE = "GPT2VIZ_MAX_TOKENS"
#: Most browsers connected at a time.
SESSIONS_VARIABLE = "GPT2VIZ_MAX_SESSIONS"
DEFAULT_SESSIONS = 100
#: Megabytes of cached runs, for all visitors together. GPT-2 small's 1,024 tokens take 240.
RUNS_VARIABLE = "GPT2VIZ_CACHE_MB"
DEFAULT_MEGABYTES = 512
#: Megabytes of cached models, for all visitors together; half of the memory by default.
MODELS_MB_VARIABLE = "GPT2VIZ_MODELS_MB"

_ADMITTED = "_admitted"


def longest_text(config: ModelConfig) -> int:
    """Return the most tokens of a text: as many as the model reads and the owner allows."""
    positions = config.n_positions
    return int(min(positions, settings.number(TOKENS_VARIABLE, positions, least=1)))


def run_budget() -> int:
    """Return the bytes of runs that this process may cache, for all visitors together."""
    return int(settings.number(RUNS_VARIABLE, DEFAULT_MEGABYTES) * 10**6 * _share())


def model_budget() -> int:
    """Return the bytes of models that this process may cache, for all visitors together."""
    return int(settings.number(MODELS_MB_VARIABLE, total_memory() // 2 / 10**6) * 10**6 * _share())


def _share() -> float:
    """Return this process's share of the server's caches: each worker gets the same."""
    return 1 / int(os.environ.get(settings.WORKERS_VARIABLE, "1"))


def admit() -> None:
    """Stop the page if the server is full or a limit can't be read; admitted sessions stay in."""
    if not (server.is_limited() or is_local()):
        st.error("Other machines can reach this server: start it with `gpt2viz app`.")
        st.stop()
    try:
        for variable in (RUNS_VARIABLE, MODELS_MB_VARIABLE):
            settings.number(variable, 1)
        for variable in (TOKENS_VARIABLE, server.CONNECTIONS_VARIABLE, server.REQUESTS_VARIABLE):
            settings.number(variable, 1, least=1)
        most = int(settings.number(SESSIONS_VARIABLE, DEFAULT_SESSIONS, least=1))
    except CheckpointError as error:
        st.error(literal(str(error)), icon=":material/error:")
        st.stop()
    if not st.session_state.get(_ADMITTED) and metrics.get_count("visitors") > most:
        full = sentence("server.full", visitors=pluralize(most, "visitors"))
        st.warning(full, icon=":material/group:")
        st.stop()
    st.session_state[_ADMITTED] = True


def notice() -> None:
    """Say what visitors can do, if other machines can reach the server."""
    if is_local():
        return
    most = os.environ.get(TOKENS_VARIABLE)
    tokens = f" of up to {pluralize(int(float(most)), 'tokens')}" if most else ""
    st.caption(sentence("server.open", tokens=tokens))


#: Matches every name.
EVERY_MODEL = "*"


def folders() -> list[Path]:
    """Return the folders of the command line, ``GPT2VIZ_MODELS`` and the owner's file.

    Raises ``CheckpointError`` for a file that can't be read.
    """
    given = [settings.expand_home(entry) for entry in _arguments().model]
    return given + settings.folders()


def allowed_models() -> list[str]:
    """Return the hub's names that visitors may load, or ``EVERY_MODEL``; none by default.

    Raises ``CheckpointError`` for a file that can't be read.
    """
    return _arguments().allow_model or settings.allowed_names()


def allows(name: str) -> bool:
    """Return whether visitors may load the model ``name``. Raises what ``allowed_models`` does."""
    return not {EVERY_MODEL, name}.isdisjoint(allowed_models())


def device() -> str:
    """Return the device of this server's models, such as "cpu" or "cuda"."""
    return str(_arguments().device)


def is_local() -> bool:
    """Return whether only this machine reaches the server, as far as can be known.

    Its address and every name that it answers to are this machine's own. Behind a proxy it answers
    to the proxy's name as well.
    """
    names = st.get_option("server.allowedHosts") or [EVERY_MODEL]
    return {st.get_option("server.address"), *names} <= set(settings.LOCAL)


def _arguments() -> argparse.Namespace:
    return _parse(tuple(sys.argv[1:]))


@lru_cache(maxsize=1)
def _parse(given: tuple[str, ...]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--allow-model", action="append", default=[])
    parser.add_argument("--device", default="cpu")
    return parser.parse_known_args(given)[0]
