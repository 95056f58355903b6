"""A table of number fields. Streamlit's own data editor loses a number that is typed too soon.

Its grid takes the keyboard back a moment after a cell was opened; on a busy machine that is long
enough to swallow what is typed. Plain fields also can be walked by Tab and read aloud.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from gpt2viz.app.components import component

_draw = component(__name__, '<div class="grid"></div>')


def number_fields(
    name: str,
    title: str,
    values: Sequence[float],
    texts: Sequence[str],
    rows: Sequence[str],
    columns: Sequence[str],
    largest: float,
    edited: Callable[[list[float]], None],
) -> None:
    """Draw the numbers, row after row; ``edited`` is called with all of them after a change.

    A field shows its number as one of the ``texts``. Numbers lie between −``largest`` and
    ``largest``; the fields take no others.
    """
    counts: dict[str, int] = st.session_state.setdefault("_edits_seen", {})
    key = f"grid_{name}"

    def changed() -> None:
        message = st.session_state[key]["edited"]
        counts[name] = int(message["count"])
        edited([float(x) for x in message["values"]])

    _draw(
        key=key,
        data={
            "title": title,
            "rows": list(rows),
            "columns": list(columns),
            "values": list(values),
            "texts": list(texts),
            "largest": largest,
            "count": counts.get(name, 0),
        },
        on_edited_change=changed,
    )
