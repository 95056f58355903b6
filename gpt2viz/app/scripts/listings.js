// Two listings side by side. One statement of the first is chosen, of a line or a few; the lines
// `beside` it are highlighted in the second. A click there chooses the line that it is beside.

import { make, walkList } from "./make.js"

export const html = '<div class="listings"></div>'

// The line of the first that a line of the second leads to; of several, the one after `chosen`.
export function leads(beside, line, chosen) {
  const matches = Object.keys(beside).map(Number).filter((n) => beside[n].includes(line))
  return matches[(matches.indexOf(chosen) + 1) % matches.length]
}

// Write a line with its number. Its indent stays when it wraps; its comment is styled differently.
function write(into, text, n) {
  const code = text.trimStart(), [, plain, comment] = code.match(/^(.*?)(\s+# .*)?$/)
  make("span", into, String(n), "number")
  const line = make("code", into, plain || " ")
  line.style.setProperty("--indent", `${text.length - code.length}ch`)
  if (comment) make("i", line, comment)
}

// Make a listing; `to` has the line of the first that each line chooses, undefined for none.
function makeListing(root, title, lines, to, go) {
  const figure = make("figure", root)
  make("figcaption", figure, title)
  const body = make("ol", figure), buttons = []
  body.setAttribute("aria-label", title)
  lines.forEach((text, n) => {
    const item = make("li", body), target = to(n + 1)
    if (target === undefined) { write(item, text, n + 1); return }
    const button = make("button", item)
    button.tabIndex = -1
    button.line = n + 1
    button.onclick = () => go(button.line)
    button.onkeydown = (event) => walkList(event, buttons, button)
    write(button, text, n + 1)
    buttons.push(button)
  })
  return { body, buttons }
}

// Highlight lines. Tab reaches the first of them, which scrolls into view if `show`.
function highlight({ body, buttons }, lit, show) {
  for (const button of buttons) {
    const on = lit.includes(button.line)
    if (on) button.setAttribute("aria-current", "true")
    else button.removeAttribute("aria-current")
    button.tabIndex = -1
  }
  const first = buttons.find((button) => lit.includes(button.line)) ?? buttons[0]
  if (!first) return
  first.tabIndex = 0
  if (show) body.scrollTop = Math.max(0, first.offsetTop - body.clientHeight / 3)
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".listings")
  const { titles, listings, parts, beside, chosen } = data
  const choose = (line, shown) => {
    const lines = parts.flatMap((part, n) => part === line ? [n + 1] : [])
    root.chosen = line
    highlight(root.first, lines, shown !== "first")
    highlight(root.second, beside[line] ?? [], shown !== "second" && beside[line]?.length)
  }
  const go = (line, clicked) => {
    choose(line, clicked)
    setTriggerValue("line", line)
  }
  const made = JSON.stringify([titles, listings, parts, beside])
  if (root.made !== made) {
    root.made = made
    root.chosen = undefined
    root.replaceChildren()
    root.first = makeListing(root, titles[0], listings[0], (line) => parts[line - 1] ?? undefined,
      (line) => root.go(parts[line - 1], "first"))
    root.second = makeListing(root, titles[1], listings[1], (line) => leads(beside, line),
      (line) => root.go(leads(beside, line, root.chosen), "second"))
  }
  root.go = go
  if (root.chosen !== chosen) choose(chosen)
}
