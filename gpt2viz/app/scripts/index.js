// The component registered with Streamlit: it draws with the script that a message names.

import { openMessage } from "./matrices.js"

// The style sheet shared by all parts of the page.
let sheet = null

async function read() {
  const answer = await fetch(new URL("style.css", import.meta.url))
  return new CSSStyleSheet().replace(await answer.text())
}

function styled() {
  return sheet ??= read().catch((error) => {
    sheet = null
    throw error
  })
}

// The scripts of most pages, their imports and the style are loaded at once, not one round trip
// after another. Errors are ignored here: `load` imports again and reports them.
const EARLY = [
  "page", "choices", "state", "make", "matrix", "lines", "tiles", "head_picture", "model_map",
  "words", "lens", "chart", "figure", "wiring",
]
for (const name of EARLY) import(`./${name}.js`).catch(() => {})
if (globalThis.CSSStyleSheet) styled().catch(() => {})

// Load a drawing function: a script's default, or one of several: "choices.tokens".
async function load(name) {
  const [file, part] = name.split("."), script = await import(`./${file}.js`)
  return part ? script[part] : script
}

/** The name of the script that draws a message. */
export const scriptOf = (data) =>
  (data instanceof Uint8Array ? openMessage(data).head : data).script

// The element that a script draws in, the same from one message to the next.
function containerFor(root, name, html) {
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
  const name = scriptOf(data), { default: draw, html } = await load(name)
  if (html) root.adoptedStyleSheets = [await styled()]
  return draw({ data, parentElement: containerFor(root, name, html), setTriggerValue })
}
