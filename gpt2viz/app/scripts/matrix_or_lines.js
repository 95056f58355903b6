// Matrices, or the same numbers as lines, as chosen, without a request to the server.

import drawLines, { html as linesHtml } from "./lines.js"
import {
  crop, formatPart, lineData, parsePart, partInWords, readMatrices,
} from "./matrices.js"
import { current, sender, sendPending, takePart } from "./state.js"
import drawTiles, { html as tilesHtml, offersPart } from "./tiles.js"

export const html = `
<div class="either" data-here="">
  <div class="as-lines">
    <div><p class="title"></p>${linesHtml}</div>
  </div>
  ${tilesHtml}
</div>
`

/** Every picture of lines, in the order of their panels: its title, and its data for the part of
 * the text that is shown. */
export function pictures(p, held = current) {
  const { lines, lined } = p.either
  const part = p.zooms && parsePart(held("zoom", formatPart(p.zooms.part)), p.zooms.end)
  const matrices = p.zooms ? crop(p, part) : p
  const other = p.zooms && formatPart(part) !== formatPart(p.zooms.part)
  let next = 0
  return lined.map(({ what, names, lit, alt }) => {
    const numbers = names.map(() => next++), { title, part: [ofText] } = matrices.panels[numbers[0]]
    const data = lineData(matrices, numbers, names, lines)
    return { title: [names.length > 1 ? "" : title, ofText].filter(Boolean).join(", "),
      data: { ...data, chosen: lit ? data.chosen : -1, shows: `${lines.shows}, ${what}`,
        alt: other ? briefly(names, part) : alt } }
  })
}

// A brief text alternative for lines that the server hasn't described yet.
const briefly = (names, part) =>
  `${names.join(", ")}, as lines, ${part ? partInWords(part) : "the whole text"}.`

/** Whether all changes can be drawn here: the kind of picture, and the part of the text. */
export const offers = (p, changes) =>
  "picture" in changes ? p.either.here : offersPart(p, changes)

// Make `count` containers for pictures of lines.
function makeContainers({ box }, count) {
  while (box.children.length < count) box.append(box.firstElementChild.cloneNode(true))
  while (box.children.length > count) box.lastElementChild.remove()
  box.classList.toggle("two", count > 1)
  return [...box.children]
}

function draw(view) {
  const { p } = view
  view.lined = current("picture", p.either.picture) === "lines"
  view.classList.toggle("lined", view.lined)
  if (!view.lined) drawTiles({ data: p, parentElement: view, setTriggerValue: view.send })
  else {
    const all = pictures(p), into = makeContainers(view, all.length)
    all.forEach(({ title, data }, n) => {
      into[n].querySelector(".title").textContent = title
      const choose = (_, row) => view.send("query", { picture: n, token: data.queries[row][0] })
      drawLines({ data, parentElement: into[n], setTriggerValue: choose })
    })
  }
}

export default function ({ data, parentElement, setTriggerValue }) {
  const view = parentElement.querySelector(".either"), known = view.p
  const p = readMatrices(data)
  Object.assign(view, { p, send: sender(setTriggerValue), box: view.querySelector(".as-lines") })
  if (!known) view.box.addEventListener("focusin", ({ target }) =>
    target.matches(":focus-visible") && sendPending())
  takePart(view, {
    offers: (changes) => offers(p, changes),
    changed: (changes) =>
      ("picture" in changes || view.lined && "zoom" in changes) && draw(view),
  })
  draw(view)
}
