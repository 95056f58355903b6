// The map of all heads: a token's row is highlighted in every head, a click chooses a head.

import { setLens } from "./lens.js"
import { isShortcut, make } from "./make.js"
import {
  eventPoint, imageOf, line, paletteOf, penOf, pixels, rgb, showTip, within, zoomOf,
} from "./matrix.js"
import { choose, current, point, sender, sendPending, takePart } from "./state.js"
import { openMessage } from "./matrices.js"

export const html = `
<div class="map" tabindex="0" role="application">
  <svg class="lens" aria-hidden="true"></svg>
  <canvas data-part="canvas"></canvas>
  <div class="tip" data-part="tip" aria-live="polite"></div>
  <div class="links" data-part="links" aria-live="polite"></div>
</div>
`

// The side of the button that switches a head off, in the upper right corner of its square.
const POWER = 18

const GAP = 6, CLOSE = 3, LINE = 14, LARGEST = 180, LOWEST = 320, MARGIN = 24, STRIPE = 4

// Read a message: a JSON header, then every cell's colour as a byte: see `quantize` in canvas.py.
export function read(bytes) {
  const { head, buffer, at: start } = openMessage(bytes)
  return { ...head, cells: new Uint8Array(buffer, start) }
}

/** Every head as the bytes of an image with a pixel per cell. `shades` are the colours of weights
 * from 0 to 1, and `special` those of masked, NaN and infinite cells. */
export function headsOf({ shades, special, layers, heads, rows, columns, cells }) {
  const palette = paletteOf(shades.map(rgb), special), size = rows.length * columns.length
  return Array.from({ length: layers * heads }, (_, head) =>
    pixels(cells.subarray(head * size, (head + 1) * size), columns.length, palette))
}

// Whether two messages paint the same pixels: a click on a head changes none.
export function paintsAlike(a, b) {
  return a.layers === b.layers && a.heads === b.heads && a.cells.length === b.cells.length &&
    a.shades.join() === b.shades.join() && a.cells.every((cell, n) => cell === b.cells[n])
}

// Whether two messages have the same heads and tokens, so that those hovered over still exist.
export function sameTokens(a, b) {
  return a.layers === b.layers && a.heads === b.heads &&
    JSON.stringify(a.tokens) === JSON.stringify(b.tokens)
}

// The layout of heads in a width and a height, in CSS pixels: layers down and heads across, or
// `turned` if there are more layers than heads and this enlarges the heads. A `bare` map names its
// layers by numbers alone; above one with `arrows` are the tokens at which they begin.
export function plan({ layers, heads, bare, arrows = [] }, width, tall) {
  const top = (arrows.length ? 2 * LINE + 6 : LINE) + 4
  const left = bare || width < 480 ? 8 + 8 * `${layers - 1}`.length : 58
  const sideOf = (columns, rows, gap) => Math.max(8, Math.floor(Math.min(
    (width - left) / columns - gap, (tall - top) / rows - gap, LARGEST)))
  const turned = !bare && layers > heads &&
    sideOf(layers, heads, CLOSE) > sideOf(heads, layers, GAP)
  const [columns, rows, gap] = turned ? [layers, heads, CLOSE] : [heads, layers, GAP]
  const side = sideOf(columns, rows, gap), down = side + gap
  const across = Math.min((width - left) / columns, side + 4 * gap)
  const boxes = Array.from({ length: layers * heads }, (_, n) => {
    const [layer, head] = [Math.floor(n / heads), n % heads]
    const [column, row] = turned ? [layer, head] : [head, layer]
    return { x: left + Math.floor(column * across), y: top + row * down }
  })
  return { boxes, side, left, top, turned, height: top + rows * down }
}

// The head at a point of the picture, and the row in it.
export function under({ boxes, side }, rows, x, y) {
  const head = boxes.findIndex((box) =>
    x >= box.x && x < box.x + side && y >= box.y && y < box.y + side)
  return head < 0 ? null : { head, row: Math.floor((y - boxes[head].y) / side * rows) }
}

// Whether a point of the picture is on the head's button.
export const onPower = ({ boxes, side }, head, x, y) =>
  side >= 2 * POWER && x > boxes[head].x + side - POWER && y < boxes[head].y + POWER

// The row of a token: a row of a long text holds several.
export function rowOf(starts, token) {
  const later = starts.findIndex((start) => start > token)
  return (later < 0 ? starts.length : later) - 1
}

// The token of a row: its first, or the chosen token if the row holds it.
export function tokenOf(p, row) {
  return p.token >= 0 && rowOf(p.starts, p.token) === row ? p.token : p.starts[row]
}

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }

// The head that an arrow key leads to, on a map that may be `turned`.
export function step({ layers, heads }, head, key, turned = false) {
  const [down, across] = MOVES[key], [deeper, beside] = turned ? [across, down] : [down, across]
  return within(Math.floor(head / heads) + deeper, layers) * heads +
    within(head % heads + beside, heads)
}

// The token that Page Up and Page Down lead to; from none, the last or the first.
export function turn({ tokens }, token, key) {
  const last = tokens.length - 1
  if (token < 0) return key === "PageUp" ? last : 0
  return Math.min(Math.max(token + (key === "PageUp" ? -1 : 1), 0), last)
}

// The first words of a list that fit into a width.
export function fitting(words, width, measure) {
  let text = ""
  for (const [n, word] of words.entries()) {
    const longer = text ? `${text}  ${word}` : word
    if (measure(n + 1 < words.length ? `${longer} …` : longer) > width) return `${text} …`
    text = longer
  }
  return text
}

/** The token whose row is highlighted: the one hovered over if this text has it, or `p.token`. */
export const lit = ({ p, token }) => token in p.tokens ? token : p.token

function draw(view) {
  const { p, look } = view, style = getComputedStyle(view)
  const pen = penOf(view.canvas, view.wide, look.height, style)
  axisLabels(view, pen)
  const token = lit(view), row = token < 0 ? -1 : rowOf(p.starts, token)
  look.boxes.forEach((box, n) => thumbnail(view, pen, n, row))
  mark(view, pen, p.chosen, view.accent, 3)
  if (view.head >= 0 && view.head !== p.chosen) mark(view, pen, view.head, style.color, 2)
  if (view.head >= 0 && p.power) power(view, pen, view.head, style.color)
  for (const head of p.off ?? []) power(view, pen, head, style.color)
  for (const edge of p.arrows) arrow(view, pen, edge, style.color)
  const box = look.boxes[p.chosen]
  setLens("square", view, { ...box, w: look.side, h: look.side })
}

// The ends of an arrow: it begins within a head, or at the tokens on top, and ends above another.
export function arrowEnds({ boxes, side }, [from, to]) {
  const x = (box) => box.x + side / 2, end = [x(boxes[to]), boxes[to].y - 1]
  return [from < 0 ? [end[0], LINE] : [x(boxes[from]), boxes[from].y + side / 2], end]
}

function arrow({ p, look, background }, pen, edge, text) {
  const [[x, y], [right, low]] = arrowEnds(look, edge), angle = Math.atan2(low - y, right - x)
  const wing = (by) => pen.lineTo(right - 9 * Math.cos(angle + by), low - 9 * Math.sin(angle + by))
  for (const [color, width] of [[background, 6], [p.frame, 2.5]]) {
    pen.strokeStyle = color
    pen.lineWidth = width
    pen.beginPath()
    pen.moveTo(x, y)
    pen.lineTo(right, low)
    wing(.45)
    pen.moveTo(right, low)
    wing(-.45)
    pen.stroke()
  }
  const wide = pen.measureText(edge[2]).width + 8
  const middle = [edge[0] < 0 ? x + wide / 2 + 8 : (x + right) / 2, (y + low) / 2]
  pen.fillStyle = background
  pen.fillRect(middle[0] - wide / 2, middle[1] - LINE / 2 - 1, wide, LINE + 2)
  pen.lineWidth = 1
  pen.strokeRect(middle[0] - wide / 2, middle[1] - LINE / 2 - 1, wide, LINE + 2)
  pen.fillStyle = text
  pen.textAlign = "center"
  pen.fillText(edge[2], middle[0], middle[1] + 1)
}

function thumbnail({ p, look, images: drawn, background }, pen, n, row) {
  const { x, y } = look.boxes[n], { side, cell } = look
  pen.drawImage(drawn[n], x, y, side, side)
  if (row >= 0) {
    pen.globalAlpha = .8
    pen.fillStyle = background
    pen.fillRect(x, y, side, side)
    pen.globalAlpha = 1
    const high = Math.max(cell, STRIPE)
    const top = Math.min(Math.max(y, y + (row + .5) * cell - high / 2), y + side - high)
    pen.drawImage(drawn[n], 0, row, p.columns.length, 1, x, top, side, high)
  }
  if (p.off?.includes(n)) {
    pen.globalAlpha = .8
    pen.fillStyle = p.line
    pen.fillRect(x, y, side, side)
    pen.globalAlpha = 1
  }
  pen.lineWidth = 1
  pen.strokeStyle = p.line
  pen.strokeRect(x - .5, y - .5, side + 1, side + 1)
}

// Draw the button that switches a head off or on: a power symbol on a muted background.
function power({ look, background }, pen, head, color) {
  const { x, y } = look.boxes[head], middle = [x + look.side - POWER / 2, y + POWER / 2]
  if (look.side < 2 * POWER) return
  pen.fillStyle = background
  pen.fillRect(x + look.side - POWER, y, POWER, POWER)
  pen.strokeStyle = pen.fillStyle = color
  pen.lineWidth = 1.5
  pen.beginPath()
  pen.arc(...middle, 5, -Math.PI / 3, Math.PI * 4 / 3)
  pen.stroke()
  line(pen, [middle[0], middle[1] - 6], [middle[0], middle[1] - 1])
}

function mark({ look }, pen, head, color, width) {
  const { x, y } = look.boxes[head], { side } = look, off = width / 2 + .5
  pen.lineWidth = width
  pen.strokeStyle = color
  pen.strokeRect(x - off, y - off, side + 2 * off, side + 2 * off)
}

// Draw the names of layers and heads, and the tokens that arrows begin at.
function axisLabels({ p, look, wide }, pen) {
  const { boxes, side, left, top, turned } = look
  const measure = (text) => pen.measureText(text).width
  pen.textBaseline = "middle"
  pen.textAlign = "left"
  if (p.arrows.length)
    pen.fillText(fitting(["Tokens:", ...p.tokens], wide - left, measure), left, LINE / 2 + 1)
  const layers = boxes.filter((_, n) => n % p.heads === 0), heads = boxes.slice(0, p.heads)
  const [down, across] = turned ? ["Head", "Layer"] : ["Layer", "Head"]
  const [rows, columns] = turned ? [heads, layers] : [layers, heads]
  const fits = measure(`${down} ${rows.length - 1}`) < left - 8, middle = top - LINE / 2 - 3
  pen.textAlign = "right"
  rows.forEach(({ y }, n) => pen.fillText(fits ? `${down} ${n}` : n, left - 8, y + side / 2))
  if (turned && fits) pen.fillText(across, left - 8, middle)
  pen.textAlign = "center"
  columns.forEach(({ x }, n) =>
    pen.fillText(!n && measure(`${across} 0`) < side ? `${across} 0` : n, x + side / 2, middle))
  pen.strokeStyle = pen.fillStyle
  for (const group of groupsOf(p)) bracket(pen, look, group)
}

// The first and last head of each group that shares keys and values.
export function groupsOf({ heads, groups = heads }) {
  const size = heads / groups
  return size > 1 ? Array.from({ length: groups }, (_, n) => [n * size, (n + 1) * size - 1]) : []
}

// Draw the bracket beside the names of a group's heads.
function bracket(pen, { boxes, side, left, top, turned }, group) {
  const [a, b] = group.map((head) => boxes[head]), [x, y] = [left - 3.5, top - 3.5]
  if (turned) line(pen, [x - 2, a.y], [x, a.y], [x, b.y + side], [x - 2, b.y + side])
  else line(pen, [a.x, y - 2], [a.x, y], [b.x + side, y], [b.x + side, y - 2])
}

/** A head's name. */
export const headName = ({ heads }, head) => `${Math.floor(head / heads)}.${head % heads}`

// List the heads with the token's strongest links, in text nodes only: tokens are untrusted text.
function list(view) {
  const { p, links } = view, token = lit(view)
  links.hidden = !p.links && !p.hint
  if (token < 0 || !p.links) return links.replaceChildren(p.hint)
  const focused = [...links.querySelectorAll("button")].indexOf(links.getRootNode().activeElement)
  const buttons = p.links[token].map(([head, key, weight]) => {
    const button = make("button")
    make("b", button, headName(p, head))
    button.append(` → ${(p.keys ?? p.tokens)[key]} ${weight}`)
    make("span", button, "; ")
    button.onclick = () => chooseHead(view, head)
    button.onpointerenter = () => pointAt(view, head, token)
    return button
  })
  links.replaceChildren("Strongest from ", make("b", null, p.tokens[token]),
    buttons.length ? p.lead : p.none, ...buttons)
  buttons[focused]?.focus()
}

// Highlight the head and token hovered over or reached with the keyboard; −1 for none.
function pointAt(view, head, token) {
  if (view.head === head && view.token === token) return
  lightUp(view, head, token)
  const at = head < 0 ? {} : layerAndHead(view.p, head)
  point({ query: view.p.positions[token] ?? null, ...at }, view)
}

function lightUp(view, head, token) {
  const same = lit(view) === (token < 0 ? view.p.token : token)
  Object.assign(view, { head, token })
  draw(view)
  if (!same) list(view)
  const { p, tip } = view
  tip.textContent = head < 0 ? ""
    : `Layer ${Math.floor(head / p.heads)} · Head ${head % p.heads}` +
      (token < 0 ? "" : `\nfrom ${p.tokens[token]}`)
  tip.style.display = "none"
  if (head < 0) return
  showTip(tip, view, { ...view.look.boxes[head], w: view.look.side })
}

const layerAndHead = ({ heads }, head) => ({ layer: Math.floor(head / heads), head: head % heads })
const texts = (numbers) =>
  Object.fromEntries(Object.entries(numbers).map(([name, n]) => [name, `${n}`]))

// Choose a head or a token here if everything that changes can be drawn here. It is marked at
// once: a busy server may take a while to draw the rest.
function chooseHead(view, head, token = -1) {
  const { p, drawn } = view, at = (where, n) =>
    ({ ...layerAndHead(p, where), ...n < 0 ? {} : { query: p.positions[n] } })
  const changes = at(head, token)
  if (choose(texts(changes), { query: null, ...texts(at(drawn.chosen, drawn.token)) })) return
  p.chosen = head
  if (token >= 0) p.token = token
  draw(view)
  view.send("head", changes)
}

// The chosen head and token, by their indices in the map.
function chosenNow({ p, drawn }) {
  const shown = layerAndHead(p, drawn.chosen)
  const [layer, head] = ["layer", "head"].map((name) => Number(current(name, shown[name])))
  const chosen = layer < p.layers && head < p.heads ? layer * p.heads + head : drawn.chosen
  const token = Number(current("query", drawn.token) ?? -1)
  return { chosen, token: token < p.tokens.length ? token : drawn.token }
}

function walk(view, event) {
  const { p } = view, head = view.head < 0 ? p.chosen : view.head
  if (event.target !== view && !MOVES[event.key]) return
  if (isShortcut(event)) return
  if (event.key === "Escape") pointAt(view, -1, -1)
  else if (event.key === "Enter" || event.key === " ") chooseHead(view, head, view.token)
  else if (event.key === "o") view.send("open", headName(p, head))
  else if (event.key === "p" && p.power) view.send("power", headName(p, head))
  else if (MOVES[event.key])
    pointAt(view, view.head < 0 ? head : step(p, head, event.key, view.look.turned), view.token)
  else if (event.key === "PageUp" || event.key === "PageDown")
    pointAt(view, head, turn(p, lit(view), event.key))
  else return
  event.preventDefault()
}

function listen(view) {
  const { canvas } = view
  const headAt = (event) => under(view.look, view.p.rows.length, ...eventPoint(event))
  canvas.onpointermove = (event) => {
    const target = headAt(event)
    canvas.style.cursor = target ? "pointer" : "default"
    pointAt(view, target ? target.head : -1, target ? tokenOf(view.p, target.row) : -1)
  }
  canvas.onpointerleave = view.links.onpointerleave = () => pointAt(view, -1, -1)
  canvas.onclick = (event) => {
    const target = headAt(event)
    if (target && view.p.power && onPower(view.look, target.head, ...eventPoint(event)))
      view.send("power", headName(view.p, target.head))
    else if (target) chooseHead(view, target.head)
  }
  view.onkeydown = (event) => walk(view, event)
  view.addEventListener("focusout", ({ target, relatedTarget }) =>
    view.contains(relatedTarget ?? (target === view ? null : target)) || pointAt(view, -1, -1))
  view.onfocus = () => view.matches(":focus-visible") && sendPending() // for its text alternative
  view.resize = () => sized(view)
  new ResizeObserver(() => view.clientWidth !== view.wide && sized(view)).observe(view)
  addEventListener("resize", view.resize)
}

// Fit the map into the window's height below its top edge.
function sized(view) {
  const { p } = view, page = view.getRootNode().host?.closest(".stMain")
  view.wide = view.clientWidth
  if (!view.wide) return
  const top = (view.getBoundingClientRect().top + (page?.scrollTop ?? scrollY)) / zoomOf(view)
  const tall = Math.max(LOWEST, innerHeight / zoomOf(view) - top - view.links.offsetHeight - MARGIN)
  view.look = plan(p, view.wide, p.tallest ?? tall)
  view.look.cell = view.look.side / p.rows.length
  const wide = view.look.side / p.columns.length
  for (const box of view.look.boxes) Object.assign(box, { cw: wide, ch: view.look.cell })
  draw(view)
}

export default function ({ data, parentElement, setTriggerValue }) {
  const view = parentElement.querySelector(".map")
  const known = view.p, p = view.p = data.cells ? data : read(data), { chosen, token } = p
  Object.assign(view, { send: sender(setTriggerValue), drawn: { chosen, token } })
  Object.assign(p, chosenNow(view))
  if (!known || !paintsAlike(known, p))
    view.images = headsOf(p).map((bytes) => imageOf(bytes, p.columns.length))
  view.setAttribute("aria-label", p.alt)
  if (!known) {
    for (const name of ["canvas", "tip", "links"])
      view[name] = view.querySelector(`[data-part=${name}]`)
    Object.assign(view, { head: -1, token: -1 })
    view.dataset.here = ""
    listen(view)
    if (document.fonts.status !== "loaded") document.fonts.ready.then(() => sized(view))
  }
  takePart(view, { changed: () => {
    Object.assign(view.p, chosenNow(view))
    list(view)
    sized(view)
  }, pointed: ({ query }) =>
    lightUp(view, -1, query === null ? -1 : rowOf(view.p.positions, query)) })
  const style = getComputedStyle(view)
  view.background = style.getPropertyValue("--st-background-color")
  view.accent = style.getPropertyValue("--st-primary-color")
  if (known && !sameTokens(known, p)) {
    Object.assign(view, { head: -1, token: -1 })
    view.tip.style.display = "none"
  }
  list(view)
  sized(view)
  return () => removeEventListener("resize", view.resize)
}
