"""Pictures and tables of a page: drawn here, and remembered for whoever wants to save them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from gpt2viz import Trace, export
from gpt2viz.app import run_cache, source_code
from gpt2viz.app.frame import popover
from gpt2viz.app.source_code import Made
from gpt2viz.labels import counted
from gpt2viz.pictures.panel import Panel
from gpt2viz.run.key import RunKey

#: Plotly's buttons would lie over the first row and take its clicks; Save has the picture.
_CONFIG = {"displayModeBar": False}


@dataclass
class Shown:
    """What the open page shows by now, by what it says of it, and the runs behind it.

    ``pictures`` are made when they are wanted. ``numbers`` are those of pictures that have none in
    Plotly's form; they are among the ``tables`` too.
    """

    page: str
    arrived: bool = True  # whether another page was open before
    runs: dict[str, RunKey] = field(default_factory=dict)
    pictures: dict[str, Callable[[], Any]] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    explained: set[str] = field(default_factory=set)  # pictures whose code can be read
    numbers: dict[str, pd.DataFrame] = field(default_factory=dict)
    printed: dict[str, Any] = field(default_factory=dict)  # those pictures, as they are saved

    def traces(self) -> dict[str, Trace]:
        """The runs, from the cache or made again: a visitor's page holds on to none of them."""
        return {name: run_cache.run(key) for name, key in self.runs.items()}

    def figure(self, name: str) -> Any:
        """A picture in Plotly's form."""
        return self.pictures[name]() if name in self.pictures else self.printed[name]


def begin(page: str) -> None:
    """Forget the page of before. For the frame, which opens every page."""
    before: Shown | None = st.session_state.get("_shown")
    st.session_state["_shown"] = Shown(page, arrived=before is None or before.page != page)


def shown() -> Shown:
    """What the page shows; all of it once its script has run to the end."""
    found: Shown = st.session_state["_shown"]
    return found


def run(name: str, trace: Trace) -> None:
    """Remember a run that the page shows numbers of."""
    shown().runs[name] = trace.key


def picture(
    figure: Any,
    *,
    key: str,
    alt: str,
    place: Any = st,
    made_by: Sequence[Made] = (),
    of_run: bool = True,
    shrinks: bool = False,
) -> None:
    """Draw a Plotly figure, in the container ``place`` if it is given.

    One that ``shrinks`` is as high as the frame's style says, which knows the width of the page.

    ``made_by`` is the code that made its numbers; it can be read below the picture.

    ``alt`` says in a line what is drawn, with layer and head ("Weights of layer 1, head 0"): for
    those who can't see it, and in the name of the file if it is saved. The former also hear what
    stands out in its numbers and, where it is ``of_run``, what was read.
    """
    _remember(shown().pictures, alt, lambda: figure)
    # Plotly's own zoom would leave a part that no title names: ``clicks`` listens for a drag.
    figure.update_xaxes(fixedrange=True).update_yaxes(fixedrange=True)
    place.plotly_chart(
        figure,
        config=_CONFIG,
        key=f"shrinks-{key}" if shrinks else key,
        alt=in_words(alt, export.spoken(figure), of_run),
        height="stretch" if shrinks else "content",
    )
    if made_by:
        code(*made_by, of=[alt], place=place)


def drawn(alt: str, figure: Callable[[], Any], panels: Sequence[Panel]) -> str:
    """Remember a picture that isn't drawn by Plotly here; its text alternative.

    ``figure`` makes it in Plotly's form, for those who save it; ``panels`` are its matrices.
    """
    _remember(shown().pictures, alt, figure)
    return in_words(alt, export.stand_out([matrix(panel) for panel in panels]))


def matrix(panel: Panel) -> export.Drawn:
    """A panel, to be put into words."""
    rows, columns = panel.rows, panel.columns
    names = rows.plain_names(), columns.plain_names()
    return export.Drawn(panel.title, rows.title, columns.title, *names, panel.values)


def in_words(alt: str, numbers: str, of_run: bool = True) -> str:
    """A picture's text alternative: what it is, what stands out, and what was read."""
    return " ".join(filter(None, [f"{alt}.", numbers, _read() if of_run else ""]))


def _read() -> str:
    """The length of the sentence and the state of the mask, where the page's runs agree on them."""
    runs = shown().runs.values()
    lengths = sorted({len(key.token_ids) for key in runs})
    masks = {key.causal for key in runs}
    if not lengths:
        return ""
    longest = counted(lengths[-1], "tokens")
    said = f"Sentence of {longest}"
    if len(lengths) > 1:
        said = f"Sentences of {' and '.join([*map(str, lengths[:-1]), longest])}"
    if len(masks) > 1:  # the picture's own words say which
        return f"{said}."
    return f"{said}, causal mask {'on' if True in masks else 'off'}."


def code(*made_by: Made, of: Sequence[str], place: Any = st) -> None:
    """The code that made the numbers of the pictures ``of``, on demand."""
    shown().explained.update(of)
    with place.popover("Code", icon=":material/code:", type="tertiary", width="content"):
        source_code.listing(*made_by)


def table(
    frame: pd.DataFrame | Mapping[str, Any], name: str, *, place: Any = st, **options: Any
) -> Any:
    """Draw a table, with the options of ``st.dataframe``, and return what that does.

    ``name`` says in a line what is in it, for the name of the file if it is saved.
    """
    _remember(shown().tables, name, pd.DataFrame(frame))
    return place.dataframe(frame, **options)


def table_on_demand(label: str, frame: pd.DataFrame, name: str) -> None:
    """A button that opens into a table; it can be saved without."""
    _remember(shown().tables, name, frame)
    popover.button(label, partial(st.dataframe, frame), key="table")


def bring_plotly() -> None:
    """Have Streamlit load Plotly into the page, by a chart that nobody sees."""
    with st.container(key="browser_plotly"):
        st.plotly_chart({"data": [{"type": "scatter"}]}, key="unseen")


def numbers(frame: pd.DataFrame, name: str, figure: Any = None) -> None:
    """Remember the numbers of a picture that isn't Plotly's, one row each; draws nothing.

    ``figure`` is the same picture in Plotly's form, for those who save it.
    """
    _remember(shown().tables, name, frame)
    _remember(shown().numbers, name, frame)
    if figure is not None:
        _remember(shown().printed, name, figure)


def numbers_of(name: str) -> int:
    """Draw the numbers of a picture that the page shows as a table; how many there are."""
    found = shown()
    kept = found.numbers.get(name)
    rows = export.figure_table(found.pictures[name]()) if kept is None else kept
    st.dataframe(rows, hide_index=True, height=min(420, 38 + 35 * len(rows)))
    return len(rows)


def _remember(kept: dict[str, Any], name: str, thing: Any) -> None:
    n, unique = 2, name
    while unique in kept:
        n, unique = n + 1, f"{name} ({n})"
    kept[unique] = thing
