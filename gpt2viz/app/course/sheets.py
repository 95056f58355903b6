"""The printable lesson sheets that the Textbook offers, from files beside the app."""

from __future__ import annotations

import streamlit as st

from gpt2viz import settings
from gpt2viz.app import output, prose
from gpt2viz.app.course.parts import Book
from gpt2viz.textbook import sizes

#: The folder of the sheets, beside the app.
FOLDER = settings.APP / "docs" / "lessons"
#: A sheet's label -> its file.
SHEETS = {
    "Sheet for students": "sheet.html",
    "The same with answers": "sheet-answers.html",
    "Plan of 90 minutes": "90-minutes.md",
    "Plan of a week": "week.md",
}
#: The model and the tokens of the sheet of shapes.
_NAME, _T = "GPT-2 small", 4


def offer() -> None:
    """Draw a button for each sheet; nothing if the files are missing."""
    if not all((FOLDER / file).is_file() for file in SHEETS.values()):
        return
    with st.popover("For teachers", icon=":material/print:"):
        prose.caption(
            "A sheet of eight tasks, on two pages: open it in a browser and print it. The plans "
            "say how to use it in 90 minutes, or in five lessons."
        )
        for label, file in SHEETS.items():
            output.file_button(label, (FOLDER / file).read_bytes(), f"gpt2viz-{file}")
        prose.caption(f"All shapes of {_NAME} on a page, to print and keep.")
        shapes()


def shapes(book: Book | None = None) -> None:
    """Draw a button for the sheet of all shapes, among the sheets or in the ``book``."""
    sheet = sizes.shape_sheet(sizes.RELEASED["small"], _NAME, T=_T)
    key = "shapes_in_book" if book else None
    output.file_button("Sheet of shapes", sheet, "gpt2viz-shapes.html", key=key)
