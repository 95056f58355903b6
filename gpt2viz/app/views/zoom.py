"""Zoom: a drag over a picture shows a part of the text on all pictures; long texts are pooled."""

from __future__ import annotations

from gpt2viz.app import address, parameters, prose
from gpt2viz.app.components import mount
from gpt2viz.app.view import View, Window, whole_text
from gpt2viz.labels import pluralize, sentence
from gpt2viz.pictures.pooling import GRID


def window(view: View) -> Window:
    """Return the part of the text in the address, and draw a note on it."""
    part = whole_or_part(view)
    note(view, part)
    return part


def whole_or_part(view: View) -> Window:
    """Return the part of the text in the address."""
    T, expected = view.n_tokens, "first and last query, first and last key"
    ends = address.values(parameters.ZOOM, _parse, expected)
    if not ends or max(ends) > T:
        return whole_text(T)
    return Window(range(*ends[:2]), range(*ends[2:]), T)


def note(view: View, part: Window) -> None:
    """Draw a note on the part that is shown, with a button for the whole text.

    If the browser can draw parts itself, it also goes back to the whole text itself.
    """
    T = view.n_tokens
    if part.whole and T > GRID:
        prose.caption(sentence("frame.pooled", tokens=T))
    mount(
        key="part_note",
        data={
            "script": "choices.part",
            "part": part.ends or None,
            "end": T,
            "here": part.shown is not None,
            "lead": "Only a part is shown",
            "rest": sentence("frame.part", tokens=pluralize(T, "tokens")),
        },
        on={"whole": lambda _sent: show_whole()},
    )


def show_whole() -> None:
    """Show the whole text. For callbacks."""
    address.put(parameters.ZOOM, ())


def _parse(raw: str) -> tuple[int, ...]:
    first, stop, first_key, stop_key = map(int, raw.split(","))
    if not (0 <= first < stop and 0 <= first_key < stop_key):
        raise ValueError(raw)
    return first, stop, first_key, stop_key
