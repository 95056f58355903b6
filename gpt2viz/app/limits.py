"""What one server does for its visitors at most; its owner sets it with variables.

``GPT2VIZ_MAX_TOKENS`` bounds a text, ``GPT2VIZ_MAX_SESSIONS`` the visitors at a time,
``GPT2VIZ_CACHE_MB`` and ``GPT2VIZ_MODELS_MB`` what is kept in memory for all of them.
"""

from __future__ import annotations

import os
from typing import NoReturn

import streamlit as st

from gpt2viz import CheckpointError, ContextError, GPT2Config, Model, settings
from gpt2viz.app import address, compat, owner, parameters
from gpt2viz.app.frame import end_of_text
from gpt2viz.app.literal import literal
from gpt2viz.app.parameters import Text
from gpt2viz.labels import counted
from gpt2viz.model.memory import total_memory

#: Tokens of a text; by default as many as the model reads.
TOKENS_VARIABLE = "GPT2VIZ_MAX_TOKENS"
#: Browsers that are connected at a time.
SESSIONS_VARIABLE = "GPT2VIZ_MAX_SESSIONS"
DEFAULT_SESSIONS = 100
#: Megabytes of runs that are kept for all visitors together. GPT-2 small's 1,024 tokens take 240.
RUNS_VARIABLE = "GPT2VIZ_CACHE_MB"
DEFAULT_MEGABYTES = 512
#: Megabytes of models that are kept for all visitors together; half of the memory by default.
MODELS_VARIABLE = "GPT2VIZ_MODELS_MB"

_ADMITTED = "_admitted"


def longest(config: GPT2Config) -> int:
    """Tokens that a text may have: as many as the model reads and the owner allows."""
    return int(min(config.n_positions, _number(TOKENS_VARIABLE, config.n_positions)))


def kept_runs() -> int:
    """Bytes of runs that are kept for all visitors of this process together."""
    return int(_number(RUNS_VARIABLE, DEFAULT_MEGABYTES) * 10**6 * _share())


def kept_models() -> int:
    """Bytes of models that are kept for all visitors of this process together."""
    return int(_number(MODELS_VARIABLE, total_memory() // 2 / 10**6) * 10**6 * _share())


def _share() -> float:
    """How much of what a server may keep is this process's: its workers get the same each."""
    return 1 / int(os.environ.get(settings.WORKERS_VARIABLE, "1"))


def admit() -> None:
    """Stop the page where the server is full, or a limit can't be read; who is in stays in."""
    try:
        for variable in (TOKENS_VARIABLE, RUNS_VARIABLE, MODELS_VARIABLE):
            _number(variable, 1)
        most = int(_number(SESSIONS_VARIABLE, DEFAULT_SESSIONS))
    except CheckpointError as error:
        st.error(literal(str(error)), icon=":material/error:")
        st.stop()
    if not st.session_state.get(_ADMITTED) and compat.connected() > most:
        st.warning(
            f"This server is full: its owner lets {counted(most, 'visitors')} in at a time. "
            "Reload the page in a minute.",
            icon=":material/group:",
        )
        st.stop()
    st.session_state[_ADMITTED] = True


def notice() -> None:
    """Where other machines reach the server, say what their visitors can do."""
    if owner.is_local():
        return
    most = os.environ.get(TOKENS_VARIABLE)
    tokens = f" of up to {counted(int(float(most)), 'tokens')}" if most else ""
    st.caption(
        "Other machines can reach this server. Visitors can run the models that are listed on "
        f"**Models** on texts{tokens}, and fetch those that its owner has allowed. They can't "
        "read or write its files. Texts stay in its memory for a while and in your address bar."
    )


def _number(variable: str, default: float) -> float:
    raw = os.environ.get(variable)
    if not raw:
        return default
    try:
        number = float(raw)
    except ValueError:
        number = 0
    if not 0 < number < 10**12:
        raise CheckpointError(f"{variable} must be a number above 0, not {raw!r:.40}")
    if variable in (TOKENS_VARIABLE, SESSIONS_VARIABLE) and number < 1:
        raise CheckpointError(f"{variable} must be 1 or more, not {raw!r:.40}")
    return number


def too_long(
    model: Model, error: ContextError, which: Text = parameters.TEXT, whose: str = ""
) -> NoReturn:
    """Say that a text, ``which`` of the address, is too long, offer its start, and stop."""
    tokenizer = model.tokenizer
    around = *tokenizer.before(end_of_text.is_on()), *tokenizer.last
    count = "counts as one" if len(around) == 1 else f"count as {len(around)}"
    too = f" {end_of_text.written(tokenizer, around)} {count}." if around else ""
    st.warning(f"{whose}{error}{too}", icon=":material/content_cut:")
    fits = error.n_positions - len(around)
    ids = tokenizer.encode_part(address.chosen(which))[:fits]
    start = tokenizer.decode(ids).rstrip("\ufffd")  # half a character at the end
    st.button(
        f"Use the first {counted(fits, 'tokens')}",
        on_click=address.put,
        args=(which, start),
        type="primary",
    )
    st.stop()
