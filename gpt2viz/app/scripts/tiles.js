// Matrices on one canvas: values by pointer and keyboard, clicks on cells, and drags that select a
// part.

import { isShortcut, make } from "./make.js"
import {
  codeOf, cut, eventPoint, FONT, imageOf, line, paletteOf, penOf, pixels, shade, showTip,
  cellState, upwards, within,
} from "./matrix.js"
import { crop, partInWords, parsePart, readMatrices, formatPart, draggedPart } from "./matrices.js"
import { choose, current, sender, sendPending, takePart } from "./state.js"

export const html = `
<div class="tiles" tabindex="0" role="application">
  <canvas data-part="canvas"></canvas>
  <div class="at" data-part="frame"></div>
  <div class="drag" data-part="band"></div>
  <div class="tip" data-part="tip" aria-live="polite"></div>
</div>
`

const GAP = 10, ROW = 13, READABLE = 11, BAR = 64, LARGEST = 110, NARROWEST = 64

// Colours from one end of a scale to the other.
const SHADES = 1024

const stateIn = ({ values, masked }, n) => cellState(values[n], masked(n))

function paletteIn({ scale, special }) {
  const shades = Array.from({ length: SHADES }, (_, n) => shade(scale, n / (SHADES - 1)))
  return paletteOf(shades, special.map(({ color, other }) => [color, other]))
}

function codesOf(p, palette, { start, rows, columns, low, high }) {
  return Uint16Array.from({ length: rows.length * columns.length }, (_, n) =>
    codeOf(palette, (p.values[start + n] - low) / (high - low), stateIn(p, start + n)))
}

/** The codes and pixels of every panel's cells; none for a panel without numbers. */
export function painted(p, palette = paletteIn(p)) {
  return p.panels.map((panel) => {
    const { rows, columns, empty } = panel, codes = empty ? [] : codesOf(p, palette, panel)
    const square = Math.max(1, Math.floor(Math.max(rows.length, columns.length) / p.squares))
    return { codes, bytes: pixels(codes, columns.length, palette, square) }
  })
}

// Break a title into lines that fit.
export function wrapped(title, room, measure) {
  return title.split("\n").flatMap((part) => {
    const lines = []
    for (const word of part.split(" ")) {
      const longer = lines.length ? `${lines.at(-1)} ${word}` : word
      if (lines.length && measure(longer) <= room) lines.splice(-1, 1, longer)
      else lines.push(word)
    }
    return lines
  }).filter(Boolean)
}

const longest = (names, measure) => Math.max(0, ...names.map(measure))

// Which names a panel shows: its rows', unless the panel to its left has the same, and its
// columns', unless the panel below has the same.
function shownNames({ panels }, n, across) {
  const same = (other) => panels[other]?.grid === panels[n].grid
  return { first: n % across === 0 || !same(n - 1), last: !same(n + across) }
}

// An end of a range.
const short = (value) => String(Number(value.toPrecision(3))).replace("-", "−")

// The room of a colour bar, whose name is beside its numbers if it is longer than the bar.
const barRoom = ({ low, high }, measure) =>
  Math.max(BAR, 46 + longest([low, high].map(short), measure))

// The left edges of `across` panels side by side, and the largest width of each.
function slots(p, room, across, rooms) {
  const left = Array.from({ length: across }, (_, column) => Math.max(0,
    ...rooms.filter((_room, n) => n % across === column && shownNames(p, n, across).first)))
  const sum = (lengths) => lengths.reduce((a, b) => a + b, 0)
  const slot = (room - sum(left) - GAP * (across - 1)) / across
  return { slot: Math.max(20, slot), across,
    edges: left.map((_, n) => sum(left.slice(0, n + 1)) + n * (slot + GAP)) }
}

// The layout in CSS pixels; `measure` returns a text's width. With little room, fewer panels than
// requested are side by side: a row is split into equal parts, so that none begins within another.
export function plan(p, width, measure) {
  const { panels } = p, rooms = panels.map(({ rowEnds }) =>
    rowEnds.length ? longest(rowEnds, measure) + ROW + 12 : 1)
  const room = width - (p.bar ? barRoom(panels[0], measure) : 2)
  let count = Math.min(p.across, panels.length), fits = slots(p, room, count, rooms)
  while (count > 1 && fits.slot < NARROWEST) {
    do count -= 1; while (panels.length > p.across && p.across % count)
    fits = slots(p, room, count, rooms)
  }
  const { slot, across, edges } = fits
  const all = panels.map((panel, n) => {
    const part = panel.part.find((name) => measure(name) < slot) ?? panel.part.at(-1)
    return { ...shownNames(p, n, across), ...size(panel, slot, p.tallest, measure), names: rooms[n],
      x: edges[n % across], title: [...wrapped(panel.title, slot, measure), part,
        p.ranged && `${short(panel.low)} to ${short(panel.high)}`].filter(Boolean) }
  })
  let y = 0
  for (let n = 0; n < all.length; n += across) {
    const boxes = all.slice(n, n + across), most = (lengthOf) => Math.max(...boxes.map(lengthOf))
    const title = 7 + ROW * most((box) => box.title.length)
    for (const box of boxes) box.y = y + title
    y += title + most(({ h }) => h) + 4
    y += most(({ last, labelHeight: high }) => last && high ? high + ROW + 8 : 0)
  }
  return { boxes: all, height: y + (p.legend.length ? ROW + 9 : 0), across }
}

// The sides of a panel and of its cells, which are square if rows and columns are of one kind; and
// whether the names below are vertical, with the room that they take.
function size({ rows, columns, columnEnds, square }, slot, tallest, measure) {
  const names = longest(columnEnds, measure)
  let cw = Math.min(slot / columns.length, LARGEST), ch = Math.min(tallest / rows.length, LARGEST)
  if (square) cw = ch = Math.min(cw, ch)
  const upright = names > cw - 4 && names > 2 * ROW
  const w = cw * columns.length, h = ch * rows.length
  return { cw, ch, w, h, upright, labelWidth: names,
    labelHeight: upright ? names : columnEnds.length && ROW }
}

function draw(view) {
  const { p, canvas } = view, width = view.clientWidth
  if (!width) return
  const style = getComputedStyle(view), type = (px) => `${px}px ${style.fontFamily}`
  const measures = canvas.getContext("2d")
  measures.font = type(FONT)
  const look = view.look = plan(p, width, (name) => measures.measureText(name).width)
  const pen = penOf(canvas, width, look.height, style)
  legend(pen, p, look)
  if (p.bar) colorBar(pen, p, look)
  p.panels.forEach((panel, n) => {
    const box = look.boxes[n], { codes, image } = view.cells[n], texts = textsOf(p, panel)
    if (image) pen.drawImage(image, box.x, box.y, box.w, box.h)
    const font = fontFor(texts, box, (text) => pen.measureText(text).width, panel.words?.length > 0)
    pen.lineWidth = 1
    pen.strokeStyle = p.line
    if (font) {
      pen.font = type(font)
      numbers(pen, texts, panel, box, (cell) => view.palette.inks[codes[cell]])
      pen.font = type(FONT)
    } else if (!panel.square && !panel.empty) between(pen, panel, box)
    pen.strokeStyle = p.line
    pen.fillStyle = style.color
    pen.strokeRect(box.x - .5, box.y - .5, box.w + 1, box.h + 1)
    titles(pen, panel, box)
    axisLabels(pen, panel, box)
    marks(pen, p, panel, box, style.color)
  })
}

// The font size at which these texts are legible in the cells of a box, 0 if there is none. Words
// can be cut.
export function fontFor(texts, { cw, ch }, measure, words = false) {
  const fits = Math.min(FONT, ch - 3, FONT * (cw - 3) / longest(texts, measure))
  const font = Math.max(words ? READABLE : 0, Math.floor(fits * 2) / 2)
  return texts.length && font >= READABLE ? font : 0
}

// The texts in the cells of a panel, row by row: words, or numbers if there are few.
function textsOf(p, { start, rows, columns, empty, words }) {
  if (words?.length) return words
  if (empty || columns.length > p.numbers) return []
  return Array.from({ length: rows.length * columns.length }, (_, n) => numberText(p, start + n))
}

// A cell's number as text, or a symbol if it isn't one. A number that rounds to 0 gets no minus
// sign, except where the sign is all that is shown.
export function numberText(p, n) {
  const state = stateIn(p, n), value = p.values[n]
  if (state) return p.special[state - 1].sign
  const text = value.toFixed(p.decimals), unsigned = !p.plus && Number(text) === 0
  return (p.plus && value >= 0 ? "+" : "") + text.replace("-", unsigned ? "" : "−")
}

function numbers(pen, texts, { columns, words }, { x, y, cw, ch }, inkOf) {
  pen.textAlign = "center"
  pen.textBaseline = "middle"
  const measure = (word) => pen.measureText(word).width
  if (!words?.length && texts.some((text) => measure(text) > cw - 3)) return // they would touch
  texts.forEach((text, n) => {
    const left = x + n % columns.length * cw, above = y + Math.floor(n / columns.length) * ch
    pen.fillStyle = inkOf(n)
    pen.fillText(words?.length ? cut(text, cw - 4, measure) : text, left + cw / 2, above + ch / 2)
    pen.strokeRect(left, above, cw, ch)
  })
}

// Draw a thin line between rows, so that equal rows can be distinguished.
function between(pen, { rows }, { x, y, w, ch }) {
  for (let n = 1; ch >= 8 && n < rows.length; n++) line(pen, [x, y + n * ch], [x + w, y + n * ch])
}

// Draw frames around the chosen cells and around groups, and rules from edge to edge.
function marks(pen, p, { rows, columns, frame, empty }, { x, y, w, h, cw, ch }, text) {
  const around = ([top, bottom, first, last]) => pen.strokeRect(x + first * cw, y + top * ch,
    (last - first + 1) * cw, (bottom - top + 1) * ch)
  pen.strokeStyle = text
  for (const after of p.rules[0]) line(pen, [x, y + after * ch], [x + w, y + after * ch])
  for (const after of p.rules[1]) line(pen, [x + after * cw, y], [x + after * cw, y + h])
  pen.strokeStyle = p.frame
  pen.lineWidth = 2
  p.frames.forEach(around)
  pen.lineWidth = Math.max(rows.length, columns.length) <= 24 ? 2.5 : 1
  if (frame && !empty) around(frame)
}

function titles(pen, { empty }, { x, y, w, h, title }) {
  pen.textAlign = "center"
  pen.textBaseline = "alphabetic"
  title.forEach((text, n) => pen.fillText(text, x + w / 2, y - 5 - ROW * (title.length - 1 - n)))
  const lines = empty.split("\n"), top = y + h / 2 + ROW / 3 - ROW * (lines.length - 1) / 2
  lines.forEach((text, n) => pen.fillText(text, x + w / 2, top + ROW * n))
}

// The number between the ends is drawn where the scale's name is: only if both fit.
export function colorBar(pen, p, { boxes, across }) {
  const { y, h } = boxes[0], { low, high } = p.panels[0]
  const x = Math.max(...boxes.slice(0, across).map((box) => box.x + box.w)) + 14
  const shades = pen.createLinearGradient(0, y + h, 0, y)
  for (const [stop, color] of p.scale) shades.addColorStop(stop, color)
  const text = pen.fillStyle
  pen.fillStyle = shades
  pen.fillRect(x, y, 10, h)
  pen.fillStyle = text
  pen.strokeStyle = p.line
  pen.strokeRect(x, y, 10, h)
  pen.textAlign = "left"
  pen.textBaseline = "middle"
  const long = pen.measureText(p.bar).width, fits = long <= h
  let beside = x + 44
  for (const share of [0, .5, 1]) {
    const number = short(low + share * (high - low))
    const end = x + 14 + pen.measureText(number).width
    if (share === .5 && end > x + 44 - FONT) continue
    pen.fillText(number, x + 14, y + h - share * (h - 10) - 5)
    if (long > h - 2 * ROW) beside = Math.max(beside, end + FONT)
  }
  upwards(pen, p.bar, beside, fits ? y + h / 2 : y, fits ? "center" : "right")
}

// Under everything, so that matrices side by side begin at one height, whatever is hidden in them;
// under the last matrix of a row, if there is room.
function legend(pen, p, { boxes, across, height }) {
  const y = height - ROW - 1, room = ([name]) => pen.measureText(name).width + 33
  const all = p.legend.reduce((sum, entry) => sum + room(entry), 0)
  const end = Math.max(...boxes.slice(0, across).map(({ x, w }) => x + w))
  pen.textAlign = "right"
  pen.textBaseline = "middle"
  let right = Math.max(end, all)
  for (const [name, [color, other]] of p.legend) {
    pen.fillText(name, right, y + ROW / 2)
    right -= pen.measureText(name).width + 17
    const text = pen.fillStyle
    pen.fillStyle = color
    pen.fillRect(right, y, 12, 12)
    pen.fillStyle = other
    for (const at of [0, 6]) pen.fillRect(right + at, y + 6 - at, 6, 6)
    pen.fillStyle = text
    right -= 16
  }
}

// The step between labels that fit: a label takes `space` pixels.
export const labelStep = (cell, space) =>
  [1, 2, 5, 10, 20, 50, 100].find((n) => n * cell >= space) ?? 200

// The rows' title: "your sentence · layer", or its first part if that is too long.
export const axisName = (name, room, measure) => measure(name) > room ? name.split(" · ")[0] : name

// Draw the names to the left of a panel and below it.
function axisLabels(pen, { rowEnds, columnEnds, rowTitle, columnTitle }, box) {
  const { x, y, w, h, cw, ch, upright, labelWidth, labelHeight } = box
  if (box.first && rowEnds.length) {
    pen.textAlign = "right"
    pen.textBaseline = "middle"
    for (let n = 0; n < rowEnds.length; n += labelStep(ch, ROW))
      pen.fillText(rowEnds[n], x - 5, y + (n + .5) * ch)
    const room = h + ROW * (box.title.length + 1)
    const name = axisName(rowTitle, room, (text) => pen.measureText(text).width)
    upwards(pen, name, x - box.names + ROW / 2, y + h / 2, "center")
  }
  if (!box.last || !labelHeight) return
  for (let n = 0; n < columnEnds.length; n += labelStep(cw, upright ? ROW : labelWidth + 4)) {
    const middle = x + (n + .5) * cw
    if (upright) upwards(pen, columnEnds[n], middle, y + h + 5, "right")
    else {
      pen.textAlign = "center"
      pen.textBaseline = "top"
      pen.fillText(columnEnds[n], middle, y + h + 5)
    }
  }
  pen.textAlign = "center"
  pen.textBaseline = "top"
  pen.fillText(columnTitle, x + w / 2, y + h + labelHeight + 8)
}

// A pointer that moves less than this, in pixels, between down and up is a click.
const CLICK = 8

// The panel under a point, and the position in it in cells; the first cell's centre is 0.
export function positionAt({ boxes }, x, y) {
  const panel = boxes.findIndex((box) =>
    x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h)
  if (panel < 0) return null
  const box = boxes[panel]
  return { panel, row: (y - box.y) / box.ch - .5, column: (x - box.x) / box.cw - .5 }
}

// The cell of such a position.
export const under = (at) => at &&
  { panel: at.panel, row: Math.round(at.row), column: Math.round(at.column) }

function coverCells(view, element, panel, top, bottom, first, last) {
  const { x, y, cw, ch } = view.look.boxes[panel]
  Object.assign(element.style, {
    display: "block", left: `${x + first * cw}px`, top: `${y + top * ch}px`,
    width: `${(last - first) * cw}px`, height: `${(bottom - top) * ch}px`,
  })
}

// Describe a cell in words.
export function cellText(p, { panel, row, column }) {
  const { start, columns, quantity, hidden, empty, hover } = p.panels[panel]
  const n = start + row * columns.length + column, state = stateIn(p, n)
  if (hover?.length) return hover[n - start]
  if (empty) return empty.replace("\n", " ")
  return state ? state === 1 ? hidden : p.special[state - 1].name
    : `${quantity} ${String(Number(p.values[n].toPrecision(6))).replace("-", "−")}`
}

// Show a cell hovered over or reached by keyboard, in text nodes only: tokens are untrusted text.
function pointAt(view, at, press = "Shift + click") {
  const { p, tip, frame } = view
  view.at = at
  tip.style.display = frame.style.display = "none"
  if (!at) return
  const { title, rowTitle, columnTitle, rows, columns } = p.panels[at.panel]
  const ask = p.asks[at.panel] ? `\n${press}: why there?` : ""
  const [row, column] = [rows[at.row], columns[at.column]].map((name) => make("b", null, name))
  tip.replaceChildren(title && `${title}\n`, rowTitle && `${rowTitle} `, row, "\n",
    columnTitle && `${columnTitle} `, column, `\n${cellText(p, at)}${ask}`)
  coverCells(view, frame, at.panel, at.row, at.row + 1, at.column, at.column + 1)
  const { offsetLeft: x, offsetTop: y, offsetWidth: w, offsetHeight: h } = frame
  showTip(tip, view, { x, y: y + h + 8, w })
}

const MOVES = {
  ArrowUp: ["row", -1], ArrowDown: ["row", 1], ArrowLeft: ["column", -1], ArrowRight: ["column", 1],
  PageUp: ["panel", -1], PageDown: ["panel", 1],
}

// The cell that a key leads to from a cell, or from none. A panel with fewer rows or columns is
// entered at its last.
export function step({ panels }, at, key) {
  if (!at) return { panel: 0, row: 0, column: 0 }
  const [what, by] = MOVES[key], moved = { ...at, [what]: at[what] + by }
  const panel = within(moved.panel, panels.length), { rows, columns } = panels[panel]
  return { panel, row: within(moved.row, rows.length),
    column: within(moved.column, columns.length) }
}

function walk(view, event) {
  if (isShortcut(event)) return
  if (event.key === "Escape") pointAt(view, null)
  else if ((event.key === "Enter" || event.key === " ") && view.at) chooseCell(view, view.at, event)
  else if (MOVES[event.key]) pointAt(view, step(view.p, view.at, event.key), "Shift + Enter")
  else return
  event.preventDefault()
}

// The message of a click or Enter on a cell: with Shift it asks *Why there?*, if the panel can.
export function messageFor({ panels, chooses, asks }, { panel, row, column }, shift) {
  if (shift && asks[panel]) return ["ask", { panel, row, column }]
  return chooses ? ["cell", { panel: panels[panel].name, row, column }] : null
}

function chooseCell(view, at, { shiftKey }) {
  const message = messageFor(view.p, at, shiftKey)
  if (message && !view.drawn.handle?.(...message, view.p)) deliver(view, message)
}

// Send a message once the server has drawn the part shown, as it numbers the cells that it drew.
function deliver(view, message) {
  if (view.p === view.drawn) return view.send(...message)
  view.unsent = message
  sendPending()
}

// Show the chosen part of the text: the server's, or another part, cropped here.
function show(view, chosen) {
  const { drawn, p: before } = view, { zooms } = drawn
  const part = zooms && parsePart(chosen, zooms.end)
  const other = zooms && formatPart(part) !== formatPart(zooms.part)
  view.shows = part ?? null
  view.p = other ? crop(drawn, part) : drawn
  if (before?.scale !== view.p.scale) view.palette = paletteIn(view.p)
  view.cells = painted(view.p, view.palette).map(({ codes, bytes }, n) => ({ codes,
    image: bytes.length ? imageOf(bytes, view.p.panels[n].columns.length) : null }))
  view.setAttribute("aria-label", other ? briefAlt(view.p, part) : drawn.alt)
  pointAt(view, null)
  sized(view)
}

// A brief text alternative for a part that the server hasn't described yet.
export function briefAlt({ panels }, part) {
  const what = panels.map(({ title, quantity }) => title || quantity)
  return `${[...new Set(what)].join("; ")}, ${part ? partInWords(part) : "the whole text"}.`
}

// Show a dragged part, at once if the page's scripts can draw it everywhere.
function enlarge(view, panel, rows, columns) {
  const { drawn, shows, p } = view
  const zoom = drawn.zooms && formatPart(draggedPart(drawn, shows, panel, rows, columns))
  if (drawn.zooms && !zoom) return
  if (!zoom || !choose({ zoom }))
    deliver(view, ["part", { panel: p.panels[panel].name, rows, columns }])
}

// The first and last cell whose centre was dragged over, from either side.
export function dragged(a, b) {
  return [Math.ceil(Math.min(a, b)), Math.floor(Math.max(a, b))]
}

function listen(view) {
  const { canvas, band } = view
  let from = null, start = null
  canvas.onpointerdown = (event) => {
    start = eventPoint(event)
    from = event.button ? null : positionAt(view.look, ...start)
    if (from) canvas.setPointerCapture(event.pointerId)
  }
  const end = (event) => {
    if (!from || !view.p.drags) return null
    const [x, y] = eventPoint(event)
    if (Math.hypot(x - start[0], y - start[1]) < CLICK) return null
    const box = view.look.boxes[from.panel]
    const inside = (value, low, side) => Math.min(Math.max(value, low), low + side - .01)
    return positionAt(view.look, inside(x, box.x, box.w), inside(y, box.y, box.h))
  }
  canvas.onpointermove = (event) => {
    const to = end(event)
    if (!to) return pointAt(view, under(positionAt(view.look, ...eventPoint(event))))
    pointAt(view, null)
    const [top, bottom] = [from.row, to.row].sort((a, b) => a - b)
    const [first, last] = [from.column, to.column].sort((a, b) => a - b)
    coverCells(view, band, from.panel, top + .5, bottom + .5, first + .5, last + .5)
  }
  canvas.onpointerup = (event) => {
    const to = end(event), clicked = from && under(from)
    band.style.display = "none"
    if (to)
      enlarge(view, from.panel, dragged(from.row, to.row), dragged(from.column, to.column))
    else if (clicked) chooseCell(view, clicked, event)
    from = null
  }
  canvas.onpointercancel = () => {
    band.style.display = "none"
    from = null
  }
  canvas.onpointerleave = () => from || pointAt(view, null)
  view.onkeydown = (event) => walk(view, event)
  view.onblur = () => pointAt(view, null)
  view.onfocus = () => view.matches(":focus-visible") && sendPending()
  new ResizeObserver(() => view.clientWidth !== view.wide && sized(view)).observe(view)
}

/** Whether another part of the text can be drawn here; undefined if it changes nothing. */
export const offersPart = ({ drags, zooms }, changes) =>
  "zoom" in changes && drags ? Boolean(zooms) : undefined

function change(view, changes) {
  if (!("zoom" in changes)) return
  view.unsent = null
  if (view.drawn.zooms) show(view, changes.zoom)
}

function sized(view) {
  view.wide = view.clientWidth
  draw(view)
}

export default function ({ data, parentElement, setTriggerValue }) {
  const view = parentElement.querySelector(".tiles")
  const known = view.p, p = view.drawn = data.panels ? data : readMatrices(data)
  view.send = data.panels ? setTriggerValue : sender(setTriggerValue)
  view.dataset.here = ""
  takePart(view, { offers: (changes) => offersPart(p, changes),
    changed: (changes) => change(view, changes) })
  view.classList.toggle("answers", p.chooses || p.drags || p.asks.some(Boolean))
  if (!known) {
    for (const name of ["canvas", "frame", "band", "tip"])
      view[name] = view.querySelector(`[data-part=${name}]`)
    listen(view)
    if (document.fonts.status !== "loaded") document.fonts.ready.then(() => draw(view))
  }
  show(view, current("zoom", formatPart(p.zooms?.part)))
  const { unsent } = view
  if (!unsent || view.p !== p) return
  view.unsent = null
  view.send(...unsent)
}
