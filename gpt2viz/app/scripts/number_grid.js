// A table of number fields. Every message carries all numbers and a count. A response to an older
// count isn't drawn: it would undo what was typed meanwhile.

import { make } from "./make.js"

export const html = '<div class="grid"></div>'

// Parse a typed number, with either decimal sign; NaN for none, or one too large.
export function read(text, largest) {
  const plain = text.trim().replace("\u2212", "-").replace(",", ".")
  const number = plain === "" ? NaN : Number(plain)
  return Math.abs(number) <= largest ? number : NaN
}

// How many fields further a key leads, in a table of `nColumns` columns; undefined for other keys.
export const step = (key, nColumns) =>
  ({ Enter: nColumns, ArrowDown: nColumns, ArrowUp: -nColumns })[key]

function build(root, { title, rows, columns }) {
  root.replaceChildren()
  const table = make("table", root)
  table.setAttribute("aria-label", title)
  const head = make("tr", make("thead", table))
  make("td", head)
  columns.forEach((name) => { make("th", head, name).scope = "col" })
  const body = make("tbody", table)
  rows.forEach((row) => {
    const line = make("tr", body)
    make("th", line, row).scope = "row"
    columns.forEach((column) => {
      const field = make("input", make("td", line))
      field.inputMode = "decimal"
      field.autocomplete = "off"
      field.setAttribute("aria-label", `${title}, ${row}, ${column}`)
    })
  })
  make("p", root, "", "wrong").setAttribute("role", "alert")
}

// Say below the table what is wrong with any of its fields.
function mark(root, fields, largest) {
  const bad = fields.some((field) => field.getAttribute("aria-invalid") === "true")
  root.querySelector(".wrong").textContent =
    bad ? `A number from \u2212${largest} to ${largest}.` : ""
}

function listen(root, fields, { columns, largest }, send) {
  const commit = (field) => {
    const number = read(field.value, largest)
    field.setAttribute("aria-invalid", String(Number.isNaN(number)))
    mark(root, fields, largest)
    if (Number.isNaN(number) || field.value === field.shown) return
    field.number = number
    field.shown = field.value = String(number)
    root.sent += 1
    send("edited", { values: fields.map((f) => f.number), count: root.sent })
  }
  fields.forEach((field, n) => {
    field.onfocus = () => field.select()
    field.onblur = () => commit(field)
    field.onkeydown = (event) => {
      const by = step(event.key, columns.length)
      if (event.key === "Escape") field.value = field.shown
      if (!by) return
      event.preventDefault()
      commit(field)
      fields[n + by]?.focus()
    }
  })
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".grid"), made = data.title + data.rows + data.columns
  if (root.made !== made) {
    root.made = made
    root.sent = 0
    build(root, data)
  }
  const fields = [...root.querySelectorAll("input")]
  listen(root, fields, data, setTriggerValue)
  if (data.count < root.sent) return
  root.sent = data.count
  root.style.setProperty("--longest", Math.max(...data.texts.map((text) => text.length)))
  fields.forEach((field, n) => {
    if (field.shown !== undefined && field.value !== field.shown) return // still being typed
    field.number = data.values[n]
    field.shown = field.value = data.texts[n]
    field.setAttribute("aria-invalid", "false")
  })
  mark(root, fields, data.largest)
}
