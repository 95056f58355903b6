// The component that Streamlit knows: it draws by the script that a message names.

import { opened } from "./message.js"

const STYLED = [
  "arrows", "diagram", "guess_bars", "lines", "listings", "model_map", "number_grid", "part_note",
  "picture_switch", "player", "tiles", "token_chips", "written_sum",
]

/** The style sheets of the scripts that have any. */
export const STYLES = {
  ...Object.fromEntries(STYLED.map((name) => [name, [name]])),
  head_picture: ["tiles", "lines", "head_picture"],
  steps: ["tiles", "model_map", "steps"],
  matrix_or_lines: ["tiles", "lines", "matrix_or_lines"],
}

const sheets = new Map()

// A style sheet, which all parts of the page share.
function sheet(name) {
  if (!sheets.has(name)) sheets.set(name, read(name))
  return sheets.get(name)
}

async function read(name) {
  try {
    const answer = await fetch(new URL(`${name}.css`, import.meta.url))
    return await new CSSStyleSheet().replace(await answer.text())
  } catch (error) {
    sheets.delete(name)
    throw error
  }
}

// A script's module and its style sheets.
const load = (name) => Promise.all([import(`./${name}.js`), ...(STYLES[name] ?? []).map(sheet)])

// The scripts of most pages and what they import: at once, not one round trip after another.
const EARLY = [
  "chosen", "part", "make", "matrix", "lines", "tiles", "head_numbers", "head_picture", "model_map",
  "token_chips", "picture_switch", "part_note",
]
for (const name of EARLY) load(name).catch(() => {}) // whoever draws by it meets the error

/** The name of the script that draws a message. */
export const scriptOf = (data) => (data instanceof Uint8Array ? opened(data).head : data).script

// The element that a script draws in: it stays from one message to the next.
function place(root, name, html) {
  const known = root.querySelector("[data-script]")
  if (known?.dataset.script === name) return known
  const made = document.createElement("div")
  made.dataset.script = name
  made.innerHTML = html ?? ""
  if (known) known.replaceWith(made)
  else root.append(made)
  return made
}

export default async function ({ data, parentElement: root, setTriggerValue }) {
  const name = scriptOf(data)
  const [{ default: draw, html }, ...styles] = await load(name)
  if (styles.length) root.adoptedStyleSheets = styles
  return draw({ data, parentElement: place(root, name, html), setTriggerValue })
}
