"""Where a reader lands who opens another chapter, or follows a link to an example."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from gpt2viz.app import output

# The page of before is longer or shorter, and pictures are drawn late: whatever moves the place
# out of sight is made good, until the reader does something. A title that is in the upper half of
# the screen stays where it is. The keyboard goes along, but for who walks through the contents.
_JS = """
let visit = 0
export default function ({ data }) {
  if (data.visit === visit) return
  visit = data.visit
  if (!data.id) return
  const reader = new AbortController()
  const land = () => {
    const place = document.getElementById(data.id)
    if (!place) return
    const top = place.getBoundingClientRect().top
    if (top < 0 || top > innerHeight / 2) place.scrollIntoView()
    const holder = document.activeElement
    if (holder === place || holder?.closest(".st-key-chapter")) return
    place.tabIndex = -1
    place.style.outline = "none"
    place.focus({ preventScroll: true })
  }
  const moved = new ResizeObserver(land)
  const added = new MutationObserver(land)
  const page = document.querySelector("[data-testid='stMain']")
  moved.observe(page.querySelector("[data-testid='stMainBlockContainer']") ?? page)
  added.observe(page, { childList: true, subtree: true })
  reader.signal.onabort = () => [moved, added].forEach((observer) => observer.disconnect())
  for (const act of ["wheel", "touchstart", "pointerdown", "keydown"]) {
    addEventListener(act, () => reader.abort(), { capture: true, signal: reader.signal })
  }
  setTimeout(() => reader.abort(), 15000)
  land()
}
"""

_land = st.components.v2.component("gpt2viz_landing", js=_JS)

_LAST = "_landing"


class _Landing(NamedTuple):
    """The chapter that is open, where in the page it was begun, and how many were opened by now.

    ``id`` is "" where the top of the page is the right place.
    """

    chapter: str
    id: str
    visit: int


def land(chapter: str, example: str) -> None:
    """Show the ``example`` of a chapter that was just opened; its title, where that is "".

    The title only if another chapter was open before: who comes from elsewhere is at the top.
    """
    last: _Landing = st.session_state.get(_LAST, _Landing("", "", 0))
    arrived = output.shown().arrived
    if arrived or chapter != last.chapter:
        place = example or ("" if arrived else chapter)
        last = st.session_state[_LAST] = _Landing(chapter, place, last.visit + 1)
    _land(key="landing", data={"id": last.id, "visit": last.visit})
