// A computation from top to bottom.

import { make } from "./make.js"

export const html = '<div class="sum"></div>'

const DRAWN = {
  strip(into, { name, token, cells, ink }) {
    const strip = make("div", into, "", "strip"), label = make("span", strip, "", "name")
    make("b", label, name).style.color = ink
    if (token) label.append(` ${token}`)
    label.title = `${name} ${token}`.trim()
    const row = make("span", strip, "", "cells")
    for (const [color, title] of cells)
      Object.assign(make("i", row), { title }).style.background = color
  },
  arrow: (into, { text }) => make("div", into, text, "arrow"),
  result(into, { name, value, model }) {
    const result = make("div", into, "", "result")
    make("span", result, name, "name")
    make("b", result, `= ${value}`)
    make("small", result, `the model: ${model}`)
  },
  table(into, { columns, rows, chosen, bar }) {
    const table = make("table", into), head = make("tr", table)
    for (const name of columns) make("th", head, name)
    rows.forEach(([cells, share], n) => {
      const line = make("tr", table, "", n === chosen ? "chosen" : "")
      for (const text of cells) make("td", line, text)
      const length = make("span", make("td", line, "", "share"), "", "bar")
      Object.assign(length.style, { width: `${100 * share}%`, background: bar })
    })
  },
  note: (into, { text }) => make("div", into, text, "note"),
}

export default function ({ data, parentElement }) {
  const sum = parentElement.querySelector(".sum")
  sum.replaceChildren()
  for (const part of data.parts) DRAWN[part.kind](sum, part)
}
