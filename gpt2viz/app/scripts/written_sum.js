// A computation from top to bottom. Tokens are untrusted text: everything is written as text, never
// as markup.

export const html = '<div class="sum"></div>'

function make(tag, name, text, ...parts) {
  const element = document.createElement(tag)
  element.className = name
  element.append(...text ? [text] : [], ...parts)
  return element
}

const cell = ([color, text]) => {
  const element = make("i", "", "")
  element.style.background = color
  element.title = text
  return element
}

const row = (tag, cells, name) => make("tr", name, "", ...cells.map((text) => make(tag, "", text)))

const DRAWN = {
  strip: ({ name, token, cells, ink }) => {
    const label = make("span", "name", "", make("b", "", name), ...token ? [` ${token}`] : [])
    label.firstChild.style.color = ink
    label.title = `${name} ${token}`.trim()
    return make("div", "strip", "", label, make("span", "cells", "", ...cells.map(cell)))
  },
  arrow: ({ text }) => make("div", "arrow", text),
  result: ({ name, value, model }) => make("div", "result", "", make("span", "name", name),
    make("b", "", `= ${value}`), make("small", "", `the model: ${model}`)),
  table: ({ columns, rows, chosen, bar }) => make("table", "", "", row("th", columns, ""),
    ...rows.map(([cells, share], n) => {
      const line = row("td", cells, n === chosen ? "chosen" : "")
      const length = make("span", "bar", "")
      Object.assign(length.style, { width: `${100 * share}%`, background: bar })
      line.append(make("td", "share", "", length))
      return line
    })),
  note: ({ text }) => make("div", "note", text),
}

export default function ({ data, parentElement }) {
  parentElement.querySelector(".sum")
    .replaceChildren(...data.parts.map((part) => DRAWN[part.kind](part)))
}
