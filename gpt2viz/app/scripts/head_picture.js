// One head of a layer, as a matrix or as lines, and its description. Another head is drawn from the
// weights of all heads, if they were sent.

import drawLines, { html as linesHtml } from "./lines.js"
import { setLens } from "./lens.js"
import { make } from "./make.js"
import { zoomOf } from "./matrix.js"
import { crop, lineData, openMessage, parsePart, readMatrices, splitName } from "./matrices.js"
import { choose, current, sender, takePart } from "./state.js"
import drawTiles, { html as tilesHtml, offersPart } from "./tiles.js"

export const html = `
<div class="head" data-here="">
  <div class="more" role="group" aria-label="More heads"></div>
  <p class="description"></p>
  <p class="title"></p>
  ${tilesHtml}
  <div class="as-lines">${linesHtml}</div>
  <p class="reason"></p>
</div>
`

// The height of everything above and below the matrix on the first screen, in CSS pixels.
const AROUND = 545

// Most heads that are drawn over the chosen head.
const MOST = 3

/** The chosen state: what the server has drawn, with the browser's choices since. */
export function chosen({ zooms, head: drawn, either }, held = current) {
  const heads = (text) => text ? text.split(",").map(Number) : []
  const layer = Number(held("layer", drawn.layer)), head = Number(held("head", drawn.head))
  const more = heads(held("more", drawn.more.join(",")))
  const part = zooms ? parsePart(held("zoom", zooms.part?.join(",")), zooms.end) : null
  const query = held("query", drawn.query)
  return { layer, head, more, beside: more.filter((n) => n !== head).slice(0, MOST),
    picture: held("picture", either.picture), part, query: query === null ? null : Number(query) }
}

const drawnHeads = ({ head, beside, picture }) => picture === "lines" ? [head, ...beside] : [head]

/** The matrices of a layer's heads for the part shown, as the server would send them. */
export function ofHeads({ ...p }, weights, state) {
  const { layer, part } = state, { n_head: n, between } = p.head
  if (!p.zooms) return p
  p.zooms = { ...p.zooms, row: state.query, part }
  if (!weights) return crop(p, part)
  const sent = p.whole ?? p, [first] = sent.panels, heads = drawnHeads(state)
  const size = first.rows.length * first.columns.length
  const values = new Float32Array(heads.length * size)
  const panels = heads.map((head, slot) => {
    const start = (layer * n + head) * size
    values.set(weights.subarray(start, start + size), slot * size)
    return { ...first, title: `Layer ${layer} · Head ${head}${between}`, start: slot * size }
  })
  const masked = (cell) => sent.masked(first.start + cell % size)
  const whole = { ...sent, panels, values, masked }
  const zooms = { ...p.zooms, masked: heads.map(() => p.zooms.masked[0]) }
  return crop({ ...p, whole, zooms, across: 1, asks: heads.map(() => p.asks[0]) }, part)
}

/** The same numbers for lines. */
export function forLines(p, state) {
  const { lines } = p.either, heads = drawnHeads(state), alt = pictureName(p, state)
  return { ...lineData(p, p.panels.map((_, n) => n), heads.map((n) => `Head ${n}`), lines), alt,
    shows: `${lines.shows}, ${alt}` }
}

/** The query of a head's strongest link to another token that isn't the first, null for none;
 * `links` are a query's keys with their weights. */
export function strongestQuery(size, links) {
  const strongest = Array.from({ length: size }, (_, query) =>
    Math.max(0, ...[...links(query)].map(([key, weight]) => key && key !== query ? weight : 0)))
  const most = Math.max(...strongest)
  return most ? strongest.indexOf(most) : null
}

/** Describe what a head attends to from the chosen token, or from the query of its strongest link
 * to another token that isn't the first, like `describe_head` in app/describe.py. */
export function describeHead(p, weights, { layer, head, query }) {
  const { names, n_head: n, sentences, least } = p
  const size = names.length, start = (layer * n + head) * size ** 2
  const row = (at) => weights.subarray(start + at * size, start + (at + 1) * size)
  const strongest = (at) => [...row(at).keys()].sort((a, b) => row(at)[b] - row(at)[a]).slice(0, 3)
    .filter((key, rank) => !rank || row(at)[key] >= least)
    .map((key) => `${names[key]}: ${row(at)[key].toFixed(2)}`).join(", ")
  const from = (at) => filled(sentences.attends, { query: names[at], keys: strongest(at) })
  if (query !== null) return from(query)
  const at = strongestQuery(size, (token) => row(token).entries())
  if (at !== null) return from(at)
  return filled(size > 1 ? sentences.first : sentences.itself, { noun: "token" })
}

// Fill in a sentence of sentences.toml.
const filled = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name])

// The picture's name.
function pictureName({ head: { what }, panels: [{ part: [part] }] }, state) {
  const name = `${what}, layer ${state.layer}, head ${drawnHeads(state).join(", ")}`
  return part ? `${name}, ${part}` : name
}

// Whether the state is the one that the server has drawn, so that its description still holds.
const asDrawn = (p, state) =>
  JSON.stringify(chosen(p, (_, drawn) => drawn)) === JSON.stringify(state)

/** Whether all changes can be drawn here: another head from the weights of every head, and the
 * description of another token's row. */
export function offers({ head: drawn }, changes, state, weights) {
  if ("query" in changes && !drawn.names.length) return false
  if ("picture" in changes) return Boolean(weights) || !state.beside.length
  return Boolean(weights)
}

function draw(view) {
  const { p, find } = view, state = view.state = chosen(p), weights = weightsOf(p.head.numbers)
  const lined = state.picture === "lines", shown = ofHeads(p, weights, state)
  view.classList.toggle("lined", lined)
  const same = asDrawn(p, state)
  if (lined) {
    const data = forLines(shown, state)
    data.alt = same ? p.either.lined[0].alt : `${data.alt}. ${p.either.lines.note}`
    find("title").textContent = titleOf(shown, state)
    drawLines({ data, parentElement: view, setTriggerValue: (name, row) => pick(view, shown, row) })
  } else {
    const alt = same ? p.alt : `${pictureName(shown, state)}. ${p.either.lines.note}`
    const handle = (name, { row }, drawn) => name === "cell" && pick(view, drawn, row)
    const tallest = Math.max(shown.tallest, innerHeight / zoomOf(view) - AROUND)
    const data = { ...shown, alt, handle, tallest }
    drawTiles({ data, parentElement: view, setTriggerValue: view.send })
  }
  const tiles = view.querySelector(".tiles")
  setLens("matrix", tiles, lined ? null : tiles.look?.boxes[0])
  offerMore(view, state) // after drawing, which measures what is laid out
  describe(view, state, weights)
}

// Choose the token of a row: here, if everything that changes can be drawn here.
function pick(view, { panels: [{ rows }] }, row) {
  const [query] = splitName(rows[row]), drawn = view.p.head.query
  if (!choose({ query: `${query}` }, { query: drawn === null ? null : `${drawn}` }))
    view.send("query", { picture: 0, token: query })
  return true
}

function titleOf({ head: { between }, panels: [{ part: [part] }] }, state) {
  const title = `Layer ${state.layer} · Head ${drawnHeads(state).join(", ")}${between}`
  return part ? `${title}, ${part}` : title
}

// The heads that may be drawn over the chosen head, as toggle buttons.
function offerMore(view, { head, more: all, beside, picture }) {
  const { p, find } = view, row = find("more"), focused = row.getRootNode().activeElement?.value
  row.hidden = picture !== "lines" || p.head.n_head < 2
  row.replaceChildren()
  make("span", row, "More heads")
  for (let n = 0; n < p.head.n_head; n++) {
    if (n === head) continue
    const button = make("button", row, `${n}`), on = beside.includes(n)
    Object.assign(button, { value: n, disabled: !on && beside.length === MOST })
    button.setAttribute("aria-pressed", on)
    button.onclick = () => chooseMore(view, on ? all.filter((other) => other !== n) : [...all, n])
    if (focused === `${n}`) button.focus()
  }
}

function chooseMore(view, heads) {
  const more = (some) => some.join(",") || null
  if (!choose({ more: more(heads) }, { more: more(view.p.head.more) })) view.send("more", heads)
}

// Describe the head, and say why it opened; in text nodes, as tokens are untrusted text.
function describe({ p, find }, state, weights) {
  const { layer, head, query } = state, name = `${layer}.${head}`
  const text = query === p.head.query ? p.head.descriptions[name]
    : describeHead(p.head, weights, state)
  find("description").replaceChildren(make("b", null, `Head ${name}`), `: ${text}`)
  const drawn = layer === p.head.layer && head === p.head.head && current("head", null) === null
  find("reason").textContent = drawn ? p.head.reason : ""
}

export default function ({ data, parentElement, setTriggerValue }) {
  const view = parentElement.querySelector(".head")
  Object.assign(view, { p: readMatrices(data), send: sender(setTriggerValue) })
  view.find = (name) => view.querySelector(`.${name}`)
  takePart(view, {
    offers: (changes) => "zoom" in changes ? offersPart(view.p, changes)
      : offers(view.p, changes, chosen(view.p), weightsOf(view.p.head.numbers)),
    changed: () => draw(view),
  })
  draw(view)
}

// The weights of every head are sent once: their message is the same whichever head is chosen, and
// Streamlit doesn't resend what a browser has.
let stored = { name: "", values: null }, waiting = () => {}

/** The weights (heads of all layers, queries, keys) of that name; null if they haven't arrived. */
export const weightsOf = (name) => name && stored.name === name ? stored.values : null

/** Call `drawn` once other weights are here: the messages may come in any order. */
export const awaitWeights = (drawn) => { waiting = drawn }

function store({ data }) {
  const { head, buffer, at } = openMessage(data)
  stored = { name: head.name, values: new Float32Array(buffer, at) }
  waiting()
}

export const numbers = { default: store }
