// A computation from top to bottom. Tokens are untrusted text: everything is written as text, never
// as markup.

export const html = '<div class="sum"></div>'

// An element with a class ("" for none) around texts and elements.
function filled(tag, name, ...parts) {
  const element = document.createElement(tag)
  element.className = name
  element.append(...parts)
  return element
}

const cell = ([color, text]) => {
  const element = filled("i", "")
  element.style.background = color
  element.title = text
  return element
}

const row = (tag, cells, name) => filled("tr", name, ...cells.map((text) => filled(tag, "", text)))

const DRAWN = {
  strip: ({ name, token, cells, ink }) => {
    const label = filled("span", "name", filled("b", "", name), ...token ? [` ${token}`] : [])
    label.firstChild.style.color = ink
    label.title = `${name} ${token}`.trim()
    return filled("div", "strip", label, filled("span", "cells", ...cells.map(cell)))
  },
  arrow: ({ text }) => filled("div", "arrow", text),
  result: ({ name, value, model }) => filled("div", "result", "", filled("span", "name", name),
    filled("b", "", `= ${value}`), filled("small", "", `the model: ${model}`)),
  table: ({ columns, rows, chosen, bar }) => filled("table", "", row("th", columns, ""),
    ...rows.map(([cells, share], n) => {
      const line = row("td", cells, n === chosen ? "chosen" : "")
      const length = filled("span", "bar")
      Object.assign(length.style, { width: `${100 * share}%`, background: bar })
      line.append(filled("td", "share", length))
      return line
    })),
  note: ({ text }) => filled("div", "note", text),
}

export default function ({ data, parentElement }) {
  parentElement.querySelector(".sum")
    .replaceChildren(...data.parts.map((part) => DRAWN[part.kind](part)))
}
