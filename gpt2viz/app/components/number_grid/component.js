// A table of number fields. Every message carries all numbers and a count. An answer to an older
// count is not drawn: it would undo what was typed meanwhile.

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
    const plain = text.trim().replace("\u2212", "-").replace(",", ".")
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
    wrong.textContent = bad.length ? `A number from \u2212${data.largest} to ${data.largest}.` : ""
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
