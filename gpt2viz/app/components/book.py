"""The Textbook's interactive parts: number fields, guesses, frames and listings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import streamlit as st

from gpt2viz.app import output
from gpt2viz.app.components import mount
from gpt2viz.pictures.frames import Frames, Mark
from gpt2viz.pictures.palette import ink

#: Session key: the number of the last edit that was read, by a table's name.
_EDITS = "_edits_seen"


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
    """Draw number fields, row by row; ``edited`` is called with all numbers after a change.

    ``texts`` are the numbers as the fields show them. Numbers lie between −``largest`` and
    ``largest``; the fields take no others.
    """
    counts: dict[str, int] = st.session_state.setdefault(_EDITS, {})
    key = f"grid_{name}"

    def changed() -> None:
        message = st.session_state[key]["edited"]
        counts[name] = int(message["count"])
        edited([float(x) for x in message["values"]])

    mount(
        key=key,
        data={
            "script": "number_grid",
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


def ask_guess(
    title: str,
    names: Sequence[str],
    *,
    key: str,
    expected: Callable[[object], None],
    skipped: Callable[[], None],
) -> None:
    """Draw a bar for each name, a button that submits the guess, and one that skips it.

    ``expected`` is called with what the browser sends for a guess: hundredths for each of
    ``names``, but validate it, as any client can send it. ``skipped`` is called if it is skipped.
    """
    mount(
        key=key,
        data={"script": "guess_bars", "title": title, "names": list(names)},
        on_expected_change=lambda: expected(st.session_state[key]["expected"]),
        on_skipped_change=skipped,
    )


def compare_guess(
    title: str, names: Sequence[str], guess: Sequence[int], real: Sequence[float], *, key: str
) -> None:
    """Draw a ``guess`` in hundredths beside the ``real`` shares from 0 to 1, a pair per name."""
    data = {"title": title, "names": list(names), "guess": list(guess), "real": list(real)}
    mount({"script": "guess_bars", **data}, key=key)


def draw_player(drawn: Frames, *, key: str, at: int, choose: Callable[[int], None]) -> None:
    """Draw the frame ``at``, with controls; ``choose`` is called with the frame where it stops.

    Streamlit keeps the callback for the session: let it reference no run.
    """

    def stopped() -> None:
        if (sent := st.session_state[key].at) is not None:
            choose(int(sent))

    frames = [
        {"caption": frame.caption, "marks": [_mark(mark) for mark in frame.marks]}
        for frame in drawn.frames
    ]
    data = {"script": "player", "alt": drawn.what, "lines": drawn.lines, "frames": frames, "at": at}
    mount(data, key=key, on_at_change=stopped)


def _mark(mark: Mark) -> dict[str, Any]:
    fill = mark.fill(output.page_outputs().colors)
    return {
        "key": mark.key,
        "box": [round(n, 5) for n in (mark.x, mark.y, mark.wide, mark.tall)],
        "fill": fill,
        "ink": ink(fill) if fill else "",
        "text": mark.text,
        "left": mark.left,
    }


def draw_listings(
    key: str,
    titles: tuple[str, str],
    listings: tuple[Sequence[str], Sequence[str]],
    parts: Sequence[int | None],
    beside: Mapping[int, Sequence[int]],
    chosen: int,
    choose: Callable[[int], None],
) -> None:
    """Draw two listings, numbered from 1, with ``chosen`` and its lines in ``beside`` highlighted.

    ``parts`` has, for each line of the first listing, the first line of its statement, or None if
    it can't be chosen. ``choose`` is called with such a line, also after a click on a line beside
    it. Streamlit keeps it for the session: let it reference no run.
    """

    def clicked() -> None:
        if sent := st.session_state[key].line:
            choose(int(sent))

    mount(
        key=key,
        data={
            "script": "listings",
            "titles": titles,
            "listings": listings,
            "parts": parts,
            "beside": {str(line): there for line, there in beside.items()},
            "chosen": chosen,
        },
        on_line_change=clicked,
    )


_LAST = "_landing"


class _Landing(NamedTuple):
    """The open chapter, the ``id`` that it was scrolled to, and how many were opened by now.

    ``id`` is "" for the top of the page.
    """

    chapter: str
    id: str
    visit: int


def land(chapter: str, example: str) -> None:
    """Scroll to the ``example`` of a chapter that was just opened, or to its title if that is "".

    From another page, the title needs no scrolling: the page opens at its top.
    """
    last: _Landing = st.session_state.get(_LAST, _Landing("", "", 0))
    arrived = output.page_outputs().arrived
    if arrived or chapter != last.chapter:
        target = example or ("" if arrived else chapter)
        last = st.session_state[_LAST] = _Landing(chapter, target, last.visit + 1)
    mount({"script": "landing", "id": last.id, "visit": last.visit}, key="landing")
