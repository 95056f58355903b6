"""A table of number fields. Streamlit's own data editor loses a number that is typed too soon.

Its grid takes the keyboard back a moment after a cell was opened; on a busy machine that is long
enough to swallow what is typed. Plain fields also can be walked by Tab and read aloud.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

# Every message carries all numbers and a count. An answer to an older count is not drawn: it
# would undo what was typed meanwhile.
_JS = """
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".grid")
  const make = (tag, into, text, name) => {
    const made = document.createElement(tag)
    if (text) made.textContent = text
    if (name) made.className = name
    into.append(made)
    return made
  }
  const read = (text) => {
    const plain = text.trim().replace("\\u2212", "-").replace(",", ".")
    const number = plain === "" ? NaN : Number(plain)
    return Math.abs(number) <= data.largest ? number : NaN
  }
  const n = data.columns.length
  if (root.made !== data.title + data.rows + data.columns) {
    root.made = data.title + data.rows + data.columns
    root.sent = 0
    root.replaceChildren()
    const table = make("table", root)
    table.setAttribute("aria-label", data.title)
    const head = make("tr", make("thead", table))
    make("td", head)
    data.columns.forEach((name) => { make("th", head, name).scope = "col" })
    const body = make("tbody", table)
    data.rows.forEach((row) => {
      const line = make("tr", body)
      make("th", line, row).scope = "row"
      data.columns.forEach((column) => {
        const field = make("input", make("td", line))
        field.inputMode = "decimal"
        field.autocomplete = "off"
        field.setAttribute("aria-label", `${data.title}, ${row}, ${column}`)
      })
    })
    make("p", root, "", "wrong").setAttribute("role", "alert")
  }
  const fields = [...root.querySelectorAll("input")]
  const wrong = root.querySelector(".wrong")
  const mark = () => {
    const bad = fields.filter((field) => field.getAttribute("aria-invalid") === "true")
    wrong.textContent = bad.length ? `A number from \\u2212${data.largest} to ${data.largest}.` : ""
  }
  const commit = (field) => {
    if (field.value === field.shown) return
    const number = read(field.value)
    field.setAttribute("aria-invalid", String(Number.isNaN(number)))
    mark()
    if (Number.isNaN(number)) return
    field.number = number
    field.shown = field.value = String(number)
    root.sent += 1
    setTriggerValue("edited", { values: fields.map((f) => f.number), count: root.sent })
  }
  fields.forEach((field, place) => {
    field.onfocus = () => field.select()
    field.onblur = () => commit(field)
    field.onkeydown = (event) => {
      const step = { Enter: n, ArrowDown: n, ArrowUp: -n }[event.key]
      if (event.key === "Escape") field.value = field.shown
      if (!step) return
      event.preventDefault()
      commit(field)
      fields[place + step]?.focus()
    }
  })
  if (data.count < root.sent) return
  root.sent = data.count
  fields.forEach((field, place) => {
    const typing = field.shown !== undefined && field.value !== field.shown
    if (typing) return
    field.number = data.values[place]
    field.shown = field.value = data.texts[place]
    field.setAttribute("aria-invalid", "false")
  })
  mark()
}
"""

_CSS = """
table { border-collapse: collapse; width: 100%; font-family: var(--st-font);
  color: var(--st-text-color); font-size: .875rem; }
th, td { border: 1px solid var(--st-border-color); padding: 0; }
th { font-weight: 400; padding: .3rem .5rem; opacity: .8; }
thead th { text-align: right; }
tbody th { text-align: left; white-space: nowrap; width: 1%; }
thead td { border: none; }
input { width: 100%; min-width: 3rem; box-sizing: border-box; border: none;
  background: var(--st-secondary-background-color); color: inherit; font: inherit;
  text-align: right; padding: .35rem .5rem; }
input:hover { outline: 1px solid var(--st-primary-color); outline-offset: -1px; }
input:focus { outline: 2px solid var(--st-primary-color); outline-offset: -2px; }
input[aria-invalid="true"] { outline: 2px solid var(--st-red-color); outline-offset: -2px; }
.wrong { color: var(--st-red-text-color); font-size: .8rem; margin: .2rem 0 0; min-height: 0; }
"""

_draw = st.components.v2.component(
    "gpt2viz_numbers", html='<div class="grid"></div>', css=_CSS, js=_JS
)


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
