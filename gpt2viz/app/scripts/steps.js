// A training as a film and a slider over its checkpoints: every head's weights, the chosen head
// large, the next tokens, and curves of losses and scores. Dragging needs no server: all computed
// points are here. Between two points the film blends weights; numbers always belong to one point.

import drawChart, { html as chartHtml } from "./chart.js"
import { figureOf } from "./figure.js"
import { make } from "./make.js"
import { codeOf, eventPoint, cellState } from "./matrix.js"
import { panelsOf } from "./matrices.js"
import drawMap, { headName, html as mapHtml } from "./model_map.js"
import { afterAnswer } from "./player.js"
import drawTiles, { html as tilesHtml } from "./tiles.js"

const curvesHtml = `${chartHtml}<span class="axis">training steps, log scale</span>`

export const html = `
<div class="steps" role="group">
  <div class="bar">
    <button data-part="play" type="button">▶ Play</button>
    <input data-part="slider" type="range" min="0" step="1">
    <output data-part="when"></output>
  </div>
  <div class="pictures">
    <figure class="every"><figcaption data-part="mapTitle"></figcaption>${mapHtml}
      <p class="formed" data-part="formed" role="status"></p></figure>
    <figure class="large">${tilesHtml}</figure>
    <figure class="next"><figcaption>Most likely next tokens</figcaption>
      <div data-part="next" aria-hidden="true"></div></figure>
  </div>
  <div class="pictures">
    <figure class="curves"><figcaption data-part="lossTitle"></figcaption>
      <div data-part="loss" aria-hidden="true">${curvesHtml}</div></figure>
    <figure class="curves"><figcaption data-part="scoreTitle"></figcaption>
      <div data-part="score" aria-hidden="true">${curvesHtml}</div></figure>
    <figure class="lens">
      <figcaption>Logit lens: the next token as each layer would predict it</figcaption>
      <div class="bars" data-part="lens" aria-hidden="true"></div></figure>
  </div>
</div>
`

const NAN_CODE = 65535, REST = 250
const FILM = 6000  // ms from the first point to the last
const TALL = 186
const MOST_ROWS = 10  // of the lens: see .lens in style.css
const APART = 40 // pixels from a step's number to the next

// Weights as 16-bit whole numbers in base64, NaN as the highest.
export function read(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))
  return Float32Array.from(new Uint16Array(bytes.buffer),
    (whole) => whole === NAN_CODE ? NaN : whole / (NAN_CODE - 1))
}

// The position of each step from 0 to 1, on a logarithmic scale.
export function logPositions(steps) {
  const [first, last] = [steps[0], steps[steps.length - 1]].map((n) => Math.log(n + 1))
  return steps.map((n) => last > first ? (Math.log(n + 1) - first) / (last - first) : .5)
}

// The index of the step nearest to a position from 0 to 1.
export function nearest(steps, share) {
  const distances = logPositions(steps).map((position) => Math.abs(position - share))
  return distances.indexOf(Math.min(...distances))
}

const percent = (share) => share === null ? "NaN" : `${(100 * share).toFixed(1)} %`

// The weights of a point, decoded once; those of the model itself for −1.
function tilesOf(view, at) {
  const text = (at < 0 ? view.p.final : view.p.points[at])?.tiles
  if (!view.read.has(at) && text) view.read.set(at, read(text))
  return view.read.get(at)
}

// Ease a frame between points, so that the film slows down at each point.
export function eased(frame) {
  const from = Math.floor(frame), share = frame - from
  return from + share * share * (3 - 2 * share)
}

// Weights of two points, blended by the share of the way between them; if one of them isn't loaded
// yet, those of the nearer point.
export function blended(from, to, share) {
  if (!share || !from || !to) return share < .5 ? from : to
  return from.map((weight, n) => weight + share * (to[n] - weight))
}

function drawnTiles(view) {
  const from = Math.floor(view.frame)
  return blended(...[from, Math.ceil(view.frame)].map((n) => tilesOf(view, n)), view.frame - from)
}

// Draw every head at this frame.
function drawHeads(view, drawn) {
  const { p } = view, cells = codes(p, drawn)
  view.leave = drawMap({ data: { ...p.map, cells }, parentElement: view,
    setTriggerValue: (name, { layer, head }) =>
      name === "head" && choose(view, layer * p.map.heads + head) })
}

// The code of a cell without a colour.
const NO_COLOR = 65535

/** The codes of all heads' cells in the map; no colours without weights. */
export function codes({ map, hidden }, tiles) {
  const { shades: { length: count }, rows } = map, size = rows.length ** 2
  return Uint16Array.from({ length: map.layers * map.heads * size }, (_, n) =>
    tiles ? codeOf({ count }, tiles[n], cellState(tiles[n], hidden[n % size] === "1")) : NO_COLOR)
}

// Draw the chosen head at this frame, and in the model itself; blended weights get no numbers.
function drawLarge(view, drawn) {
  const { p, at, frame } = view, numbers = at === frame ? p.large.numbers : 0
  const data = { ...p.large, ...both(p, tilesOf(view, at), tilesOf(view, -1), drawn), numbers }
  drawTiles({ data, parentElement: view, setTriggerValue: () => {} })
}

/** The chosen head of two points as matrices, one after the other, and their cells in words. The
 * first is drawn with the weights `drawn`. */
export function both({ large, map, hidden }, then, now, drawn = then) {
  const { chosen } = map, size = map.rows.length ** 2, masked = (n) => hidden[n % size] === "1"
  const values = new Float32Array(2 * size), start = chosen * size
  for (const [n, tiles] of [drawn, now].entries())
    if (tiles) values.set(tiles.subarray(start, start + size), n * size)
  const hover = Array.from({ length: then ? size : 0 }, (_, n) => masked(n) ? "masked"
    : `${then[start + n].toFixed(3)} here, ${now[start + n].toFixed(3)} in the final model`)
  const kind = drawn === then ? "at this checkpoint" : "blended"
  const titles = [`Head ${headName(map, chosen)}, ${kind}`, "in the final model, 0 to 1"]
  return { values, masked, panels: panelsOf(large).map((panel, n) =>
    ({ ...panel, title: titles[n], hover, empty: n || then ? "" : "being read …" })) }
}

// The titles and tokens of this point and of the model itself.
const twoPoints = ({ p, at }, name) =>
  [["At this checkpoint", p.points[at]?.[name] ?? []], ["Final model", p.final[name]]]

// Draw the most probable next tokens at this point, and those of the model itself, as bars.
function drawNext(view) {
  view.next.replaceChildren(...twoPoints(view, "next").map(([title, tokens], group) => {
    const bars = make("div", null, "", "bars")
    make("span", bars, title, "title")
    for (const token of tokens) bar(view, bars, token, group)
    return bars
  }))
}

// Draw a token with a bar of its probability, at this point (0) or in the model itself (1).
function bar(view, into, [token, share], group) {
  make("span", into, token, "token")
  const length = make("span", into, "", "share"), filled = make("i", length)
  filled.style.background = view.p.bars[group]
  filled.style.width = `calc(${share ?? 0} * (100% - 4em))`
  length.append(percent(share))
}

// The rows to draw if there is room for `most`: both ends, the others evenly between.
export function fitting(count, most) {
  const drawn = Math.min(count, most)
  return Array.from({ length: drawn }, (_, n) => Math.round(n * (count - 1) / (drawn - 1 || 1)))
}

// Draw the most probable next token after each layer, at this point and in the model itself.
function drawLens(view) {
  const { p: { stages }, lens } = view, points = twoPoints(view, "lens")
  lens.replaceChildren(make("span"), ...points.map(([title]) => make("span", null, title, "title")))
  const rows = fitting(stages.length, MOST_ROWS)
  lens.style.setProperty("--rows", rows.length)
  for (const row of rows) {
    make("span", lens, stages[row])
    points.forEach(([, tokens], group) => tokens.length ? bar(view, lens, tokens[row], group)
      : make("span", lens, "", "title"))
  }
}

// The room around the curves, the same as in style.css.
const AROUND = { l: 34, r: 8, t: 6, b: 18 }

// The width between the ends of an axis of steps.
const between = (part) => part.querySelector(".chart").clientWidth - AROUND.l - AROUND.r

/** A chart of curves over all steps, on an axis `wide` pixels wide: its legend has a point's
 * numbers, and below it are the steps that fit. */
export function overSteps({ data, layout, grid, dashes }, steps, at, wide) {
  const positions = logPositions(steps), tickvals = [], ticktext = []
  positions.forEach((position, n) => {
    if (n && (position - tickvals.at(-1)) * wide < APART) return
    tickvals.push(position)
    ticktext.push(steps[n].toLocaleString("en"))
  })
  const traces = data.map(({ name, x, y, ...look }) => ({ ...look, y,
    name: `${name} ${y[x.indexOf(steps[at])]?.toFixed(2) ?? "–"}`,
    x: x.map((step) => positions[steps.indexOf(step)]) }))
  return { data: traces, grid, dashes, layout: {
    height: TALL, margin: { ...AROUND, autoexpand: false },
    showlegend: true, legend: { itemclick: false, yref: "container" },
    xaxis: { range: [0, 1], tickvals, ticktext, tickangle: 0 },
    yaxis: { range: layout.yaxis.range, rangemode: "tozero" } } }
}

function drawCurves(view, name) {
  const { p, at } = view, curves = figureOf(p.curves[name])
  const figure = overSteps(curves, p.steps, at, between(view[name]))
  drawChart({ data: { figure, alt: "" }, parentElement: view[name], setTriggerValue: () => {} })
}

function paint(view) {
  const { p, at } = view
  view.when.textContent = p.when[at]
  view.formed.textContent = p.formed[at]
  view.slider.setAttribute("aria-valuetext", p.when[at])
  view.lossTitle.textContent = `Loss (nats per token)${losses(p, at)}`
  view.scoreTitle.textContent = p.scores
  drawNext(view)
  drawLens(view)
  for (const name of ["loss", "score"]) drawCurves(view, name)
  paintFrame(view)
}

// Paint the parts that move between two points of the film.
function paintFrame(view) {
  const { p, at, frame } = view, drawn = drawnTiles(view)
  const how = frame === at ? ": layers down, heads across" : ", blended between two checkpoints"
  view.mapTitle.textContent = `Every head${how}${p.points[at] ? "" : " (being read …)"}`
  view.slider.step = view.animation ? "any" : "1"
  view.slider.value = frame
  view.slider.style.setProperty("--share", frame / (p.steps.length - 1 || 1))
  drawHeads(view, drawn)
  drawLarge(view, drawn)
  const positions = logPositions(p.steps), from = Math.floor(frame)
  const [here, next] = [positions[from], positions[Math.ceil(frame)]]
  view.style.setProperty("--at", here + (frame - from) * (next - here))
}

// The sentence's loss at a point and at the end, if it has one.
export function losses({ points, final }, at) {
  const here = points[at]?.loss ?? null
  if (here === null || final.loss === null) return ""
  return `: your sentence ${here.toFixed(2)}, at the end ${final.loss.toFixed(2)}`
}

// Go to another point: drawn at once, sent to the server once the slider rests.
function go(view, at) {
  if (at === view.frame) return
  Object.assign(view, { at, frame: at, moved: true })
  paint(view)
  clearTimeout(view.timer)
  view.timer = setTimeout(() => report(view), REST)
}

function report(view) {
  if (view.at === view.p.at) return
  view.sent.push(view.at)
  view.send("step", view.p.steps[view.at])
}

// Start or pause the film; it resumes where it was, or begins at the first point.
function play(view, on) {
  cancelAnimationFrame(view.animation)
  view.animation = 0
  view.play.textContent = on ? "❚❚ Pause" : "▶ Play"
  if (!on) {
    view.frame = view.at
    paint(view)
    return report(view)
  }
  const last = view.p.steps.length - 1, began = performance.now()
  const from = view.moved && view.at < last ? view.at : 0
  const advance = (now) => {
    if (!view.isConnected) return
    const frame = Math.min(last, from + Math.max(0, now - began) / FILM * last), { at } = view
    view.frame = eased(frame)
    view.at = Math.round(view.frame)
    if (view.at === at) paintFrame(view)
    else paint(view)
    if (frame === last) return play(view, false)
    view.animation = requestAnimationFrame(advance)
  }
  view.moved = true
  view.animation = requestAnimationFrame(advance)
}

function choose(view, head) {
  if (head < 0 || head === view.p.map.chosen) return
  view.p.map.chosen = head
  paint(view)
  view.send("head", head)
}

function listen(view) {
  view.slider.oninput = () => {
    if (view.animation) play(view, false)
    go(view, Number(view.slider.value))
  }
  view.play.onclick = () => play(view, !view.animation)
  for (const name of ["loss", "score"]) view[name].onclick = (event) => {
    const share = (eventPoint(event)[0] - AROUND.l) / between(view[name])
    if (share <= 1.02) go(view, nearest(view.p.steps, share))
  }
  new ResizeObserver(() => view.clientWidth !== view.wide && sized(view)).observe(view)
}

function sized(view) {
  view.wide = view.clientWidth
  if (view.wide) paint(view)
}

const PARTS = ["play", "slider", "when", "formed", "next", "loss", "score", "lens", "mapTitle",
  "lossTitle", "scoreTitle"]

export default function ({ data: p, parentElement, setTriggerValue }) {
  const view = parentElement.querySelector(".steps"), known = view.p ? view : null
  const state = afterAnswer(view, { at: p.at, count: p.steps.length })
  const frame = known?.animation ? view.frame : state.at
  Object.assign(view, state, { p, frame, read: new Map(), send: setTriggerValue })
  if (!known) {
    for (const name of PARTS) view[name] = view.querySelector(`[data-part=${name}]`)
    view.animation = 0
    listen(view)
  }
  view.setAttribute("aria-label", p.alt)
  view.slider.setAttribute("aria-label", "Checkpoint of the training")
  view.slider.max = p.steps.length - 1
  sized(view)
  if (p.more) setTimeout(() => setTriggerValue("more", p.steps[view.at]), 0)
  return () => view.leave?.()
}
