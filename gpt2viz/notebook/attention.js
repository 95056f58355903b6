// Attention in a file: the map of all heads and the chosen head, drawn by the app's own scripts.

import { bitsOf, inflated, legendOf, lineData, overPicture } from "../app/scripts/matrices.js"
import { rgb } from "../app/scripts/matrix.js"
import { edges, pooled } from "../app/scripts/pooling.js"

// Cells along a side of the large picture.
const LARGEST = 256
// Codes of −∞, NaN and ∞: see stored.py.
const NONE = 65533, NONES = [-Infinity, NaN, Infinity]

// One head's numbers from a layer's bytes: float32, or low and high bytes of codes.
export function numbers(bytes, { rows, columns, low, step }, heads, head) {
  const size = rows * columns, start = head * size, high = heads * size + start
  if (!step) return new Float32Array(bytes.buffer, 4 * start, size)
  return Float32Array.from({ length: size }, (_, n) => {
    const code = bytes[start + n] + 256 * bytes[high + n]
    return code < NONE ? low + step * code : NONES[code - NONE]
  })
}

// The part of an axis that is shown: the edges of the drawn blocks, counted in stored cells, and
// the token that each block begins with.
export function side(count, stored, [first, last]) {
  const all = edges(count, stored)
  const from = all.findLastIndex((edge) => edge <= first), to = all.findIndex((edge) => edge > last)
  const cells = edges(to - from, LARGEST).map((edge) => from + edge)
  return { cells, tokens: cells.map((cell) => all[cell]) }
}

// The block that contains a token; −1 if none does.
export function blockOf({ tokens }, token) {
  return token < tokens[0] ? -1 : Math.max(0, tokens.findIndex((edge) => edge > token)) - 1
}

const namesOf = ({ tokens }, names) => tokens.slice(0, -1).map((token) => names[token])
const span = (edge, { tokens }) => [tokens[edge], tokens[edge + 1] - 1]

// The layer's bytes; the last two layers drawn stay in the cache.
function layerOf(view, layer) {
  const { cache } = view, bytes = cache.get(layer) ?? view.bytesOf(layer)
  cache.delete(layer)
  cache.set(layer, bytes)
  if (cache.size > 2) cache.delete(cache.keys().next().value)
  return bytes
}

function drawMap(view) {
  const { map, chosen, token, colors, cells, page } = view
  const data = { ...map, ...colors.map, chosen, token, cells }
  view.draw.map({ data, parentElement: page, setTriggerValue: (name, sent) => {
    const head = name === "open" ? sent.split(".").map(Number) : [sent.layer, sent.head]
    view.chosen = head[0] * map.heads + head[1]
    if (sent.query >= 0) view.token = sent.query
    report(view, sent.query ?? null)
    show(view)
    if (name === "open") page.querySelector(".tiles").focus()
  } })
}

async function drawHead(view) {
  const { map, chosen } = view, layer = Math.floor(chosen / map.heads), head = chosen % map.heads
  const bytes = await layerOf(view, layer)
  if (view.chosen !== chosen) return // another head was chosen meanwhile
  const stored = view.layers[layer], { queries, keys, part } = view
  const down = side(queries.length, stored.rows, part[0])
  const across = side(keys.length, stored.columns, part[1])
  const blocked = pooled(numbers(bytes, stored, map.heads, head), hiddenIn(view, stored),
    stored.columns, down.cells, across.cells)
  Object.assign(view, { down, across })
  const blocks = [down, across].some(({ tokens }) => tokens.length - 1 < tokens.at(-1) - tokens[0])
  const data = dataOf(view, { layer, head, blocks, ...blocked })
  offer(view, blocks)
  describeBlocks(view, stored, blocks)
  if (view.lined && !blocks) drawLines(view, data)
  else view.draw.tiles({ data, parentElement: view.page,
    setTriggerValue: (name, sent) => (name === "cell" ? pin : zoom)(view, sent) })
}

const titleOf = ({ layer, head }) => `Layer ${layer} · Head ${head}`

// The same numbers as lines; only for a part whose cells are single tokens.
function drawLines(view, p) {
  const { page, lines, colors } = view, [{ title, part: [part] }] = p.panels
  page.querySelector("[data-part=title]").textContent = part ? `${title}, ${part}` : title
  const look = { ...lines, colors: colors.lines, shows: title, alt: `${title}. ${lines.alt}` }
  view.draw.lines({ data: lineData(p, [0], [title], look), parentElement: page,
    setTriggerValue: (_, row) => pin(view, { row }) })
}

// The button between matrix and lines, and whichever of the two is drawn.
function offer(view, blocks) {
  const { page, lines } = view, lined = view.lined && !blocks
  const button = page.querySelector("[data-part=as]")
  button.hidden = !lines
  button.disabled = blocks
  button.textContent = blocks ? "Lines: of 256 tokens or fewer" : lined ? "Matrix" : "Lines"
  page.querySelector(".tiles").hidden = lined
  page.querySelector(".lines").hidden = !lined
}

function turnInto(view) {
  if (!view.lines) return
  view.lined = !view.lined
  show(view)
}

// The bytes of a picture of this size, each pixel mixed with the colour of its patch's share of the
// largest number: the larger the share, the stronger.
export function heated({ width, height, rows, columns, pixels }, row, shades, wide, high) {
  const largest = Math.max(...row), bytes = new Uint8ClampedArray(4 * wide * high).fill(255)
  const shares = row.map((number) => Math.max(0, number / largest) || 0)
  const colors = shares.map((share) => rgb(shades[Math.round(share * (shades.length - 1))]))
  for (let y = 0, at = 0; y < high; y++)
    for (let x = 0; x < wide; x++, at += 4) {
      const patch = Math.floor(y * rows / high) * columns + Math.floor(x * columns / wide)
      const from = 3 * (Math.floor(y * height / high) * width + Math.floor(x * width / wide))
      const part = .15 + .6 * shares[patch]
      for (let i = 0; i < 3; i++)
        bytes[at + i] = (1 - part) * pixels[from + i] + part * colors[patch][i]
    }
  return bytes
}

// The picture's canvases, a large one and one for every head: the pointer shows a patch's number,
// and a click chooses the patch as a query, or the head.
function setUpPicture(view) {
  const { page, picture, map, queries, keys } = view, { width, height, rows, columns } = picture
  page.querySelector(".over").hidden = false
  const canvas = (part, wide, onclick) => {
    const made = page.createElement("canvas"), high = Math.round(wide * height / width)
    page.querySelector(`[data-part=${part}]`).append(made)
    return Object.assign(made, { width: wide, height: high, role: "img", onclick })
  }
  const patchAt = ({ offsetX, offsetY, target: { clientWidth, clientHeight } }) =>
    Math.min(columns - 1, Math.floor(offsetX / clientWidth * columns)) +
    Math.min(rows - 1, Math.floor(offsetY / clientHeight * rows)) * columns
  picture.large = canvas("large", width, (event) => queries.length === keys.length &&
    choose(view, view.chosen, picture.keys[patchAt(event)]))
  picture.large.onpointermove = (event) => {
    const patch = patchAt(event), number = picture.row[patch].toPrecision(3)
    page.querySelector("[data-part=patch]").textContent =
      `${picture.large.title}. ${keys[picture.keys[patch]]}: ${number}`
  }
  picture.small = Array.from({ length: map.layers * map.heads }, (_, n) =>
    canvas("small", 64, () => choose(view, n, view.token)))
  picture.small[0].parentNode.style.gridTemplateColumns = `repeat(${map.heads}, minmax(0, 6rem))`
}

// Draw the chosen query's row over the picture: small for every head, large for the chosen one.
async function drawPicture(view) {
  const { page, picture, map, colors, queries, keys, chosen } = view
  const turn = picture.turn = {}, query = view.token < 0 ? picture.query : view.token
  for (const [n, small] of picture.small.entries()) {
    const layer = Math.floor(n / map.heads), head = n % map.heads, stored = view.layers[layer]
    const all = numbers(await layerOf(view, layer), stored, map.heads, head)
    if (picture.turn !== turn) return // something else was chosen meanwhile
    const start = stored.columns * blockOf({ tokens: edges(queries.length, stored.rows) }, query)
    const across = { tokens: edges(keys.length, stored.columns) }
    const row = picture.keys.map((key) => all[start + blockOf(across, key)])
    for (const canvas of n === chosen ? [picture.large, small] : [small]) {
      const made = heated(picture, row, colors.map.shades, canvas.width, canvas.height)
      canvas.getContext("2d").putImageData(new ImageData(made, canvas.width), 0, 0)
      canvas.ariaLabel = canvas.title = `${titleOf({ layer, head })}, from ${queries[query]}`
    }
    if (n === chosen) picture.row = row
  }
  page.querySelector("[data-part=patch]").textContent = picture.large.title
}

// Tells whether a stored cell is hidden, be it one token's or a block's.
function hiddenIn({ hidden, queries, keys }, { rows, columns }) {
  if (!hidden) return () => false
  const full = rows === queries.length && columns === keys.length
  return full ? hidden.whole : hidden.blocks
}

// The data of the large picture.
function dataOf(view, { layer, head, blocks, hidden, shown }) {
  const { large, colors, token, down, across, queries, keys } = view, { special } = colors.large
  const row = blockOf(down, token), rows = namesOf(down, queries), columns = namesOf(across, keys)
  const values = Float32Array.from(shown), title = titleOf({ layer, head })
  const panel = { ...large.grids[0], ...large.panels[0], title, name: title, part: partOf(view),
    rows, columns, rowEnds: rows, columnEnds: columns, square: queries.length === keys.length,
    frame: row < 0 ? null : [row, row, 0, columns.length - 1], start: 0,
    quantity: blocks ? `${view.ofBlock} of this block:` : large.panels[0].quantity }
  return { ...large, ...colors.large, panels: [panel], values, masked: (n) => hidden[n],
    legend: legendOf(special, [special[0].name], { values, hidden, starts: [0] }),
    tallest: Math.max(240, Math.min(innerHeight - 230, 640)) }
}

// The tokens that are shown, in a long and a short form; empty if all are.
function partOf({ part, whole }) {
  if (String(part) === String(whole)) return []
  const [[a, b], [c, d]] = part
  return overPicture([a, b + 1, c, d + 1], true)
}

// Report the choice to the notebook, now or when its port arrives; see `listenForPort`.
function report(view, query, key = null) {
  const { map: { heads }, chosen, port } = view
  view.selection = [Math.floor(chosen / heads), chosen % heads, query, key]
  port?.postMessage(view.selection)
}

/** A click on a cell lights its query in every head, a second click undoes that.
 * @param {any} view @param {{row: number, column?: number}} cell */
function pin(view, { row, column }) {
  const [token] = span(row, view.down), now = view.token
  report(view, token, column === undefined ? null : span(column, view.across)[0])
  view.token = now >= 0 && blockOf(view.down, now) === row ? -1 : token
  show(view)
}

function zoom(view, { rows, columns }) {
  const between = ([first, last], axis) => [span(first, axis)[0], span(last, axis)[1]]
  if (rows[0] > rows[1] || columns[0] > columns[1]) return
  view.part = [between(rows, view.down), between(columns, view.across)]
  show(view)
}

// Say what a cell stands for, and show the button back to the whole.
function describeBlocks(view, { rows, columns }, blocks) {
  const { page, queries, keys, down, across } = view
  const cells = ({ tokens }) => Math.ceil((tokens.at(-1) - tokens[0]) / (tokens.length - 1))
  const complete = rows === queries.length && columns === keys.length
  page.querySelector("[data-part=part]").textContent = !blocks ? ""
    : `Each cell shows the ${view.ofBlock} of a block of up to ${cells(down)} × ${cells(across)}. `
      + (complete ? "Drag over a part to enlarge it." : "This file keeps no more of this layer.")
  page.querySelector("[data-part=back]").hidden = !partOf(view).length
}

function show(view) {
  drawMap(view)
  return Promise.all([drawHead(view), view.picture && drawPicture(view)])
}

function choose(view, chosen, token) {
  Object.assign(view, { chosen, token })
  report(view, token < 0 ? null : token)
  return show(view)
}

// A notebook that frames the page may send it a port, on which it receives the choices.
function listenForPort(view) {
  addEventListener("message", ({ source, ports: [port] }) => {
    if (source !== parent || !port) return
    view.port = port
    if (view.selection) port.postMessage(view.selection)
  })
}

// Give the page the colours of a scheme.
function paint(view, dark) {
  view.colors = view.schemes[dark ? "dark" : "light"]
  for (const [name, color] of Object.entries(view.colors.page))
    view.page.documentElement.style.setProperty(`--st-${name}`, color)
}

// The attention in the file.
async function attentionIn(page) {
  const text = (part) => page.querySelector(`[data-part=${part}]`)?.text
  const hidden = text("whole") &&
    { whole: bitsOf(await inflated(text("whole"))), blocks: bitsOf(await inflated(text("blocks"))) }
  const about = JSON.parse(text("about"))
  if (about.picture) about.picture.pixels = await inflated(text("pixels"))
  return { ...about, cells: await inflated(text("map")), hidden,
    bytesOf: (layer) => inflated(page.querySelector(`[data-layer="${layer}"]`).text) }
}

/** Draw `attention`, by default the file's, and later choices in it; return the view, and a
 * function that draws other attention instead.
 * @param {any} attention */
export default async function (page, draw, attention = null) {
  const view = { page, draw, lined: false, cache: new Map() }
  const replace = (next) => {
    const { queries, keys } = next
    const whole = [[0, queries.length - 1], [0, keys.length - 1]]
    Object.assign(view, next, { whole, part: whole })
    view.cache.clear()
    return show(view)
  }
  listenForPort(view)
  const first = attention ?? await attentionIn(page)
  const dark = matchMedia("(prefers-color-scheme: dark)") // a notebook may set the scheme
  view.schemes = first.schemes
  dark.addEventListener("change", () => {
    paint(view, dark.matches)
    show(view)
  })
  paint(view, dark.matches)
  page.querySelector("[data-part=as]").onclick = () => turnInto(view)
  page.addEventListener("keydown", ({ key, target, ctrlKey, altKey, metaKey }) => key === "l" &&
    !(ctrlKey || altKey || metaKey || target.matches("input, select")) && turnInto(view))
  page.querySelector("[data-part=back]").onclick = () => {
    view.part = view.whole
    show(view)
  }
  if (first.picture) setUpPicture(Object.assign(view, first))
  await replace(first)
  return { view, replace }
}
