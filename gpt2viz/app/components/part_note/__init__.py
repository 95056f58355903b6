"""A line that says which part of the text the pictures show, with the way back to all of it."""

from __future__ import annotations

from collections.abc import Callable

from gpt2viz.app.components import brought
from gpt2viz.labels import counted
from gpt2viz.pictures.canvas import Shown

_draw = brought(
    __name__, '<div class="part" hidden><span></span><button>Show the whole text</button></div>'
).draw


def draw(shown: Shown, *, here: bool, back: Callable[[], None]) -> None:
    """Draw it, or nothing where all of the text is shown. Once on a page that has such pictures.

    Where the browser draws parts by itself, ``here``, it goes back to the whole by itself too; else
    ``back`` is called before the page runs again.
    """
    _draw(
        key="part_note",
        data={
            "part": shown.part or None,
            "end": shown.n_tokens,
            "here": here,
            "lead": "Only a part is shown",
            "of": f"of {counted(shown.n_tokens, 'tokens')}. What the page says about a whole row "
            "or column holds for the whole text.",
        },
        on_whole_change=back,
    )
