// A training to drag through: every head's weights, the chosen one large, what comes next, and how
// losses and scores grew, at one of its points. All that is known is here; dragging asks nothing.

import { ink, rgb } from "./ink.js"

export const html = `
<div class="steps" role="group">
  <div class="bar">
    <button data-part="play" type="button">▶ Play</button>
    <input data-part="slider" type="range" min="0" step="1">
    <output data-part="when"></output>
  </div>
  <div class="pictures">
    <figure class="every"><figcaption data-part="mapTitle"></figcaption>
      <canvas data-part="map" tabindex="0" role="application"></canvas></figure>
    <figure class="large"><figcaption data-part="thenTitle"></figcaption>
      <canvas data-part="then" aria-hidden="true"></canvas></figure>
    <figure class="large"><figcaption data-part="nowTitle"></figcaption>
      <canvas data-part="now" aria-hidden="true"></canvas></figure>
    <figure class="next"><figcaption data-part="nextTitle"></figcaption>
      <canvas data-part="next" aria-hidden="true"></canvas></figure>
  </div>
  <div class="pictures">
    <figure class="curves"><figcaption data-part="lossTitle"></figcaption>
      <canvas data-part="loss" aria-hidden="true"></canvas></figure>
    <figure class="curves"><figcaption data-part="scoreTitle"></figcaption>
      <canvas data-part="score" aria-hidden="true"></canvas></figure>
    <figure class="lens"><figcaption data-part="lensTitle"></figcaption>
      <canvas data-part="lens" aria-hidden="true"></canvas></figure>
  </div>
  <div class="tip" data-part="tip"></div>
</div>
`

const MOST = 65535, LINE = 16, FONT = 12, PACE = 700, REST = 250
const DASHES = [[], [7, 4], [2, 3], [8, 3, 2, 3], [14, 5], [14, 4, 2, 4]]
const LARGEST_CELL = 62, MAP_TALL = 252, TALL = 186

// Weights as 16-bit whole numbers in base64, NaN as the highest.
export function read(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))
  const view = new DataView(bytes.buffer)
  return Float32Array.from({ length: bytes.length / 2 }, (_, n) => {
    const whole = view.getUint16(2 * n, true)
    return whole === MOST ? NaN : whole / (MOST - 1)
  })
}

// The colour of a head's n-th cell.
function colorOf({ side, squares, nan, hidden, masked, shades }, tiles, head, n) {
  const value = tiles[head * side ** 2 + n], square = Math.max(1, Math.floor(side / squares))
  const turn = Math.floor(Math.floor(n / side) / square) + Math.floor(n % side / square) & 1
  return Number.isNaN(value) ? nan : hidden[n] === "1" ? masked[turn]
    : shades[Math.round((shades.length - 1) * Math.min(1, Math.max(0, value)))]
}

// One head as the bytes of a picture of one pixel a cell.
export function pixels(p, tiles, head) {
  const size = p.side * p.side
  const bytes = new Uint8ClampedArray(4 * size)
  for (let n = 0; n < size; n++) {
    bytes.set([...rgb(colorOf(p, tiles, head, n)), 255], 4 * n)
  }
  return bytes
}

// Where each of the steps stands from 0 to 1: as far apart as their logarithms.
export function places(steps) {
  const [first, last] = [steps[0], steps[steps.length - 1]].map((n) => Math.log(n + 1))
  return steps.map((n) => last > first ? (Math.log(n + 1) - first) / (last - first) : .5)
}

// The point that is nearest to a place from 0 to 1.
export function nearest(steps, share) {
  const apart = places(steps).map((place) => Math.abs(place - share))
  return apart.indexOf(Math.min(...apart))
}

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }

// The head that an arrow key leads to.
export function moved({ layers, heads }, head, key) {
  const [down, across] = MOVES[key], within = (n, size) => Math.min(Math.max(n, 0), size - 1)
  return within(Math.floor(head / heads) + down, layers) * heads +
    within(head % heads + across, heads)
}

// Which point is shown after a message: the browser's own, unless the address has moved.
export function shown(known, p) {
  if (!known) return p.at
  const same = known.p.steps.length === p.steps.length
  return same && (p.at === known.p.at || p.at === known.sent) ? known.at : p.at
}

const named = ({ heads }, head) => `${Math.floor(head / heads)}.${head % heads}`
const percent = (share) => share === null ? "NaN" : `${(100 * share).toFixed(1)} %`

// A canvas as wide as its place, so high, with a pen that counts in CSS pixels.
function pen(view, name, high) {
  const canvas = view[name], wide = canvas.clientWidth
  canvas.width = Math.round(wide * devicePixelRatio)
  canvas.height = Math.round(high * devicePixelRatio)
  canvas.style.height = `${high}px`
  const drawn = canvas.getContext("2d"), style = getComputedStyle(view)
  drawn.scale(devicePixelRatio, devicePixelRatio)
  drawn.font = `${FONT}px ${style.fontFamily}`
  drawn.fillStyle = drawn.strokeStyle = style.color
  drawn.imageSmoothingEnabled = false
  drawn.textBaseline = "middle"
  return [drawn, wide]
}

function image(p, tiles, head) {
  const canvas = document.createElement("canvas")
  canvas.width = canvas.height = p.side
  canvas.getContext("2d").putImageData(new ImageData(pixels(p, tiles, head), p.side, p.side), 0, 0)
  return canvas
}

// The numbers of a point, read from its message once; those of the model itself for −1.
function tilesOf(view, at) {
  const text = at < 0 ? view.p.final.tiles : view.p.tiles[at]
  if (!view.read.has(at) && text) view.read.set(at, read(text))
  return view.read.get(at)
}

function drawMap(view) {
  const { p } = view, tiles = tilesOf(view, view.at), left = 18
  const wide = view.map.clientWidth
  const cell = Math.max(8, Math.min(LARGEST_CELL, (wide - left) / p.heads,
    (MAP_TALL - LINE) / p.layers))
  const [draw] = pen(view, "map", LINE + p.layers * cell)
  view.cell = cell
  for (let n = 0; n < p.layers * p.heads; n++) {
    const x = left + n % p.heads * cell, y = LINE + Math.floor(n / p.heads) * cell
    if (tiles) draw.drawImage(image(p, tiles, n), x + 2, y + 2, cell - 4, cell - 4)
    const chosen = n === p.chosen
    draw.lineWidth = chosen ? 3 : 1
    draw.strokeStyle = chosen ? view.accent : n === view.walks ? view.ink : p.line
    draw.strokeRect(x + 1.5, y + 1.5, cell - 3, cell - 3)
  }
  draw.textAlign = "center"
  for (let n = 0; n < p.heads; n++) draw.fillText(n, left + (n + .5) * cell, LINE / 2)
  for (let n = 0; n < p.layers; n++) draw.fillText(n, left / 2 - 2, LINE + (n + .5) * cell)
}

// The room of the tokens' names beside and below a large head.
const NAMES = 84

// A name that takes no more than so many pixels.
function fitted(name, room, measure) {
  const left = [...name]
  while (left.length > 1 && measure(`${left.join("")}…`) > room) left.pop()
  return measure(name) <= room ? name : `${left.join("")}…`
}

// How large the chosen head is, with the names of its rows beside the first of both pictures and
// those of its columns below both.
export function large({ rows, side }, wide, measure) {
  const names = rows.map((name) => fitted(name, NAMES, measure))
  const room = Math.max(...names.map(measure)) + 6, size = Math.min(wide - room, MAP_TALL)
  const cell = size / side
  return { names, room, size, cell, numbers: cell >= LINE && cell >= measure("0.00") + 2 }
}

function drawLarge(view, name, at) {
  const { p } = view, tiles = tilesOf(view, at), measures = view[name].getContext("2d")
  measures.font = `${FONT}px ${getComputedStyle(view).fontFamily}`
  const measure = (text) => measures.measureText(text).width
  const { names, room, size, cell, numbers } = large(p, view[name].clientWidth, measure)
  const left = name === "then" ? room : 0, [draw] = pen(view, name, size + room)
  view.larges = { ...view.larges, [name]: { left, size } }
  if (tiles) draw.drawImage(image(p, tiles, p.chosen), left, 0, size, size)
  draw.strokeStyle = p.line
  draw.strokeRect(left + .5, .5, size - 1, size - 1)
  if (tiles && numbers) writeNumbers(draw, view, tiles, left, cell)
  for (let n = 0; n < p.side; n += Math.ceil((FONT + 1) / cell)) {
    const middle = (n + .5) * cell
    if (left) written(draw, view, names[n], left - 5, middle, "right")
    draw.save()
    draw.translate(left + middle, size + 5)
    draw.rotate(-Math.PI / 2)
    written(draw, view, names[n], 0, 0, "right")
    draw.restore()
  }
}

function writeNumbers(draw, { p }, tiles, left, cell) {
  draw.textAlign = "center"
  for (let n = 0; n < p.side ** 2; n++) {
    const value = tiles[p.chosen * p.side ** 2 + n], x = left + (n % p.side + .5) * cell
    draw.fillStyle = ink(rgb(colorOf(p, tiles, p.chosen, n)))
    const text = Number.isNaN(value) ? "NaN" : p.hidden[n] === "1" ? "×" : value.toFixed(2)
    draw.fillText(text, x, (Math.floor(n / p.side) + .5) * cell)
  }
}

// The most probable next tokens at this point, and those of the model itself, as bars.
function drawNext(view) {
  const { p } = view, [draw, wide] = pen(view, "next", MAP_TALL)
  const groups = [["At this point", p.next[view.at]], ["The model itself", p.final.next]]
  const room = Math.min(110, wide * .4), high = (MAP_TALL / 2 - LINE) / 5 - 2
  groups.forEach(([title, tokens], group) => {
    const top = group * MAP_TALL / 2
    written(draw, view, title, 0, top + LINE / 2)
    tokens.forEach((one, n) => {
      bar(draw, view, one, group, { x: 0, y: top + LINE + n * (high + 2), wide, high, room })
    })
  })
}

// A token, as probable as its bar is long, of this point (0) or of the model itself (1).
function bar(draw, view, [token, share], group, { x, y, wide, high, room }) {
  const most = Math.floor((room - 6) / 7), middle = y + high / 2, start = x + room
  const short = token.length > most ? `${token.slice(0, most - 1)}…` : token
  const long = (wide - room - 52) * (share ?? 0)
  written(draw, view, short, start - 6, middle, "right")
  draw.fillStyle = view.p.bars[group]
  draw.fillRect(start, y, Math.max(1, long), high)
  written(draw, view, percent(share), start + long + 4, middle)
}

function written(draw, view, text, x, y, align = "left") {
  draw.fillStyle = view.ink
  draw.textAlign = align
  draw.fillText(text, x, y)
}

// Which of many rows are drawn where there is room for few: both ends, the others evenly between.
export function fitting(count, most) {
  const drawn = Math.min(count, most)
  return Array.from({ length: drawn }, (_, n) => Math.round(n * (count - 1) / (drawn - 1 || 1)))
}

// The most probable next token after each layer, at this point and in the model itself.
function drawLens(view) {
  const { p } = view, [draw, wide] = pen(view, "lens", TALL), names = 78
  const rows = fitting(p.places.length, Math.floor(TALL / LINE) - 1)
  const half = (wide - names) / 2, apart = Math.min(26, (TALL - LINE) / rows.length)
  const groups = [["At this point", p.lens[view.at]], ["The model itself", p.final.lens]]
  rows.forEach((row, n) => written(draw, view, p.places[row], 0, LINE + (n + .5) * apart))
  groups.forEach(([title, tokens], group) => {
    const x = names + group * half, room = Math.min(110, half * .42)
    const place = { x, wide: half, high: apart - 3, room }
    written(draw, view, title, x + room, LINE / 2)
    if (tokens.length) rows.forEach((row, n) => {
      bar(draw, view, tokens[row], group, { ...place, y: LINE + n * apart + 1.5 })
    })
  })
}

const AROUND = { left: 34, right: 8, top: 6, bottom: 18 }

// The end of an axis: a little above the largest number, unless it is given.
export function ceiling({ lines, highest }) {
  const values = lines.flatMap((line) => line.values.filter((value) => value !== null))
  return highest ?? (Math.max(...values, 0) * 1.05 || 1)
}

function drawCurves(view, name) {
  const { p } = view, curves = p.curves[name], [draw, wide] = pen(view, name, TALL)
  const names = Math.min(210, wide * .42), end = wide - names, high = ceiling(curves)
  const x = places(p.steps).map((s) => AROUND.left + s * (end - AROUND.left - AROUND.right))
  const y = (v) => AROUND.top + (1 - v / high) * (TALL - AROUND.top - AROUND.bottom)
  axes(draw, view, { x, y, high, end })
  const lines = curves.lines.map((line) => ({ ...line, now: line.values[view.at] }))
  for (const line of lines) curve(draw, line, x, y)
  draw.setLineDash([])
  draw.strokeStyle = view.accent
  draw.lineWidth = 2
  draw.beginPath()
  draw.moveTo(x[view.at], AROUND.top)
  draw.lineTo(x[view.at], TALL - AROUND.bottom)
  draw.stroke()
  lines.forEach((line, n) => {
    const at = AROUND.top + LINE * (n + .5)
    dashed(draw, line, end + 6, at)
    draw.fillStyle = view.ink
    draw.textAlign = "left"
    const said = line.now === null || line.now === undefined ? "–" : line.now.toFixed(2)
    draw.fillText(`${line.name} ${said}`, end + 30, at, names - 30)
  })
}

function axes(draw, { p, ink: colour }, { x, y, high, end }) {
  draw.lineWidth = 1
  draw.textAlign = "right"
  for (const value of [0, high / 2, high]) {
    draw.strokeStyle = p.line
    draw.beginPath()
    draw.moveTo(AROUND.left, y(value))
    draw.lineTo(end - AROUND.right, y(value))
    draw.stroke()
    draw.fillStyle = colour
    draw.fillText(value.toFixed(1), AROUND.left - 5, y(value))
  }
  draw.textAlign = "center"
  let last = -Infinity
  p.steps.forEach((step, n) => {
    if (x[n] - last < 40) return
    last = x[n]
    draw.fillText(step.toLocaleString("en"), x[n], TALL - AROUND.bottom / 2)
  })
}

function dashed(draw, { color, dash }, x, y) {
  draw.strokeStyle = color
  draw.lineWidth = 2
  draw.setLineDash(DASHES[dash])
  draw.beginPath()
  draw.moveTo(x, y)
  draw.lineTo(x + 20, y)
  draw.stroke()
}

function curve(draw, { color, dash, values }, x, y) {
  draw.strokeStyle = color
  draw.lineWidth = 2
  draw.setLineDash(DASHES[dash])
  draw.beginPath()
  let first = true
  values.forEach((value, n) => {
    if (value === null) return
    draw[first ? "moveTo" : "lineTo"](x[n], y(value))
    first = false
  })
  draw.stroke()
}

function paint(view) {
  const { p, at } = view
  view.slider.value = at
  view.when.textContent = p.when[at]
  view.slider.setAttribute("aria-valuetext", p.when[at])
  const there = p.tiles[at] ? "" : " (being read …)"
  view.mapTitle.textContent = p.titles.map + there
  view.thenTitle.textContent = `Head ${named(p, p.chosen)} at this point`
  view.nowTitle.textContent = "the model itself, both from 0 to 1"
  view.nextTitle.textContent = p.titles.next
  view.lossTitle.textContent = p.titles.loss + losses(p, at)
  view.lensTitle.textContent = p.titles.lens
  view.scoreTitle.textContent = p.titles.score
  drawMap(view)
  drawLarge(view, "then", at)
  drawLarge(view, "now", -1)
  drawNext(view)
  for (const name of ["loss", "score"]) drawCurves(view, name)
  drawLens(view)
}

// The sentence's loss at a point and at the end, where it has any.
export function losses({ loss, final }, at) {
  if (loss[at] === null || final.loss === null) return ""
  return `: yours ${loss[at].toFixed(2)} here, ${final.loss.toFixed(2)} in the model itself`
}

// Another point: drawn at once, told to the server when the hand has rested.
function go(view, at) {
  if (at === view.at) return
  view.at = at
  paint(view)
  clearTimeout(view.rests)
  if (!view.plays) view.rests = setTimeout(() => tell(view), REST)
}

function tell(view) {
  if (view.at === view.p.at) return
  view.sent = view.at
  view.send("step", view.p.steps[view.at])
}

function play(view, on) {
  clearInterval(view.plays)
  view.plays = 0
  if (on) {
    if (view.at === view.p.steps.length - 1) go(view, 0)
    view.plays = setInterval(() => {
      if (!view.isConnected || view.at === view.p.steps.length - 1) return play(view, false)
      go(view, view.at + 1)
    }, PACE)
  } else tell(view)
  view.play.textContent = on ? "❚❚ Pause" : "▶ Play"
}

function headAt(view, { offsetX, offsetY }) {
  const { p, cell } = view, across = Math.floor((offsetX - 18) / cell)
  const down = Math.floor((offsetY - LINE) / cell)
  return across < 0 || across >= p.heads || down < 0 || down >= p.layers ? -1
    : down * p.heads + across
}

function choose(view, head) {
  if (head < 0 || head === view.p.chosen) return
  view.p.chosen = head
  view.walks = -1
  paint(view)
  view.send("head", head)
}

function walk(view, event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return
  const { p } = view, from = view.walks < 0 ? p.chosen : view.walks
  if (MOVES[event.key]) view.walks = moved(p, from, event.key)
  else if (event.key === "Enter" || event.key === " ") choose(view, from)
  else return
  event.preventDefault()
  drawMap(view)
}

// The weight under the pointer, then and at the end.
function point(view, event, name) {
  const { p, tip } = view, canvas = view[name], { left: start, size } = view.larges[name]
  const [row, column] = [event.offsetY, event.offsetX - start]
    .map((n) => Math.floor(n / size * p.side))
  const inside = row >= 0 && row < p.side && column >= 0 && column < p.side
  const cell = p.chosen * p.side ** 2 + row * p.side + column
  const [then, now] = [view.at, -1].map((at) => tilesOf(view, at)?.[cell])
  tip.style.display = inside && then !== undefined ? "block" : "none"
  if (!inside || then === undefined) return
  const hidden = p.hidden[row * p.side + column] === "1"
  tip.textContent = `${p.rows[row]} → ${p.rows[column]}\n` + (hidden
    ? "masked" : `${then.toFixed(3)} here, ${now.toFixed(3)} in the model itself`)
  const box = canvas.getBoundingClientRect(), whole = view.getBoundingClientRect()
  const left = box.left - whole.left + event.offsetX + 14
  tip.style.left = `${Math.min(left, view.clientWidth - tip.offsetWidth)}px`
  tip.style.top = `${box.top - whole.top + event.offsetY + 14}px`
}

function listen(view) {
  view.slider.oninput = () => {
    if (view.plays) play(view, false)
    go(view, Number(view.slider.value))
  }
  view.play.onclick = () => play(view, !view.plays)
  view.map.onclick = (event) => choose(view, headAt(view, event))
  view.map.onkeydown = (event) => walk(view, event)
  view.map.onpointermove = (event) => {
    view.map.style.cursor = headAt(view, event) < 0 ? "default" : "pointer"
  }
  for (const name of ["then", "now"]) {
    view[name].onpointermove = (event) => point(view, event, name)
    view[name].onpointerleave = () => { view.tip.style.display = "none" }
  }
  for (const name of ["loss", "score"]) view[name].onclick = ({ offsetX }) => {
    const wide = view[name].clientWidth, end = wide - Math.min(210, wide * .42)
    const share = (offsetX - AROUND.left) / (end - AROUND.left - AROUND.right)
    if (share <= 1.02) go(view, nearest(view.p.steps, share))
  }
  new ResizeObserver(() => view.clientWidth !== view.wide && sized(view)).observe(view)
}

function sized(view) {
  view.wide = view.clientWidth
  if (view.wide) paint(view)
}

const PARTS = ["play", "slider", "when", "map", "then", "now", "next", "loss", "score", "lens",
  "tip"]
const TITLES = ["mapTitle", "thenTitle", "nowTitle", "nextTitle", "lossTitle", "scoreTitle",
  "lensTitle"]

export default function ({ data: p, parentElement, setTriggerValue }) {
  const view = parentElement.querySelector(".steps"), known = view.p ? view : null
  const at = shown(known, p)
  Object.assign(view, { p, at, read: new Map(), send: setTriggerValue, walks: -1 })
  if (!known) {
    for (const name of [...PARTS, ...TITLES]) view[name] = view.querySelector(`[data-part=${name}]`)
    view.plays = 0
    listen(view)
  }
  const style = getComputedStyle(view)
  view.accent = style.getPropertyValue("--st-primary-color") || "#3550c8"
  view.ink = style.color
  view.setAttribute("aria-label", p.alt)
  view.slider.setAttribute("aria-label", "Point of the training")
  view.map.setAttribute("aria-label", "Every head. Arrow keys go from head to head, Enter chooses.")
  view.slider.max = p.steps.length - 1
  sized(view)
  if (p.tiles.includes("")) setTimeout(() => setTriggerValue("more", p.steps[view.at]), 0)
}
